"""Each invariant: a good cluster passes, a constructed breach of it is caught, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from oncelog import Producer
from oncelog.history_events import HistoryEvent, MicroOp
from oncelog_broker.replication.isr import IsrState
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.records.batch import CRC_OFFSET, EPOCH_OFFSET
from oncelog_protocol.types import FetchLane, TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import SimCluster
from simulation.coverage import Coverage
from simulation.invariants import Invariants, InvariantViolation, Rules
from simulation.knobs import Knobs
from simulation.loop import SimLoop, until
from simulation.workload import TOPIC, Workload

TP = TopicPartition(TOPIC, 0)
KNOBS = Knobs(partitions=1, batch_size=200, linger_ms=0)
VALUES = [f"value {number}".encode() for number in range(12)]


class World:
    """It has three brokers, one partition, twelve acknowledged records; it stands between two
    events."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.invariants = Invariants(cluster)

    @property
    def leader(self) -> int:
        """Return who leads, by the brokers."""
        return next(b for b in self.cluster.brokers if self.replica(b).is_leader)

    @property
    def followers(self) -> list[int]:
        """Return the others that run."""
        return [b for b in sorted(self.cluster.brokers) if not self.replica(b).is_leader]

    def replica(self, broker_id: int) -> Partition:
        """Return one replica of the partition."""
        return self.cluster.brokers[broker_id].replicas.partition(TP)

    def check(self) -> None:
        """Let the invariants look."""
        self.invariants.check(self.cluster.loop.now_s)

    def again(self, rules: Rules | None = None) -> None:
        """Make new invariants, which know nothing of the past but the store's."""
        self.invariants = Invariants(self.cluster, rules=rules)

    @contextmanager
    def breach(self, id: str) -> Iterator[None]:
        """Expect that what is done here is a breach of that invariant, found by the next check."""
        yield
        with pytest.raises(InvariantViolation) as caught:
            self.check()
        assert caught.value.id == id, caught.value

    # ---- tampering

    def cut(self, broker_id: int, offset: int) -> None:
        """A log loses its end, and its broker does not mind."""
        partition = self.replica(broker_id)
        partition.log.truncate_to(offset)
        partition.high_watermark = min(partition.high_watermark, partition.log.log_end_offset)
        partition.leader = None

    def scribble(self, broker_id: int, at: int) -> None:
        """Write other bytes into the first batch, and tell the broker that the log has changed."""
        log = self.replica(broker_id).log
        inode = self.cluster.disks[broker_id]._file(log.segments[0].path)
        inode.data[at] ^= 1
        log.unsynced._generation += 1

    def store_isr(self, *isr: int) -> None:
        """Pretend that the store has another ISR."""
        stored = self.invariants.store.partitions[TP]
        stored.state = replace(stored.state, isr=isr)

    def leave_store(self, *isr: int) -> None:
        """Make new invariants that have looked at the store and at nothing else."""
        self.again()
        self.invariants.store.update()
        self.store_isr(*isr)


def in_world(scene: Callable[[World], None]) -> None:
    """Play a scene in a world of its own."""
    play(scene, KNOBS)


def play(scene: Callable[[World], None], knobs: Knobs) -> None:
    loop = SimLoop(1)

    async def main() -> None:
        cluster = SimCluster(loop, knobs, SeededEntropy(1))
        world = World(cluster)
        await cluster.start()
        await Workload(cluster, SeededEntropy(2), lambda event: None).create_topic()
        await cluster.client_process("p").call(produce(cluster), "produce")

        def at_rest() -> bool:
            return all(
                world.replica(broker_id).high_watermark == len(VALUES) for broker_id in cluster.ids
            )

        await until(at_rest, timeout_s=10, what="everything on all replicas")
        world.check()
        scene(world)

    loop.run(main())


async def produce(cluster: SimCluster) -> None:
    async with Producer(
        cluster.bootstrap, entropy=SeededEntropy(3), clock=cluster.clocks[1], acks="all"
    ) as producer:
        for value in VALUES:
            await producer.send(TOPIC, value=value, partition=0)


# ---- good states


def test_a_good_cluster_keeps_every_invariant() -> None:
    def scene(world: World) -> None:
        for offset, value in enumerate(VALUES):
            world.invariants.note_ack(TOPIC, 0, offset, value)
            world.invariants.note_read(TOPIC, 0, offset, value)
        world.check()
        world.invariants.quiescent_check()
        assert world.invariants.high_watermark(TOPIC, 0) == len(VALUES)
        assert world.invariants.losses == 0

    in_world(scene)


def test_brokers_that_are_down_are_judged_by_their_disks() -> None:
    def scene(world: World) -> None:
        for broker_id in world.cluster.ids:
            world.cluster.crash_broker(broker_id, power=True)
        world.invariants.note_ack(TOPIC, 0, 11, VALUES[11])
        world.check()

    in_world(scene)


