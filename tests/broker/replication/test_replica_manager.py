"""Replica managers of three brokers are joined in process: orders, replication, failures."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest

from oncelog_broker.replication.invariants import InvariantError
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.replication import StopPartition, StopReplicaRequest
from oncelog_protocol.types import Acks, TopicPartition
from support.replication_cluster import Cluster, Node
from support.waiting import eventually

TP = TopicPartition("t", 0)


def whole_log(cluster: Cluster, broker_id: int, tp: TopicPartition = TP) -> bytes:
    log = cluster[broker_id].partition(tp).log
    return bytes(log.read(log.log_start_offset, 1 << 20, upto=log.log_end_offset))


async def test_records_reach_every_replica_before_they_are_acknowledged() -> None:
    async with Cluster() as cluster:
        assert cluster.lead(TP, 1) == {1: 0, 2: 0, 3: 0}
        answer = await cluster.produced(TP, b"a", b"b")
        assert (answer.error_code, answer.base_offset) == (0, 0)
        for broker_id in (1, 2, 3):
            assert cluster[broker_id].partition(TP).log.synced_offset == 2
        assert whole_log(cluster, 1) == whole_log(cluster, 2) == whole_log(cluster, 3)
        assert (await cluster.produced(TP, b"c")).base_offset == 2
        await eventually(lambda: cluster[2].partition(TP).high_watermark == 3)


async def test_many_partitions_and_a_stream_of_batches() -> None:
    tps = [TopicPartition("t", i) for i in range(6)]
    async with Cluster() as cluster:
        for i, tp in enumerate(tps):
            cluster.lead(tp, 1 + i % 3)
        answers = [cluster.produce(tp, b"%d" % number * 100) for number in range(40) for tp in tps]
        for answer in answers:
            message = await answer.wait()
            assert message.topics[0].partitions[0].error_code == 0
        for tp in tps:
            await cluster.isr_is(tp, 1, 2, 3)  # a slow machine can have made one leave and return
            logs = [whole_log(cluster, broker_id, tp) for broker_id in (1, 2, 3)]
            assert logs[0] == logs[1] == logs[2]


async def test_leadership_moves_and_parked_produces_hear_of_it() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        cluster[2].cut()
        cluster[3].cut()
        parked = cluster.produce(TP, b"never acknowledged")
        cluster.lead(TP, 2)
        message = await parked.wait()
        assert message.topics[0].partitions[0].error_code == NotLeaderOrFollowerError.code
        for broker_id in (2, 3):
            cluster[broker_id].reachable = True
        answer = await cluster.produced(TP, b"b")
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert whole_log(cluster, 1) == whole_log(cluster, 2) == whole_log(cluster, 3)


async def test_a_silent_follower_leaves_the_isr_and_comes_back() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1, configs={"min_insync_replicas": "2"})
        await cluster.produced(TP, b"a")
        cluster[3].cut()
        answer = await cluster.produced(TP, b"b")  # waits for the shrink
        assert answer.error_code == 0
        await cluster.isr_is(TP, 1, 2)
        cluster[3].reachable = True
        await cluster.isr_is(TP, 1, 2, 3)
        assert whole_log(cluster, 3) == whole_log(cluster, 1)


async def test_leaders_of_idle_partitions_hear_of_a_new_registration() -> None:
    """Its session with the store has expired, its process has not: what it holds counts on."""
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        followers = cluster[1].partition(TP).leader_role().followers
        cluster[2].replicas.registered(4711)
        await eventually(lambda: followers[2].broker_epoch == 4711)
        assert followers[2].durable_offset == 1


async def test_below_min_isr_produces_are_refused() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1, configs={"min.insync.replicas": "3"})
        cluster[3].cut()
        cluster.produce(TP, b"a")
        await cluster.isr_is(TP, 1, 2)
        await eventually(lambda: cluster[1].partition(TP).isr == (1, 2))
        answer = await cluster.produced(TP, b"b")
        assert answer.error_code == NotEnoughReplicasError.code
        cluster[1].replicas.reconfigure_topic("t", {"min.insync.replicas": "2"})
        assert (await cluster.produced(TP, b"c")).error_code == 0


async def test_a_lower_min_isr_lets_go_what_was_held() -> None:
    """Nothing else happens that would have the leader look at its high watermark again."""
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1, isr=[1], configs={"min.insync.replicas": "2"})
        cluster[2].cut()
        await cluster.produced(TP, b"a", acks=Acks.LEADER)
        partition = cluster[1].partition(TP)
        partition.check_isr(0.0, 1.0)
        assert partition.high_watermark == 0
        cluster[1].replicas.reconfigure_topic("t", {"min.insync.replicas": "1"})
        await eventually(lambda: partition.high_watermark == 1)


async def test_a_topic_made_anew_is_not_followed_by_replicas_of_the_old_one() -> None:
    """[K25]: broker 3 hears of nothing, and both topics have leader epoch 0."""
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"old")
        del cluster.orders[TP]
        cluster.lead(TP, 1, topic_id="another", to=[1, 2])
        await eventually(
            lambda: all(
                TP in cluster[i].replicas._partitions
                and cluster[i].partition(TP).topic_id == "another"
                for i in (1, 2)
            )
        )
        parked = cluster.produce(TP, b"new")
        old = cluster[3].partition(TP)
        await cluster.isr_is(TP, 1, 2)
        message = await parked.wait()
        assert message.topics[0].partitions[0].error_code == 0
        assert old.topic_id == "id"
        assert whole_log(cluster, 3) != whole_log(cluster, 1)
        cluster.send_orders(3, [cluster.orders[TP]])
        await cluster.isr_is(TP, 1, 2, 3)
        assert whole_log(cluster, 3) == whole_log(cluster, 1)


async def test_an_unknown_outcome_of_an_isr_change_is_asked_for_again() -> None:
    async with Cluster() as cluster:
        cluster.isr_errors = [TimeoutError("lost"), OSError("lost")]
        cluster.lead(TP, 1, isr=[1])
        await cluster.isr_is(TP, 1, 2, 3)
        await eventually(lambda: cluster[1].partition(TP).isr == (1, 2, 3))
        assert len(cluster.isr_requests) >= 3


async def test_an_order_for_a_recreated_topic_moves_the_old_log_aside() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"old")
        codes = cluster.lead(TP, 1, topic_id="another", isr=[1, 2, 3])
        assert set(codes.values()) == {InconsistentTopicIdError.code}
        await eventually(
            lambda: all(
                TP in node.replicas._partitions and node.partition(TP).topic_id == "another"
                for node in cluster.nodes.values()
            )
        )
        answer = await cluster.produced(TP, b"new")
        assert (answer.error_code, answer.base_offset) == (0, 0)


async def test_stop_replica_fences_stops_and_deletes() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        cluster.lead(TP, 1)
        manager = cluster[2].replicas

        async def stop(epoch: int, *, delete: bool, topic_id: str = "id") -> int:
            request = StopReplicaRequest(9, 1, 0, [StopPartition("t", topic_id, 0, epoch, delete)])
            return (await manager.stop_replicas(request))[0].error_code

        assert await stop(0, delete=True) == FencedLeaderEpochError.code
        assert await stop(-2, delete=True, topic_id="other") == 0
        manager.partition(TP)
        assert await stop(1, delete=False) == 0
        with pytest.raises(UnknownTopicOrPartitionError):
            manager.partition(TP)
        assert cluster[2].logs.get(TP) is not None
        assert await stop(-2, delete=True) == 0
        assert cluster[2].logs.get(TP) is None
        assert await stop(-2, delete=True) == 0


class Deleting:
    """Its disk takes until ``go_on`` to remove a directory."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.manager = cluster[broker_id].replicas
        self.files = cluster[broker_id].files
        self.go_on = threading.Event()
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._remove_tree = self.files.remove_tree_now
        self.files.remove_tree_now = self._slowly  # type: ignore[method-assign]

    def _slowly(self, path: str) -> None:
        """Run in a thread of the directory."""
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.go_on.wait(60)
        self._remove_tree(path)

    def stop(self, *, epoch: int = -2, topic_id: str = "id") -> asyncio.Task[int]:
        async def ask() -> int:
            request = StopReplicaRequest(9, 1, 0, [StopPartition("t", topic_id, 0, epoch, True)])
            return (await self.manager.stop_replicas(request))[0].error_code

        return asyncio.get_running_loop().create_task(ask())

    def names(self) -> list[str]:
        return [name for name in self.files.list_dir("/d") if name.startswith("t-0")]


