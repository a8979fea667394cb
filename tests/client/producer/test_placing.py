"""A record goes to a batch, and much may have changed when waiting for room or metadata is over."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.errors import (
    ClosedError,
    MessageTooLargeError,
    NoTransactionError,
    UnknownTopicOrPartitionError,
)
from oncelog.producer.placing import BATCH_OVERHEAD_BYTES
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action
from support.transactional import started
from support.waiting import eventually


async def test_places_of_records() -> None:
    async with started(partitions=4, transactional_id=None) as (_, producer):
        placing = producer._placing
        assert placing.place("t", None, None) is None, "nobody was asked yet"
        await producer.partitions_for("t")
        named = placing.place("t", b"k", 3)
        assert named is not None
        assert (named.queue.tp.partition, named.sticky) == (3, False)
        assert placing.place("t", None, 4) is None
        keyed, again = placing.place("t", b"k", None), placing.place("t", b"k", None)
        assert keyed is not None
        assert keyed == again
        sticky = placing.place("t", None, None)
        assert sticky is not None
        assert sticky.sticky
        assert placing.place("t", None, None) == sticky
        places = {placing.next_sticky("t") for _ in range(50)}
        assert places == {0, 1, 2, 3}


async def test_a_full_batch_moves_keyless_records_on() -> None:
    async with started(partitions=4, transactional_id=None, batch_size=100, linger_ms=60_000) as (
        _,
        producer,
    ):
        await producer.partitions_for("t")
        deliveries = [producer.send_nowait("t", b"x" * 40) for _ in range(40)]
        await producer.flush()
        partitions = {delivery.result().partition for delivery in deliveries}
        assert len(partitions) > 1


async def test_what_is_refused() -> None:
    async with started(partitions=2, transactional_id=None, max_request_size=2000) as (_, producer):
        placing = producer._placing
        with pytest.raises(UnknownTopicOrPartitionError):
            await producer._router.topic_with("t", 2, asyncio.get_running_loop().time() + 1)
        place = placing.place("t", None, 0)
        assert place is not None
        with pytest.raises(MessageTooLargeError):
            placing.open_at(place, 2001 - BATCH_OVERHEAD_BYTES)
        assert producer._accumulator.used == 0


async def test_the_serial_of_a_transaction_is_looked_at_after_every_wait() -> None:
    async with started(partitions=1) as (_, producer):
        placing = producer._placing
        await producer.begin_transaction()
        serial = placing.serial
        placing.check_usable(serial)
        with pytest.raises(NoTransactionError):
            placing.check_usable(serial - 1)
        await producer.abort_transaction()
        with pytest.raises(NoTransactionError):
            placing.check_usable(placing.serial)


async def test_room_that_comes_too_late_is_given_back() -> None:
    async with started(partitions=1, transactional_id=None, batch_size=200, buffer_memory=200) as (
        cluster,
        producer,
    ):
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        await producer.enqueue("t", b"x" * 150)
        late = asyncio.create_task(producer.enqueue("t", b"y" * 150))
        await eventually(lambda: producer._accumulator._waiting)
        closing = asyncio.create_task(producer.close())
        with pytest.raises(ClosedError):
            await late
        held.release.set()
        await closing
        assert producer._accumulator.used == 0
