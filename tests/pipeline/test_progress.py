"""A query's place is a group's offsets on a real broker."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, TopicPartition
from pipeline.fake_topics import apart
from pyspark_oncelog.offsets import LogOffsets, TopicOffsets
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.progress import Progress
from support.cluster import Cluster
from support.waiting import eventually

pytestmark = pytest.mark.usefixtures("fresh_connections")
SETTINGS: dict[str, Any] = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "group_initial_rebalance_delay_ms": 0,
}


def place(offset: int) -> LogOffsets:
    return LogOffsets({"t": TopicOffsets("x", {0: offset})})


def options_for(cluster: Cluster, **given: str) -> SourceOptions:
    told = {"bootstrap.servers": cluster.bootstrap, "subscribe": "t", "groupId": "etl", **given}
    return SourceOptions.parse(told)


async def committed(admin: Admin) -> int | None:
    tp = TopicPartition("t", 0)
    found = (await admin.list_group_offsets("etl", [tp]))[tp]
    return None if found is None else found.offset


async def test_the_newest_place_is_shown(tmp_path: Path) -> None:
    async with Cluster(tmp_path, **SETTINGS) as cluster, Admin(cluster.bootstrap) as admin:
        await cluster.create_topic("t")
        progress = Progress(options_for(cluster))
        for offset in range(1, 40):
            await apart(progress.reached, place(offset))
        progress.wait_from_now_on()
        await apart(progress.reached, place(40))
        assert await committed(admin) == 40
        (group,) = await admin.describe_groups(["etl"])
        assert group.state == "Empty"


async def test_nothing_is_published_unless_it_is_wanted(tmp_path: Path) -> None:
    async with Cluster(tmp_path, **SETTINGS) as cluster, Admin(cluster.bootstrap) as admin:
        await cluster.create_topic("t")
        progress = Progress(options_for(cluster, publishProgress="false"))
        progress.wait_from_now_on()
        await apart(progress.reached, place(1))
        assert await committed(admin) is None


async def test_a_failure_is_logged_once_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(tmp_path, **SETTINGS) as cluster, Admin(cluster.bootstrap) as admin:
        await cluster.create_topic("t")
        member = Consumer("t", bootstrap_servers=cluster.bootstrap, group_id="etl")
        async with member:
            polling = asyncio.create_task(member.getone())
            await eventually(lambda: bool(member.assignment()), timeout_s=20)
            progress = Progress(options_for(cluster))
            progress.wait_from_now_on()
            with caplog.at_level(logging.WARNING):
                for offset in (1, 2, 3):
                    await apart(progress.reached, place(offset))
            assert caplog.text.count("progress of the query is not shown in group 'etl'") == 1
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        await apart(progress.reached, place(4))
        assert await committed(admin) == 4


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_two_queries_with_one_group_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(tmp_path, **SETTINGS) as cluster:
        await cluster.create_topic("t")
        one, other = Progress(options_for(cluster)), Progress(options_for(cluster))
        one.wait_from_now_on()
        other.wait_from_now_on()

        async def reach(progress: Progress, *offsets: int) -> None:
            for offset in offsets:
                await apart(progress.reached, place(offset))

        await reach(one, 1, 2, 3)
        assert not warnings_in(caplog)
        await reach(other, 7)
        await reach(one, 4, 5)
        told = warnings_in(caplog)
        assert len(told) == 1
        assert (
            "another query publishes its progress to group 'etl' as well (t-0 has moved)" in told[0]
        )
        await reach(other, 8, 9)
        assert len(warnings_in(caplog)) == 2  # each says it, once