async def test_a_second_deletion_waits_for_the_first() -> None:
    """A new controller repeats orders that were sent over another connection before it."""
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        disk = Deleting(cluster, 2)
        first = disk.stop()
        await disk.begun.wait()
        second = disk.stop()
        other = disk.stop(topic_id="another")
        for _ in range(10):
            await asyncio.sleep(0)
        assert [task.done() for task in (first, second, other)] == [False, False, False]
        first.cancel()  # its connection is lost: the deletion goes on
        await asyncio.sleep(0)
        disk.go_on.set()
        assert await second == 0
        assert await other == 0
        assert disk.names() == []


async def test_an_order_for_a_place_that_is_being_deleted_waits_for_it() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"old")
        disk = Deleting(cluster, 2)
        deletion = disk.stop(topic_id="id")
        await disk.begun.wait()
        assert cluster.lead(TP, 1, topic_id="another", isr=[1])[2] == InconsistentTopicIdError.code
        disk.go_on.set()
        assert await deletion == 0
        await eventually(lambda: TP in disk.manager._partitions)
        assert disk.manager.partition(TP).topic_id == "another"
        assert disk.manager.partition(TP).leader_id == 1
        await cluster.isr_is(TP, 1, 2, 3)


async def test_the_deletion_of_a_topic_that_waits_for_its_place_leaves_nothing_to_wait() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        disk = Deleting(cluster, 2)
        deletion = disk.stop(topic_id="id")
        await disk.begun.wait()
        cluster.lead(TP, 1, topic_id="another", isr=[1])
        deletion_of_another = disk.stop(topic_id="another")
        await asyncio.sleep(0)
        disk.go_on.set()
        assert (await deletion, await deletion_of_another) == (0, 0)
        assert disk.names() == []
        with pytest.raises(UnknownTopicOrPartitionError):
            disk.manager.partition(TP)


