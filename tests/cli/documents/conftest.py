"""Documents are asked for with an admin client, as commands and whoever shows a cluster do it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from oncelog import Admin
from support.admin_cluster import AdminCluster
from support.cluster import Cluster


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[AdminCluster]:
    """Start two scripted brokers: a test says what they have, and what goes wrong."""
    async with AdminCluster(2) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def real(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start a broker that decides by ACLs, and lets whoever asks here do everything."""
    async with Cluster(tmp_path, authorizer="acl", super_users=["User:ANONYMOUS"]) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def asker(fake: AdminCluster) -> AsyncIterator[Admin]:
    """Connect an admin client to the scripted brokers."""
    async with Admin(fake.bootstrap) as admin:
        yield admin


@pytest_asyncio.fixture
async def admin(real: Cluster) -> AsyncIterator[Admin]:
    """Connect an admin client to the real broker."""
    async with Admin(real.bootstrap) as admin:
        yield admin
