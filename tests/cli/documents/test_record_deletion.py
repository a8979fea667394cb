"""A deletion settles what would go before anything goes."""

from __future__ import annotations

import pytest

from oncelog import Admin, Producer
from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_cli.documents.record_deletion import (
    WantedDeletion,
    deleted_records,
    planned_deletion,
)
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen
from oncelog_cli.offset_range import Base, RangePoint
from oncelog_protocol.errors import TopicAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.builder import encode_batch
from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.fake_cluster import Action

ALL_OF_T = Chosen(("t",))


def wanted(point: RangePoint | None, chosen: Chosen = ALL_OF_T, **offsets: int) -> WantedDeletion:
    return WantedDeletion(chosen, point, {("t", int(n[1:])): o for n, o in offsets.items()})


async def test_points_and_offsets(fake: AdminCluster, asker: Admin) -> None:
    for number, partition in enumerate(fake.create_topic("t", 2)):
        for n in range(10 - 5 * number):
            partition.append(encode_batch([b"x"], timestamps=1000 + n))

    async def befores(wish: WantedDeletion) -> list[tuple[int, int]]:
        answer = await planned_deletion(asker, wish)
        assert not answer.failures
        rows = answer.document["partitions"]
        return [(row["before_offset"], row["offsets"]) for row in rows]

    assert await befores(wanted(RangePoint(Base.ZERO, 4))) == [(4, 4), (4, 4)]
    assert await befores(wanted(RangePoint(Base.END, -2))) == [(8, 8), (3, 3)]
    assert await befores(wanted(RangePoint(Base.TIME, 1007))) == [(7, 7), (5, 5)]
    one = Chosen((), (("t", 1),))
    assert await befores(wanted(None, one, t1=2)) == [(2, 2)]
    assert await befores(wanted(None, one, t1=-1)) == [(5, 5)], "its end"
    with pytest.raises(CommandError, match="topic 't' has no partition 7"):
        await planned_deletion(asker, wanted(None, Chosen((), (("t", 7),)), t7=1))
    with pytest.raises(UnknownTopicOrPartitionError):
        await planned_deletion(asker, wanted(RangePoint(Base.END), Chosen(("none",))))


async def test_a_leader_that_does_not_say_what_it_holds(fake: AdminCluster, asker: Admin) -> None:
    for number, partition in enumerate(fake.create_topic("t", 2)):
        partition.leader = 1 + number
        partition.append(encode_batch([b"x"] * 3, timestamps=1000))
    fake.rule(
        ApiKey.LIST_OFFSETS, Action.ERROR, error=TopicAuthorizationFailedError, broker=2, times=9
    )
    answer = await planned_deletion(asker, wanted(RangePoint(Base.END)))
    assert [row["partition"] for row in answer.document["partitions"]] == [0]
    assert [each.item for each in answer.failures] == ["t-1"]


async def test_records_go_and_what_is_refused_stays(real: Cluster, admin: Admin) -> None:
    await real.create_topic("t", partitions=2)
    await real.create_topic("kept", cleanup_policy="compact")
    async with Producer(real.bootstrap) as producer:
        for topic in ("t", "kept"):
            for n in range(5):
                await producer.send(topic, b"x", key=b"%d" % n, partition=0)
    plan = await planned_deletion(admin, wanted(RangePoint(Base.ZERO, 9)))
    assert [row["offsets"] for row in plan.document["partitions"]] == [0, 0]
    assert [each.message for each in plan.failures] == [
        f"t-{n}: offset 9 is not committed, it ends at {end}" for n, end in ((0, 5), (1, 0))
    ]
    chosen = Chosen(("kept", "t"))
    plan = await planned_deletion(admin, wanted(RangePoint(Base.END, -2), chosen))
    answer = await deleted_records(admin, plan.document["partitions"])
    kept, first, second = answer.document["partitions"]
    assert (kept["low_watermark"], kept["error"]) == (None, "POLICY_VIOLATION")
    assert (first["before_offset"], first["low_watermark"]) == (3, 3)
    assert second == plan.document["partitions"][2], "there was nothing to delete"
    assert [each.item for each in answer.failures] == ["kept-0"]
