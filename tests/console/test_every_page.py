"""Each page stands with data, with nothing to show, beside a dead broker, and without changes."""

from __future__ import annotations

import asyncio
import html
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.cluster import Cluster
from support.console import Answered, Browser, console_of
from support.console_pages import EXAMPLES
from support.seeded_cluster import Seeded, seeded_cluster
from support.shell import oncelog

pytestmark = pytest.mark.slow

OF_NOTHING = {
    "/topics/{topic}",
    "/topics/{topic}/{partition}/log",
    "/topics/{topic}/messages",
    "/topics/{topic}/{partition:int}/{offset:int}",
    "/brokers/{broker}",
    "/groups/{group:path}",
    "/transactions/{id:path}",
    "/plans/{plan}",
}
"""Routes that name one thing: where it does not exist they say so, and need no more."""

DOCUMENTS = {"overview", "topics", "topic", "log", "brokers", "broker", "groups", "group",
             "transactions", "transaction", "producers", "events"}  # fmt: skip
"""Other pages have no document: their commands print lines, or there is no command."""

CHANGES = tuple(each for each in EXAMPLES if each.route.startswith(("/changes", "/plans")))
OWN_FORMS = {"/refresh", "/settings", "/sign-out", "/topics/orders/messages/stop"}
"""They change nothing in the cluster."""
READ = tuple(each for each in EXAMPLES if each not in CHANGES)


async def seen(browser: Browser, path: str) -> Answered:
    """Return a page, which must be one: a whole page with a heading, whatever it says."""
    answered = await browser.get(path)
    if answered.status == 303:  # to the same, spelled out
        answered = await browser.follow(answered)
    assert answered.status in (200, 404), f"{path}: {answered.status} {answered.text}"
    assert "<h1" in answered.text
    assert answered.text.rstrip().endswith("</html>"), path
    assert "Traceback" not in answered.text
    return answered


def posts(page: str) -> set[str]:
    """Return where the forms of a page go that send something."""
    forms = re.findall(r"<form[^>]*>", page)
    return {
        found[1]
        for form in forms
        if 'method="post"' in form and (found := re.search(r'action="([^"]*)"', form))
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeded() -> AsyncIterator[Seeded]:
    async with seeded_cluster() as seeded:
        yield seeded


@pytest.mark.asyncio(loop_scope="module")
async def test_with_data(seeded: Seeded) -> None:
    async with console_of(seeded.bootstrap, changes=True) as browser:
        for example in EXAMPLES:
            if not example.press:  # a plan is made by a form
                assert (await seen(browser, example.path)).status == 200, example.path


@pytest.mark.asyncio(loop_scope="module")
async def test_without_changes(seeded: Seeded) -> None:
    """Without permission there is no page of changes, and only the frame of a page has forms."""
    async with console_of(seeded.bootstrap) as browser:
        for example in CHANGES:
            assert (await seen(browser, example.path)).status == 404, example.path
        for example in READ:
            page = await seen(browser, example.path)
            assert page.status == 200, example.path
            assert "read-only" in page.text
            assert posts(page.text) <= OWN_FORMS, example.path
            assert 'href="/changes' not in page.text, example.path


async def test_with_nothing(tmp_path: Path) -> None:
    """A list that has nothing to show says what would fill it."""
    async with Cluster(tmp_path) as cluster, console_of(cluster.bootstrap) as browser:
        for example in READ:
            page = await seen(browser, example.path)
            exists = example.route not in OF_NOTHING or example.path == "/brokers/1"
            assert page.status == (200 if exists else 404), example.path
        for path, word in (
            ("/topics", "oncelog topics create"),
            ("/groups", "oncelog consume"),
            ("/transactions", "transactional"),
        ):
            assert word in (await browser.get(path)).text, path


async def _is_printed(browser: Browser, path: str, bootstrap: str) -> bool:
    """Return whether the document of a page is what the command that it names prints."""
    answered = await browser.get(path, accept="application/json")
    (line,) = re.findall(r'data-copy="([^"]*)"', (await browser.get(path)).text)
    _, *words = shlex.split(html.unescape(line))
    printed = await oncelog(*words, "--json", bootstrap=bootstrap)
    assert printed.code == 0, printed.err
    of_command = {k: v for k, v in answered.document.items() if not k.startswith("_")}
    return all(value == printed.document.get(key) for key, value in of_command.items())


@pytest.mark.asyncio(loop_scope="module")
async def test_as_a_document(seeded: Seeded) -> None:
    """The document of a page is what the command that it names prints with ``--json``."""
    compared = set()
    async with console_of(seeded.bootstrap) as browser:
        for example in READ:
            answered = await browser.get(example.path, accept="application/json")
            if answered.status != 200 or "json" not in answered.headers["content-type"]:
                continue
            # The console asks now and then: it knows the last changes a little later.
            try:
                async with asyncio.timeout(30):
                    while not await _is_printed(browser, example.path, seeded.bootstrap):
                        await asyncio.sleep(0.2)
            except TimeoutError:
                pytest.fail(f"{example.path} does not say what its command prints")
            compared.add(example.name)
    assert compared == DOCUMENTS


@pytest.mark.asyncio(loop_scope="module")
async def test_beside_a_dead_broker(seeded: Seeded) -> None:
    """Every page is still there; those of the cluster name the broker that does not answer."""
    async with console_of(seeded.bootstrap) as browser:
        await seeded.cluster.kill(3)
        await browser.until(
            lambda known: known.cluster.value and len(known.cluster.value.brokers) < 3
        )
        for example in READ:
            page = await seen(browser, example.path)
            assert page.status == 200, f"{example.path}: {page.text}"
        brokers = (await browser.get("/brokers")).text
        assert re.search(r">3</a>.*?away.*?last seen", brokers, re.DOTALL)


def test_the_routes_that_name_one_thing_are_routes() -> None:
    assert {each.route for each in EXAMPLES} >= OF_NOTHING
