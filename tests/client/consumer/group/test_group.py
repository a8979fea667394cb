"""Consumers are in a group, end to end against a scripted coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from oncelog import Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition
from oncelog.consumer.group.membership import Membership
from oncelog.errors import ClientError, ClosedError, CommitFailedError, NoOffsetForPartitionError
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action
from support.fake_members import GroupCluster
from support.group_members import (
    TPS,
    A,
    B,
    Notes,
    committed,
    fill,
    make,
    member,
    poll_until,
    read,
    take,
)
from support.histories import ListHistory
from support.waiting import eventually


def membership(consumer: Consumer) -> Membership:
    assert consumer._core.group is not None
    assert consumer._core.group._member is not None
    return consumer._core.group._member.state


async def test_one_member_has_everything_and_commits_what_it_came_back_from() -> None:
    async with GroupCluster(2) as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 3, 0, 1)
        async with member(cluster) as consumer:
            records = await take(consumer, 6)
            assert sorted(record[1:3] for record in records) == [
                (number, offset) for number in (0, 1) for offset in range(3)
            ]
            assert consumer.assignment() == [A, B]
            metadata = consumer.group_metadata()
            assert (metadata.group_id, metadata.generation_id) == ("g", 1)
        last = TopicPartition(*records[-1][:2])
        expected = {A: 3, B: 3, last: 2}
        assert committed(cluster) == expected, "the last record was still in hand"
        assert cluster.group().members == {}, "it has left"
        async with member(cluster) as again:
            assert (await take(again, 1))[0][:3] == (*last, 2)


async def test_a_subscription_to_a_topic_that_does_not_exist_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 3, 0)
        async with make(cluster) as consumer:
            consumer.subscribe(["t", "typo"])
            assert (await consumer.getone()).value == b"0"
            await eventually(lambda: "group g: topic 'typo' does not exist" in caplog.text)
            cluster.create_topic("typo")
            fill(cluster, 3, 0, topic="typo")
            consumer._router.refresh_soon()
            while (await consumer.getone()).topic != "typo":
                pass
        assert caplog.text.count("does not exist") == 1


async def test_a_second_member_takes_half_and_gives_it_back() -> None:
    async with GroupCluster(2) as cluster:
        cluster.create_topic("t", 6)
        notes = [Notes(), Notes()]
        async with make(cluster) as first:
            first.subscribe(["t"], listener=notes[0])
            await poll_until(first, until=lambda: len(first.assignment()) == 6)
            fill(cluster, 4, *range(6))
            await read(first, count=24)
            async with make(cluster) as second:
                second.subscribe(["t"], listener=notes[1])
                await poll_until(
                    first,
                    second,
                    until=lambda: len(first.assignment()) == 3 == len(second.assignment()),
                )
                assert sorted([*first.assignment(), *second.assignment()]) == TPS
                assert [cluster.group().offsets[tp].offset for tp in second.assignment()] == [4] * 3
                fill(cluster, 1, *range(6))
                more = await read(first, second, count=6)
                assert {record.offset for some in more.values() for record in some} == {4}
            await poll_until(first, until=lambda: len(first.assignment()) == 6)
    kinds = [[kind for kind, _ in note.heard] for note in notes]
    assert kinds == [["assigned", "revoked", "assigned", "revoked"], ["assigned", "revoked"]]
    assert notes[0].heard[0][1] == TPS, "what stays is not told again"
    assert notes[0].heard[1][1] == notes[1].heard[0][1]


async def test_consumption_of_what_stays_does_not_stop() -> None:
    """The coordinator holds the join, and the application reads on."""
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 6)
        async with member(cluster) as first:
            await poll_until(first, until=lambda: len(first.assignment()) == 6)
            held = cluster.rule(ApiKey.JOIN_GROUP, Action.HOLD)
            first.enforce_rebalance("for a test")
            await eventually(lambda: held.met)
            fill(cluster, 2, *range(6))
            assert len((await read(first, count=12))[first]) == 12
            await first.commit()
            assert set(committed(cluster).values()) == {2}, "in the old generation"
            held.release.set()
            await poll_until(first, until=lambda: first.group_metadata().generation_id == 2)
            assert len(first.assignment()) == 6
        assert "for a test" in cluster.group().reasons


async def test_partitions_go_only_inside_of_a_poll() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 3, 0, 1)
        async with make(cluster, "t") as first:
            records = first.__aiter__()
            record = await anext(records)
            async with make(cluster, "t") as second:
                await eventually(lambda: len(cluster.group().members) == 2)
                await eventually(lambda: membership(first).handover)
                assert len(first.assignment()) == 2, "the application holds a record"
                await first.commit({A: record.offset + 1} if record.partition == 0 else None)
                waiting = asyncio.ensure_future(anext(records))
                await poll_until(second, until=lambda: second.assignment())
                assert len(first.assignment()) == 1, "a poll that waits is inside"
                waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_auto_commit_leaves_out_what_is_in_hand() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        async with member(cluster, auto_commit_interval_ms=20) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    await eventually(lambda: committed(cluster) == {A: 2})
                    before = cluster.count(ApiKey.OFFSET_COMMIT)
                    await asyncio.sleep(0.1)
                    assert cluster.count(ApiKey.OFFSET_COMMIT) == before, "nothing new"
                    await consumer.commit()
                    assert committed(cluster) == {A: 3}, "an explicit one takes the position"
                    break
            assert len((await consumer.getmany(timeout_ms=1000))[A]) == 2
            await eventually(lambda: committed(cluster) == {A: 3})
            assert await consumer.getmany(timeout_ms=10) == {}
            await eventually(lambda: committed(cluster) == {A: 5})


async def test_without_auto_commit_nothing_is_committed() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        async with member(cluster, enable_auto_commit=False, auto_commit_interval_ms=1) as consumer:
            await take(consumer, 5)
        assert committed(cluster) == {}


async def test_commits_and_what_was_committed() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 5, 0, 1)
        async with member(cluster, enable_auto_commit=False) as consumer:
            with pytest.raises(CommitFailedError, match="not a member"):
                await consumer.commit({A: 1})
            await take(consumer, 1)
            assert await consumer.committed([A, B]) == {A: None, B: None}
            await consumer.commit({A: 2, B: OffsetAndMetadata(3, "note", 0)})
            assert await consumer.committed([A, B]) == {
                A: OffsetAndMetadata(2),
                B: OffsetAndMetadata(3, "note", 0),
            }
            futures = [consumer.commit_async({A: offset}) for offset in (3, 4, 5)]
            await asyncio.gather(*futures)
            assert committed(cluster)[A] == 5
            with pytest.raises(CommitFailedError, match="t-9 is not assigned"):
                await consumer.commit({TopicPartition("t", 9): 1})
            failed = consumer.commit_async({TopicPartition("t", 9): 1})
            with pytest.raises(CommitFailedError):
                await failed
            with pytest.raises(ValueError, match="offset=-1"):
                await consumer.commit({A: -1})


@pytest.mark.parametrize("policy", ["earliest", "latest"])
async def test_who_commits_without_reading_is_not_overruled_at_the_end(policy: str) -> None:
    """Where reading would begin is found in the background, and nobody came back from there."""
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 7, 0)
        async with make(cluster, auto_offset_reset=policy, auto_commit_interval_ms=1) as consumer:
            consumer.assign([A])
            await eventually(lambda: consumer._core.subscription.state(A).offset is not None)
            await consumer.commit({A: 3})
            before = cluster.count(ApiKey.METADATA)
            consumer._router.refresh_soon()
            await eventually(lambda: cluster.count(ApiKey.METADATA) > before)
        assert committed(cluster) == {A: 3}


async def test_where_reading_begins_is_committed_once_the_application_asked_for_records() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 7, 0)
        async with member(cluster, auto_offset_reset="latest") as consumer:
            await poll_until(consumer, until=lambda: consumer.assignment() == [A])
            await consumer.position(A)
            assert await consumer.getmany(timeout_ms=10) == {}
        assert committed(cluster) == {A: 7}


async def test_where_reading_begins_is_committed_while_the_application_waits_for_records() -> None:
    """It may die now: whoever goes on reads what comes in the meantime."""
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 7, 0)
        options = {"auto_offset_reset": "latest", "auto_commit_interval_ms": 20}
        async with member(cluster, **options) as consumer:
            waiting = asyncio.ensure_future(consumer.getone())
            await eventually(lambda: committed(cluster) == {A: 7})
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


async def test_a_seek_without_reading_is_committed_at_the_end() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 7, 0)
        async with make(cluster) as consumer:
            consumer.assign([A])
            await eventually(lambda: consumer._core.subscription.state(A).offset is not None)
            consumer.seek(A, 4)
        assert committed(cluster) == {A: 4}


async def test_a_consumer_that_assigns_itself_may_use_a_group() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        async with make(cluster) as consumer:
            consumer.assign([A])
            await take(consumer, 3)
            await consumer.commit()
            with pytest.raises(ClientError, match="takes either"):
                consumer.subscribe()
            assert consumer.group_metadata().member_id == ""
        assert committed(cluster) == {A: 3}
        async with make(cluster) as consumer:
            consumer.assign([A])
            assert (await consumer.getone()).offset == 3
            consumer.subscribe(["t"])
            with pytest.raises(ClientError, match="unsubscribe"):
                consumer.assign([A])


async def test_without_a_group() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, "t", group_id=None) as consumer:
            for call in (consumer.commit(), consumer.committed([A])):
                with pytest.raises(ClientError, match="group_id"):
                    await call
            with pytest.raises(ClientError, match="group_id"):
                consumer.subscribe(["t"])
        assert cluster.count(ApiKey.FIND_COORDINATOR) == 0
        with pytest.raises(ClosedError):
            await consumer.commit()


async def test_no_offset_and_no_policy() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        async with member(cluster, auto_offset_reset="none") as consumer:
            with pytest.raises(NoOffsetForPartitionError, match="t-0"):
                await take(consumer, 1)
            consumer.seek(A, 2)
            assert (await take(consumer, 1))[0].offset == 2


async def test_unsubscribe_and_subscribe_again() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 2)
        cluster.create_topic("u", 1)
        fill(cluster, 2, 0, 1)
        notes = Notes()
        async with make(cluster) as consumer:
            consumer.subscribe(["t"], listener=notes)
            await read(consumer, count=4)
            await consumer.unsubscribe()
            assert consumer.assignment() == []
            assert cluster.group().members == {}
            assert set(committed(cluster).values()) == {0}, "the list was still in hand"
            consumer.subscribe(["u"], listener=notes)
            await poll_until(consumer, until=consumer.assignment)
            consumer.subscribe(["u", "t"], listener=notes)
            await poll_until(consumer, until=lambda: len(consumer.assignment()) == 3)
        u = TopicPartition("u", 0)
        assert notes.heard == [
            ("assigned", [A, B]),
            ("revoked", [A, B]),
            ("assigned", [u]),
            ("assigned", [A, B]),
            ("revoked", [u, A, B]),
        ]


async def test_close_while_the_coordinator_is_gone_takes_bounded_time() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 2, 0)
        consumer = make(cluster, "t", max_poll_interval_ms=400)
        await consumer.start()
        await take(consumer, 2)
        cluster.coordinator.broker_id = None
        cluster.rule(ApiKey.OFFSET_COMMIT, Action.DROP_BEFORE, times=1000)
        async with asyncio.timeout(5):
            await consumer.close()


async def test_a_task_that_dies_is_heard_in_the_poll() -> None:
    class Broken:
        name, protocol = "broken", "cooperative"

        def subscription_user_data(self, *_: object) -> bytes:
            return b""

        def assign(self, *_: object) -> dict[str, object]:
            raise ZeroDivisionError("an assignor of one's own")

    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        async with member(cluster, partition_assignment_strategy=[Broken()]) as consumer:
            with pytest.raises(ClosedError) as caught:
                async for _ in consumer:
                    pass
            assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_the_history_of_a_member() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 1, 0, 1)
        history = ListHistory()
        async with member(cluster, history=history) as consumer:
            await read(consumer, count=2)
            member_id = consumer.group_metadata().member_id
            await consumer.commit()
    told = [event for event in history.events if event[0] != "ok"]
    who = ("g", member_id, 1)
    assert told[:5] == [
        ("moved", "t", 0, None, "subscribe"),
        ("moved", "t", 1, None, "subscribe"),
        ("assigned", *who, [A, B]),
        ("invoke", 1, "committed", *who, {A: None, B: None}),
        ("moved", "t", 0, 0, "found"),
    ]
    commits = [event for event in told if event[0] == "invoke" and event[2] == "commit"]
    assert [(event[3:6], event[6]) for event in commits] == [(who, {A: 1, B: 1})]
    assert told[-1] == ("revoked", *who, [A, B])
    assert ("ok", 1, [None, None], []) in history.events


async def test_a_close_that_is_cancelled_leaves_nothing_behind() -> None:
    class Stuck(RebalanceListener):
        async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            await asyncio.Event().wait()

    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        consumer = make(cluster)
        await consumer.start()
        consumer.subscribe(["t"], listener=Stuck())
        await poll_until(consumer, until=consumer.assignment)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await consumer.close()
        await eventually(lambda: cluster.brokers[1].connection_count == 0)
