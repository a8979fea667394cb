"""Brokers are asked what has happened: page by page, and only for what is new."""

from __future__ import annotations

from oncelog import Admin
from oncelog.admin.events import EventPosition
from oncelog_broker.server.event_history import EventHistory
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.happened import happened


def make(cluster: FakeCluster) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1))


async def test_all_events_come_page_by_page() -> None:
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        cluster.events_page = 2
        history = cluster.events[1] = EventHistory(7)
        for number in range(5):
            history.add(happened("isr_changed", number, partition=f"t-{number}"))
        one, two = await admin.describe_events()
        assert [event.fields["partition"] for event in one.events] == [f"t-{n}" for n in range(5)]
        assert [event.timestamp_ms for event in one.events] == [0, 1, 2, 3, 4]
        assert {event.broker_id for event in one.events} == {1}
        assert (one.position, one.missed) == (EventPosition(7, 5), 0)
        assert (two.error, two.events) == (None, ())
        assert cluster.count(ApiKey.DESCRIBE_EVENTS, 1) == 3


async def test_only_what_is_new() -> None:
    async with FakeCluster(1) as cluster, make(cluster) as admin:
        history = cluster.events[1] = EventHistory(7, 2)
        history.add(happened("topic_created"))
        (before,) = await admin.describe_events()
        assert before.position is not None
        history.add(happened("topic_grew"))
        places = {1: before.position}
        (after,) = await admin.describe_events([1], since=places)
        assert [(event.sequence, event.name) for event in after.events] == [(1, "topic_grew")]
        for _ in range(3):
            history.add(happened("topic_deleted"))
        (late,) = await admin.describe_events(since=places)
        assert ([event.sequence for event in late.events], late.missed) == ([3, 4], 2)
        (named,) = await admin.describe_events(names=["topic_grew"])
        assert named.events == ()
        assert named.position == EventPosition(7, 5)


async def test_a_broker_that_was_started_anew_tells_all() -> None:
    async with FakeCluster(1) as cluster, make(cluster) as admin:
        cluster.events[1] = EventHistory(9)
        cluster.events[1].add(happened("broker_serves"))
        (found,) = await admin.describe_events(since={1: EventPosition(7, 50)})
        assert [event.name for event in found.events] == ["broker_serves"]
        assert (found.position, found.missed) == (EventPosition(9, 1), 0)


async def test_a_broker_that_fails_is_one_entry() -> None:
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        denied = ClusterAuthorizationFailedError
        cluster.rule(ApiKey.DESCRIBE_EVENTS, Action.ERROR, error=denied, broker=1)
        one, two = await admin.describe_events()
        assert isinstance(one.error, denied)
        assert "may not DESCRIBE the cluster" in str(one.error)
        assert (one.events, one.position) == ((), None)
        assert two.error is None
