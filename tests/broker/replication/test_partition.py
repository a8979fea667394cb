"""One partition is on three brokers: roles, fencing, high watermark, ISR, truncation, damage.

The last test drives random histories of crashes, lost messages, late orders and elections, and
holds them against the promises: nothing acknowledged is lost, replicas agree, offsets obey [I1].
"""

from __future__ import annotations

import asyncio
import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import FetchPosition
from oncelog_broker.replication.progress import Contact
from oncelog_protocol.errors import (
    ApiError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownLeaderEpochError,
)
from oncelog_protocol.messages.fetch import EpochEnd
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.types import Acks, IsolationLevel
from support.replicas import TOPIC_ID, TP, Replicas, batch_of


class News:
    """It is a reader that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def data_ready(self) -> None:
        self.heard.append("data")

    def watermark_moved(self, stable_moved: bool) -> None:
        self.heard.append("watermark")

    def role_changed(self) -> None:
        self.heard.append("role")


def order(epoch: int, leader: int, *, isr: tuple[int, ...] = (1, 2, 3)) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        "t", TOPIC_ID, 0, leader, epoch, list(isr), epoch, [1, 2, 3], False
    )


def record_fetch(
    partition: Partition, replica: int, offset: int, *, epoch: int = 0, last: int = -1
) -> EpochEnd | None:
    return partition.record_follower_fetch(
        replica,
        FetchPosition(offset, epoch, last, 0),
        broker_epoch=replica * 100,
        contact=Contact(1.0),
        now=1.0,
    )


# ---- roles


async def test_orders_apply_only_upwards() -> None:
    group = Replicas()
    partition = group[1].partition
    assert partition.apply_leader_and_isr(order(5, 2), 0.0) == 0
    assert (partition.leader_id, partition.leader_epoch, partition.is_leader) == (2, 5, False)
    assert partition.apply_leader_and_isr(order(5, 1), 0.0) == 0  # acknowledged, not applied
    assert partition.leader_id == 2
    assert partition.apply_leader_and_isr(order(4, 1), 0.0) == FencedLeaderEpochError.code
    assert partition.apply_leader_and_isr(order(6, 1), 0.0) == 0
    assert partition.is_leader


async def test_a_new_leader_has_its_epoch_in_the_history_before_it_serves() -> None:
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    group.elect(2)
    log = group[2].partition.log
    assert log.latest_epoch() == group.leader_epoch
    assert log.end_offset_for_epoch(0) == (0, 2)
    group.produce(b"c")
    assert group.records(2)[-1] == (2, group.leader_epoch, b"c")


async def test_a_failed_role_change_leaves_the_old_epoch_so_that_a_retry_does_it_again() -> None:
    group = Replicas()
    broker = group[2]
    broker.partition.log.log_dir.fail("test", OSError(errno.EIO, "broken"))
    broker.partition.repair.refetching = True
    assert broker.partition.apply_leader_and_isr(order(3, 2), 0.0) == StorageError.code
    assert broker.partition.leader_epoch == 0
    broker.partition.repair.refetching = False
    assert broker.partition.apply_leader_and_isr(order(3, 2), 0.0) == 0


async def test_an_order_back_into_a_written_epoch_is_refused() -> None:
    """A store that lost its newest writes must not make the log's epochs run back."""
    group = Replicas()
    group.elect(1)
    group.elect(1)
    group.produce(b"a")
    group.sync(1)
    group[1].crash("all")
    group[1].restart()
    assert group[1].partition.apply_leader_and_isr(order(1, 1), 0.0) == FencedLeaderEpochError.code


@pytest.mark.parametrize("kept", [[b"a"], []], ids=["some of the epoch", "none of it"])
async def test_a_leader_that_resumes_its_epoch_trusts_no_tail(kept: list[bytes]) -> None:
    """Its unsynced records are gone, a follower has them, and other records take their offsets."""
    group = Replicas(brokers=2)
    if kept:
        group.produce(*kept)
        group.replicate()
    group.produce(b"lost-1", b"lost-2")
    group.fetch(2)
    group[2].sync()
    group[1].crash("none")
    group[1].restart()
    again = order(group.leader_epoch, 1, isr=(1, 2))
    again.replicas = [1, 2]
    assert group.deliver(again, 1) == 0
    group.produce(b"new-1", b"new-2", b"new-3")
    group.replicate()
    assert not group.diverged()
    assert group.values(2) == [*kept, b"new-1", b"new-2", b"new-3"]


