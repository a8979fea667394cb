"""Brokers tell each other the time through the store."""

from __future__ import annotations

from oncelog_controller.clock_exchange import ClockExchange
from oncelog_controller.store import MetadataStore
from oncelog_controller.znodes import clock_path
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.clock import ManualClock

NOW_MS = 1_700_000_000_000


async def opened(server: MemoryZooKeeper) -> MemoryMetadataStore:
    store = MemoryMetadataStore(server)
    await store.start()
    return store


async def test_each_hears_the_others_as_they_were_last() -> None:
    server = MemoryZooKeeper()
    clocks = [ManualClock(NOW_MS + number) for number in range(3)]
    ends = [ClockExchange(await opened(server), n, clock) for n, clock in enumerate(clocks)]
    assert await ends[0].peers() == []
    for end in ends:
        await end.tell()
    assert await ends[0].peers() == [NOW_MS + 1, NOW_MS + 2]
    clocks[2].advance(86_400_000)
    await ends[2].tell()
    assert await ends[0].peers() == [NOW_MS + 1, NOW_MS + 2 + 86_400_000]


async def test_what_a_broker_said_goes_with_its_session() -> None:
    server = MemoryZooKeeper()
    former, present, other = [await opened(server) for _ in range(3)]
    await ClockExchange(former, 1, ManualClock(NOW_MS)).tell()
    await ClockExchange(present, 1, ManualClock(NOW_MS + 5)).tell()
    assert server.owner(clock_path(1)) == present.session_id, "it does not go with the former life"
    listener = ClockExchange(other, 2, ManualClock(NOW_MS))
    assert await listener.peers() == [NOW_MS + 5]
    await present.close()
    assert await listener.peers() == []


async def test_without_the_store_nobody_knows() -> None:
    server = MemoryZooKeeper()
    store = await opened(server)
    end = ClockExchange(store, 1, ManualClock(NOW_MS))
    await end.tell()
    server.stop()
    await end.tell()
    assert await end.peers() is None


async def test_a_node_that_cannot_be_read_is_left_out() -> None:
    server = MemoryZooKeeper()
    store: MetadataStore = await opened(server)
    end = ClockExchange(store, 1, ManualClock(NOW_MS))
    await end.tell()
    await store.create(clock_path(2), b"what?")
    await store.create(clock_path(3), b'{"version": 1, "now_ms": 5}')
    assert await end.peers() == [5]