def test_a_client_may_know_more_than_was_seen_of_a_leader_that_died() -> None:
    def scene(world: World) -> None:
        for follower in world.followers:
            world.replica(follower).high_watermark = 0
        world.cluster.crash_broker(world.leader)
        world.again()
        world.check()
        assert world.invariants.high_watermark(TOPIC, 0) == 0
        world.invariants.note_ack(TOPIC, 0, 5, VALUES[5])
        world.check()
        assert world.invariants.high_watermark(TOPIC, 0) == 6

    in_world(scene)


def test_events_of_clients_are_promises() -> None:
    def scene(world: World) -> None:
        def event(f: str, kind: str, value: bytes) -> HistoryEvent:
            mops = (MicroOp(kind, TOPIC, 0, value, 3),)  # type: ignore[arg-type]
            return HistoryEvent(0.0, "p", "producer", 1, "ok", f, mops)  # type: ignore[arg-type]

        world.invariants.note(event("send", "send", VALUES[3]))
        world.invariants.note(event("poll", "poll", VALUES[3]))
        world.check()
        world.invariants.rules.acks_all = False
        world.invariants.note(event("send", "send", b"another"))
        world.check()
        with world.breach("I7"):
            world.invariants.note(event("poll", "poll", b"another"))

    in_world(scene)


# ---- one replica: [I1], [A23], [K18]


def test_i1_the_high_watermark_is_inside_the_log() -> None:
    def scene(world: World) -> None:
        with world.breach("I1"):
            world.replica(world.followers[0]).high_watermark = len(VALUES) + 1

    in_world(scene)


def test_i1_epochs_of_the_history_ascend() -> None:
    def scene(world: World) -> None:
        epochs = world.replica(world.followers[0]).log.epochs
        with world.breach("I1"):
            epochs._epochs.append(epochs._epochs[-1])
            epochs._starts.append(5)
            epochs.revision += 1
            world.replica(world.followers[0]).high_watermark -= 1

    in_world(scene)


def test_i1_batches_and_the_history_of_epochs_agree() -> None:
    def scene(world: World) -> None:
        with world.breach("I1"):
            world.scribble(world.followers[0], EPOCH_OFFSET + 3)

    in_world(scene)


def test_i1_offsets_follow_each_other() -> None:
    def scene(world: World) -> None:
        with world.breach("I1"):
            world.scribble(world.followers[0], 7)

    in_world(scene)


def test_a23_the_high_watermark_of_a_leader_never_falls() -> None:
    def scene(world: World) -> None:
        with world.breach("A23"):
            world.replica(world.leader).high_watermark -= 1

    in_world(scene)


def test_k18_the_high_watermark_stands_below_min_isr() -> None:
    def scene(world: World) -> None:
        partition = world.replica(world.leader)
        assert partition.leader is not None
        version = partition.leader.state.partition_epoch
        partition.leader.state = IsrState((world.leader,), version)
        for broker_id in world.cluster.ids:
            world.replica(broker_id).high_watermark = 5
        world.leave_store(world.leader)
        world.check()
        with world.breach("K18"):
            partition.high_watermark = 6

    in_world(scene)


def test_k18_more_replicas_are_needed_since_the_high_watermark_rose() -> None:
    """Nobody has seen which came first."""

    def scene(world: World) -> None:
        partition = world.replica(world.leader)
        assert partition.leader is not None
        two = (world.leader, world.followers[0])
        partition.leader.state = IsrState(two, partition.leader.state.partition_epoch)
        for broker_id in world.cluster.ids:
            world.replica(broker_id).high_watermark = 5
        world.leave_store(*two)
        world.check()
        assert partition.leader.has_min_isr(partition.min_isr)
        partition.log.reconfigure(replace(partition.log.config, min_insync_replicas=3))
        assert not partition.leader.has_min_isr(partition.min_isr)
        partition.high_watermark = 6
        world.check()
        with world.breach("K18"):
            partition.high_watermark = 7

    in_world(scene)


# ---- all replicas: [I2] to [I9]


def test_i2_who_is_in_the_isr_holds_what_a_leader_shows() -> None:
    def scene(world: World) -> None:
        with world.breach("I2"):
            world.cut(world.followers[0], 4)

    in_world(scene)


def test_i2_the_same_batches() -> None:
    def scene(world: World) -> None:
        with world.breach("I2"):
            world.scribble(world.followers[0], CRC_OFFSET)

    in_world(scene)


