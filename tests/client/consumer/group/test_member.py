"""A member joins, loses and leaves its coordinator, and much may go wrong on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import cast

import pytest

from oncelog import RebalanceListener, Record, TopicPartition
from oncelog.consumer.group import coordinator as coordinator_module
from oncelog.core.backoff import Backoff
from oncelog.errors import (
    CommitFailedError,
    DeadlineExceededError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    MaxPollIntervalExceededError,
)
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RebalanceInProgressError,
    RequestTimedOutError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
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


async def test_an_eager_member_gives_up_everything_before_it_joins() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 4)
        fill(cluster, 1, *range(4))
        notes = Notes()
        async with make(cluster, partition_assignment_strategy=("range",)) as first:
            first.subscribe(["t"], listener=notes)
            await read(first, count=4)
            async with member(cluster, partition_assignment_strategy=("range",)) as second:
                await poll_until(
                    first,
                    second,
                    until=lambda: len(first.assignment()) == 2 == len(second.assignment()),
                )
                assert first.assignment() == TPS[:2]
                assert committed(cluster) == dict.fromkeys(TPS[:4], 1)
        assert notes.heard[:3] == [
            ("assigned", TPS[:4]),
            ("revoked", TPS[:4]),
            ("assigned", TPS[:2]),
        ]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
async def test_every_strategy_shares_out_everything(strategy: str) -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 6)
        options = {"partition_assignment_strategy": strategy}
        async with member(cluster, **options) as one, member(cluster, **options) as two:
            await poll_until(
                one, two, until=lambda: sorted([*one.assignment(), *two.assignment()]) == TPS
            )


async def test_an_expelled_member_stops_at_once_and_joins_anew() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 5, 0, 1)
        notes, history = Notes(), ListHistory()
        async with make(cluster, history=history) as consumer:
            consumer.subscribe(["t"], listener=notes)
            records = consumer.__aiter__()
            await anext(records)
            before = consumer.group_metadata()
            cluster.group().expel(before.member_id)
            lost = ("lost", *before[:1], before.member_id, 1, [A, B])
            await eventually(lambda: lost in history.events)
            with pytest.raises(CommitFailedError):
                await consumer.commit()
            assert notes.heard[-1][0] == "assigned", "the callback waits for the poll"
            await anext(records)
            assert notes.heard == [("assigned", [A, B]), ("lost", [A, B]), ("assigned", [A, B])]
            assert consumer.group_metadata().member_id != before.member_id
            assert committed(cluster) == {}
            await cast(AsyncGenerator[Record, None], records).aclose()


async def test_a_commit_that_is_refused_is_how_it_finds_out() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        async with member(cluster, heartbeat_interval_ms=900) as consumer:
            await take(consumer, 2)
            cluster.group().expel(consumer.group_metadata().member_id)
            with pytest.raises(CommitFailedError, match="UNKNOWN_MEMBER_ID"):
                await consumer.commit()
            assert (await take(consumer, 1))[0].offset == 0
            assert consumer.group_metadata().generation_id == 2


async def test_the_coordinator_moves_and_nobody_rebalances(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with GroupCluster(3) as cluster:
        cluster.create_topic("t", 2)
        for topic in cluster.topics.values():
            for partition in topic:
                partition.leader = 3
        async with member(cluster, auto_commit_interval_ms=20) as consumer:
            await poll_until(consumer, until=consumer.assignment)
            assert [await consumer.position(tp) for tp in (A, B)] == [0, 0]
            with caplog.at_level(logging.INFO, "oncelog"):
                for broker_id in (2, 1):
                    cluster.coordinator.broker_id = None
                    await cluster.brokers[3 - broker_id].stop()
                    fill(cluster, 2, 0, 1)
                    await read(consumer, count=4)
                    cluster.coordinator.broker_id = broker_id
                    await cluster.brokers[3 - broker_id].start()
                    before = cluster.count(ApiKey.HEARTBEAT, broker_id)
                    await eventually(
                        lambda: cluster.count(ApiKey.HEARTBEAT, broker_id) > before  # noqa: B023
                    )
                await consumer.commit()
            assert set(committed(cluster).values()) == {4}
            assert consumer.group_metadata().generation_id == 1
            assert len([r for r in caplog.records if "does not coordinate" in r.message]) <= 4
        assert cluster.group().reasons[2:] == []


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
@pytest.mark.parametrize(
    "error",
    [
        NotCoordinatorError,
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        RequestTimedOutError,
        RebalanceInProgressError,
    ],
)
async def test_errors_that_pass(api: ApiKey, error: type) -> None:
    async with GroupCluster(2) as cluster:
        cluster.create_topic("t")
        fill(cluster, 1, 0)
        rule = cluster.rule(api, Action.ERROR, error=error, times=3)
        async with member(cluster) as consumer:
            assert (await take(consumer, 1))[0].offset == 0
            waiting = asyncio.ensure_future(consumer.getone())
            await eventually(lambda: rule.met == 3)
            fill(cluster, 1, 0)
            record = await asyncio.wait_for(waiting, 5)
            assert record.offset in (0, 1)


class CountedBackoff(Backoff):
    """It remembers its pauses."""

    def __init__(self, first_s: float, max_s: float, entropy: SeededEntropy) -> None:
        super().__init__(first_s, max_s, entropy)
        self.pauses: list[float] = []

    def next_s(self) -> float:
        """See Backoff."""
        self.pauses.append(super().next_s())
        return self.pauses[-1]


async def test_pauses_grow_while_joins_succeed_and_syncs_do_not() -> None:
    """A coordinator whose partition is below min.insync.replicas lets members join, and cannot
    write what they decide: seen as hundreds of rounds a second in a simulated cluster."""
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1, 0)
        cluster.rule(ApiKey.SYNC_GROUP, Action.ERROR, error=CoordinatorNotAvailableError, times=10)
        async with member(cluster) as consumer:
            assert consumer._core.group is not None
            own = consumer._core.group._member
            assert own is not None
            pace = own._pace = CountedBackoff(0.005, 1.0, SeededEntropy(1))
            await take(consumer, 1)
            assert len(pace.pauses) == 10
            assert pace.pauses[-1] > 3 * pace.pauses[0]


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
@pytest.mark.parametrize("action", [Action.DROP_BEFORE, Action.DROP_AFTER])
async def test_connections_that_break(api: ApiKey, action: Action) -> None:
    async with GroupCluster(2) as cluster:
        cluster.create_topic("t")
        fill(cluster, 1, 0)
        rule = cluster.rule(api, action, times=2)
        async with member(cluster) as consumer:
            await take(consumer, 1)
            await eventually(lambda: rule.met == 2)


async def test_a_slow_application_is_warned_then_told(caplog: pytest.LogCaptureFixture) -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        notes = Notes()
        async with make(cluster, max_poll_interval_ms=300) as consumer:
            consumer.subscribe(["t"], listener=notes)
            records = consumer.__aiter__()
            assert (await anext(records)).offset == 0
            with caplog.at_level(logging.WARNING, "oncelog"):
                await eventually(lambda: not cluster.group().members)
            messages = [record.message for record in caplog.records]
            assert len([text for text in messages if "will leave" in text]) == 1
            with pytest.raises(MaxPollIntervalExceededError, match="300 ms"):
                await anext(records)
            assert notes.heard == [("assigned", [A]), ("lost", [A])]
            assert consumer.assignment() == []
            assert (await take(consumer, 1))[0].offset == 0, "nothing was committed"


async def test_an_application_that_reads_slowly_but_steadily_stays() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 20, 0)
        async with member(cluster, max_poll_interval_ms=300) as consumer:
            async for record in consumer:
                if record.offset == 12:
                    break
                await asyncio.sleep(0.05)
            assert consumer.group_metadata().generation_id == 1
            await consumer.getmany(timeout_ms=10)
            assert await consumer.getmany(timeout_ms=500) == {}, "waiting is being inside"
            assert consumer.group_metadata().generation_id == 1


async def test_static_members_come_back_under_their_name() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 3, 0)
        options = {"group_instance_id": "one"}
        async with member(cluster, **options) as consumer:
            await take(consumer, 2)
        assert len(cluster.group().members) == 1, "it did not leave"
        assert cluster.count(ApiKey.LEAVE_GROUP) == 0
        async with member(cluster, **options) as consumer:
            assert (await take(consumer, 1))[0].offset == 1
            async with member(cluster, **options) as rival:
                for _ in range(2):
                    with pytest.raises(FencedInstanceIdError):
                        await take(consumer, 3)
                assert consumer.assignment() == []
                assert (await take(rival, 1))[0].offset == 1


@pytest.mark.parametrize("error", [GroupMaxSizeReachedError, InconsistentGroupProtocolError])
async def test_a_refusal_is_told_and_tried_again(error: type[Exception]) -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1, 0)
        cluster.rule(ApiKey.JOIN_GROUP, Action.ERROR, error=error)
        async with member(cluster) as consumer:
            with pytest.raises(error):
                await take(consumer, 1)
            assert len(await take(consumer, 1)) == 1


async def test_a_member_that_cannot_join_says_so() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        cluster.coordinator.broker_id = None
        async with member(cluster, max_block_ms=200) as consumer:
            with pytest.raises(DeadlineExceededError, match="could not join"):
                await asyncio.wait_for(consumer.getone(), 5)
            cluster.coordinator.broker_id = 1
            fill(cluster, 1, 0)
            assert len(await take(consumer, 1)) == 1


async def test_a_join_is_not_left_with_a_silent_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_module, "WATCH_S", 0.05)
    async with GroupCluster(2) as cluster:
        cluster.create_topic("t")
        rule = cluster.rule(ApiKey.JOIN_GROUP, Action.HOLD, broker=1, times=9)
        async with member(cluster) as consumer:
            await eventually(lambda: rule.met)
            cluster.coordinator.broker_id = 2
            await poll_until(consumer, until=consumer.assignment)


async def test_the_leader_watches_partitions_also_of_topics_that_only_others_read() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        cluster.create_topic("u")
        fast = {"metadata_max_age_ms": 50}
        async with member(cluster, "t", **fast) as leader:
            await poll_until(leader, until=leader.assignment)
            async with member(cluster, "u", **fast) as other:
                await poll_until(leader, other, until=other.assignment)
                old = cluster.topics["u"]
                cluster.create_topic("u", 3)[:1] = old
                await poll_until(leader, other, until=lambda: len(other.assignment()) == 3)
        assert any(r and r.startswith("partitions added: u") for r in cluster.group().reasons)


async def test_a_pattern_finds_topics_that_come_later() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("logs-a")
        cluster.create_topic("other-logs-a")
        async with make(cluster, metadata_max_age_ms=50) as consumer:
            consumer.subscribe(pattern="logs-.*")
            await poll_until(consumer, until=consumer.assignment)
            assert consumer.assignment() == [TopicPartition("logs-a", 0)]
            cluster.create_topic("logs-b", 2)
            await poll_until(consumer, until=lambda: len(consumer.assignment()) == 3)
            cluster.topics.pop("logs-a")
            await poll_until(consumer, until=lambda: len(consumer.assignment()) == 2)


async def test_a_listener_that_fails_is_heard_and_the_change_goes_through() -> None:
    class Failing(Notes):
        async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            raise ZeroDivisionError

    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1, 0)
        async with make(cluster) as consumer:
            consumer.subscribe(["t"], listener=Failing())
            with pytest.raises(ZeroDivisionError):
                await take(consumer, 1)
            assert len(await take(consumer, 1)) == 1


async def test_a_poll_whose_time_is_up_leaves_the_handover_to_the_next() -> None:
    release = asyncio.Event()

    class Slow(Notes):
        async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            await release.wait()
            await super().on_assigned(partitions)

    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 3, 0)
        notes = Slow()
        async with make(cluster) as consumer:
            consumer.subscribe(["t"], listener=notes)
            await poll_until(consumer, until=consumer.assignment)
            assert await consumer.getmany(timeout_ms=50) == {}, "not before it has been told"
            assert notes.heard == []
            release.set()
            assert len((await read(consumer, count=3))[consumer]) == 3
            assert notes.heard == [("assigned", [A])]


async def test_a_listener_may_seek_and_commit() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 5, 0, 1)
        consumer = make(cluster, enable_auto_commit=False)

        class Own(RebalanceListener):
            async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                for tp in partitions:
                    consumer.seek(tp, 3)

            async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
                raise AssertionError("nothing was lost")

            async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                await consumer.commit(dict.fromkeys(partitions, 4))

        async with consumer:
            consumer.subscribe(["t"], listener=Own())
            found = (await read(consumer, count=4))[consumer]
            assert {record.offset for record in found} == {3, 4}
        assert committed(cluster) == {A: 4, B: 4}, "also while it closes"


async def test_a_member_that_waits_for_its_application_is_idle() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 2, 0)
        async with member(cluster) as consumer:
            await take(consumer, 1)
            assert consumer._core.group is not None
            own = consumer._core.group._member
            assert own is not None
            cluster.group().expel(own.state.member_id)
            await eventually(lambda: not own.state.is_member)
            looked = 0
            check = own._check_polls

            def count() -> float:
                nonlocal looked
                looked += 1
                return check()

            own._check_polls = count  # type: ignore[method-assign]
            await asyncio.sleep(0.2)
            assert looked < 40, "one look a heartbeat"
