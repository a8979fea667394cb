"""This module checks the options of ``consumer.run(handler)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, get_args

from oncelog import defaults
from oncelog.config import at_least
from oncelog.consumer.lanes import Order
from oncelog.consumer.record import Record
from oncelog.consumer.retry import ONCE, Retry
from oncelog.errors import ConfigurationError
from oncelog_protocol import limits

CONCURRENCY_MAX = 10_000
RECORDS_IN_FLIGHT_MIN = 1000
"""So many are taken in advance by default, more with a high concurrency."""
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options are those of ``Consumer.run``."""

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
    transaction_timeout_ms: int = defaults.TRANSACTION_TIMEOUT_MS
    commit_interval_ms: int = 100
    transaction_records_max: int = 5_000
    stop_on_signals: bool = False

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise ConfigurationError(f"handler={self.handler!r:.100}: must be a function")
        at_least("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
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
            at_least("handler_timeout_ms", self.handler_timeout_ms, 1)
            if not self.is_async:
                raise ConfigurationError(
                    "handler_timeout_ms: needs an async handler: a thread cannot be stopped"
                )
        at_least("drain_timeout_ms", self.drain_timeout_ms, 0)
        if self.max_records_in_flight is not None:
            at_least("max_records_in_flight", self.max_records_in_flight, self.concurrency)
        at_least("max_bytes_in_flight", self.max_bytes_in_flight, 1)
        name: object = self.transactional_id
        if name is not None and not (isinstance(name, str) and name):
            raise ConfigurationError(f"transactional_id={name!r:.80}: must be a text")
        at_least("transaction_timeout_ms", self.transaction_timeout_ms, 1, 2**31 - 1)
        at_least("commit_interval_ms", self.commit_interval_ms, 0)
        at_least("transaction_records_max", self.transaction_records_max, 1)

    @property
    def is_async(self) -> bool:
        """Return whether the handler runs on the loop."""
        handler = self.handler
        called = getattr(handler, "__call__", None)  # noqa: B004 - an object's own, if async
        return any(
            inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
            for each in (handler, called)
        )

    @property
    def attempts(self) -> Retry:
        """Return ``retry``, with its default: one attempt."""
        return ONCE if self.retry is None else self.retry

    @property
    def records_in_flight(self) -> int:
        """Return ``max_records_in_flight``, with its default."""
        if self.max_records_in_flight is not None:
            return self.max_records_in_flight
        usual = max(RECORDS_IN_FLIGHT_MIN, 4 * self.concurrency)
        if self.transactional_id is None:
            return usual
        return max(usual, 2 * self.transaction_records_max)


class RunSettings(TypedDict, total=False):
    """Type checkers see the options of ``run`` here that do not depend on the handler."""

    concurrency: int
    order: Order
    retry: Retry | None
    dead_letter: str | None
    handler_timeout_ms: int | None
    drain_timeout_ms: int
    max_records_in_flight: int | None
    max_bytes_in_flight: int
    transactional_id: str | None
    transaction_timeout_ms: int
    commit_interval_ms: int
    transaction_records_max: int
    stop_on_signals: bool
