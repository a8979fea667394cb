"""A command that watches goes on while it does not know, and ends when it has seen enough."""

from __future__ import annotations

import pytest

from oncelog import Admin
from oncelog.errors import NoBrokersAvailableError
from oncelog_cli.exits import UsageError
from oncelog_cli.watching import look_again, seconds_of
from support.fake_cluster import FakeCluster


async def test_it_looks_until_it_has_seen_enough() -> None:
    found: list[object] = []

    def seen(topics: list[str] | Exception) -> bool:
        found.append(topics)
        cluster.create_topic("t")
        return topics == ["t"]

    async def look(admin: Admin) -> list[str]:
        return await admin.list_topics()

    async with FakeCluster() as cluster:
        await look_again(cluster.bootstrap, look, seen, 0.001)
    assert found == [[], ["t"]]


async def test_a_cluster_that_does_not_answer_may_yet_come() -> None:
    found: list[object] = []

    def seen(topics: list[str] | Exception) -> bool:
        found.append(topics)
        return len(found) == 2

    async def look(admin: Admin) -> list[str]:
        return await admin.list_topics()

    await look_again("127.0.0.1:1", look, seen, 0.001)
    assert [type(each) for each in found] == [NoBrokersAvailableError] * 2
    await look_again("127.0.0.1:1", look, seen, 60.0, 0.001)
    assert len(found) == 3, "the next look would be too late"


def test_durations() -> None:
    assert seconds_of("--interval", "1m30s") == 90.0
    assert seconds_of("--interval", "0s") == 0.001
    with pytest.raises(UsageError, match="--interval 'soon'"):
        seconds_of("--interval", "soon")