async def test_only_the_leader_serves() -> None:
    group = Replicas()
    follower = group[2].partition
    with pytest.raises(NotLeaderOrFollowerError):
        follower.append_as_leader(batch_of(b"x"), Acks.ALL, 0.0)
    with pytest.raises(NotLeaderOrFollowerError):
        follower.check_epoch(-1)
    follower.fail()
    with pytest.raises(StorageError):
        follower.check_epoch(-1)
    assert follower.apply_leader_and_isr(order(9, 2), 0.0) == StorageError.code


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-1, None), (3, None), (2, FencedLeaderEpochError), (4, UnknownLeaderEpochError)],
)
async def test_readers_are_fenced_by_epoch(epoch: int, error: type[ApiError] | None) -> None:
    group = Replicas()
    partition = group[1].partition
    partition.apply_leader_and_isr(order(3, 1), 0.0)
    if error is None:
        partition.check_epoch(epoch)
    else:
        with pytest.raises(error):
            partition.check_epoch(epoch)


# ---- acknowledgements


async def test_all_means_every_isr_member_has_synced() -> None:
    group = Replicas()
    group.produce(b"x")
    group.fetch(2)
    group.fetch(3)
    group.sync(2, 3)
    group.fetch(2)
    group.fetch(3)
    assert group.acked == []  # the leader's own disk
    group.sync(1)
    assert group.acked == [b"x"]
    assert group[1].partition.high_watermark == 1


async def test_leader_acknowledgement_waits_for_the_leaders_own_sync() -> None:
    group = Replicas()
    partition = group[1].partition
    codes: list[int] = []
    append = partition.append_as_leader(batch_of(b"x"), Acks.LEADER, 0.0)
    assert partition.when_synced(append.last_offset + 1, codes.append) is not None
    assert codes == []
    group.sync(1)
    assert codes == [0]
    assert partition.when_synced(append.last_offset + 1, codes.append) is None
    assert codes == [0, 0]


async def test_too_few_replicas_are_refused_before_the_append() -> None:
    group = Replicas(min_isr=2, isr=[1])
    assert group.produce(b"x") == NotEnoughReplicasError.code
    assert group.values(1) == []
    assert group.produce(b"x", acks=Acks.LEADER) is None


async def test_parked_produces_hear_of_the_end_of_the_role() -> None:
    group = Replicas()
    group.produce(b"x")
    group.elect(2, to=[1])
    assert group.failed == [(b"x", NotLeaderOrFollowerError.code)]


async def test_parked_produces_survive_a_new_epoch_of_the_same_leader() -> None:
    group = Replicas()
    group.produce(b"x")
    group.elect(1)
    assert group.failed == []
    group.replicate()
    assert group.acked == [b"x"]


async def test_parked_produces_hear_that_the_replica_failed() -> None:
    group = Replicas()
    group.produce(b"x")
    group[1].partition.fail()
    assert group.failed == [(b"x", StorageError.code)]


async def test_shrinking_lets_the_high_watermark_move() -> None:
    """KAFKA-13091 was this bug."""
    group = Replicas()
    group.produce(b"x")
    group.replicate(2)
    assert group.acked == []
    group.pass_time(20)
    group.fetch(2)
    group[1].partition.check_isr(group.now, 10.0)
    group.settle_isr()
    assert group.isr == [1, 2]
    assert group.acked == [b"x"]


# ---- fetches of followers


async def test_divergence_is_answered_and_not_counted() -> None:
    group = Replicas()
    partition = group[1].partition
    group.produce(b"a")
    group.elect(1)
    group.produce(b"b")
    epoch = group.leader_epoch
    assert record_fetch(partition, 2, 2, epoch=epoch, last=0) == EpochEnd(0, 1)
    assert partition.leader is not None
    assert partition.leader.followers[2].durable_offset == -1
    assert record_fetch(partition, 2, 1, epoch=epoch, last=0) is None
    assert partition.leader.followers[2].durable_offset == 1


async def test_below_the_log_start_is_out_of_range_even_if_diverging() -> None:
    """KAFKA-12996 was this bug."""
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    group[1].partition.log.advance_log_start(2)
    with pytest.raises(IneligibleReplicaError):
        record_fetch(group[1].partition, 2, 1, last=0)
    group.settle_isr()
    with pytest.raises(OffsetOutOfRangeError):
        record_fetch(group[1].partition, 2, 1, last=0)
    with pytest.raises(OffsetOutOfRangeError):
        record_fetch(group[1].partition, 2, 9)


async def test_a_broker_without_a_replica_cannot_fetch_as_one() -> None:
    group = Replicas()
    with pytest.raises(NotLeaderOrFollowerError):
        record_fetch(group[1].partition, 9, 0)


async def test_a_member_without_committed_records_leaves_the_isr_at_once() -> None:
    """A disk was wiped or found rotten while its broker was in the ISR."""
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    assert sorted(group.isr) == [1, 2, 3]
    for _ in range(2):
        with pytest.raises(IneligibleReplicaError):
            record_fetch(group[1].partition, 2, 0, epoch=group.leader_epoch)
    group.settle_isr()
    assert group.isr == [1, 3]
    assert group[1].partition.high_watermark == 2
    record_fetch(group[1].partition, 2, 0, epoch=group.leader_epoch)


