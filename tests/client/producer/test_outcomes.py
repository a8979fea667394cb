"""Batches are judged by hand, without a network. More in test_sender."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.config import ConnectionOptions
from oncelog.core.backoff import Backoff
from oncelog.core.router import Router
from oncelog.errors import (
    DeliveryTimeoutError,
    InvalidRecordError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReorderError,
    RequestTimedOutError,
    UnknownServerError,
)
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.outcomes import Outcomes
from oncelog.producer.partition_queue import NO_PRODUCER, Batch
from oncelog.producer.safeguards import SAFE, ProducerSafeguards
from oncelog.producer.sequence import Sequences
from oncelog_protocol.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    NotEnoughReplicasAfterAppendError,
    OutOfOrderSequenceNumberError,
)
from oncelog_protocol.messages import produce as wire
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from support.histories import ListHistory
from unsafe.producer import without

TP = TopicPartition("t", 0)


class FakeSession:
    """This transaction only listens."""

    transactional_id = "id"
    serial = 1
    history_number = -1

    def __init__(self) -> None:
        self.retries = True
        self.errors: list[BaseException] = []

    def check_open(self) -> None: ...

    def touched(self) -> None: ...

    def lost(self, error: BaseException) -> None:
        self.errors.append(error)


class Bench:
    """Batches of one partition have been sent, and meet their judge."""

    def __init__(
        self, session: FakeSession | None = None, safeguards: ProducerSafeguards = SAFE
    ) -> None:
        entropy = SeededEntropy(1)
        self.history = ListHistory()
        options = ConnectionOptions(bootstrap_servers="h:1")
        router = Router(options, entropy=entropy, history=self.history)
        router.closed = False
        self.accumulator = Accumulator(
            buffer_memory=10_000,
            linger_s=0,
            delivery_timeout_s=100,
            new_backoff=lambda name: Backoff(0.001, 0.01, entropy.fork(name)),
        )
        self.sequences = Sequences(enabled=True, transactional=session is not None)
        self.sequences.given(7, 0)
        self.outcomes = Outcomes(
            router,
            self.accumulator,
            self.sequences,
            in_flight_max=5,
            session=session,
            safeguards=safeguards,
        )
        self.queue = self.accumulator.queue(TP)

    def sent(self, count: int = 1) -> list[Batch]:
        """Return batches as they are when their answer comes."""
        made = []
        for _ in range(count):
            encoded = encode_batch([b"v"], timestamps=1, sealed=False)
            batch = self.accumulator.add_columns(self.queue, 0.0, 10, 1, encoded, 1, [b"v"])
            batch.deadline = 10.0**12
            self.queue.ready.remove(batch)
            self.sequences.number(batch)
            batch.attempts, batch.observed = 1, True
            batch.operation = self.history.invoke("send", *TP, [b"v"])
            made.append(batch)
        return made

    def answer(self, batch: Batch, error: type[ApiError] | None, base_offset: int = 5) -> None:
        item = wire.ProducePartitionResponse(0, error.code if error else 0, base_offset)
        response = wire.ProduceResponse(0, [wire.ProduceTopicResponse("t", [item])])
        self.outcomes.take_response([batch], response)

    def ends(self) -> list[Any]:
        return [event[0] for event in self.history.events if event[0] != "invoke"]


async def test_acknowledged() -> None:
    bench = Bench()
    first, second = bench.sent(2)
    bench.answer(first, None, 5)
    bench.answer(second, DuplicateSequenceNumberError)
    assert (first.base_offset, second.base_offset) == (5, -1)
    assert (first.error, second.error) == (None, None)
    assert bench.ends() == ["ok", "ok"]
    assert bench.queue.window == 5


async def test_an_answer_that_leaves_a_batch_out_and_one_that_fails_as_a_whole() -> None:
    bench = Bench()
    first, second = bench.sent(2)
    bench.outcomes.take_response([first], wire.ProduceResponse(0, []))
    assert isinstance(first.error, UnknownServerError)
    bench.outcomes.take_response([second], wire.ProduceResponse(InvalidRecordError.code))
    assert isinstance(second.error, InvalidRecordError)
    assert bench.ends() == ["info", "fail"]


async def test_what_failed_goes_again_in_order_once_all_were_answered() -> None:
    bench = Bench()
    batches = bench.sent(3)
    bench.answer(batches[0], NotEnoughReplicasError)
    bench.queue.in_flight.append(batches[2])
    bench.outcomes.resume(bench.queue)
    assert not bench.queue.ready
    bench.answer(batches[1], OutOfOrderSequenceNumberError)
    bench.queue.in_flight.clear()
    bench.answer(batches[2], OutOfOrderSequenceNumberError)
    bench.outcomes.resume(bench.queue)
    assert list(bench.queue.ready) == batches
    assert bench.queue.window == 1


async def test_who_is_overtaken_fails() -> None:
    bench = Bench()
    first, second = bench.sent(2)
    bench.answer(first, NotEnoughReplicasError)
    bench.answer(second, None)
    assert isinstance(first.error, ReorderError)


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("error", [RequestTimedOutError, NotEnoughReplicasAfterAppendError])
async def test_who_is_in_the_log_before_one_that_was_acknowledged_asks_where(
    error: type[ApiError], in_transaction: bool
) -> None:
    """The broker took the second only behind the first."""
    session = FakeSession() if in_transaction else None
    bench = Bench(session)
    first, second, third = bench.sent(3)
    bench.answer(first, error)
    bench.answer(second, None, 6)
    bench.answer(third, error)
    assert (first.error, second.error) == (None, None)
    bench.outcomes.resume(bench.queue)
    assert list(bench.queue.ready) == [first, third]
    bench.answer(first, None, 5)
    bench.answer(third, None, 7)
    assert (first.base_offset, second.base_offset, third.base_offset) == (5, 6, 7)
    assert bench.ends() == ["ok", "ok", "ok"]
    assert session is None or session.errors == []


async def test_who_was_refused_is_not_in_the_log_whatever_came_later() -> None:
    """Its broker had forgotten the producer, and took what came behind a gap."""
    bench = Bench()
    first, second, third = bench.sent(3)
    bench.answer(first, NotEnoughReplicasError)
    bench.answer(second, RequestTimedOutError)
    bench.answer(third, None)
    assert isinstance(first.error, ReorderError)
    assert first.error.definite
    assert bench.queue.failed == [second]
    bench.queue.failed.clear()
    bench.answer(second, OutOfOrderSequenceNumberError)
    bench.outcomes.resume(bench.queue)
    assert getattr(second.error, "definite", None) is False


async def test_who_is_of_an_older_epoch_is_not_vouched_for_by_a_newer_one() -> None:
    bench = Bench()
    (first,) = bench.sent()
    bench.answer(first, RequestTimedOutError)
    bench.sequences.given(7, 1)
    bench.queue.producer = NO_PRODUCER
    (second,) = bench.sent()
    bench.answer(second, None)
    assert isinstance(first.error, ReorderError)


async def test_out_of_time() -> None:
    bench = Bench()
    (batch,) = bench.sent()
    batch.deadline = 0.0
    bench.answer(batch, NotEnoughReplicasError)
    assert isinstance(batch.error, DeliveryTimeoutError)
    assert batch.error.definite


async def test_out_of_time_without_an_id() -> None:
    bench = Bench()
    bench.sequences.not_given(CoordinatorNotAvailableError("ZooKeeper is silent"))
    encoded = encode_batch([b"v"], timestamps=1, sealed=False)
    batch = bench.accumulator.add_columns(bench.queue, 0.0, 10, 1, encoded, 1, [b"v"])
    bench.outcomes.time_out(batch)
    assert "it was not sent, for no broker gave a producer id: ZooKeeper is silent" in str(
        batch.error
    )
    assert isinstance(batch.error, DeliveryTimeoutError)
    assert batch.error.definite
    bench.sequences.given(7, 0)
    assert bench.sequences.refusal is None


@pytest.mark.parametrize("safe", [True, False])
async def test_one_attempt_that_may_have_been_written_is_enough(safe: bool) -> None:
    """[N22]: the last answer alone says too much."""
    bench = Bench(safeguards=SAFE if safe else without("indefinite_stays_indefinite"))
    (batch,) = bench.sent()
    bench.answer(batch, NotLeaderOrFollowerError)
    bench.queue.failed.clear()
    bench.answer(batch, InvalidRecordError)
    assert getattr(batch.error, "definite", None) is not safe
    assert bench.ends() == ["info" if safe else "fail"]


# ---------------------------------------------------------------- in a transaction


async def test_a_transaction_hears_what_is_given_up_and_only_that() -> None:
    session = FakeSession()
    bench = Bench(session)
    first, second = bench.sent(2)
    bench.answer(first, NotEnoughReplicasError)
    assert session.errors == []
    bench.answer(second, InvalidRecordError)
    assert session.errors == [second.error]
    session.retries = False
    bench.queue.failed.clear()
    bench.answer(first, NotEnoughReplicasError)
    assert first.error is session.errors[1]


@pytest.mark.parametrize("error", [OutOfOrderSequenceNumberError, InvalidProducerEpochError])
async def test_nothing_is_numbered_anew_in_a_transaction(error: type[ApiError]) -> None:
    session = FakeSession()
    bench = Bench(session)
    first, second = bench.sent(2)
    identities = [first.identity, second.identity]
    for batch in (first, second):
        bench.answer(batch, error)
    bench.outcomes.resume(bench.queue)
    assert isinstance(first.error, error)
    assert session.errors == [first.error]
    assert [first.identity, second.identity] == identities
    assert bench.sequences.producer == (7, 0)