async def test_a_deletion_that_fails_says_so_to_all_who_wait() -> None:
    async with Cluster(dirs=("/d", "/e")) as cluster:
        cluster.lead(TP, 1)
        node = cluster[2]
        log = node.partition(TP).log
        node.files.fail("rename", log.directory)
        disk = Deleting(cluster, 2)
        first, second = disk.stop(), disk.stop()
        assert {await first, await second} == {StorageError.code}
        assert not log.log_dir.online
        node.files.heal()


def deletion(topic_id: str = "id") -> StopReplicaRequest:
    return StopReplicaRequest(9, 1, 0, [StopPartition("t", topic_id, 0, 7, True)])


async def test_nothing_is_said_to_be_deleted_that_may_be_in_an_offline_directory() -> None:
    async with Cluster(dirs=("/d", "/e")) as cluster:
        cluster.lead(TP, 1)
        node = cluster[2]
        where = node.partition(TP).log.log_dir.path
        assert (await cluster[3].replicas.stop_replicas(deletion()))[0].error_code == 0
        assert (await cluster[3].replicas.stop_replicas(deletion()))[0].error_code == 0
        node.files.fail("append", where, error=errno.EIO)
        await cluster.produced(TP, b"a")
        await eventually(lambda: node.partition(TP).failed)
        for topic_id in ("id", "id", "another"):
            answer = await node.replicas.stop_replicas(deletion(topic_id))
            assert answer[0].error_code == StorageError.code
        with pytest.raises(UnknownTopicOrPartitionError):
            node.partition(TP)
        assert node.files.list_dir(f"{where}/t-0"), "it is not touched"