async def test_the_follower_learns_the_high_watermark_and_never_forgets_it() -> None:
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    group.produce(b"b")
    group.replicate()
    follower = group[2].partition
    assert follower.high_watermark >= 1
    before = follower.high_watermark
    follower.leader_offsets(0, 0)
    assert follower.high_watermark == before


async def test_log_start_follows_the_leader_but_not_past_the_high_watermark() -> None:
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    follower = group[2].partition
    follower.high_watermark = 1
    follower.leader_offsets(2, 3)
    assert follower.high_watermark == 2
    assert follower.log.log_start_offset == 2


async def test_five_elections_without_data() -> None:
    """It must not confuse anybody that epochs wrote nothing [B4] [K4]."""
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    for leader in (2, 3, 1, 2, 3):
        group.elect(leader)
    group.produce(b"b")
    group.replicate()
    assert group.acked == [b"a", b"b"]
    assert [group.values(i) for i in (1, 2, 3)] == [[b"a", b"b"]] * 3
    assert not group.diverged()


async def test_two_fast_elections_leave_tails_that_the_leader_never_knew() -> None:
    """KIP-279: the follower's epoch is unknown to the leader, and the other way round."""
    group = Replicas(brokers=3)
    group.produce(b"a")
    group.replicate()
    group.elect(2, to=[2])
    group.produce(b"2-only", to=2)
    group.sync(2)
    group.elect(3, to=[3])
    group.produce(b"3-only", b"3-more", to=3)
    group.sync(3)
    group.elect(1)
    group.produce(b"b")
    group.replicate()
    assert [group.values(i) for i in (1, 2, 3)] == [[b"a", b"b"]] * 3


async def test_a_follower_below_the_log_start_begins_anew() -> None:
    """KAFKA-9491: the high watermark goes along."""
    group = Replicas(isr=[1, 2])
    group.produce(b"a", b"b", b"c")
    group.replicate(2)
    group[1].partition.log.advance_log_start(2)
    group.replicate()
    follower = group[3].partition
    assert follower.log.log_start_offset == 2
    assert follower.high_watermark >= 2
    assert group.values(3) == [b"c"]
    assert sorted(group.isr) == [1, 2, 3]


# ---- readers


async def test_readers_hear_of_data_watermarks_and_roles() -> None:
    group = Replicas()
    news = News()
    partition = group[1].partition
    partition.add_reader(news)
    group.produce(b"x")
    assert news.heard == ["data"]
    group.replicate()
    assert "watermark" in news.heard
    group.elect(2)
    assert news.heard[-1] == "role"
    partition.remove_reader(news)
    partition.remove_reader(news)
    group.elect(1)
    assert news.heard[-1] == "role"
    assert news.heard.count("role") == 1


async def test_consumers_read_below_the_high_watermark_only() -> None:
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    group.produce(b"b")
    partition = group[1].partition
    upto = partition.readable_end(IsolationLevel.READ_UNCOMMITTED)
    assert upto == partition.readable_end(IsolationLevel.READ_COMMITTED) == 1
    whole = len(partition.log.read(0, 1 << 20, upto=2))
    assert len(partition.read_for_consumer(0, 1 << 20, upto=upto)) == whole // 2
    assert partition.read_for_consumer(1, 1 << 20, upto=upto) == b""
    assert partition.read_for_consumer(2, 1 << 20, upto=upto) == b""
    with pytest.raises(OffsetOutOfRangeError):
        partition.read_for_consumer(3, 1 << 20, upto=upto)
    with pytest.raises(OffsetOutOfRangeError):
        partition.read_for_consumer(-1, 1 << 20, upto=upto)


# ---- random histories


