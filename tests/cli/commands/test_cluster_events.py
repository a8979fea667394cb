"""``oncelog cluster events`` shows what brokers tell, in order of time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog_broker.server.event_history import EventHistory
from oncelog_cli.commands import cluster_events
from oncelog_cli.options import Format
from oncelog_cli.render import Output
from oncelog_protocol.errors import RequestTimedOutError
from oncelog_protocol.messages.base import ApiKey
from support.admin_cluster import AdminCluster
from support.fake_cluster import Action
from support.happened import happened
from support.shell import Shown, oncelog


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    async with AdminCluster(2) as made:
        for broker_id in (1, 2):
            made.events[broker_id] = EventHistory(7)
        made.events[1].add(happened("isr_changed", 1_000, partition="t-0", after=[1]))
        made.events[2].add(happened("leader_began", 500, partition="t-1"))
        made.events[1].add(happened("leader_changed", 3_000, partition="t-0", leader=2))
        yield made


async def events(cluster: AdminCluster, *arguments: str) -> Shown:
    return await oncelog("cluster", "events", *arguments, bootstrap=cluster.bootstrap)


async def test_all_brokers_in_order_of_time(cluster: AdminCluster) -> None:
    shown = await events(cluster)
    assert (shown.code, shown.err) == (0, "")
    assert [line.split() for line in shown.out.splitlines()] == [
        ["TIME", "BROKER", "EVENT", "FIELDS"],
        ["1970-01-01T00:00:00.500Z", "2", "leader_began", "partition=t-1"],
        ["1970-01-01T00:00:01.000Z", "1", "isr_changed", "partition=t-0", "after=[1]"],
        ["1970-01-01T00:00:03.000Z", "1", "leader_changed", "partition=t-0", "leader=2"],
    ]
    shown = await events(cluster, "-n", "1", "--json")
    assert shown.document["events"] == [
        {
            "broker_id": 1,
            "timestamp_ms": 3_000,
            "level": "info",
            "name": "leader_changed",
            "sequence": 1,
            "fields": {"partition": "t-0", "leader": 2},
        }
    ]


async def test_filters(cluster: AdminCluster) -> None:
    shown = await events(cluster, "--broker", "2", "--json")
    assert [row["name"] for row in shown.document["events"]] == ["leader_began"]
    shown = await events(cluster, "--event", "isr_changed", "--json")
    assert [row["broker_id"] for row in shown.document["events"]] == [1]
    assert (await events(cluster, "-n", "0", "--json")).document["events"] == []


async def test_times_and_topics(cluster: AdminCluster) -> None:
    shown = await events(cluster, "--since", "1970-01-01T00:00:01Z", "--json")
    assert [row["name"] for row in shown.document["events"]] == ["isr_changed", "leader_changed"]
    shown = await events(cluster, "--until", "1970-01-01T00:00:01Z", "--json")
    assert [row["name"] for row in shown.document["events"]] == ["leader_began"]
    assert (await events(cluster, "--since", "1h", "--json")).document["events"] == []
    assert len((await events(cluster, "--topic", "t", "--json")).document["events"]) == 3
    assert (await events(cluster, "--topic", "other", "--json")).document["events"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "soon"], "--since 'soon': must be a time"),
        (["--follow", "--since", "1h"], "without --since"),
    ],
)
async def test_times_that_make_no_sense(
    cluster: AdminCluster, arguments: list[str], said: str
) -> None:
    shown = await events(cluster, *arguments)
    assert shown.code == 2
    assert said in shown.err


async def test_a_broker_that_does_not_answer(cluster: AdminCluster) -> None:
    cluster.rule(ApiKey.DESCRIBE_EVENTS, Action.ERROR, error=RequestTimedOutError, broker=1)
    shown = await events(cluster, "--json")
    assert shown.code == 1
    assert [row["broker_id"] for row in shown.document["events"]] == [2]
    assert [each["item"] for each in shown.document["errors"]] == ["broker 1"]


async def test_followed_without_end(
    cluster: AdminCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_events, "PAUSE_S", 0.01)
    output = Output("cluster events", Format.TABLE)
    follow = cluster_events._follow(cluster.bootstrap, None, None, "t", 1, output)
    told = ""

    async def until(word: str) -> None:
        nonlocal told
        while word not in told:
            await asyncio.sleep(0.01)
            told += capsys.readouterr().out

    following = asyncio.create_task(follow)
    async with asyncio.timeout(15):
        await until("leader_changed")
        cluster.rule(ApiKey.DESCRIBE_EVENTS, Action.ERROR, error=RequestTimedOutError, broker=1)
        cluster.events[1].add(happened("topic_created", 4_000, topic="new"))
        cluster.events[1].add(happened("topic_grew", 4_001, topic="t"))
        await until("topic_grew")
    following.cancel()
    assert [line.split()[2] for line in told.splitlines()] == ["leader_changed", "topic_grew"]


async def test_a_document_has_an_end(cluster: AdminCluster) -> None:
    shown = await events(cluster, "--follow", "--json")
    assert shown.code == 2
    assert shown.document["errors"][0]["error"] == "USAGE"
