"""The footing of the tests with a browser: what it shall notice is noticed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from oncelog_runtime.http_port import HttpPort
from support.browser import People, inaccessible
from support.tools import tool
from support.waiting import eventually

POLICY = "default-src 'none'; script-src 'self'; img-src 'self' data:"
PAGES = {
    "good": '<html lang="en"><title>Good</title><main><h1>Good</h1></main>',
    "elsewhere": '<title>x</title><img alt="" src="http://127.0.0.1:9/far.png">',
    "inline": "<title>x</title><script>document.title = 'ran'</script>",
    "failing": '<title>x</title><script src="/failing.js"></script>',
    "faint": '<html lang="en"><title>x</title><main><h1 style="color: #eee">Faint</h1></main>',
    "pale": '<html lang="en"><title>x</title><main><h1>x</h1><img src="data:,"></main>',
}
SCRIPTS = {"failing": "undefinedFunction()"}


def page(request: Request) -> Response:
    name = request.path_params["name"]
    headers = {"content-security-policy": POLICY} if name not in ("elsewhere", "faint") else {}
    return HTMLResponse(f"<!doctype html>{PAGES[name]}", headers=headers)


def script(request: Request) -> Response:
    return PlainTextResponse(SCRIPTS[request.path_params["name"]], media_type="text/javascript")


def nothing(request: Request) -> Response:
    return Response(status_code=204)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def origin() -> AsyncIterator[str]:
    """Serve the pages."""
    routes = [
        Route("/favicon.ico", nothing),
        Route("/{name}.js", script),
        Route("/{name}", page),
    ]
    port = HttpPort(Starlette(routes=routes))
    await port.start("127.0.0.1", 0)
    yield "http://{}:{}".format(*port.address)
    await port.close()


def test_a_browser_that_is_named_and_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = tool("get_chromium")
    monkeypatch.setenv("ONCELOG_CHROMIUM", str(tmp_path / "chromium"))
    with pytest.raises(programs.NotAvailableError, match="which is no program"):
        programs.get()


def test_who_may_not_install_a_browser_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = tool("get_chromium")
    monkeypatch.delenv("ONCELOG_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.find() is None
    with pytest.raises(programs.NotAvailableError, match=r"no apt-get\. Remedy: install Chromium"):
        programs.get()


async def test_a_good_page_has_no_complaint(people: People, origin: str) -> None:
    person = await people.come(origin)
    window = await person.open("/good")
    assert await window.title() == "Good"
    assert await inaccessible(window) == []
    assert person.complaints == []


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/elsewhere", "request to elsewhere: GET http://127.0.0.1:9/far.png"),
        ("/inline", "policy of contents: script-src-elem inline"),
        ("/failing", "page error: undefinedFunction is not defined"),
    ],
)
async def test_what_goes_wrong_is_noticed(
    people: People, origin: str, path: str, complaint: str
) -> None:
    person = await people.come(origin)
    person.expect("")
    window = await person.open(path)
    await eventually(lambda: any(complaint in each for each in person.complaints))
    assert await window.title() == "x"


async def test_a_complaint_that_nobody_expected_is_told_at_the_end(
    browser: Browser, origin: str
) -> None:
    crowd = People(browser)
    person = await crowd.come(origin)
    person.expect("policy of contents")
    await person.open("/failing")
    await eventually(lambda: bool(person.unexpected))
    (complaint,) = await crowd.leave()
    assert complaint.startswith("page error: undefinedFunction")


async def test_what_some_people_cannot_use_is_found(people: People, origin: str) -> None:
    person = await people.come(origin, scheme="dark")
    window = await person.open("/pale")
    assert [each.partition(":")[0] for each in await inaccessible(window)] == ["image-alt"]


async def test_colours_that_some_people_cannot_read_are_found(people: People, origin: str) -> None:
    person = await people.come(origin)
    window = await person.open("/faint")
    for alone in (False, True):
        (found,) = await inaccessible(window, colours_alone=alone)
        assert found.startswith("color-contrast")
    other = await person.open("/pale")
    assert await inaccessible(other, colours_alone=True) == [], "a picture without words is not one"


async def test_people_have_zones_and_may_switch_scripts_off(people: People, origin: str) -> None:
    far = await people.come(origin, zone="Asia/Tokyo")
    window = await far.open("/good")
    zone = "() => Intl.DateTimeFormat().resolvedOptions().timeZone"
    assert await window.evaluate(zone) == "Asia/Tokyo"
    plain = await people.come(origin, script=False)
    assert await (await plain.open("/failing")).title() == "x"
    assert plain.complaints == []
