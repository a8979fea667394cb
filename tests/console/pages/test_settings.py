"""A browser keeps its zone and theme; what does not exist is refused."""

from __future__ import annotations

import pytest

from oncelog_console.look import COOKIE
from support.console import Browser


async def test_a_zone_is_kept_and_used_for_every_time(browser: Browser) -> None:
    assert "UTC" in (await browser.get("/settings")).text
    taken = await browser.get("/settings?zone=Asia/Tokyo&theme=dark")
    assert taken.location == "/settings"
    assert browser.cookies[COOKIE] == "dark.Asia/Tokyo"
    page = (await browser.get("/")).text
    assert 'data-theme="dark"' in page
    assert 'data-zone="Asia/Tokyo"' in page
    assert "Asia/Tokyo" not in (await browser.another().get("/")).text


@pytest.mark.parametrize("query", ["zone=Mars/Base", "theme=pink", "zone=" + "x" * 100])
async def test_what_does_not_exist_is_refused(browser: Browser, query: str) -> None:
    assert (await browser.get(f"/settings?{query}")).status == 400
    assert COOKIE not in browser.cookies


async def test_it_says_what_was_asked_and_what_is_allowed(browser: Browser) -> None:
    page = (await browser.get("/settings")).text
    assert "log dirs" in page
    assert "not allowed" in page