def test_i2_durably() -> None:
    def scene(world: World) -> None:
        world.again()
        segment = world.replica(world.followers[0]).log.segments[0]
        inode = world.cluster.disks[world.followers[0]]._file(segment.path)
        with world.breach("I2"):
            inode.undo.append(100)

    in_world(scene)


def test_i2_durably_by_name() -> None:
    def scene(world: World) -> None:
        world.again()
        follower = world.followers[0]
        segment = world.replica(follower).log.segments[0]
        folder, _, name = segment.path.rpartition("/")
        with world.breach("I2"):
            del world.cluster.disks[follower]._directory(folder).durable[name]

    in_world(scene)


def test_without_flush_commit_nothing_need_be_durable() -> None:
    def scene(world: World) -> None:
        world.again(Rules(flush="interval"))
        segment = world.replica(world.followers[0]).log.segments[0]
        world.cluster.disks[world.followers[0]]._file(segment.path).undo.append(100)
        world.check()

    in_world(scene)


def test_i3_the_leader_counts_the_isr_of_the_store() -> None:
    def scene(world: World) -> None:
        partition = world.replica(world.leader)
        assert partition.leader is not None
        with world.breach("I3"):
            partition.leader.state = replace(partition.leader.state, committed=(world.leader,))

    in_world(scene)


def test_i3_without_a_proposal_it_believes_in_just_that() -> None:
    def scene(world: World) -> None:
        world.leave_store(world.leader, world.followers[0])
        with world.breach("I3"):
            pass

    in_world(scene)


def test_i4_candidates_hold_what_any_leader_ever_showed() -> None:
    def scene(world: World) -> None:
        world.cluster.crash_broker(world.leader)
        with world.breach("I4"):
            world.cut(world.followers[0], 4)

    in_world(scene)


def test_i4_whoever_is_in_the_elr_too() -> None:
    def scene(world: World) -> None:
        leader, other = world.leader, world.followers[0]
        world.cluster.crash_broker(leader)
        stored = world.invariants.store.partitions[TP]
        stored.state = replace(stored.state, isr=(leader,), elr=(other,))
        with world.breach("I4"):
            world.cut(other, 4)

    in_world(scene)


def test_i5_the_leader_of_the_store_holds_everything() -> None:
    def scene(world: World) -> None:
        with world.breach("I5"):
            world.cut(world.leader, 4)

    in_world(scene)


def test_i6_below_its_own_high_watermark_every_log_is_the_same() -> None:
    def scene(world: World) -> None:
        other = world.followers[0]
        partition = world.replica(world.leader)
        assert partition.leader is not None
        rest = tuple(sorted({world.leader, *world.followers} - {other}))
        partition.leader.state = replace(partition.leader.state, committed=rest)
        world.store_isr(*rest)
        world.check()
        with world.breach("I6"):
            world.scribble(other, CRC_OFFSET)

    in_world(scene)


def test_i8_what_is_committed_exists_somewhere() -> None:
    def scene(world: World) -> None:
        for broker_id in world.cluster.ids:
            world.cluster.crash_broker(broker_id)
            log = world.invariants._truths[TP].replicas[broker_id].directory
            disk = world.cluster.disks[broker_id]
            path = f"{log}/{0:020d}.log"
            del disk._file(path).data[200:]
        with world.breach("I8"):
            pass

    in_world(scene)


def test_i8_wiped_disks_hold_nothing() -> None:
    def scene(world: World) -> None:
        for broker_id in world.cluster.ids:
            world.cluster.crash_broker(broker_id)
            world.cluster.wipe_disks(broker_id)
        with world.breach("I8"):
            pass

    in_world(scene)


def test_i9_a_harmed_replica_is_not_admitted_before_it_has_caught_up() -> None:
    def scene(world: World) -> None:
        other = world.followers[0]
        replica = world.invariants._truths[TP].replicas[other]
        replica.damaged = True
        with world.breach("I9"):
            world.cut(other, 4)

    in_world(scene)


def test_i9_a_state_from_before_the_harm_may_still_name_it() -> None:
    def scene(world: World) -> None:
        world.invariants.note_damage(world.followers[0], TP)
        world.cut(world.followers[0], 4)
        world.check()

    in_world(scene)


def test_i9_leaders_were_vouched_for() -> None:
    def scene(world: World) -> None:
        with world.breach("I9"):
            world.invariants.store.partitions[TP].unclean = True
            world.replica(world.followers[0]).high_watermark -= 1
        world.invariants.rules.unclean_election = True
        world.check()

    in_world(scene)


def test_permitted_losses_are_counted() -> None:
    def scene(world: World) -> None:
        world.invariants.rules.loss_permitted = True
        world.cut(world.followers[0], 4)
        world.check()
        assert world.invariants.losses == 1
        world.cut(world.followers[0], 3)
        world.check()

    in_world(scene)


# ---- clients: [I7], [I23]


