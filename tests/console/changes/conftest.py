"""Changes are tested on a real broker, by a console that may change it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from support.changes import Workshop
from support.cluster import Cluster
from support.console import Browser, console_of


@pytest_asyncio.fixture
async def browser(cluster: Cluster) -> AsyncIterator[Browser]:
    """Start a console that may change the cluster, and open a browser."""
    async with console_of(cluster.bootstrap, changes=True) as browser:
        yield browser


@pytest_asyncio.fixture
async def shop(browser: Browser) -> Workshop:
    """Somebody is about to change the cluster."""
    return Workshop(browser)
