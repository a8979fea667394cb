"""Tests of the console have one real broker, and the application that shows it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog import Admin
from support.cluster import Cluster
from support.console import Browser, console_of


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start one broker."""
    async with Cluster(tmp_path) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Admin]:
    """Connect an admin client."""
    async with Admin(cluster.bootstrap) as admin:
        yield admin


@pytest_asyncio.fixture
async def browser(cluster: Cluster) -> AsyncIterator[Browser]:
    """Start a console that changes nothing, and open a browser."""
    async with console_of(cluster.bootstrap) as browser:
        yield browser


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """Leave the root logger as it was: the console's program configures it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
