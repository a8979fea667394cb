"""The events page shows those of ``cluster events`` that its address means, and what was missed."""

from __future__ import annotations

import pytest

from oncelog_cli.documents.answer import Failure
from oncelog_console.pages.events import DRAWN_MAX, PAGE_ROWS, Filter, events_view
from oncelog_runtime.clock import SystemWallClock
from support.cluster import Cluster
from support.console import Browser, console_of
from support.event_rows import event
from support.happened import happened

NOW_MS = 1_800_000_000_000
ROWS = [
    event("leader_began", NOW_MS - 5_000, partition="orders-3", leader_epoch=3),
    event("isr_changed", NOW_MS - 4_000, broker_id=2, partition="orders-3", after=[1]),
    event("log_dir_offline", NOW_MS - 3_000, level="error", sequence=1, log_dir="/data"),
    event("leader_began", NOW_MS - 2_000, partition="orders-3", leader_epoch=6, sequence=2),
]


def test_all_events_newest_first() -> None:
    view = events_view(ROWS, Filter(), brokers=[1, 2], now_ms=NOW_MS)
    assert [each.row["name"] for each in view.rows] == [row["name"] for row in ROWS[::-1]]
    assert [each.letter for each in view.rows] == ["L", "D", "I", "L"]
    assert [each.bad for each in view.rows] == [False, True, False, False]
    assert [gap.text for gap in view.gaps] == ["epochs 4 and 5 of orders-3 were not seen"]
    assert (view.count, view.pages, view.forgotten) == (4, 1, {})
    assert view.lanes is not None


@pytest.mark.parametrize(
    ("chosen", "names", "gaps"),
    [
        (Filter(kinds=("isr", "disk")), ["log_dir_offline", "isr_changed"], 0),
        (Filter(topic="orders"), ["leader_began", "isr_changed", "leader_began"], 1),
        (Filter(topic="other"), [], 0),
        (Filter(broker=2), ["isr_changed"], 1),
        (Filter(since_ms=NOW_MS - 3_000), ["leader_began", "log_dir_offline"], 1),
        (Filter(until_ms=NOW_MS - 4_000), ["leader_began"], 1),
        (Filter(since_ms=NOW_MS - 1_000), [], 0),
        (Filter(until_ms=NOW_MS - 9_000), [], 0),
    ],
)
def test_filters(chosen: Filter, names: list[str], gaps: int) -> None:
    view = events_view(ROWS, chosen, brokers=[1], now_ms=NOW_MS)
    assert [each.row["name"] for each in view.rows] == names
    assert len(view.gaps) == gaps
    assert (view.lanes is None) == (not names)


def test_an_address_and_a_command_say_all_of_a_filter() -> None:
    chosen = Filter(("isr", "topic"), "a b", 2, NOW_MS, NOW_MS + 1)
    assert chosen.address(3) == (
        "/events?kind=isr,topic&topic=a+b&broker=2&since=2027-01-15T08:00:00.000Z"
        "&until=2027-01-15T08:00:00.001Z&page=3"
    )
    command = chosen.command()
    assert command[:4] == ("cluster", "events", "--event", "isr_changed")
    assert command[-2:] == ("--until", "2027-01-15T08:00:00.001Z")
    assert (Filter().address(), Filter().command()) == ("/events", ("cluster", "events"))


def test_many_events_come_in_parts() -> None:
    rows = [event("isr_changed", n, partition="t-0") for n in range(DRAWN_MAX + 5)]
    view = events_view(rows, Filter(), brokers=[], now_ms=NOW_MS, page=2)
    assert view.rows[0].row["timestamp_ms"] == DRAWN_MAX + 4 - PAGE_ROWS
    assert (len(view.rows), view.not_drawn) == (PAGE_ROWS, 5)
    last = events_view(rows, Filter(), brokers=[], now_ms=NOW_MS, page=999)
    assert last.page == last.pages


def test_what_nobody_has_told_is_not_nothing() -> None:
    silent = [Failure("broker 1", "did not answer")]
    view = events_view(None, Filter(), brokers=[1], now_ms=NOW_MS, failures=silent)
    assert (view.known, view.rows, view.lanes) == (False, (), None)
    assert view.failures == tuple(silent)
    assert events_view([], Filter(), brokers=[1], now_ms=NOW_MS).known


async def test_a_page_without_events_says_what_would_be_one(browser: Browser) -> None:
    await browser.until(lambda seen: seen.events.value)
    page = await browser.get("/events")
    assert page.status == 200
    assert "oncelog topics create NAME" in page.text
    document = await browser.document("/events")
    assert (document["_command"], document["events"]) == ("cluster events", [])


async def test_events_of_a_broker(cluster: Cluster) -> None:
    """Brokers in the process of a test keep what they are given: nobody records for them."""
    history = cluster.brokers[1].events
    at_ms = SystemWallClock().now_ms() - 10_000
    for topic in ("orders", "other"):
        history.add(happened("topic_created", at_ms, topic=topic))
    for epoch in (3, 6):
        history.add(happened("leader_began", at_ms, partition="orders-3", leader_epoch=epoch))
    async with console_of(cluster.bootstrap) as browser:
        await browser.until(lambda seen: seen.events.value)
        page = await browser.get("/events?kind=topic,leader&topic=orders")
        assert page.status == 200
        assert "<code>topic_created</code>" in page.text
        assert "topic orders" in page.text
        assert "epochs 4 and 5 of orders-3 were not seen" in page.text
        assert "--event topic_created" in page.text
        document = await browser.document("/events?kind=topic&topic=orders")
        assert [row["fields"]["topic"] for row in document["events"]] == ["orders"]
        document = await browser.document("/events?kind=topic&kind=leader&since=1h")
        assert len(document["events"]) == 4
        part = (await browser.get("/events?topic=orders&since=1h")).text
        assert '<a class="button" href="/events?topic=orders">all of the time</a>' in part
        assert "all of the time" not in page.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("kind=nonsense", "there are leader"),
        ("since=soon", "is no time"),
        ("until=9999-99-99", "is no time"),
        ("since=9999999999999999", "is no time"),
        ("broker=x", "is no number"),
    ],
)
async def test_what_makes_no_sense(browser: Browser, query: str, said: str) -> None:
    page = await browser.get(f"/events?{query}")
    assert page.status == 400
    assert said in page.text
