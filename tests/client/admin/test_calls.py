"""The parts of the admin client share deadlines."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import Admin
from oncelog.errors import ClosedError
from support.fake_cluster import FakeCluster


async def test_deadlines_are_in_the_loops_time() -> None:
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        before_s = asyncio.get_running_loop().time()
        deadline = admin._deadline(5_000)
        assert before_s + 5 <= deadline <= asyncio.get_running_loop().time() + 5
        assert 0 < admin._left_ms(deadline) <= 5_000
        assert admin._left_ms(before_s - 1) == 1


async def test_a_closed_client_has_no_deadlines() -> None:
    admin = Admin("localhost:1")
    with pytest.raises(ClosedError):
        admin._deadline(1_000)
