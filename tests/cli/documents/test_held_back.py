"""What is held back is counted, and the groups that wait for it are named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog_cli.documents.held_back import (
    HeldBackRecords,
    held_back,
    known_groups,
    waiting_groups,
)
from oncelog_protocol.errors import TopicAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import OffsetCommitPartition
from support.admin_cluster import AdminCluster, KnownGroup
from support.cluster import Cluster
from support.fake_cluster import Action
from support.hand_producer import all_marked

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("committed", "waits"),
    [(None, False), (8, False), (9, True), (11, True), (12, False), (20, False)],
)
def test_who_has_come_to_the_last_stable_offset_waits(committed: int | None, waits: bool) -> None:
    assert HeldBackRecords(9, 12).stops(committed) is waits
    assert HeldBackRecords(None, 12).stops(committed) is False
    assert HeldBackRecords(12, 12).stops(committed) is False, "nothing is held back"


def test_records_are_known_when_both_ends_are() -> None:
    assert HeldBackRecords(9, 12).records == 3
    assert HeldBackRecords(9, 8).records == 0, "the two were not told at one moment"
    assert (HeldBackRecords(None, 12).records, HeldBackRecords(9, None).records) == (None, None)


def group(name: str, *offsets: tuple[TopicPartition, int | None]) -> dict[str, Any]:
    return {"group": name, "offsets": [{**tp._asdict(), "offset": n} for tp, n in offsets]}


def test_groups_wait_where_they_have_stopped() -> None:
    groups = [group("b", (T0, 9), (T1, 9)), group("a", (T0, 10)), group("c", (T0, None))]
    assert waiting_groups(groups, {T0: HeldBackRecords(9, 12), T1: HeldBackRecords(9, 9)}) == {
        T0: ["a", "b"]
    }
    assert waiting_groups(groups, {}) == {}


@pytest_asyncio.fixture
async def cluster(fake: AdminCluster) -> AsyncIterator[AdminCluster]:
    """Three groups have committed offsets of t-0."""
    fake.create_topic("t", 1)
    for number, name in enumerate(("a", "b", "c")):
        found = fake.known_groups[name] = KnownGroup(1)
        found.offsets[T0] = OffsetCommitPartition(0, number, -1, "")
    yield fake


async def test_groups_that_are_not_asked_are_counted(cluster: AdminCluster, asker: Admin) -> None:
    known = await known_groups(asker, 2)
    assert [row["group"] for row in known.rows] == ["a", "b"]
    assert known.not_asked == 1
    assert not known.failures


async def test_a_leader_that_refuses_says_nothing(cluster: AdminCluster, asker: Admin) -> None:
    assert await held_back(asker, [T0, T0]) == {T0: HeldBackRecords(0, 0)}
    cluster.rule(ApiKey.LIST_OFFSETS, Action.ERROR, error=TopicAuthorizationFailedError, times=2)
    assert await held_back(asker, [T0]) == {T0: HeldBackRecords()}
    assert await held_back(asker, []) == {}


async def test_a_reader_of_what_is_committed_stops_where_it_waits(
    real: Cluster, admin: Admin
) -> None:
    await real.create_topic("t")
    async with Producer(real.bootstrap, transactional_id="pay") as producer:
        async with producer.transaction():
            await producer.send("t", b"committed")
        await producer.begin_transaction()
        await producer.send("t", b"open")
        await producer.flush()
        async with Consumer(
            "t", bootstrap_servers=real.bootstrap, group_id="billing", auto_offset_reset="earliest"
        ) as reader:
            (records,) = (await reader.getmany(timeout_ms=10_000)).values()
            assert [record.value for record in records] == [b"committed"]
            await reader.commit()
            held = await held_back(admin, [T0])
            assert held[T0].records == 1
            assert waiting_groups((await known_groups(admin)).rows, held) == {T0: ["billing"]}
        await producer.commit_transaction()
    await all_marked(real)
    held = await held_back(admin, [T0])
    assert waiting_groups((await known_groups(admin)).rows, held) == {}
