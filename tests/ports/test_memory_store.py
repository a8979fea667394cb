"""The fake ZooKeeper does more than the port's contract: what a test asks of it."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_controller.store import (
    Create,
    Delete,
    NoNodeError,
    SessionState,
    SetData,
    StoreDisconnectedError,
    WatchEvent,
    WatchKind,
)
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.waiting import eventually


async def opened(server: MemoryZooKeeper, timeout_ms: int = 1000) -> MemoryMetadataStore:
    store = MemoryMetadataStore(server, session_timeout_ms=timeout_ms)
    await store.start()
    return store


def session(store: MemoryMetadataStore) -> int:
    assert store.session_id is not None
    return store.session_id


async def test_looking_at_the_tree() -> None:
    server = MemoryZooKeeper()
    store = await opened(server)
    await store.create("/b/c", b"1", make_parents=True)
    server.apply(Create("/a", b"2"), SetData("/b", b"3"))
    assert server.tree() == {"/a": b"2", "/b": b"3", "/b/c": b"1"}
    assert server.tree("/b") == {"/b/c": b"1"}
    assert server.data("/a") == b"2"
    assert server.data("/nowhere") is None
    assert server.sessions() == [session(store)]
    assert [ops for _, ops in server.writes] == [[Create("/b", b"")], [Create("/b/c", b"1")]]


async def test_a_lost_request_is_not_applied() -> None:
    server = MemoryZooKeeper()
    store = await opened(server)
    server.lose_request(session(store))
    with pytest.raises(StoreDisconnectedError):
        await store.create("/a", b"")
    await eventually(lambda: store.state is SessionState.CONNECTED)
    assert await store.exists("/a") is None


async def test_faults_wait_for_the_write_that_matches() -> None:
    server = MemoryZooKeeper()
    store = await opened(server)
    server.lose_reply(session(store), lambda ops: any(op.path == "/b" for op in ops))
    await store.create("/a", b"")
    with pytest.raises(StoreDisconnectedError):
        await store.multi([SetData("/a", b""), Create("/b", b"")])
    assert server.data("/b") == b""


async def test_a_disconnection_for_a_time() -> None:
    server = MemoryZooKeeper()
    store = await opened(server)
    states: list[SessionState] = []
    store.on_session.append(states.append)
    server.disconnect(session(store), for_s=0.02)
    await eventually(lambda: len(states) == 2)
    assert states == [SessionState.DISCONNECTED, SessionState.CONNECTED]


async def test_ephemeral_nodes_can_outlive_their_session_for_a_while() -> None:
    server = MemoryZooKeeper()
    server.delay = lambda kind, session_id: 0.03 if kind == "ephemeral" else 0.0
    store, other = await opened(server), await opened(server)
    await store.create("/mine", b"", ephemeral=True)
    old = session(store)
    server.expire(old)
    await eventually(lambda: store.state is SessionState.EXPIRED)
    await store.restart_session()
    _, stat = await store.get("/mine")
    assert stat.ephemeral_owner == old != store.session_id
    await eventually(lambda: server.data("/mine") is None)
    with pytest.raises(NoNodeError):
        await other.get("/mine")


async def test_late_removal_spares_a_node_that_was_made_anew() -> None:
    server = MemoryZooKeeper()
    server.delay = lambda kind, session_id: 0.02 if kind == "ephemeral" else 0.0
    store, other = await opened(server), await opened(server)
    await store.create("/role", b"old", ephemeral=True)
    server.expire(session(store))
    await other.multi([Delete("/role"), Create("/role", b"new", True)])
    await asyncio.sleep(0.05)
    assert server.data("/role") == b"new"


async def test_delays_keep_the_order_of_a_session() -> None:
    server = MemoryZooKeeper()
    delays = iter([0.02, 0.0, 0.01, 0.0])
    server.delay = lambda kind, session_id: next(delays, 0.0) if kind == "request" else 0.0
    store = await opened(server)
    await asyncio.gather(*(store.create(f"/n{n}", b"") for n in range(4)))
    assert [ops[0].path for _, ops in server.writes] == ["/n0", "/n1", "/n2", "/n3"]


async def test_a_late_watch_holds_back_what_follows_it() -> None:
    server = MemoryZooKeeper()
    server.delay = lambda kind, session_id: 0.02 if kind == "watch" else 0.0
    store = await opened(server)
    await store.create("/a", b"")
    events: list[WatchEvent] = []
    await store.get("/a", watch=events.append)
    server.apply(SetData("/a", b"1"))
    assert events == []
    assert (await store.get("/a"))[0] == b"1"
    assert events == [WatchEvent(WatchKind.CHANGED, "/a")]


async def test_a_watch_that_was_on_its_way_when_contact_broke_comes_over_the_next_connection() -> (
    None
):
    """ZooKeeper's client sets its watches again with the zxid that it has seen."""
    server = MemoryZooKeeper()
    server.delay = lambda kind, session_id: 0.02 if kind == "watch" else 0.0
    store = await opened(server)
    await store.create("/a", b"")
    events: list[WatchEvent] = []
    await store.get("/a", watch=events.append)
    server.apply(SetData("/a", b"1"))
    server.disconnect(session(store))
    server.reconnect(session(store))
    await eventually(lambda: events == [WatchEvent(WatchKind.CHANGED, "/a")])


async def test_a_dead_client_s_session_ends_although_the_server_was_away() -> None:
    server = MemoryZooKeeper()
    store = await opened(server, timeout_ms=20)
    await store.create("/mine", b"", ephemeral=True)
    store.crash()
    server.stop()
    server.start()
    await eventually(lambda: server.data("/mine") is None)


async def test_the_server_goes_and_comes_back() -> None:
    """Sessions do not age while there is nobody to count."""
    server = MemoryZooKeeper()
    store = await opened(server, timeout_ms=20)
    first = session(store)
    await store.create("/mine", b"", ephemeral=True)
    states: list[SessionState] = []
    store.on_session.append(states.append)
    server.stop()
    with pytest.raises(StoreDisconnectedError):
        await MemoryMetadataStore(server).start()
    await asyncio.sleep(0.05)
    server.start()
    assert states == [SessionState.DISCONNECTED, SessionState.CONNECTED]
    assert store.session_id == first
    assert server.data("/mine") == b""


async def test_a_restart_waits_for_the_server() -> None:
    server = MemoryZooKeeper()
    store = await opened(server)
    server.expire(session(store))
    await eventually(lambda: store.state is SessionState.EXPIRED)
    server.stop()
    restart = asyncio.ensure_future(store.restart_session())
    await asyncio.sleep(0.01)
    assert not restart.done()
    server.start()
    await restart
    assert server.sessions() == [session(store)]


async def test_a_crashed_client_is_silent_and_its_session_runs_out() -> None:
    server = MemoryZooKeeper()
    store, other = await opened(server, timeout_ms=30), await opened(server)
    heard: list[object] = []
    store.on_session.append(heard.append)
    await store.create("/mine", b"", ephemeral=True)
    await store.get("/mine", watch=heard.append)
    gone: list[WatchEvent] = []
    await other.exists("/mine", watch=gone.append)
    store.crash()
    assert server.data("/mine") == b""
    await eventually(lambda: gone)
    assert gone == [WatchEvent(WatchKind.DELETED, "/mine")]
    assert heard == []
    server.start()  # nobody there to reconnect
    assert heard == []
