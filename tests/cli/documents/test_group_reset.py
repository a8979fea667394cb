"""A reset is planned, and then it is carried out as planned or not at all."""

from __future__ import annotations

import pytest
import pytest_asyncio

from oncelog import Admin, OffsetReset
from oncelog.admin.group_results import GroupHasMembersError
from oncelog_cli.documents.group_reset import (
    executed_reset,
    offsets_of,
    planned_reset,
    reset_answer,
)
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import DescribedMember, OffsetCommitPartition
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster, KnownGroup

T0 = TopicPartition("t", 0)


@pytest_asyncio.fixture
async def cluster(fake: AdminCluster) -> AdminCluster:
    """Both partitions of t have ten records; g has committed offset 4 of t-0."""
    for log in fake.create_topic("t", 2):
        log.append(encode_batch([b"x"] * 10, timestamps=1000))
    fake.known_groups["g"] = KnownGroup(1)
    fake.known_groups["g"].offsets[T0] = OffsetCommitPartition(0, 4)
    return fake


async def test_it_is_written_as_it_was_planned(cluster: AdminCluster, asker: Admin) -> None:
    plan = await planned_reset(asker, "g", Chosen(("t",)), OffsetReset.shift_by(-2))
    answer = reset_answer(plan)
    assert (answer.document["group"], answer.document["executed"]) == ("g", False)
    rows = answer.document["offsets"]
    assert [(row["old"], row["new"], row["reset"]) for row in rows] == [
        (4, 2, False),
        (None, None, False),
    ]
    assert [(each.item, each.message) for each in answer.failures] == [
        ("t-1", "nothing committed that could be shifted")
    ]
    assert cluster.count(ApiKey.OFFSET_COMMIT) == 0

    cluster.partition("t", 0).append(encode_batch([b"y"], timestamps=2000))
    done = await executed_reset(asker, plan)
    assert [row["reset"] for row in done.document["offsets"]] == [True, False]
    assert (done.document["executed"], done.failures) == (True, answer.failures)
    assert cluster.known_groups["g"].offsets[T0].offset == 2


async def test_a_member_that_joins_meanwhile_ends_it(cluster: AdminCluster, asker: Admin) -> None:
    plan = await planned_reset(asker, "g", None, OffsetReset.to_latest())
    cluster.known_groups["g"].members = [DescribedMember("m1", None, "app", "10.0.0.1")]
    with pytest.raises(GroupHasMembersError):
        await executed_reset(asker, plan)
    assert cluster.known_groups["g"].offsets[T0].offset == 4


async def test_a_partition_that_is_refused(cluster: AdminCluster, asker: Admin) -> None:
    plan = await planned_reset(asker, "g", None, {("t", 0): 77})
    (row,) = reset_answer(plan).document["offsets"]
    assert (row["new"], row["note"]) == (10, "77 is beyond the end, 10 instead")
    del cluster.topics["t"]
    answer = await executed_reset(asker, plan)
    assert [row["reset"] for row in answer.document["offsets"]] == [False]
    assert [(each.item, each.entry()["error"]) for each in answer.failures] == [
        ("t-0", "UNKNOWN_TOPIC_OR_PARTITION")
    ]


async def test_offsets_of_another_group(cluster: AdminCluster, asker: Admin) -> None:
    assert await offsets_of(asker, "g", None) == {("t", 0): 4}
    assert await offsets_of(asker, "g", Chosen(("t",))) == {("t", 0): 4}
    for group, chosen in (("g", Chosen(("u",))), ("nobody", None)):
        with pytest.raises(CommandError, match="has committed nothing there"):
            await offsets_of(asker, group, chosen)