async def test_what_an_offline_directory_may_hold_is_deleted_at_the_next_start() -> None:
    async with Cluster(dirs=("/d", "/e")) as cluster:
        cluster.lead(TP, 1)
        where = cluster[2].partition(TP).log.log_dir.path
        await cluster[2].stop()
        files, other = cluster[2].files, "/e" if where == "/d" else "/d"
        cluster.nodes[2] = node = Node(cluster, 2, ("/d", "/e"), files)
        files.fail("read", where, times=None)
        await node.start()
        assert [each.path for each in node.logs.dirs if each.online] == [other]
        answer = await node.replicas.stop_replicas(deletion())
        assert answer[0].error_code == StorageError.code
        await node.stop()
        files.heal()
        cluster.nodes[2] = node = Node(cluster, 2, ("/d", "/e"), files)
        await node.start()
        answer = await node.replicas.stop_replicas(deletion())
        assert answer[0].error_code == 0
        assert not files.exists(f"{where}/t-0")


async def test_not_here_is_told_from_nowhere() -> None:
    async with Cluster(brokers=1) as cluster:
        manager = cluster[1].replicas
        with pytest.raises(UnknownTopicOrPartitionError):
            manager.partition(TP)
        cluster.known.add(TP)
        with pytest.raises(NotLeaderOrFollowerError):
            manager.partition(TP)


async def test_a_full_order_stops_what_it_does_not_list() -> None:
    other = TopicPartition("u", 0)
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        cluster.lead(other, 1)
        cluster.send_orders(1, [cluster.orders[TP]], full=True)
        cluster[1].partition(TP)
        with pytest.raises(UnknownTopicOrPartitionError):
            cluster[1].partition(other)
        assert cluster[1].logs.get(other) is not None


async def test_a_failed_directory_takes_only_its_own_replicas_out() -> None:
    tps = [TopicPartition("t", i) for i in range(4)]
    async with Cluster(dirs=("/d", "/e")) as cluster:
        for tp in tps:
            cluster.lead(tp, 1)
            await cluster.produced(tp, b"a")
        on_e = [tp for tp in tps if cluster[1].partition(tp).log.directory.startswith("/e")]
        on_d = [tp for tp in tps if tp not in on_e]
        assert on_e
        assert on_d
        cluster[1].files.fail("sync", "/e", error=errno.EIO)
        answer = await cluster.produced(on_e[0], b"b")
        assert answer.error_code == StorageError.code
        answer = await cluster.produced(on_e[1], b"b")
        assert answer.error_code == StorageError.code
        for tp in on_d:
            assert (await cluster.produced(tp, b"b")).error_code == 0
        codes = cluster.lead(on_e[0], 2, to=[1, 2, 3])
        assert codes == {1: StorageError.code, 2: 0, 3: 0}
        assert cluster.send_orders(1, [cluster.orders[on_e[0]]])[0].error_code == StorageError.code


async def test_a_followers_failed_directory_shrinks_the_isr() -> None:
    async with Cluster(dirs=("/d", "/e")) as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        where = cluster[3].partition(TP).log.log_dir.path
        cluster[3].files.fail("append", where, error=errno.EIO)
        assert (await cluster.produced(TP, b"b")).error_code == 0
        await cluster.isr_is(TP, 1, 2)


async def test_a_full_disk_of_a_follower_is_waited_for() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        cluster[3].files.set_free_bytes(10)
        assert (await cluster.produced(TP, b"b" * 1000)).error_code == 0
        await cluster.isr_is(TP, 1, 2)
        cluster[3].files.heal()
        await cluster.isr_is(TP, 1, 2, 3)
        assert whole_log(cluster, 3) == whole_log(cluster, 1)