def test_i7_what_was_read_is_still_there() -> None:
    def scene(world: World) -> None:
        with world.breach("I7"):
            world.invariants.note_read(TOPIC, 0, 3, b"another")

    in_world(scene)


def test_i7_a_read_beyond_everything() -> None:
    def scene(world: World) -> None:
        with world.breach("I7"):
            world.invariants.note_read(TOPIC, 0, len(VALUES), b"from nowhere")

    in_world(scene)


def test_i23_an_acknowledged_value_is_at_its_offset() -> None:
    def scene(world: World) -> None:
        with world.breach("I23"):
            world.invariants.note_ack(TOPIC, 0, 3, VALUES[4])

    in_world(scene)


def test_i23_an_acknowledged_value_is_somewhere() -> None:
    def scene(world: World) -> None:
        with world.breach("I23"):
            world.invariants.note_ack(TOPIC, 0, 99, b"lost")

    in_world(scene)


def test_i23_on_enough_replicas() -> None:
    def scene(world: World) -> None:
        leader, (one, other) = world.leader, world.followers
        partition = world.replica(leader)
        assert partition.leader is not None
        partition.leader.state = replace(partition.leader.state, committed=(leader,))
        world.store_isr(leader)
        world.cut(one, 4)
        world.check()
        world.invariants.note_ack(TOPIC, 0, 11, VALUES[11])
        world.check()
        world.cut(other, 4)
        with world.breach("I23"):
            world.invariants.note_ack(TOPIC, 0, 11, VALUES[11])

    in_world(scene)


# ---- leaders, controllers, fetchers: [I11] to [I13]


def test_i11_one_leader_an_epoch() -> None:
    def scene(world: World) -> None:
        role = world.replica(world.leader).leader
        with world.breach("I11"):
            world.replica(world.followers[0]).leader = role

    in_world(scene)


def test_i11_no_epoch_that_the_store_does_not_know() -> None:
    def scene(world: World) -> None:
        with world.breach("I11"):
            world.replica(world.followers[0]).leader_epoch += 1

    in_world(scene)


def test_i12_one_controller_an_epoch() -> None:
    def scene(world: World) -> None:
        brokers = world.cluster.brokers
        term = next(b.runner.term for b in brokers.values() if b.runner.is_active)
        with world.breach("I12"):
            for broker in brokers.values():
                broker.runner._term = term

    in_world(scene)


def test_i13_a_follower_has_a_fetcher() -> None:
    def scene(world: World) -> None:
        follower = world.cluster.brokers[world.followers[0]].replicas
        with world.breach("I13"):
            follower._loops[world.leader, FetchLane.MAIN]._machine.remove(TP)

    in_world(scene)


def test_i13_a_leader_has_none() -> None:
    def scene(world: World) -> None:
        manager = world.cluster.brokers[world.leader].replicas
        other = world.followers[0]
        fetched_from = (other, FetchLane.MAIN)
        loop = manager._loops.get(fetched_from) or manager._make_loop(*fetched_from)
        manager._loops[fetched_from] = loop
        with world.breach("I13"):
            loop._machine.add(world.replica(world.leader))

    in_world(scene)


# ---- the end of a run


def test_a30_the_same_bytes() -> None:
    def scene(world: World) -> None:
        log = world.replica(world.followers[0]).log
        inode = world.cluster.disks[world.followers[0]]._file(log.segments[0].path)
        inode.data[log.segments[0].size_bytes - 1] ^= 1
        with pytest.raises(InvariantViolation) as caught:
            world.invariants.quiescent_check()
        assert caught.value.id == "A30"

    in_world(scene)


def test_a32_the_same_epochs() -> None:
    def scene(world: World) -> None:
        world.replica(world.followers[0]).log.epochs._starts[0] = 1
        with pytest.raises(InvariantViolation) as caught:
            world.invariants.quiescent_check()
        assert caught.value.id == "A32"

    in_world(scene)


def test_at_the_end_all_is_in_sync() -> None:
    def scene(world: World) -> None:
        world.replica(world.followers[0]).high_watermark -= 1
        world.invariants.quiescent_check(converged=False)
        with pytest.raises(InvariantViolation) as caught:
            world.invariants.quiescent_check()
        assert caught.value.id == "converged"

    in_world(scene)


def test_the_store_feeds_the_coverage() -> None:
    def scene(world: World) -> None:
        coverage = Coverage()
        Invariants(world.cluster, coverage).check(0.0)
        assert coverage.counts["controller_elected"] == 1

    in_world(scene)


def test_rules_come_from_the_knobs_of_a_cluster() -> None:
    def scene(world: World) -> None:
        assert world.invariants.rules == Rules(min_insync_replicas=2)

    in_world(scene)
