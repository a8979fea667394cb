"""Markers are found by the time at which their leaders noted them, or not at all."""

from __future__ import annotations

from dataclasses import replace

from oncelog import Admin, Producer, TopicPartition
from oncelog_cli.documents.marker_offsets import MARKERS_MAX, EndedProducer, marker_offsets
from oncelog_protocol.messages.base import ApiKey
from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.hand_producer import all_marked

WITHIN_MS = 10_000


async def ended(admin: Admin, tp: TopicPartition, user: str) -> EndedProducer:
    """Return what the leader knows of the producer of an id whose transaction is over."""
    (described,) = await admin.describe_transactions([user])
    (answer,) = await admin.describe_producers([tp])
    (known,) = [each for each in answer.producers if each.producer_id == described.producer_id]
    assert known.txn_start_offset is None
    return EndedProducer(tp, known.producer_id, known.producer_epoch, known.last_timestamp_ms or 0)


async def test_markers_are_found_among_other_records(real: Cluster, admin: Admin) -> None:
    await real.create_topic("t")
    tp = TopicPartition("t", 0)
    async with (
        Producer(real.bootstrap) as other,
        Producer(real.bootstrap, transactional_id="pay") as producer,
    ):
        for turn in range(3):  # Each transaction has an epoch of its own.
            await other.send("t", b"before")
            async with producer.transaction():
                await producer.send("t", b"%d" % turn)
        await all_marked(real)
        last = await ended(admin, tp, "pay")
        for _ in range(3):
            await other.send("t", b"behind")
    assert await marker_offsets(admin, [last], timeout_ms=WITHIN_MS) == {last: 8}
    before = replace(last, producer_epoch=last.producer_epoch - 1)
    early = replace(before, noted_ms=0)
    found = await marker_offsets(admin, [early], timeout_ms=WITHIN_MS)
    assert found == {early: 5}, "the marker of the transaction before is another one"
    nowhere = [
        replace(last, producer_id=last.producer_id + 1),
        replace(last, noted_ms=last.noted_ms + 86_400_000),
    ]
    assert await marker_offsets(admin, nowhere, timeout_ms=WITHIN_MS) == {}


async def test_a_few_markers_are_looked_for(fake: AdminCluster, asker: Admin) -> None:
    fake.create_topic("t", 1)
    many = [
        EndedProducer(TopicPartition("t", 0), number, 1, 5) for number in range(MARKERS_MAX + 5)
    ]
    before = fake.count(ApiKey.LIST_OFFSETS)
    assert await marker_offsets(asker, many, timeout_ms=WITHIN_MS) == {}
    assert fake.count(ApiKey.LIST_OFFSETS) - before == MARKERS_MAX
