"""Markers reach every partition of a transaction, however long it takes, and once it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from oncelog_broker.coordinator.ports import MarkerOrder, ProducerMarker
from oncelog_broker.transactions import marker_sender
from oncelog_broker.transactions.marker_sender import MarkerSender
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    CoordinatorLoadInProgressError,
    InvalidProducerEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OncelogError,
    RequestTimedOutError,
    StorageError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import (
    MarkerPartitionResult,
    MarkerResult,
    MarkerTopicResult,
    TxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks
from support.fake_transactions import FakeCalls, image_of, tell
from support.waiting import eventually


def where(*numbers: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def order(*markers: ProducerMarker, name: str = "a", epoch: int = 4) -> MarkerOrder:
    return MarkerOrder(name, epoch, list(markers))


def commit(*partitions: int, pid: int = 7) -> ProducerMarker:
    return ProducerMarker(pid, 3, True, where(*partitions))


class World:
    """The sender is that of broker 1; partition n of topic t is led by broker n + 1."""

    def __init__(self) -> None:
        self.image = image_of({"t": [1, 2, 3, 2, 3]})
        self.codes: dict[TopicPartition, int | list[int]] = {}
        self.error: dict[int, Any] = {}
        self.written: list[tuple[int, TopicPartition, TxnMarker]] = []
        """By which broker, where, what; in order."""
        self.calls = FakeCalls(self._remote)
        self.tasks = Tasks("test")
        self.done: list[str] = []
        self.deleted: list[bool | Exception] = [True]
        """What the store says of a partition that broker 1 does not know; the last for ever."""
        self.asked_store: list[TopicPartition] = []
        self.sender = MarkerSender(
            broker_id=1,
            image=self.image,
            calls=self.calls,
            writer=cast(MarkerWriter, self),
            tasks=self.tasks,
            is_deleted=self._is_deleted,
        )

    async def _is_deleted(self, topic_partition: TopicPartition) -> bool:
        self.asked_store.append(topic_partition)
        said = self.deleted.pop(0) if len(self.deleted) > 1 else self.deleted[0]
        if isinstance(said, Exception):
            raise said
        return said

    def send(self, given: MarkerOrder) -> Callable[[], None]:
        before = len(self.done)
        cancel = self.sender.send(given, lambda: self.done.append(given.transactional_id))
        assert len(self.done) == before, "never within send"
        return cancel

    def write(
        self, markers: Sequence[TxnMarker], respond: Callable[[list[MarkerResult]], None]
    ) -> None:
        """Write as the marker writer of broker 1."""
        respond(self._results(1, markers))

    def _remote(self, broker_id: int, request: WriteTxnMarkersRequest) -> Any:
        error = self.error.get(broker_id)
        if error is not None:
            return error
        return WriteTxnMarkersResponse(0, self._results(broker_id, request.markers))

    def _results(self, broker_id: int, markers: Sequence[TxnMarker]) -> list[MarkerResult]:
        results = []
        for marker in markers:
            topics = []
            for topic in marker.topics:
                answers = []
                for number in topic.partitions:
                    tp = TopicPartition(topic.topic, number)
                    self.written.append((broker_id, tp, marker))
                    answers.append(MarkerPartitionResult(number, self._code(tp)))
                topics.append(MarkerTopicResult(topic.topic, answers))
            results.append(MarkerResult(marker.producer_id, topics))
        return results

    def _code(self, tp: TopicPartition) -> int:
        code = self.codes.get(tp, 0)
        if isinstance(code, int):
            return code
        return code.pop(0) if len(code) > 1 else code[0]

    def attempts(self, number: int) -> list[int]:
        """Return which brokers were told of partition ``number``."""
        return [broker for broker, tp, _ in self.written if tp.partition == number]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.sender.close()
    await made.tasks.close()


async def test_every_leader_is_told_and_then_it_is_done() -> None:
    async with world() as w:
        w.send(order(commit(0, 1, 2), ProducerMarker(8, 1, False, where(1, 3))))
        await eventually(lambda: w.done)
        assert w.done == ["a"]
        told = sorted((broker, tp.partition, m.producer_id) for broker, tp, m in w.written)
        assert told == [(1, 0, 7), (2, 1, 7), (2, 1, 8), (2, 3, 8), (3, 2, 7)]
        for _, _, marker in w.written:
            assert marker.coordinator_epoch == 4
            expected = (3, True) if marker.producer_id == 7 else (1, False)
            assert (marker.producer_epoch, marker.commit) == expected
        assert [broker for broker, _, _ in w.calls.asked] == [2, 3], "one request a broker"


async def test_an_order_without_markers_is_done() -> None:
    async with world() as w:
        w.send(order())
        await eventually(lambda: w.done == ["a"])


async def test_orders_of_many_transactions_travel_together() -> None:
    async with world() as w:
        for number in range(20):
            w.send(order(commit(1, pid=number), name=f"n-{number}"))
        await eventually(lambda: len(w.done) == 20)
        assert len(w.calls.asked) == 1
        w.calls.gate.clear()
        w.send(order(commit(1), name="first"))
        await eventually(lambda: w.calls.under_way == 1)
        for number in range(20):
            w.send(order(commit(1, pid=number), name=f"m-{number}"))
        w.calls.gate.set()
        await eventually(lambda: len(w.done) == 41)
        assert len(w.calls.asked) == 3


async def test_the_same_producer_in_two_orders_keeps_them_apart() -> None:
    async with world() as w:
        w.codes[TopicPartition("t", 1)] = [StorageError.code, 0]
        w.send(order(commit(1), name="a"))
        w.send(order(commit(1), name="b"))
        await eventually(lambda: sorted(w.done) == ["a", "b"])


@pytest.mark.parametrize(
    "code",
    [
        UnknownTopicOrPartitionError.code,
        NotLeaderOrFollowerError.code,
        NotEnoughReplicasError.code,
        RequestTimedOutError.code,
        StorageError.code,
        CoordinatorLoadInProgressError.code,
    ],
)
async def test_one_that_is_refused_is_tried_again_alone(code: int) -> None:
    async with world() as w:
        w.codes[TopicPartition("t", 1)] = [code, code, 0]
        w.send(order(commit(0, 1, 2, 3)))
        await eventually(lambda: w.done)
        assert w.attempts(1) == [2, 2, 2]
        assert [len(w.attempts(n)) for n in (0, 2, 3)] == [1, 1, 1]
        assert w.done == ["a"]


async def test_what_is_tried_again_does_not_hold_up_the_others() -> None:
    async with world() as w:
        w.codes[TopicPartition("t", 1)] = NotEnoughReplicasError.code
        w.send(order(commit(1), name="stuck"))
        await eventually(lambda: len(w.attempts(1)) == 2)
        lanes = [lane for _, lane, _ in w.calls.asked]
        assert lanes == [marker_sender.FIRST_LANE, marker_sender.NEXT_LANE]
        w.send(order(commit(3), name="free"))
        await eventually(lambda: w.done)
        assert w.done == ["free"]
        assert w.calls.asked[-1][1] == marker_sender.FIRST_LANE


async def test_a_newer_transaction_there_means_that_this_one_has_ended() -> None:
    async with world() as w:
        w.codes[TopicPartition("t", 1)] = InvalidProducerEpochError.code
        w.send(order(commit(0, 1)))
        await eventually(lambda: w.done)
        assert w.attempts(1) == [2]


async def test_another_coordinator_ends_it_so_this_one_never_does() -> None:
    async with world() as w:
        w.codes[TopicPartition("t", 1)] = TransactionCoordinatorFencedError.code
        w.send(order(commit(0, 1), name="fenced"))
        w.send(order(commit(3), name="other"))
        await eventually(lambda: w.done)
        await asyncio.sleep(2 * marker_sender.PAUSE_S)
        assert w.done == ["other"]
        assert w.attempts(1) == [2]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        WriteTxnMarkersResponse(BrokerNotAvailableError.code),
        WriteTxnMarkersResponse(0, []),
        WriteTxnMarkersResponse(0, [MarkerResult(99)]),
    ],
)
async def test_no_answer_is_none(error: Any) -> None:
    async with world() as w:
        w.error[2] = error
        w.send(order(commit(0, 1)))
        await eventually(lambda: len(w.calls.asked) >= 2)
        assert not w.done
        del w.error[2]
        await eventually(lambda: w.done)


async def test_the_leader_moves() -> None:
    async with world() as w:
        w.error[2] = ConnectionRefusedError()
        w.send(order(commit(1)))
        await eventually(lambda: w.calls.asked)
        tell(w.image, {"t": [1, 3, 3, 3, 3]})
        await eventually(lambda: w.done)
        assert w.attempts(1) == [3]


@pytest.mark.parametrize("how", ["no leader", "not alive", "no metadata yet"])
async def test_nobody_leads_for_a_while(how: str) -> None:
    async with world() as w:
        if how == "no leader":
            tell(w.image, {"t": [1, -1]})
        elif how == "not alive":
            tell(w.image, {"t": [1, 2]}, brokers=[1])
        else:
            w.image.updated = False
            w.image.topics = {}
            w.deleted = [False]
        w.send(order(commit(1)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert (w.done, w.written) == ([], [])
        tell(w.image, {"t": [1, 2]})
        await eventually(lambda: w.done)
        assert w.attempts(1) == [2]


async def test_a_topic_that_is_no_more_needs_no_marker() -> None:
    async with world() as w:
        w.error[2] = ConnectionRefusedError()
        w.send(order(commit(0, 1)))
        await eventually(lambda: w.calls.asked)
        tell(w.image, {"u": [1]})
        await eventually(lambda: w.done)
        w.send(order(commit(0, 1), name="b"))
        await eventually(lambda: w.done == ["a", "b"])


async def test_a_topic_that_was_not_heard_of_yet_gets_its_marker() -> None:
    async with world() as w:
        w.deleted = [False]
        tell(w.image, {"u": [1]})
        w.send(order(commit(0, 1)))
        await eventually(lambda: len(w.asked_store) == 2)
        assert not w.done
        tell(w.image, {"t": [1, 2], "u": [1]})
        await eventually(lambda: w.done)
        assert (w.attempts(0), w.attempts(1)) == ([1], [2])


@pytest.mark.parametrize("silence", [ConnectionError(), TimeoutError(), OncelogError("away")])
async def test_while_the_store_says_nothing_no_marker_is_given_up(
    silence: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_sender, "ASK_DELETED_S", 0.01)
    async with world() as w:
        w.deleted = [silence, False, silence, True]
        tell(w.image, {"u": [1]})
        w.send(order(commit(1)))
        await eventually(lambda: len(w.asked_store) == 3)
        assert not w.done
        await eventually(lambda: w.done)
        assert w.asked_store == where(1) * 4


async def test_a_topic_that_is_made_again_while_the_store_is_asked_gets_the_marker() -> None:
    async with world() as w:
        gate = asyncio.Event()

        async def late(topic_partition: TopicPartition) -> bool:
            await gate.wait()
            return True

        w.sender = MarkerSender(
            broker_id=1,
            image=w.image,
            calls=w.calls,
            writer=cast(MarkerWriter, w),
            tasks=w.tasks,
            is_deleted=late,
        )
        tell(w.image, {"u": [1]})
        w.send(order(commit(1)))
        await asyncio.sleep(0)
        tell(w.image, {"t": [1, 2], "u": [1]})
        gate.set()
        await eventually(lambda: w.done)
        assert w.attempts(1) == [2]


async def test_who_is_not_waited_for_any_more_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marker_sender, "ASK_DELETED_S", 0.01)
    async with world() as w:
        w.deleted = [False]
        tell(w.image, {"u": [1]})
        cancel = w.send(order(commit(1)))
        await eventually(lambda: w.asked_store)
        cancel()
        await eventually(lambda: not len(w.tasks))
        assert not w.done


async def test_what_is_cancelled_does_nothing_more() -> None:
    async with world() as w:
        w.codes[TopicPartition("t", 1)] = NotEnoughReplicasError.code
        w.calls.gate.clear()
        cancel = w.send(order(commit(1), name="under way"))
        await eventually(lambda: w.calls.under_way == 1)
        cancel()
        w.send(order(commit(3), name="queued"))()
        w.calls.gate.set()
        w.send(order(commit(3), name="kept"))
        await eventually(lambda: w.done)
        await asyncio.sleep(2 * marker_sender.PAUSE_S)
        assert w.done == ["kept"]
        assert (w.attempts(1), w.attempts(3)) == ([2], [2])
        tell(w.image, {"t": [-1, -1]})
        w.send(order(commit(1), name="homeless"))()
        tell(w.image, {"t": [1, 2]})
        await asyncio.sleep(0)
        assert w.done == ["kept"]


async def test_nothing_is_sent_once_it_is_closed() -> None:
    async with world() as w:
        w.error[2] = ConnectionRefusedError()
        w.send(order(commit(1)))
        await eventually(lambda: w.calls.asked)
        await eventually(lambda: w.calls.under_way == 0)
        made = World()
        made.sender.close()
        made.send(order(commit(0, 1)))
        await asyncio.sleep(0)
        assert made.written == []
        await made.tasks.close()
