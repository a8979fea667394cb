"""Events of several brokers are one document, in order of time."""

from __future__ import annotations

import pytest

from oncelog import Admin
from oncelog_broker.server.event_history import EventHistory
from oncelog_cli.documents.events import (
    chosen_events,
    described_events,
    last,
    partition_of,
    topic_of,
)
from oncelog_protocol.errors import RequestTimedOutError
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action, FakeCluster
from support.happened import happened


async def test_events_of_all_brokers() -> None:
    async with FakeCluster(3) as cluster, Admin(cluster.bootstrap) as admin:
        for broker_id, at_ms in ((1, 20), (2, 10), (1, 30)):
            history = cluster.events.setdefault(broker_id, EventHistory(1))
            history.add(happened("isr_changed", at_ms, partition="t-0"))
        cluster.rule(ApiKey.DESCRIBE_EVENTS, Action.ERROR, error=RequestTimedOutError, broker=3)
        answer = await described_events(admin)
        rows = answer.document["events"]
        assert [(row["broker_id"], row["sequence"]) for row in rows] == [(2, 0), (1, 0), (1, 1)]
        assert [failure.item for failure in answer.failures] == ["broker 3"]
        answer = await described_events(admin, [1], names=["isr_changed"], number=1)
        assert [row["sequence"] for row in answer.document["events"]] == [1]
        assert (await described_events(admin, [1], names=["other"])).document == {"events": []}


def test_the_last_ones() -> None:
    rows = [{"n": 1}, {"n": 2}]
    assert last(rows, None) == rows
    assert last(rows, 1) == [{"n": 2}]
    assert (last(rows, 0), last(rows, 5)) == ([], rows)


@pytest.mark.parametrize(
    ("fields", "topic", "partition"),
    [
        ({"partition": "a-b-3"}, "a-b", "a-b-3"),
        ({"topic": "t", "partition": 4}, "t", "t-4"),
        ({"topic": "t", "partitions": 4}, "t", None),
        ({"partitions": "a-1, b-2"}, None, None),
        ({"partition": 4}, None, None),
        ({}, None, None),
    ],
)
def test_what_an_event_is_about(
    fields: dict[str, object], topic: str | None, partition: str | None
) -> None:
    row = {"fields": fields}
    assert (topic_of(row), partition_of(row)) == (topic, partition)


def test_events_are_chosen_in_their_order() -> None:
    rows = [
        {"broker_id": n % 2, "name": "x", "timestamp_ms": n, "fields": {"topic": "t"}}
        for n in range(5)
    ]
    assert chosen_events(rows) == rows
    chosen = chosen_events(rows, brokers=[1], names=["x"], topic="t", since_ms=1, until_ms=3)
    assert chosen == [rows[1]]
    assert chosen_events(rows, names=["y"]) == []
