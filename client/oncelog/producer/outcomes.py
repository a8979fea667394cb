"""A batch that was sent is acknowledged, tried again, or given up.

Rules
-----
* **Order.** A batch that failed and may be tried again mutes its partition until everything sent
  behind it was answered; then all that failed go out again, in order, one at first. If a later
  batch was acknowledged in the meantime, or may have been written behind one that was refused, the
  earlier one cannot be tried again without changing the order, so it fails (ReorderError).
* **In sequence.** A broker takes a batch only behind the one before it. So one of which nobody knew
  whether it was written is in the log when a later one of the same producer and epoch is. It goes
  out again all the same, for the broker knows it, and says at which offset it is. (It might not be
  there if the broker had forgotten the producer in between: then it says that, too.)
* **Definite or not.** What a lost connection or an indefinite error leaves behind may be in the
  log; it is tried again all the same, as the broker knows it again by its sequence numbers
  (``sequence``). Without idempotence it may then be there twice. Its final error, if it comes to
  that, says so.
* **In a transaction** a batch that is given up takes the transaction with it: the session hears of
  it, and nothing is numbered anew or tried again for a transaction that will be aborted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from oncelog.core.router import Router
from oncelog.errors import (
    DeliveryTimeoutError,
    ReorderError,
    UnknownServerError,
    error_for,
    is_definite,
    is_retriable,
    may_have_acted,
)
from oncelog.history import note_failure
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.partition_queue import NO_IDENTITY, Batch, PartitionQueue
from oncelog.producer.produce import produce_error
from oncelog.producer.safeguards import ProducerSafeguards
from oncelog.producer.sequence import OUT_OF_ORDER, RENUMBERED_MAX, Sequences
from oncelog.producer.transactions.session import TransactionSession
from oncelog_protocol.acls import WRITE
from oncelog_protocol.errors import DuplicateSequenceNumberError, NotEnoughReplicasError
from oncelog_protocol.messages.produce import ProducePartitionResponse, ProduceResponse

logger = logging.getLogger(__name__)


class Outcomes:
    """The outcome of each of a producer's batches is decided here."""

    def __init__(
        self,
        router: Router,
        accumulator: Accumulator,
        sequences: Sequences,
        *,
        in_flight_max: int,
        session: TransactionSession | None,
        safeguards: ProducerSafeguards,
    ) -> None:
        self._router = router
        self._accumulator = accumulator
        self._sequences = sequences
        self._in_flight_max = in_flight_max
        self._session = session
        self._safeguards = safeguards
        self._loop = asyncio.get_running_loop()

    # ------------------------------------------------------------------------------ answers

    def take_response(self, batches: Sequence[Batch], response: ProduceResponse) -> None:
        """Give one answer to all batches of its request; none of them is in flight any more."""
        if response.error_code:
            for batch in batches:
                self.failed(batch, error_for(response.error_code))
            return
        answers: dict[tuple[str, int], ProducePartitionResponse] = {
            (topic.topic, answer.partition): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for batch in batches:
            answer = answers.get(batch.queue.tp)
            if answer is None:
                self.failed(batch, UnknownServerError("the broker left the partition out"))
            elif answer.error_code == DuplicateSequenceNumberError.code:
                self.acknowledged(batch, -1, -1)  # it is there; nobody knows where any more
            elif answer.error_code:
                error = produce_error(batch, answer)
                self.failed(batch, self._router.explained(error, WRITE, batch.queue.tp.topic))
            else:
                self.acknowledged(batch, answer.base_offset, answer.log_append_time_ms)

    def acknowledged(self, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        """Note that the batch is in the log; -1 stands for an unknown offset or time."""
        queue = batch.queue
        for earlier in queue.acknowledged(batch, self._in_flight_max):
            self._overtaken(earlier)
        if batch.done:
            return  # timed out before; the caller has heard that nobody knows
        if batch.operation is not None:
            offsets = range(base_offset, base_offset + batch.count)
            self._router.history.ok(batch.operation, offsets if base_offset >= 0 else ())
        self._router.counters.sent(
            queue.tp.topic, batch.count, self._loop.time() - self._accumulator.begun_at(batch)
        )
        self._accumulator.acknowledge(batch, base_offset, append_time_ms)

    def _overtaken(self, batch: Batch) -> None:
        """Fail a batch that cannot be repeated, as a later one is in the log or may be."""
        error = ReorderError(
            f"{batch.queue.tp}: a later batch was written, or may have been, while this one failed"
            f" with: {batch.last_error}; it was not sent again, to keep the order",
            definite=not batch.maybe_written,
        )
        error.__cause__ = batch.last_error
        self.give_up(batch, error)

    def failed(self, batch: Batch, error: BaseException) -> None:
        """Repeat a batch after a failed attempt, or give it up."""
        self._safeguards.attempt_failed(batch, error)
        if batch.done:
            return
        if batch.identity is not NO_IDENTITY and isinstance(error, OUT_OF_ORDER):
            batch.queue.set_aside(batch)
            return
        if not is_retriable(error) or (self._session is not None and not self._session.retries):
            self.give_up(batch, error)
            return
        if self._loop.time() >= batch.deadline or self._router.closed:
            self.time_out(batch)
            return
        logger.debug("%s: batch will be tried again: %s", batch.queue.tp, error)
        batch.queue.set_aside(batch)
        if not isinstance(error, NotEnoughReplicasError):
            self._router.refresh_soon()

    # ------------------------------------------------------------------------------ again

    def resume(self, queue: PartitionQueue) -> None:
        """Put failed batches first again, after a pause, once nothing is in flight."""
        if queue.in_flight or not queue.failed:
            return
        if self._sequences.enabled:
            self._resume_in_sequence(queue)
            return
        for batch in queue.take_overtaken():
            self._overtaken(batch)
        self._put_back(queue)

    def _resume_in_sequence(self, queue: PartitionQueue) -> None:
        """Repeat what failed, as the broker keeps the order; begin anew when a batch is missing."""
        error = queue.failed[0].last_error
        if isinstance(error, OUT_OF_ORDER):
            if self._sequences.transactional:
                self.give_up(queue.failed[0], error)
            else:
                self._begin_anew(queue, error)
            queue.drop_done()
        self._put_back(queue)

    def _begin_anew(self, queue: PartitionQueue, error: BaseException) -> None:
        numbered = queue.numbered()
        for batch in numbered:
            if batch.maybe_written or batch.renumbered >= RENUMBERED_MAX:
                self.give_up(batch, type(error)(str(error)))
        unwritten = [batch for batch in numbered if not batch.done]
        logger.info("%s; the partition begins anew", error)
        self._sequences.begin_anew(queue, unwritten)

    def _put_back(self, queue: PartitionQueue) -> None:
        queue.put_back(self._loop.time())
        self._accumulator.has_work(queue)

    # ------------------------------------------------------------------------------ ends

    def time_out(self, batch: Batch) -> None:
        """Fail the batch, whose deadline is over."""
        in_flight = batch.in_flight
        last = batch.last_error
        reason = f"last error: {last}" if last else "it was not sent: no leader, or a long queue"
        if not last and not batch.attempts and (last := self._sequences.refusal):
            reason = f"it was not sent, for no broker gave a producer id: {last}"
        if in_flight:
            reason = "the leader has not answered" + (f"; {reason}" if last else "")
        error = DeliveryTimeoutError(
            f"{batch.queue.tp}: {batch.count or len(batch.values)} records were not acknowledged"
            f" within delivery_timeout_ms, after {batch.attempts} attempts; {reason}",
            definite=not (in_flight or batch.maybe_written),
        )
        error.__cause__ = last
        self.give_up(batch, error)

    def give_up(self, batch: Batch, error: BaseException) -> None:
        """Fail the batch with an error that promises no more than is known."""
        if batch.done:
            return
        if batch.maybe_written and is_definite(error):
            # An earlier attempt may have got through; this answer speaks of the last one only.
            may_have_acted(error)
        if batch.operation is not None:
            note_failure(self._router.history, batch.operation, error)
        self._accumulator.fail(batch, error)
        self._router.counters.given_up(batch.queue.tp.topic, batch.count)
        if self._session is not None:
            self._session.lost(error)
