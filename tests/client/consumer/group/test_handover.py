"""These tests go through what the application sees when partitions go and come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog import Consumer, GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.consumer.boundary import Boundary
from oncelog.consumer.group.handover import HandingOver
from oncelog.consumer.group.membership import Handover
from oncelog.errors import CommitFailedError
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster
from support.group_members import Notes
from support.histories import ListHistory

A, B, C = (TopicPartition("t", number) for number in range(3))
WHO = GroupMetadata("g", 4, "m")


class Committed:
    """It keeps commits where the test can see them."""

    def __init__(self) -> None:
        self.known: dict[TopicPartition, OffsetAndMetadata | None] = {}
        self.sent: list[dict[TopicPartition, int]] = []
        self.error: Exception | None = None

    async def commit(self, offsets: Any, deadline: float) -> None:
        wanted = dict(offsets() if callable(offsets) else offsets)
        if self.error is not None:
            raise self.error
        self.known |= wanted
        self.sent.append({tp: item.offset for tp, item in wanted.items()})

    def forget(self, tp: TopicPartition) -> None:
        self.known.pop(tp, None)


class RunWork:
    """A run is this, as far as a handover has to do with it."""

    def __init__(
        self,
        end: Callable[[list[TopicPartition]], Awaitable[None]] | None = None,
        done: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
    ) -> None:
        self._end = end
        self._done = done

    def done_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._done or {}

    async def taking_away(self, partitions: Sequence[TopicPartition]) -> None:
        if self._end is not None:
            await self._end(list(partitions))


class World:
    """A consumer assigns itself, and what it had of another is handed over."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.commits = Committed()
        self.history = ListHistory()
        self.notes = Notes()
        self.boundary = Boundary()
        self.handing = HandingOver(
            consumer._core.subscription,
            consumer._core.reader,
            self.commits,  # type: ignore[arg-type]
            self.boundary,
            auto_commit=True,
            commit_within_s=5,
            wake=lambda: None,
            history=self.history,
        )
        self.handing.listen(self.notes)
        self.who = WHO

    async def go(self, handover: Handover) -> Exception | None:
        return await self.handing.go_through(handover, lambda: self.who)

    async def read_all(self, count: int) -> None:
        while count:
            count -= sum(map(len, (await self.consumer.getmany(timeout_ms=1000)).values()))
        await self.consumer.getmany()


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Two partitions of three are assigned, with five records each."""
    async with FakeCluster() as cluster:
        for partition in cluster.create_topic("t", 3):
            partition.append(encode_batch([b"v"] * 5, timestamps=[0] * 5))
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1)}
        async with Consumer(bootstrap_servers=cluster.bootstrap, **options) as consumer:
            consumer.assign([A, B])
            yield World(consumer)


async def test_what_goes_is_committed_then_told_then_given_up() -> None:
    async with world() as it:
        await it.read_all(10)
        order: list[str] = []

        async def end_work(partitions: list[TopicPartition]) -> None:
            assert partitions == [A]
            assert it.consumer._core.subscription.state(A).withheld
            order.append("work")

        done = {A: OffsetAndMetadata(5), B: OffsetAndMetadata(5)}
        it.boundary.begin_work(RunWork(end_work, done))
        on_revoked = it.notes.on_revoked

        def listen(partitions: Sequence[TopicPartition]) -> None:
            order.append(f"told after {len(it.commits.sent)} commits")
            on_revoked(partitions)

        it.notes.on_revoked = listen  # type: ignore[method-assign]
        assert await it.go(Handover((A,))) is None
        assert order == ["work", "told after 1 commits"]
        assert it.commits.sent == [{A: 5, B: 5}]
        assert it.consumer.assignment() == [B]
        assert it.history.events == [("revoked", *WHO[:1], "m", 4, [A])]
        assert list(it.commits.known) == [B]


async def test_what_comes_is_told_before_the_first_record() -> None:
    async with world() as it:
        told = asyncio.Event()

        async def listen(partitions: Sequence[TopicPartition]) -> None:
            assert it.consumer._core.subscription.state(C).withheld
            it.consumer.seek(C, 3)
            await told.wait()

        it.notes.on_assigned = listen  # type: ignore[method-assign]
        going = asyncio.ensure_future(it.go(Handover(added=(C,))))
        await it.read_all(10)
        assert not going.done()
        told.set()
        await going
        assert [record.offset for record in (await it.consumer.getmany(timeout_ms=999))[C]] == [
            3,
            4,
        ]
        assert it.history.events == [
            ("moved", "t", 2, None, "subscribe"),
            ("assigned", "g", "m", 4, [C]),
        ]


async def test_what_is_lost_is_neither_committed_nor_handed_out() -> None:
    async with world() as it:
        await it.consumer.getone()
        it.handing.lost([A, B], WHO)
        it.handing.lost([A, B], WHO)
        assert await it.consumer.getmany(timeout_ms=20) == {}
        assert it.handing.finished() == {}
        await it.handing.commit_finished(0)
        assert it.notes.heard == []
        await it.go(Handover((A, B), lost=True))
        assert it.notes.heard == [("lost", [A, B])]
        assert it.consumer.assignment() == []
        assert it.commits.sent in ([], [{}])
        assert it.history.events == [("lost", "g", "m", 4, [A, B])], "noted once"


async def test_lost_while_it_is_given_up() -> None:
    async with world() as it:
        await it.read_all(10)

        async def end_work(partitions: list[TopicPartition]) -> None:
            it.who = GroupMetadata("g")
            it.handing.lost([A, B], WHO)

        it.boundary.begin_work(RunWork(end_work))
        await it.go(Handover((A,), added=(C,)))
        assert it.history.events == [("lost", "g", "m", 4, [A, B])]
        assert it.commits.sent in ([], [{}])
        assert it.consumer.assignment() == [B], "nothing comes to a member that is none"


@pytest.mark.parametrize("error", [CommitFailedError("gone"), TimeoutError("late")])
async def test_a_commit_that_fails_does_not_hold_up_the_group(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as it:
        await it.read_all(10)
        it.commits.error = error
        assert await it.go(Handover((A, B))) is None
        assert it.consumer.assignment() == []
        assert "will be read again" in caplog.text


async def test_a_listener_that_fails_is_returned() -> None:
    async with world() as it:

        def fail(partitions: Sequence[TopicPartition]) -> None:
            raise ZeroDivisionError

        it.notes.on_revoked = fail  # type: ignore[method-assign]
        assert isinstance(await it.go(Handover((A,), added=(C,))), ZeroDivisionError)
        assert it.consumer.assignment() == [B, C]
        assert not it.consumer._core.subscription.state(C).withheld


async def test_auto_commit_takes_nothing_back_but_follows_a_seek() -> None:
    async with world() as it:
        records = [await it.consumer.getone() for _ in range(3)]
        tp = TopicPartition(*records[0][:2])
        assert it.handing.finished()[tp].offset == 2
        it.commits.known[tp] = OffsetAndMetadata(3)
        assert tp not in it.handing.finished(), "the application committed what it holds"
        it.commits.known[tp] = OffsetAndMetadata(2)
        assert tp not in it.handing.finished()
        it.commits.known[tp] = OffsetAndMetadata(1)
        assert it.handing.finished()[tp].offset == 2
        it.commits.known[tp] = OffsetAndMetadata(3)
        it.consumer.seek(tp, 0)
        assert it.handing.finished()[tp].offset == 0


async def test_another_source_of_what_is_done() -> None:
    async with world() as it:
        await it.read_all(10)
        done = {A: OffsetAndMetadata(2), C: OffsetAndMetadata(9)}
        it.boundary.begin_work(RunWork(done=done))
        assert it.handing.finished() == {A: OffsetAndMetadata(2)}, "C is not assigned"
        assert it.handing.reached() == done
