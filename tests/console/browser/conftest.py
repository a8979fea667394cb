"""A real browser is started once for all tests of the console in a process.

They share one event loop: that of the session, on which the browser's connection lives. Where there
is no Chromium they are skipped, but with ONCELOG_REQUIRE_BROWSER, as in continuous integration.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from support.tools import tool

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from support.browser import People

REQUIRED = bool(os.environ.get("ONCELOG_REQUIRE_BROWSER"))
HERE = Path(__file__).parent

# The extra `unit` has no Playwright: then there is nothing here that could be imported.
if importlib.util.find_spec("playwright") is None and not REQUIRED:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every coroutine of this folder the loop on which the browser is."""
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Start Chromium."""
    from support.browser import chromium

    programs = tool("get_chromium")
    try:
        program = programs.find()
    except programs.NotAvailableError as error:
        pytest.fail(str(error))
    if program is None:
        if REQUIRED:
            pytest.fail("ONCELOG_REQUIRE_BROWSER is set, and there is no Chromium on PATH")
        pytest.skip("no Chromium on PATH; tools/get_chromium.py says how to get one")
    async with chromium(program) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def people(browser: Browser) -> AsyncIterator[People]:
    """Have people come to the browser; fail when something went wrong in one of their windows."""
    from support.browser import People

    crowd = People(browser)
    yield crowd
    complaints = await crowd.leave()
    assert not complaints, "\n".join(complaints)
