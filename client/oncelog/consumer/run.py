"""``consumer.run(handler)``: the options, and the method that the consumer has of it.

The work is done in ``runner.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

from oncelog.config import take
from oncelog.consumer.lanes import Order
from oncelog.consumer.record import Record
from oncelog.consumer.retry import ONCE, Retry
from oncelog.consumer.runner import Runner
from oncelog.consumer.transactional import TransactionalRunner
from oncelog.errors import ConfigurationError
from oncelog_protocol import limits

if TYPE_CHECKING:
    from oncelog.consumer.consumer import Consumer

CONCURRENCY_MAX = 10_000
RECORDS_IN_FLIGHT_MIN = 1000
"""So many are taken in advance by default, more with a high concurrency."""
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """See ``Runs.run``."""

    handler: Callable[[Any], object]
    concurrency: int = 1
    order: Order = "key"
    retry: Retry | None = None
    dead_letter: str | None = None
    decode: Callable[[Record], Any] | None = None
    handler_timeout_ms: int | None = None
    drain_timeout_ms: int = 30_000
    max_records_in_flight: int | None = None
    max_bytes_in_flight: int = 64 * MEBIBYTE
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    commit_interval_ms: int = 100
    transaction_records_max: int = 5_000

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise ConfigurationError(f"handler={self.handler!r:.100}: must be a function")
        _at_least("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        if self.order not in get_args(Order):
            raise ConfigurationError(
                f"order={self.order!r}: must be one of {', '.join(get_args(Order))}"
            )
        retry: object = self.retry
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError(f"retry={retry!r:.100}: must be a Retry(...)")
        topic: object = self.dead_letter
        if topic is not None and not (
            isinstance(topic, str) and limits.TOPIC_PATTERN.fullmatch(topic)
        ):
            raise ConfigurationError(f"dead_letter={topic!r:.100}: must be the name of a topic")
        decode: object = self.decode
        if decode is not None and (not callable(decode) or inspect.iscoroutinefunction(decode)):
            raise ConfigurationError("decode: must be a plain function of a Record")
        if self.handler_timeout_ms is not None:
            _at_least("handler_timeout_ms", self.handler_timeout_ms, 1)
            if not self.is_async:
                raise ConfigurationError(
                    "handler_timeout_ms: needs an async handler: a thread cannot be stopped"
                )
        _at_least("drain_timeout_ms", self.drain_timeout_ms, 0)
        if self.max_records_in_flight is not None:
            _at_least("max_records_in_flight", self.max_records_in_flight, self.concurrency)
        _at_least("max_bytes_in_flight", self.max_bytes_in_flight, 1)
        name: object = self.transactional_id
        if name is not None and not (isinstance(name, str) and name):
            raise ConfigurationError(f"transactional_id={name!r:.80}: must be a text")
        _at_least("transaction_timeout_ms", self.transaction_timeout_ms, 1, 2**31 - 1)
        _at_least("commit_interval_ms", self.commit_interval_ms, 0)
        _at_least("transaction_records_max", self.transaction_records_max, 1)

    @property
    def is_async(self) -> bool:
        """Whether the handler runs on the loop."""
        handler = self.handler
        called = getattr(handler, "__call__", None)  # noqa: B004 - an object's own, if async
        return any(
            inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
            for each in (handler, called)
        )

    @property
    def runner(self) -> type[Runner]:
        """What does it."""
        return Runner if self.transactional_id is None else TransactionalRunner

    @property
    def attempts(self) -> Retry:
        """``retry``, with its default: one attempt."""
        return ONCE if self.retry is None else self.retry

    @property
    def records_in_flight(self) -> int:
        """``max_records_in_flight``, with its default."""
        if self.max_records_in_flight is not None:
            return self.max_records_in_flight
        usual = max(RECORDS_IN_FLIGHT_MIN, 4 * self.concurrency)
        if self.transactional_id is None:
            return usual
        return max(usual, 2 * self.transaction_records_max)


class Runs:
    """What a consumer has of this file."""

    async def run(
        self,
        handler: Callable[[Any], object],
        *,
        concurrency: int = 1,
        order: Order = "key",
        retry: Retry | None = None,
        dead_letter: str | None = None,
        decode: Callable[[Record], Any] | None = None,
        handler_timeout_ms: int | None = None,
        drain_timeout_ms: int = 30_000,
        max_records_in_flight: int | None = None,
        max_bytes_in_flight: int = 64 * MEBIBYTE,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        commit_interval_ms: int = 100,
        transaction_records_max: int = 5_000,
    ) -> None:
        """Call ``handler(record)`` for every record, until the consumer is closed.

        Each record is handled at least once. Only what is done is committed: of each partition all
        below the first record that is not, with auto commit every ``auto_commit_interval_ms``,
        before a partition goes to another member, and at the end. Polling goes on meanwhile: a
        slow handler does not cost the membership.

        :param handler: an async function, which runs on the loop; or a plain one, which runs in a
            thread.
        :param concurrency: how many records are handled at a time.
        :param order: "key": records of one key of a partition one after the other, those without a
            key in any order; "partition": all of a partition; "none": no order.
        :param retry: after an error of the handler, ``Retry(attempts, backoff_ms)``; default: one
            attempt. Meanwhile only what must not overtake the record waits.
        :param dead_letter: a topic for records that failed for good, with the cause in headers
            ``oncelog-dead-letter-...``. Without one, such an error ends the run.
        :param decode: what the handler gets instead of the record; a record on which it raises is
            not tried again.
        :param handler_timeout_ms: an attempt that takes longer is cancelled and has failed.
        :param drain_timeout_ms: how long handlers of a partition that goes away, or at the end, are
            waited for before they are cancelled. Keep it below ``max_poll_interval_ms``.
        :param max_records_in_flight: records taken and not done (default: 1,000, four times
            ``concurrency``, or twice ``transaction_records_max``, whichever is most);
            ``max_bytes_in_flight`` their bytes. Above, partitions are paused.
        :param transactional_id: what the handler returns (a ``ProducerRecord``, or several; or it
            yields them) is written, in transactions that hold the positions too: each record is
            read, handled and answered exactly once, as a reader at read_committed sees it, also
            after crashes. Handlers themselves may run more than once. Dead letters are part of it.
            One id for each process that runs at a time: a second one with the same id takes over.
        :param transaction_timeout_ms: after so long the cluster aborts a transaction whose process
            has died; until then its results, and what others wrote behind them, are not read.
        :param commit_interval_ms: between two of them, unless ``transaction_records_max`` wait.

        :raises ProducerFencedError: another process has this ``transactional_id`` now.
        :raises Exception: what the handler or ``decode`` raised, with a note that names the record;
            the position is then the first record that is not done.
        :raises CorruptRecordError: a batch does not hold (its CRC): nobody can tell what records
            were in it, so none can become a dead letter.
        :raises ConfigurationError: an option that makes no sense.
        """
        options = take(RunOptions, locals())
        await options.runner(cast("Consumer", self), options).run()


def _at_least(option: str, value: int, low: int, high: int | None = None) -> None:
    if type(value) is not int or value < low or (high is not None and value > high):
        allowed = f"an integer from {low}" + (f" to {high}" if high is not None else " on")
        raise ConfigurationError(f"{option}={value!r}: must be {allowed}")
