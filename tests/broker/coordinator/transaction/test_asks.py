"""Asks are answered once, and producer ids come or are said not to."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.coordinator.result import Result
from oncelog_broker.coordinator.transaction.asks import Ask, ProducerIdRequests
from oncelog_protocol.errors import ApiError, NotCoordinatorError, ProducerFencedError
from oncelog_runtime.tasks import Tasks
from support.transaction_world import ProducerIdCounter
from support.waiting import eventually


def ask(told: list[Any]) -> Ask[str]:
    def refused(error: ApiError) -> str:
        return f"error {error.code}"

    return Ask("t", lambda _shard, _fresh: Result(), told.append, refused)


def test_only_the_first_answer_counts() -> None:
    told: list[Any] = []
    one = ask(told)
    assert one.waits
    one.answer("yes")
    one.refuse(ProducerFencedError())
    one.reply(None, NotCoordinatorError.code)
    assert told == ["yes"]
    assert not one.waits


def test_what_the_engine_refuses() -> None:
    told: list[Any] = []
    one = ask(told)
    one.reply(None, 0)
    assert one.waits
    one.reply(None, NotCoordinatorError.code)
    assert told == [f"error {NotCoordinatorError.code}"]


@pytest.mark.asyncio
async def test_producer_ids_come_later_or_not_at_all() -> None:
    tasks, source = Tasks("test"), ProducerIdCounter()
    got: list[int | None] = []
    requests = ProducerIdRequests(source, tasks)
    requests.request(got.append)
    assert not got
    await eventually(lambda: got)
    source.is_empty = True
    requests.request(got.append)
    await eventually(lambda: len(got) == 2)
    assert got == [1000, None]
    await tasks.close()
    requests.request(got.append)
    assert len(got) == 2
