"""The version of the cluster's security is read, or nobody answers."""

from __future__ import annotations

from oncelog_controller import security_nodes
from oncelog_controller.stored_security import StoredSecurityVersion
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper


async def test_the_version_is_that_of_the_node() -> None:
    server = MemoryZooKeeper()
    store = MemoryMetadataStore(server)
    await store.start()
    stored = StoredSecurityVersion(store)
    assert await stored.version() == -1
    await store.create(security_nodes.VERSION, b"", make_parents=True)
    assert await stored.version() == 0
    await store.set(security_nodes.VERSION, b"")
    assert await stored.version() == 1
    assert store.session_id is not None
    server.disconnect(store.session_id)
    assert await stored.version() is None
    await store.close()
