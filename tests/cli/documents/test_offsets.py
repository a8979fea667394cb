"""Each partition has its own offset, or its own failure."""

from __future__ import annotations

import pytest

from oncelog import Admin, TopicPartition
from oncelog_cli.documents.offsets import held_offsets, listed_offsets
from oncelog_cli.exits import CommandError
from oncelog_cli.offset_range import HeldOffsets
from oncelog_protocol.records.builder import encode_batch
from support.admin_cluster import AdminCluster

T0, T7 = TopicPartition("t", 0), TopicPartition("t", 7)


async def test_ends_times_and_what_is_not_there(fake: AdminCluster, asker: Admin) -> None:
    for number, partition in enumerate(fake.create_topic("t", 2)):
        for n in range(3):
            partition.append(encode_batch([b"x"], timestamps=1000 + 100 * n + number))
    answer = await listed_offsets(asker, ["t", "none"], 1200, isolation_level="read_uncommitted")
    assert (answer.document["at"], answer.document["isolation_level"]) == (1200, "read_uncommitted")
    rows = answer.document["offsets"]
    assert [(row["offset"], row["timestamp_ms"]) for row in rows] == [(2, 1200), (2, 1201)]
    assert [each.item for each in answer.failures] == ["none"]

    answer = await listed_offsets(
        asker, ["t"], "latest", partitions=[7, 0], isolation_level="read_uncommitted"
    )
    assert [(row["partition"], row["offset"]) for row in answer.document["offsets"]] == [(0, 3)]
    assert [each.item for each in answer.failures] == ["t-7"]
    with pytest.raises(CommandError, match="no topic matches"):
        await listed_offsets(
            asker, ["x.*"], "latest", regex=True, isolation_level="read_uncommitted"
        )


async def test_what_partitions_hold(fake: AdminCluster, asker: Admin) -> None:
    (partition,) = fake.create_topic("t")
    partition.append(encode_batch([b"x"] * 5, timestamps=1000))
    partition.log_start_offset = 2
    partition.append(
        encode_batch([b"y"], timestamps=[1000], producer_id=7, producer_epoch=0, transactional=True)
    )
    held, errors = await held_offsets(asker, [T0, T7])
    assert held == {T0: HeldOffsets(2, 5)}, "the end is not that of an open transaction"
    assert list(errors) == [T7]
    assert await held_offsets(asker, []) == ({}, {})
