"""Disks are shown as they are and as moves would leave them; what is not known is None."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from oncelog import Admin, TopicPartition
from oncelog.admin.results import LogDirDescription, ReplicaDescription
from oncelog.errors import BrokerNotAvailableError
from oncelog_cli.documents.answer import Row
from oncelog_cli.documents.disks import disks_afterwards


class Disks:
    """It stands for an admin whose brokers say this of their directories."""

    def __init__(self, *described: LogDirDescription) -> None:
        self.described = described
        self.asked: list[Any] = []

    async def describe_log_dirs(
        self, brokers: Iterable[int], *, topics: set[str], timeout_ms: int
    ) -> list[LogDirDescription]:
        """Return the directories of the brokers that are meant."""
        self.asked.append((list(brokers), topics))
        return [each for each in self.described if each.broker_id in brokers]


def directory(broker: int, total: int, free: int, *sizes: int) -> LogDirDescription:
    """Return a directory in which the first partitions of topic t have these sizes."""
    held = tuple(
        ReplicaDescription(TopicPartition("t", number), size, 0, 9, 9)
        for number, size in enumerate(sizes)
    )
    return LogDirDescription(broker, "/data", None, total, free, held)


def move(number: int, adding: list[int], removing: list[int], size: int | None, **more: Any) -> Row:
    row = {"topic": "t", "partition": number, "adding": adding, "removing": removing}
    return {**row, "bytes_to_copy": size, "result": "would move", **more}


async def seen(admin: Disks, *rows: Row) -> list[Row]:
    return await disks_afterwards(cast("Admin", admin), rows)


def used(rows: list[Row]) -> dict[int, tuple[int | None, int | None]]:
    return {row["broker_id"]: (row["used_bytes"], row["used_bytes_after"]) for row in rows}


async def test_copies_fill_disks_and_replicas_that_go_empty_them() -> None:
    admin = Disks(
        directory(1, 1000, 200, 300, 100), directory(2, 1000, 900), directory(3, 500, 500)
    )
    rows = await seen(admin, move(0, [2, 3], [1], 600), move(1, [2], [], 100))
    assert used(rows) == {1: (800, 500), 2: (100, 500), 3: (0, 300)}
    assert [(row["percent"], row["percent_after"]) for row in rows] == [(80, 50), (10, 50), (0, 60)]
    assert [row["total_bytes"] for row in rows] == [1000, 1000, 500]
    assert admin.asked == [([1, 2, 3], {"t"})]


async def test_the_directories_of_a_broker_count_together() -> None:
    admin = Disks(directory(1, 1000, 500, 300), directory(1, 3000, 2700), directory(2, 100, 90))
    rows = await seen(admin, move(0, [2], [1], 300))
    assert used(rows) == {1: (800, 500), 2: (10, 310)}
    assert rows[1]["percent_after"] == 310  # it would not fit, and that is shown


@pytest.mark.parametrize(
    "row",
    [
        move(0, [2], [1], 5, result="refused"),
        move(0, [2], [1], 5, result="nothing to do"),
        move(0, [], [], 0),
    ],
)
async def test_nobody_is_asked_when_no_replica_comes_or_goes(row: Row) -> None:
    admin = Disks()
    assert await seen(admin, row) == []
    assert admin.asked == []


async def test_what_is_not_known() -> None:
    silent = LogDirDescription(1, "", BrokerNotAvailableError("broker 1 is not alive"))
    broken = LogDirDescription(3, "/data2", BrokerNotAvailableError("offline"))
    admin = Disks(silent, directory(2, 1000, 500), directory(3, 1000, 500), broken)
    rows = await seen(admin, move(0, [2], [1], 100), move(1, [3], [1], 100))
    assert used(rows) == {1: (None, None), 2: (500, 600), 3: (None, None)}
    rows = await seen(admin, move(0, [2], [1], 100), move(1, [2], [], None))
    assert used(rows)[2] == (500, None)
    assert (rows[1]["percent"], rows[1]["percent_after"]) == (50, None)
