"""These tests check the options of ``run``."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from oncelog.consumer.record import Record
from oncelog.consumer.retry import ONCE, Retry
from oncelog.consumer.run_options import RunOptions
from oncelog.errors import ConfigurationError


async def on_the_loop(record: Record) -> None:
    pass


async def yielding(record: Record) -> Any:
    yield None


def in_a_thread(record: Record) -> None:
    pass


class Handler:
    async def __call__(self, record: Record) -> None:
        pass


@pytest.mark.parametrize(
    ("handler", "is_async"),
    [
        (on_the_loop, True),
        (functools.partial(on_the_loop), True),
        (Handler(), True),
        (Handler().__call__, True),
        (yielding, True),
        (in_a_thread, False),
        (functools.partial(in_a_thread), False),
        (lambda record: on_the_loop(record), False),
    ],
)
def test_where_a_handler_runs(handler: Any, is_async: bool) -> None:
    assert RunOptions(handler=handler).is_async is is_async


def test_defaults() -> None:
    options = RunOptions(handler=on_the_loop)
    assert options.attempts is ONCE
    assert options.records_in_flight == 1000
    assert RunOptions(handler=on_the_loop, concurrency=1000).records_in_flight == 4000
    assert RunOptions(handler=on_the_loop, retry=Retry(3)).attempts == Retry(3)
    copier = RunOptions(handler=on_the_loop, transactional_id="t", transaction_records_max=2000)
    assert copier.records_in_flight == 4000, "one transaction is written while the next is handled"


@pytest.mark.parametrize(
    "wrong",
    [
        {"handler": None},
        {"transactional_id": ""},
        {"transactional_id": 7},
        {"transaction_timeout_ms": 0},
        {"commit_interval_ms": -1},
        {"transaction_records_max": 0},
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": 10_001},
        {"order": "keys"},
        {"order": None},
        {"retry": 5},
        {"dead_letter": ""},
        {"dead_letter": "a topic"},
        {"dead_letter": 5},
        {"decode": "utf-8"},
        {"decode": on_the_loop},
        {"handler_timeout_ms": 0},
        {"handler": in_a_thread, "handler_timeout_ms": 1000},
        {"drain_timeout_ms": -1},
        {"concurrency": 10, "max_records_in_flight": 9},
        {"max_bytes_in_flight": 0},
    ],
)
def test_what_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        RunOptions(**{"handler": on_the_loop, **wrong})


def test_a_partial_of_a_timeout_is_not_taken_for_a_coroutine() -> None:
    assert not RunOptions(handler=functools.partial(asyncio.iscoroutine)).is_async