async def test_leader_acks_and_no_acks() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        cluster[2].cut()
        cluster[3].cut()
        assert (await cluster.produced(TP, b"a", acks=Acks.LEADER)).error_code == 0
        assert cluster[1].partition(TP).log.synced_offset == 1
        assert await cluster.produce(TP, b"b", acks=Acks.NONE).wait() is None
        assert cluster[1].partition(TP).log.log_end_offset == 2


async def test_flush_interval_counts_offsets_at_once() -> None:
    async with Cluster(topic_defaults={"flush": "interval"}) as cluster:
        cluster.lead(TP, 1)
        assert (await cluster.produced(TP, b"a")).error_code == 0
        assert (await cluster.produced(TP, b"b", acks=Acks.LEADER)).error_code == 0
        assert cluster[1].partition(TP).log.recovery_point < 2  # the disk follows within a second


async def test_high_watermarks_are_taken_from_the_checkpoint_until_an_order_comes() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a", b"b")
        assert cluster[1].replicas.high_watermarks() == {TP: 2}
        cluster[1].replicas._watermarks[TopicPartition("x", 1)] = 7
        assert cluster[1].replicas.high_watermarks()[TopicPartition("x", 1)] == 7
        asked = [cluster[1].replicas.high_watermark(each) for each in (TP, TopicPartition("x", 1))]
        assert asked == [2, 7]
        assert cluster[1].replicas.high_watermark(TopicPartition("nobody", 0)) is None


async def test_roles_are_told_whenever_they_may_have_changed() -> None:
    async with Cluster(brokers=2, dirs=("/d", "/e")) as cluster:
        told: list[tuple[int, bool]] = []

        def broken(partition: Partition) -> None:
            raise ValueError("a bug")

        hooks = cluster[1].replicas.on_leadership
        hooks.append(broken)
        hooks.append(lambda partition: told.append((partition.leader_epoch, partition.is_leader)))
        assert cluster.lead(TP, 1)[1] == 0, "a bug of who listens keeps no order from being applied"
        cluster.lead(TP, 2)
        cluster.lead(TP, 1)
        assert told == [(0, True), (1, False), (2, True)]
        partition = cluster[1].partition(TP)
        partition.break_down(InvariantError("for the test"))
        assert told.pop() == (2, False)
        assert cluster[1].broken == 1
        cluster[1].broken = 0
        stop = StopReplicaRequest(9, 1, 0, [StopPartition("t", "id", 0, 3, False)])
        await cluster[1].replicas.stop_replicas(stop)
        assert told.pop() == (2, False)
        cluster.lead(TP, 1)
        where = cluster[1].partition(TP).log.log_dir
        cluster[1].replicas.directory_failed(where)
        assert told[-2:] == [(3, True), (3, False)]


async def test_stopping_answers_everybody() -> None:
    cluster = Cluster()
    async with cluster:
        cluster.lead(TP, 1)
        cluster[2].cut()
        cluster[3].cut()
        parked = cluster.produce(TP, b"a")
        await asyncio.sleep(0)
        assert not parked.done.is_set()
    assert parked.message.topics[0].partitions[0].error_code == NotLeaderOrFollowerError.code


async def test_who_gave_way_leads_on_when_its_disk_takes_writes_before_anybody_else_leads() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        node, order = cluster[1], cluster.orders[TP]
        partition = node.partition(TP)
        node.replicas.give_way([partition])
        assert cluster.send_orders(1, [order])[0].error_code == StorageError.code
        node.replicas.writable_again(partition.log.log_dir)
        assert cluster.send_orders(1, [order])[0].error_code == 0
        assert (await cluster.produced(TP, b"a")).error_code == 0
        node.broken = 0  # it had asked


async def test_who_gave_way_to_a_leader_that_died_asks_for_its_orders_again() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        partition = node.partition(TP)
        node.replicas.give_way([partition])
        cluster.lead(TP, -1, isr=[2])
        asked = node.broken
        node.replicas.writable_again(partition.log.log_dir)
        assert node.broken == asked + 1
        node.broken = 0
