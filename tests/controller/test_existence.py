"""The store is asked whether a partition is no more; what was told does not count."""

from __future__ import annotations

import pytest

from oncelog_controller import znodes
from oncelog_controller.existence import is_deleted
from oncelog_controller.store import StoreDisconnectedError
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.store import MemoryMetadataStore
from oncelog_testing.memory.zookeeper import MemoryZooKeeper

TP = TopicPartition("t", 3)


async def test_what_has_a_state_in_the_store_is_there() -> None:
    store = MemoryMetadataStore(MemoryZooKeeper())
    await store.start()
    path = znodes.state_path("t", 3)
    await store.create(path, b"{}", make_parents=True)
    assert not await is_deleted(store, TP)
    assert await is_deleted(store, TopicPartition("t", 4))
    await store.set(path, b"{}")
    assert not await is_deleted(store, TP), "in any version"
    await store.delete(path)
    assert await is_deleted(store, TP)
    await store.close()


async def test_a_store_that_is_away_does_not_say() -> None:
    server = MemoryZooKeeper()
    store = MemoryMetadataStore(server)
    await store.start()
    assert store.session_id is not None
    server.disconnect(store.session_id)
    with pytest.raises(StoreDisconnectedError):
        await is_deleted(store, TP)