class World:
    """A controller that sees crashes late, delivers orders in order, and elects from the ISR."""

    def __init__(self) -> None:
        self.group = Replicas(min_isr=2)
        self.orders: dict[int, list[LeaderAndIsrPartition]] = {1: [], 2: [], 3: []}
        self.count = 0
        self.watermarks: dict[tuple[int, int, int], int] = {}
        self.lives = {1: 0, 2: 0, 3: 0}

    def elect(self) -> None:
        """The controller looks at who lives and changes leader or ISR."""
        group = self.group
        isr = [i for i in group.isr if group[i].alive] or list(group.isr)
        living = [i for i in isr if group[i].alive]
        # The next member of the ISR, so that leadership moves about.
        leader = min(living, key=lambda i: (i <= group.leader_id, i)) if living else -1
        self.orders_for_all(leader, isr)

    def orders_for_all(self, leader: int, isr: list[int]) -> None:
        made = self.group.elect(leader, isr=isr, to=[])
        for broker_id, queue in self.orders.items():
            if self.group[broker_id].alive:
                queue.append(made)

    def deliver(self, broker_id: int) -> None:
        if self.orders[broker_id]:
            self.group.deliver(self.orders[broker_id].pop(0), broker_id)

    def crash(self, broker_id: int, *, power: bool) -> None:
        if self.group[broker_id].alive:
            broker = self.group[broker_id]
            known = self.group.checkpointed_high_watermark
            known[broker_id] = broker.partition.high_watermark // 2
            broker.crash("none" if power else "all")
            self.orders[broker_id].clear()

    def restart(self, broker_id: int) -> None:
        group = self.group
        if group[broker_id].alive:
            return
        # The registration under a new epoch tells the controller of the crash at the latest now.
        if broker_id in group.isr and len(group.isr) > 1:
            isr = [i for i in group.isr if i != broker_id]
            leader = group.leader_id if group.leader_id in isr else -1
            if leader == -1 or not group[leader].alive:
                leader = next((i for i in isr if group[i].alive), -1)
            self.orders_for_all(leader, isr)
        group[broker_id].restart()
        self.lives[broker_id] += 1
        self.orders_for_all(
            group.leader_id if group.leader_id != -1 and group[group.leader_id].alive else -1,
            group.isr,
        )
        if group.leader_id == -1:
            self.elect()

    def step(self, what: str, broker_id: int, flag: bool) -> None:
        group = self.group
        broker = group[broker_id]
        if what == "produce" and broker.alive and broker.partition.is_leader:
            self.count += 1
            group.produce(b"%d" % self.count, to=broker_id)
        elif what == "fetch" and broker.alive and broker.partition.leader_id in group.brokers:
            if not broker.partition.is_leader:
                group.fetch(broker_id, lose_answer=False)
                if flag:
                    broker.sync()
                    group.fetch(broker_id)
        elif what == "sync" and broker.alive:
            broker.sync()
        elif what == "isr" and broker.alive:
            group.settle_isr(broker_id, lose_answer=flag)
        elif what == "lag" and broker.alive:
            group.pass_time(11)
            broker.partition.check_isr(group.now, 10.0)
        elif what == "elect":
            self.elect()
        elif what == "deliver":
            self.deliver(broker_id)
        elif what == "crash":
            self.crash(broker_id, power=flag)
        elif what == "restart":
            self.restart(broker_id)
        self.check()

    def check(self) -> None:
        group = self.group
        for broker_id, broker in group.brokers.items():
            if not broker.alive:
                continue
            partition, log = broker.partition, broker.partition.log
            assert log.log_start_offset <= partition.high_watermark <= log.log_end_offset
            if partition.is_leader:
                key = (broker_id, self.lives[broker_id], partition.leader_epoch)
                assert partition.high_watermark >= self.watermarks.get(key, 0)
                self.watermarks[key] = partition.high_watermark
        for member in group.isr:
            if group[member].alive:
                held = group.values(member)
                assert not [v for v in group.acked if v not in held], "an ISR member lacks records"

    def heal(self) -> None:
        """Everybody comes back, every order arrives, all messages get through."""
        group = self.group
        for broker_id in (1, 2, 3):
            self.restart(broker_id)
        self.elect()
        for broker_id in (1, 2, 3):
            while self.orders[broker_id]:
                self.deliver(broker_id)
        for _ in range(3):
            group.pass_time(2)
            group.replicate()
        assert sorted(group.isr) == [1, 2, 3]
        assert group.produce(b"last") is None
        group.replicate()
        assert group.acked[-1] == b"last"
        assert group.lost() == []
        assert not group.diverged()
        logs = [group.records(i) for i in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2]
        epochs = [epoch for _, epoch, _ in logs[0]]
        assert epochs == sorted(epochs)
        values = [value for _, _, value in logs[0]]
        assert len(set(values)) == len(values)


KINDS = ["produce", "produce", "fetch", "fetch", "fetch", "sync", "isr", "isr"]
KINDS += ["deliver", "deliver", "elect", "lag", "crash", "restart"]
STEPS = st.tuples(st.sampled_from(KINDS), st.sampled_from([1, 2, 3]), st.booleans())


@settings(max_examples=settings().max_examples * 3 // 2)
@given(st.lists(STEPS, max_size=60))
def test_no_history_loses_an_acknowledged_record(steps: list[tuple[str, int, bool]]) -> None:
    async def run() -> None:
        world = World()
        for what, broker_id, flag in steps:
            world.step(what, broker_id, flag)
        world.heal()

    asyncio.run(run())


def test_names() -> None:
    assert str(TP) == "t-0"
