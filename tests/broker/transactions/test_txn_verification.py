"""Leaders ask the coordinator: whom, in one request when they can, again while it may help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.transactions import txn_verification
from oncelog_broker.transactions.txn_verification import TransactionVerifier
from oncelog_protocol.coordinators import TRANSACTION_TOPIC
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    NotCoordinatorError,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import (
    AddPartitionsResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks
from support.fake_transactions import FakeCalls, FakeTransactions, image_of, tell
from support.waiting import eventually

TP = TopicPartition("t", 0)


class World:
    """It has one verifier of broker 1. ``codes``: what the others say, by transactional id."""

    def __init__(self, leader: int = 2) -> None:
        self.image = image_of({TRANSACTION_TOPIC: [leader], "t": [1, 1, 1]})
        self.codes: dict[str, int | list[int]] = {}
        self.number = 0
        self.error: Exception | None = None
        self.calls = FakeCalls(self._answer)
        self.local = FakeTransactions()
        self.tasks = Tasks("test")
        self.given: dict[Any, int] = {}
        self.verifier = TransactionVerifier(
            broker_id=1,
            image=self.image,
            topics=Topics(self.image),
            calls=self.calls,
            transactions=self.local,
            tasks=self.tasks,
        )

    def _answer(self, broker_id: int, request: AddPartitionsToTxnRequest) -> Any:
        if self.error is not None:
            return self.error
        return AddPartitionsToTxnResponse(
            0,
            [
                AddPartitionsResult(
                    each.transactional_id, self._code(each.transactional_id), number=self.number
                )
                for each in request.transactions
            ],
        )

    def _code(self, transactional_id: str) -> int:
        code = self.codes.get(transactional_id, 0)
        if isinstance(code, int):
            return code
        return code.pop(0) if len(code) > 1 else code[0]

    def verify(self, name: str = "a", pid: int = 7, epoch: int = 3, partition: int = 0) -> None:
        key = name, pid, epoch, partition

        def answer(code: int) -> None:
            assert key not in self.given, "answered twice"
            self.given[key] = code

        self.verifier.verify(name, pid, epoch, TopicPartition("t", partition), answer)

    def verify_number(self, name: str = "a", partition: int = 0) -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []
        self.verifier.verify_number(
            name, 7, 3, TopicPartition("t", partition), lambda *answer: told.append(answer)
        )
        return told

    @property
    def requests(self) -> list[AddPartitionsToTxnRequest]:
        return [request for _, _, request in self.calls.asked]


class Topics:
    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def partition_count(self, topic: str) -> int | None:
        known = self._image.topics.get(topic)
        return None if known is None else len(known.partitions)


@asynccontextmanager
async def world(leader: int = 2) -> AsyncIterator[World]:
    made = World(leader)
    yield made
    made.verifier.close()
    await made.tasks.close()


async def test_this_broker_is_not_asked_for_a_topic_that_it_has_yet_to_hear_of() -> None:
    """It would not know later whether the topic is new or gone."""
    async with world(leader=1) as w:
        w.verify(partition=3)
        assert (w.given, w.local.asked) == ({}, [])
        tell(w.image, {TRANSACTION_TOPIC: [1], "t": [1, 1, 1, 1]})
        await eventually(lambda: w.given == {("a", 7, 3, 3): 0})
        (added,) = w.local.asked
        assert added.topics[0].partitions == [3]


async def test_this_broker_is_asked_without_a_socket() -> None:
    async with world(leader=1) as w:
        w.verify()
        assert w.given == {("a", 7, 3, 0): 0}
        (added,) = w.local.asked
        assert (added.transactional_id, added.producer_id, added.producer_epoch) == ("a", 7, 3)
        assert (added.topics[0].topic, added.topics[0].partitions) == ("t", [0])
        assert not added.verify_only
        assert not w.calls.asked


@pytest.mark.parametrize("leader", [1, 2])
async def test_a_transaction_that_ends_by_number_is_asked_for_and_not_added_to(
    leader: int,
) -> None:
    async with world(leader) as w:
        w.local.number = w.number = 5
        told = w.verify_number()
        await eventually(lambda: told == [(0, 5)])
        asked = w.local.asked if leader == 1 else w.requests[0].transactions
        assert [added.verify_only for added in asked] == [True]


async def test_a_transaction_that_raises_its_epoch_is_none_that_ends_by_number() -> None:
    async with world() as w:
        told = w.verify_number()
        await eventually(lambda: told == [(InvalidTxnStateError.code, 0)])
        w.codes["a"] = TransactionAbortableError.code
        w.number = 5
        told = w.verify_number()
        await eventually(lambda: told == [(TransactionAbortableError.code, 0)])


async def test_adding_and_asking_are_not_merged() -> None:
    async with world() as w:
        w.number = 5
        w.calls.gate.clear()
        w.verify(partition=0)
        told = w.verify_number(partition=1)
        w.calls.gate.set()
        await eventually(lambda: told == [(0, 5)] and len(w.given) == 1)
        asked = [each for request in w.requests for each in request.transactions]
        assert [each.verify_only for each in asked] == [False, True]


async def test_another_broker_is_asked_for_many_at_once() -> None:
    async with world() as w:
        w.verify("a", 7, partition=0)
        w.verify("a", 7, partition=1)
        w.verify("b", 8)
        await eventually(lambda: len(w.given) == 3)
        assert set(w.given.values()) == {0}
        ((broker, _, request),) = w.calls.asked
        assert broker == 2
        assert [t.transactional_id for t in request.transactions] == ["a", "b"]
        assert [t.partitions for t in request.transactions[0].topics] == [[0], [1]]


async def test_what_comes_while_all_lanes_are_busy_leaves_together() -> None:
    async with world() as w:
        w.calls.gate.clear()
        for number in range(txn_verification.LANES):
            w.verify(f"first-{number}")
            await eventually(lambda: w.calls.under_way == number + 1)  # noqa: B023
        for number in range(10):
            w.verify(f"then-{number}")
        await asyncio.sleep(0)
        assert w.calls.under_way == txn_verification.LANES
        assert sorted(lane for _, lane, _ in w.calls.asked) == list(range(txn_verification.LANES))
        w.calls.gate.set()
        await eventually(lambda: len(w.given) == 10 + txn_verification.LANES)
        assert len(w.requests[-1].transactions) == 10


@pytest.mark.parametrize(
    "code",
    [
        ProducerFencedError.code,
        TransactionAbortableError.code,
        InvalidProducerIdMappingError.code,
    ],
)
async def test_a_verdict_is_passed_on(code: int) -> None:
    for leader in (1, 2):
        async with world(leader) as w:
            w.codes["a"] = w.local.codes[0] = code
            w.verify()
            await eventually(lambda: w.given)
            assert w.given == {("a", 7, 3, 0): code}
            assert len(w.calls.asked) + len(w.local.asked) == 1


@pytest.mark.parametrize(
    "code",
    [
        NotCoordinatorError.code,
        CoordinatorLoadInProgressError.code,
        CoordinatorNotAvailableError.code,
        ConcurrentTransactionsError.code,
        RequestTimedOutError.code,
        UnknownTopicOrPartitionError.code,
    ],
)
async def test_what_is_no_verdict_is_asked_again(code: int) -> None:
    for leader in (1, 2):
        async with world(leader) as w:
            w.codes["a"] = w.local.codes = [code, code, 0]
            w.verify("a")
            w.verify("b", 8)
            await eventually(lambda: len(w.given) == 2)
            assert set(w.given.values()) == {0}


async def test_a_broken_connection_is_no_verdict() -> None:
    async with world() as w:
        w.error = ConnectionRefusedError()
        w.verify()
        await eventually(lambda: len(w.calls.asked) >= 2)
        w.error = None
        await eventually(lambda: w.given)
        assert w.given == {("a", 7, 3, 0): 0}


async def test_the_coordinator_moves_meanwhile() -> None:
    async with world() as w:
        w.codes["a"] = NotCoordinatorError.code
        w.verify()
        await eventually(lambda: w.calls.asked)
        tell(w.image, {TRANSACTION_TOPIC: [1], "t": [1]})
        await eventually(lambda: w.given)
        assert w.given == {("a", 7, 3, 0): 0}
        assert len(w.local.asked) == 1


async def test_one_that_is_asked_again_has_a_lane_of_its_own() -> None:
    async with world() as w:
        w.codes["stuck"] = ConcurrentTransactionsError.code
        w.verify("stuck", 9)
        await eventually(lambda: len(w.calls.asked) >= 2)
        w.verify("a")
        await eventually(lambda: w.given)
        lanes = {
            each.transactional_id: lane
            for _, lane, request in w.calls.asked
            for each in request.transactions
        }
        assert lanes["a"] < txn_verification.LANES <= lanes["stuck"]
        assert all(len(request.transactions) == 1 for request in w.requests)


@pytest.mark.parametrize("how", ["no topic", "no leader", "not alive", "silent"])
async def test_time_is_up(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_verification, "VERIFY_S", 0.1)
    async with world() as w:
        if how == "no topic":
            tell(w.image, {"t": [1]})
        elif how == "no leader":
            tell(w.image, {TRANSACTION_TOPIC: [-1]})
        elif how == "not alive":
            tell(w.image, {TRANSACTION_TOPIC: [2]}, brokers=[1])
        else:
            w.error = TimeoutError()
        w.verify()
        await eventually(lambda: w.given)
        assert w.given == {("a", 7, 3, 0): CoordinatorNotAvailableError.code}


async def test_a_transaction_that_goes_on_ending_is_said_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(txn_verification, "VERIFY_S", 0.1)
    async with world() as w:
        w.codes["a"] = ConcurrentTransactionsError.code
        w.verify()
        await eventually(lambda: w.given)
        assert w.given == {("a", 7, 3, 0): ConcurrentTransactionsError.code}


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: AddPartitionsToTxnResponse(NotCoordinatorError.code),
        lambda request: AddPartitionsToTxnResponse(0, []),
        lambda request: AddPartitionsToTxnResponse(0, [AddPartitionsResult("other")]),
    ],
)
async def test_an_answer_that_says_nothing_of_it_is_none(
    answer: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(txn_verification, "VERIFY_S", 0.05)
    async with world() as w:
        w.calls.answer = lambda _, request: answer(request)
        w.verify()
        await eventually(lambda: w.given)
        assert w.given == {("a", 7, 3, 0): CoordinatorNotAvailableError.code}


async def test_closing_tells_everybody() -> None:
    async with world() as w:
        w.calls.gate.clear()
        for number in range(txn_verification.LANES + 3):
            w.verify(f"n-{number}")
            await asyncio.sleep(0)
        w.error = ConnectionError("closed")
        w.verifier.close()
        assert len(w.given) == 3
        w.calls.gate.set()
        await eventually(lambda: len(w.given) == txn_verification.LANES + 3)
        w.verify("late")
        assert set(w.given.values()) == {CoordinatorNotAvailableError.code}
        assert len(w.given) == txn_verification.LANES + 4
