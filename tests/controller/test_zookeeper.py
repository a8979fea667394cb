"""``ZooKeeperStore`` is more than the port's contract: it joins kazoo's thread and the loop."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat

from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_controller.store import (
    SessionState,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
    WatchKind,
)
from oncelog_controller.zookeeper import IN_FLIGHT_MAX, ZooKeeperStore, _missed
from support.store_harness import SESSION_TIMEOUT_MS, RealHarness
from support.waiting import eventually

pytestmark = pytest.mark.zookeeper
CHROOT_NUMBERS = itertools.count()


def kazoo_threads() -> list[str]:
    """Return names of the threads that kazoo, or the closing of its clients, runs in."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if "zk_loop" in name or name.startswith("zookeeper")]


@pytest_asyncio.fixture
async def harness(zookeeper: ZooKeeperServer) -> AsyncIterator[RealHarness]:
    made = RealHarness(zookeeper, f"/bridge/{next(CHROOT_NUMBERS)}")
    yield made
    await made.close()


@pytest_asyncio.fixture
async def store(harness: RealHarness) -> ZooKeeperStore:
    opened = await harness.open()
    assert isinstance(opened, ZooKeeperStore)
    return opened


async def test_callbacks_run_on_the_loop(harness: RealHarness, store: ZooKeeperStore) -> None:
    here = threading.get_ident()
    threads: list[int] = []
    store.on_session.append(lambda state: threads.append(threading.get_ident()))
    await store.create("/a", b"")
    await store.get("/a", watch=lambda event: threads.append(threading.get_ident()))
    await store.set("/a", b"1")
    await eventually(lambda: len(threads) == 1)
    await harness.expire(store)
    await eventually(lambda: len(threads) == 3)
    assert set(threads) == {here}


async def test_one_thread_a_session_and_none_left_behind(
    harness: RealHarness, store: ZooKeeperStore
) -> None:
    # Threads of sessions that ended with the test before may still be on their way out.
    await eventually(lambda: len(kazoo_threads()) == 1)
    other = await harness.open()
    assert len(kazoo_threads()) == 2
    await other.close()
    await eventually(lambda: len(kazoo_threads()) == 1)
    await harness.expire(store)
    await eventually(lambda: store.state is SessionState.EXPIRED)
    await eventually(lambda: not kazoo_threads())


async def test_nothing_reconnects_after_expiry(harness: RealHarness, store: ZooKeeperStore) -> None:
    proxy = harness.proxy(store)
    await harness.expire(store)
    await eventually(lambda: store.state is SessionState.EXPIRED)
    connections = proxy.connections
    assert store._client is None
    await eventually(lambda: not any(t.name.startswith("zookeeper") for t in threading.enumerate()))
    assert proxy.connections == connections
    await store.restart_session()
    assert proxy.connections == connections + 1


async def test_a_silent_server_does_not_block_the_loop(
    harness: RealHarness, store: ZooKeeperStore, zookeeper: ZooKeeperServer
) -> None:
    """More calls than kazoo's wake-up socket holds bytes, while nobody drains it: no more of them
    are handed to kazoo at a time than it takes without blocking. (On a machine with much else to do
    the client may give the server up before anything is looked at.)"""
    await store.create("/a", b"")
    most = 0
    zookeeper.pause()
    try:
        calls = [asyncio.ensure_future(store.get("/a")) for _ in range(20 * IN_FLIGHT_MAX)]
        while not all(call.done() for call in calls):
            await asyncio.sleep(0.001)
            most = max(most, store._in_flight)
        results = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        zookeeper.resume()
    assert most <= IN_FLIGHT_MAX
    # The client gave up on the connection, or every call was answered late: nothing hangs.
    assert all(isinstance(r, StoreDisconnectedError | tuple) for r in results)
    assert isinstance(results[-1], StoreDisconnectedError)


