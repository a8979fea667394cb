"""Searches run in programs of their own: whatever they meet, the console lives and says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict, replace

import pytest
import pytest_asyncio

from oncelog import Producer
from oncelog_console import search as search_module
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import BEGINNING, WantedRecords
from oncelog_console.process_limits import ProcessLimits
from oncelog_console.reading import ReadProgress, Row
from oncelog_console.search import Search, Searches
from oncelog_console.workers import TooManyWorkersError
from support.cluster import Cluster
from support.shell import oncelog
from support.waiting import eventually

pytestmark = pytest.mark.slow

ALL = WantedRecords("t", start=BEGINNING, where="value is not null")
ENDLESS = replace(ALL, where="value matches '^(a+)+$'")
"""It tries as many ways as there are subsets."""


@pytest_asyncio.fixture
async def clients(cluster: Cluster) -> ClusterClients:
    await cluster.create_topic("t")
    async with Producer(cluster.bootstrap) as producer:
        for number in range(100):
            await producer.send("t", b'{"n": %d}' % number, timestamp_ms=1000 + number)
        await producer.send("t", b"a" * 60 + b"b", timestamp_ms=2000)
    return ClusterClients(cluster.bootstrap)


@pytest_asyncio.fixture
async def searches() -> AsyncIterator[Searches]:
    searches = Searches(ProcessLimits(cpu_s=2))
    yield searches
    await searches.close()


async def ended(search: Search) -> Search:
    """Wait until a search is over."""
    await search.until_done(60)
    assert search.done
    return search


async def test_rows_progress_and_an_end(clients: ClusterClients, searches: Searches) -> None:
    wanted = replace(ALL, where="value.n >= 97", rows=3)
    search = searches.begin("s", clients, wanted)
    await search.pause(0, 60)
    assert search.rows, "the first row is news that do not wait"
    await search.pause(len(search.rows), 60)
    assert search.done, "nor does the end"
    assert [row.value for row in search.rows] == ['{"n": 97}', '{"n": 98}', '{"n": 99}']
    assert search.done == "rows"
    assert search.progress.total == 101
    whole = await ended(searches.begin("s", clients, replace(wanted, rows=4)))
    assert (whole.done, len(whole.rows), whole.progress.scanned) == ("end", 3, 101)
    await eventually(lambda: searches.running == 0)
    assert searches.begin("s", clients, wanted) is search, "the address is known"
    assert searches.find("other", wanted) is None
    searches.forget("s", wanted)
    assert searches.find("s", wanted) is None


async def test_what_is_found_while_news_are_sent_comes_with_the_next() -> None:
    """The last row comes, and the end, while a browser is sent how far the search is."""
    search = Search(ALL)
    rows = [Row(0, number, 0, None, "v", None, 1, 0, "committed") for number in range(3)]

    async def told(some: list[Row], scanned: int) -> None:
        progress = asdict(ReadProgress(total=9, scanned=scanned, found=len(some)))
        await search.take({"rows": [row.document() for row in some], "progress": progress})

    await told([], 1)
    news = search.follow()
    first = await anext(news)
    assert (first.rows, first.progress.scanned, first.done) == ((), 1, "")
    await told(rows[:2], 5)
    await told(rows[2:], 9)
    await search.take({"done": "end"})
    last = [each async for each in news]
    assert [each.rows for each in last] == [tuple(rows)]
    assert [each.done for each in last] == ["end"]
    (behind,) = [each async for each in search.follow(known_rows=2)]
    assert (behind.rows, behind.done) == ((rows[2],), "end")


async def test_a_regular_expression_without_end_is_ended_by_its_limit(
    clients: ClusterClients, searches: Searches
) -> None:
    search = await ended(searches.begin("s", clients, ENDLESS))
    assert (search.done, search.failure) == (
        "failed",
        "it was ended: it may use 2 s of processor time",
    )


async def test_one_that_is_stopped_ends_at_once_and_makes_room(clients: ClusterClients) -> None:
    searches = Searches()
    first = searches.begin("s", clients, ENDLESS)
    second = searches.begin("t", clients, ENDLESS)
    with pytest.raises(TooManyWorkersError, match="2 searches are running"):
        searches.begin("u", clients, ENDLESS)
    await first.wait(0, 0, 10)
    await searches.stop("s", ENDLESS)
    assert first.done == "stopped"
    await eventually(lambda: searches.running == 1)
    third = await ended(searches.begin("u", clients, replace(ALL, rows=1)))
    assert len(third.rows) == 1
    assert not second.done
    await searches.close()
    assert searches.running == 0


async def test_a_value_that_takes_too_much_memory_ends_the_search_alone(
    cluster: Cluster, clients: ClusterClients
) -> None:
    async with Producer(cluster.bootstrap, compression_type="gzip") as producer:
        await producer.send("t", b"[" + b"{}," * 300_000 + b"{}]")
    searches = Searches(ProcessLimits(memory_bytes=60 << 20))
    search = await ended(
        searches.begin("s", clients, replace(ALL, where="size > 1000 and value[9] is missing"))
    )
    assert search.done == "failed"
    assert "60 MiB" in search.failure
    await searches.close()


async def test_one_that_nobody_looks_at_is_ended(
    clients: ClusterClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "UNSEEN_S", 0.5)
    searches = Searches()
    search = await ended(searches.begin("s", clients, ENDLESS))
    assert (search.done, search.failure) == ("stopped", "nobody looked at it any more")
    await eventually(lambda: searches.running == 0)
    await searches.close()


async def test_one_that_cannot_ask_says_why(searches: Searches, clients: ClusterClients) -> None:
    search = await ended(searches.begin("s", clients, replace(ALL, topic="none")))
    assert search.done == "failed"
    assert "none" in search.failure
    search = await ended(searches.begin("s", clients, replace(ALL, partitions=(3,))))
    assert "there is no 3" in search.failure


async def test_lines_are_those_of_the_command(
    cluster: Cluster, clients: ClusterClients, searches: Searches
) -> None:
    wanted = replace(ALL, where="value.n < 3").absolute(3000, {0: 101})
    lines = b"".join([part async for part in searches.lines(clients, wanted)])
    shown = await oncelog(*wanted.command(), bootstrap=cluster.bootstrap)
    assert lines.decode() == shown.out
    assert len(shown.json_lines) == 3


async def test_lines_that_end_early_say_so(clients: ClusterClients, searches: Searches) -> None:
    parts = [part async for part in searches.lines(clients, ENDLESS)]
    assert "processor time" in json.loads(parts[-1])["failed"]
    leaving = searches.lines(clients, replace(ALL, where="value.n >= 0"))
    assert await anext(leaving)
    await leaving.aclose()
    await eventually(lambda: searches.running == 0)
