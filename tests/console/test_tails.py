"""Viewers of the same topic share one reader, which is there as long as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest
import pytest_asyncio

from oncelog import Producer
from oncelog_cli.offset_range import Base, RangePoint
from oncelog_console import tails as tails_module
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import WantedRecords
from oncelog_console.search import Searches, SearchFailedError
from oncelog_console.tail import Tick
from oncelog_console.tails import Tails
from oncelog_console.workers import TooManyWorkersError
from support.cluster import Cluster
from support.waiting import eventually

TAIL = WantedRecords("t")
SAME = replace(TAIL, start=RangePoint(Base.ZERO, 7), rows=10)


@pytest_asyncio.fixture
async def tails() -> AsyncIterator[Tails]:
    searches = Searches()
    tails = Tails(searches)
    yield tails
    await tails.close()
    await searches.close()


async def values(source: AsyncGenerator[Tick, None], count: int) -> list[str | None]:
    """Return the next values that are told."""
    found: list[str | None] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += [row.value for row in (await anext(source)).rows]
    return found


async def test_two_viewers_and_one_reader(cluster: Cluster, tails: Tails) -> None:
    await cluster.create_topic("t")
    clients = ClusterClients(cluster.bootstrap)
    async with Producer(cluster.bootstrap) as producer:
        async with aclosing(tails.follow(clients, TAIL)) as one:
            assert (await anext(one)).rows == ()
            async with aclosing(tails.follow(clients, SAME)) as two:
                assert (await anext(two)).rows == ()
                assert tails.running == 1
                await producer.send("t", b"a")
                assert await values(one, 1) == ["a"]
                assert await values(two, 1) == ["a"]
            assert tails.running == 1
            other = ClusterClients(cluster.bootstrap)
            async with aclosing(tails.follow(other, TAIL)) as three:
                await anext(three)
                assert tails.running == 2, "another user shares with nobody"
        assert tails.running == 0


@pytest.mark.slow
async def test_an_expression_runs_in_a_program_of_its_own(cluster: Cluster, tails: Tails) -> None:
    await cluster.create_topic("t")
    wanted = replace(TAIL, where="value matches 'b$'")
    async with (
        Producer(cluster.bootstrap) as producer,
        aclosing(tails.follow(ClusterClients(cluster.bootstrap), wanted)) as source,
    ):
        await anext(source)
        for value in (b"a", b"bb"):
            await producer.send("t", value)
        assert await values(source, 1) == ["bb"]


async def test_what_fails_is_said_to_every_viewer(cluster: Cluster, tails: Tails) -> None:
    clients = ClusterClients(cluster.bootstrap)
    wanted = WantedRecords("none")
    first, second = tails.follow(clients, wanted), tails.follow(clients, wanted)
    for each in await asyncio.gather(anext(first), anext(second), return_exceptions=True):
        assert isinstance(each, SearchFailedError)
        assert "none" in str(each)
    await eventually(lambda: tails.running == 0)


async def test_no_more_than_so_many(
    cluster: Cluster, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails_module, "TAILS_MAX", 1)
    await cluster.create_topic("t")
    clients = ClusterClients(cluster.bootstrap)
    async with aclosing(tails.follow(clients, TAIL)) as source:
        await anext(source)
        with pytest.raises(TooManyWorkersError, match="1 topics are being followed"):
            await anext(tails.follow(clients, replace(TAIL, isolation="all")))