async def test_calls_that_follow_failed_ones_do_not_block_the_loop(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo's thread fails what is queued, and the loop hands it the next, until the news of the
    broken link comes: by then more has been handed over than wake-ups have room. Nobody takes them
    before a server answers again."""
    # Without the harness, whose proxy runs on this loop.
    store = ZooKeeperStore(zookeeper.address, session_timeout_ms=SESSION_TIMEOUT_MS)
    await store.start()
    states: list[SessionState] = []
    store.on_session.append(states.append)
    client = store._client
    assert client is not None
    notify, told = client._notify_pending, threading.Event()

    def notify_for_long(state: str) -> None:
        while True:
            notify(state)
            if told.wait(0.001):
                break

    def free_the_loop() -> None:
        told.set()
        client._connection._write_sock.shutdown(socket.SHUT_RDWR)

    monkeypatch.setattr(client, "_notify_pending", notify_for_long)
    late = threading.Timer(20, free_the_loop)
    zookeeper.pause()
    late.start()
    try:
        calls = [asyncio.ensure_future(store.get("/")) for _ in range(20 * IN_FLIGHT_MAX)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert not told.is_set(), "the loop stood"
    finally:
        late.cancel()
        told.set()
        zookeeper.resume()
    assert all(isinstance(each, StoreDisconnectedError) for each in results)
    await eventually(lambda: states[1:] != [])
    if states[1] is SessionState.EXPIRED:  # it took longer than a session lasts
        await store.restart_session()
    assert await store.children("/")
    await store.close()


async def test_cancelled_calls_that_wait_for_room_are_never_sent(store: ZooKeeperStore) -> None:
    await store.create("/a", b"")
    first = [asyncio.ensure_future(store.get("/a")) for _ in range(IN_FLIGHT_MAX)]
    late = asyncio.ensure_future(store.create("/b", b""))
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.gather(*first)
    assert await store.exists("/b") is None
    assert store._in_flight == 0
    assert not store._pending


async def test_a_watch_of_a_cancelled_read_is_not_armed(store: ZooKeeperStore) -> None:
    await store.create("/a", b"")
    events: list[WatchEvent] = []
    read = asyncio.ensure_future(store.get("/a", watch=events.append))
    await asyncio.sleep(0)
    read.cancel()
    await store.set("/a", b"1")
    await store.get("/a")
    assert events == []
    assert not store._watches


@pytest.mark.parametrize("read", ["children", "get", "exists"])
async def test_a_watch_that_fires_before_its_read_is_answered_is_not_lost(
    harness: RealHarness, store: ZooKeeperStore, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """The thread of the loop rests between the sending of a read and the link to its result, and
    kazoo's thread meanwhile sees the answer, to which nobody is linked, and the event."""
    other = await harness.open()
    await store.create("/a", b"", make_parents=True)
    events: list[WatchEvent] = []
    assert store._client is not None
    children, data = store._client._child_watchers, store._client._data_watchers
    path, send = store._full("/a"), store._send
    linking: list[asyncio.Task[None]] = []

    class LateLink:
        def __init__(self, result: Any) -> None:
            self.result = result

        def rawlink(self, callback: Any) -> None:
            linking.append(asyncio.create_task(self.link(callback)))

        async def link(self, callback: Any) -> None:
            await eventually(self.result.ready)
            if read == "children":
                await other.create("/a/b", b"")
            else:
                await other.set("/a", b"1")
            await eventually(lambda: path not in {*children, *data})
            await asyncio.sleep(0.01)  # what kazoo's thread has posted has run
            assert not events, "the answer goes first"
            self.result.rawlink(callback)

    def late(call: Any) -> None:
        monkeypatch.setattr(store, "_send", send)
        start = call.start
        call.start = lambda client: LateLink(start(client))
        send(call)

    monkeypatch.setattr(store, "_send", late)
    await getattr(store, read)("/a", events.append)
    kind = WatchKind.CHILDREN if read == "children" else WatchKind.CHANGED
    await eventually(lambda: events == [WatchEvent(kind, "/a")])
    assert not store._watches
    await asyncio.gather(*linking)


async def test_sessions_and_watches_survive_a_server_restart(
    harness: RealHarness, zookeeper: ZooKeeperServer
) -> None:
    # A session far longer than a restart takes, on a busy machine too.
    store = await harness.open(session_timeout_ms=30_000)
    session_id = store.session_id
    states: list[SessionState] = []
    store.on_session.append(states.append)
    await store.create("/mine", b"", ephemeral=True)
    events: list[WatchEvent] = []
    await store.get("/mine", watch=events.append)
    # Cut off until the server serves: one that is only starting may take a connect and never
    # answer it, and kazoo would wait as long as the session lasts.
    await harness.disconnect(store)
    zookeeper.kill()
    try:
        await eventually(lambda: store.state is SessionState.DISCONNECTED)
    finally:
        await asyncio.to_thread(zookeeper.start)
    await harness.reconnect(store)
    await eventually(lambda: store.state is SessionState.CONNECTED, timeout_s=20)
    assert store.session_id == session_id
    await store.set("/mine", b"1")
    await eventually(lambda: events)
    # A slow server may have been lost and found again more than once; never the session.
    assert states[0] is SessionState.DISCONNECTED
    assert states[-1] is SessionState.CONNECTED
    assert SessionState.EXPIRED not in states


async def test_close_does_not_wait_for_a_dead_server(
    harness: RealHarness, store: ZooKeeperStore
) -> None:
    await harness.disconnect(store)
    await store.close()
    assert store.state is SessionState.DISCONNECTED


async def test_close_during_restart_ends_it(harness: RealHarness, store: ZooKeeperStore) -> None:
    await harness.expire(store)
    await eventually(lambda: store.state is SessionState.EXPIRED)
    await harness.disconnect(store)
    restart = asyncio.ensure_future(store.restart_session())
    await eventually(lambda: store._client is not None)
    await store.close()
    with pytest.raises(StoreDisconnectedError):
        await restart


async def test_the_error_of_a_failed_start_names_the_hosts(harness: RealHarness) -> None:
    store = await harness.unreachable()
    with pytest.raises(StoreDisconnectedError, match=r"127\.0\.0\.1:\d+"):
        await store.start()


async def test_connect_string_and_chroot(zookeeper: ZooKeeperServer) -> None:
    deep = ZooKeeperStore.from_connect_string(
        f"{zookeeper.address}/deep/er/chroot", session_timeout_ms=2000
    )
    await deep.start()
    await deep.create("/a", b"1")
    whole = ZooKeeperStore.from_connect_string(zookeeper.address)
    await whole.start()
    assert (await whole.get("/deep/er/chroot/a"))[0] == b"1"
    events: list[WatchEvent] = []
    await deep.get("/a", watch=events.append)
    await whole.set("/deep/er/chroot/a", b"2")
    await eventually(lambda: events)
    assert events == [WatchEvent(WatchKind.CHANGED, "/a")]
    with pytest.raises(StoreError, match="starts with"):
        await deep.get("relative")
    await deep.close()
    await whole.close()


def test_nothing_breaks_when_the_loop_is_gone(zookeeper: ZooKeeperServer) -> None:
    """A process may end its loop without closing the store: kazoo's thread must not raise."""
    store = ZooKeeperStore(zookeeper.address, chroot="/gone")
    asyncio.run(store.start())
    client = store._client
    assert client is not None
    client.end()
    assert not kazoo_threads()


def stat(czxid: int = 1, mzxid: int = 1, pzxid: int = 1, cversion: int = 0) -> ZnodeStat:
    return ZnodeStat(czxid, mzxid, 0, 0, 0, cversion, 0, 0, 0, 0, pzxid)


@pytest.mark.parametrize(
    ("before", "now", "children", "kind"),
    [
        (None, None, False, None),
        (None, stat(), False, WatchKind.CREATED),
        (stat(), None, False, WatchKind.DELETED),
        (stat(), stat(), False, None),
        (stat(), stat(mzxid=2), False, WatchKind.CHANGED),
        (stat(), stat(czxid=2, mzxid=2), False, WatchKind.CHANGED),
        (stat(), stat(pzxid=2, cversion=1), False, None),
        (stat(), stat(pzxid=2, cversion=1), True, WatchKind.CHILDREN),
        (stat(), stat(mzxid=2), True, None),
    ],
)
def test_what_a_watch_missed(
    before: ZnodeStat | None, now: ZnodeStat | None, children: bool, kind: WatchKind | None
) -> None:
    assert _missed(before, now, children) is kind


async def test_the_session_of_a_loop_that_hangs_expires(zookeeper: ZooKeeperServer) -> None:
    """kazoo's thread goes on while the loop does not."""
    chroot = f"/bridge/{next(CHROOT_NUMBERS)}"
    store = ZooKeeperStore(zookeeper.address, chroot=chroot, session_timeout_ms=1000)
    await store.start()
    await store.create("/me", b"", ephemeral=True)
    gone = threading.Event()

    def watch() -> None:
        client = KazooClient(zookeeper.address, timeout=30.0)
        client.start()
        while client.exists(f"{chroot}/me") is not None:
            time.sleep(0.05)
        gone.set()
        client.stop()
        client.close()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    assert gone.wait(15), "the loop hangs here; its registration must not stay for ever"
    await eventually(lambda: store.state is SessionState.EXPIRED)
    await asyncio.to_thread(watcher.join)
    await store.close()
