"""Requests get an answer for what they are: pages, documents, streams, forms and mistakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncelog_console import app, rights
from oncelog_console.app import own_path, with_heartbeats
from oncelog_console.page import server_sent
from oncelog_console.pages import CHANGES, PAGES
from support.cluster import Cluster
from support.console import Browser, console_of


async def test_no_page_and_no_such_method(browser: Browser) -> None:
    answered = await browser.get("/no/such/page")
    assert answered.status == 404
    assert "there is no page /no/such/page" in answered.text
    refused = await browser.get("/no/such/page", accept="application/json")
    assert refused.document["errors"][0]["error"] == "NotFoundError"
    assert (await browser.get("/static/none.js")).status == 404
    assert (await browser.get("/static/..%2F__init__.py")).status == 404


async def test_a_page_without_a_command_has_no_document(browser: Browser) -> None:
    assert (await browser.get("/settings", accept="application/json")).status == 406


async def test_rights_that_cannot_be_asked_are_an_error_page(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("an answer that nobody expected")

    monkeypatch.setattr(rights, "rights_of", broken)
    async with console_of(cluster.bootstrap, changes=True) as browser:
        answered = await browser.get("/")
        assert answered.status == 500
        assert "this page failed; the log of the console says more" in answered.text
        assert "<nav" in answered.text


async def test_static_files_are_kept_by_browsers_until_they_change(browser: Browser) -> None:
    page = (await browser.get("/")).text
    address = page.partition('stylesheet" href="')[2].partition('"')[0]
    assert "immutable" in (await browser.get(address)).headers["cache-control"]
    assert (await browser.get("/static/console.css")).headers["cache-control"] == "no-store"


async def test_forms_are_bounded_before_they_are_read(browser: Browser) -> None:
    await browser.get("/")
    assert (await browser.post("/sign-in", {"token": "x" * 70_000})).status == 400
    assert (await browser.post("/sign-in", [("a", "1")] * 300)).status == 400


async def test_asking_anew_leads_back(browser: Browser) -> None:
    answered = await browser.post("/refresh", {"back": "/topics?q=a"})
    assert (answered.status, answered.location) == (303, "/topics?q=a")
    assert (await browser.post("/refresh", {"back": "//evil.example"})).location == "/"


async def test_routes_that_change_exist_only_where_changes_are_allowed(cluster: Cluster) -> None:
    async with console_of(cluster.bootstrap) as looking:
        paths = {getattr(route, "path", "") for route in looking.app.routes}
    async with console_of(cluster.bootstrap, changes=True) as changing:
        more = {getattr(route, "path", "") for route in changing.app.routes}
        assert "read-only" not in (await changing.get("/")).text
    assert paths <= more
    assert more - paths == {
        *(change.path for change in CHANGES),
        *(page.path for page in PAGES if page.changes),
    }


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/topics?q=1", "/topics?q=1"),
        ("//evil", "/"),
        ("/\\evil", "/"),
        ("https://evil", "/"),
        ("/a\r\nset-cookie: x=1", "/"),
        ("", "/"),
    ],
)
def test_paths_of_this_console(path: str, own: str) -> None:
    assert own_path(path) == own


async def test_a_stream_without_events_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "HEARTBEAT_S", 0.01)
    gate, closed = asyncio.Event(), asyncio.Event()

    async def events() -> AsyncIterator[str]:
        try:
            yield server_sent("row", "one\ntwo")
            await gate.wait()
            yield server_sent("row", "three")
        finally:
            closed.set()

    parts = with_heartbeats(events())
    assert await anext(parts) == "event: row\ndata: one\ndata: two\n\n"
    assert await anext(parts) == ": nothing new\n\n"
    gate.set()
    rest = [part async for part in parts]
    assert [part for part in rest if not part.startswith(":")] == ["event: row\ndata: three\n\n"]
    assert closed.is_set()


async def test_a_stream_that_nobody_hears_any_more_is_closed() -> None:
    closed = asyncio.Event()

    async def events() -> AsyncIterator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            closed.set()

    parts = with_heartbeats(events())
    assert await anext(parts) == "one"
    await parts.aclose()  # type: ignore[attr-defined]
    assert closed.is_set()
