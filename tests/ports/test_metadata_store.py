"""The contract of ``MetadataStore`` holds over memory, over a real ZooKeeper, also by TLS and with
nodes that are for their creator alone, and in the simulator, where client and server are processes
of their own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog_controller.store import (
    ANY_VERSION,
    REQUEST_BYTES_MAX,
    BadVersionError,
    CheckVersion,
    Create,
    Delete,
    MetadataStore,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    RequestTooLargeError,
    SessionExpiredError,
    SessionState,
    SetData,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
    WatchKind,
)
from simulation.contract import ContractLoop, SimStoreHarness
from support.store_harness import SESSION_TIMEOUT_MS, MemoryHarness, RealHarness, StoreHarness
from support.tls_zookeeper import TlsZooKeeper, access
from support.waiting import eventually

CHROOT_NUMBERS = itertools.count()
TLS_SESSION_TIMEOUT_MS = 4 * SESSION_TIMEOUT_MS
"""The server of tests decrypts slowly: it starts fast, and compiles little. No ping is to be late
for a request of a megabyte."""


@pytest_asyncio.fixture(
    params=[
        "memory",
        pytest.param("real", marks=pytest.mark.zookeeper),
        pytest.param("secured", marks=pytest.mark.zookeeper),
        "simulation",
    ]
)
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[StoreHarness]:
    made: StoreHarness
    loop = asyncio.get_running_loop()
    if isinstance(loop, ContractLoop):
        made = SimStoreHarness(loop)
    elif request.param == "memory":
        made = MemoryHarness()
    elif request.param == "secured":
        secured: TlsZooKeeper = request.getfixturevalue("tls_zookeeper")
        made = RealHarness(
            secured.server,
            f"/contract/{next(CHROOT_NUMBERS)}",
            port=secured.tls_port,
            access=access(secured.papers),
            session_timeout_ms=TLS_SESSION_TIMEOUT_MS,
        )
    else:
        server = request.getfixturevalue("zookeeper")
        made = RealHarness(server, f"/contract/{next(CHROOT_NUMBERS)}")
    yield made
    await made.close()


@pytest_asyncio.fixture
async def store(harness: StoreHarness) -> MetadataStore:
    return await harness.open()


def state_is(store: MetadataStore, state: SessionState) -> asyncio.Future[None]:
    return asyncio.ensure_future(
        eventually(lambda: store.state is state, timeout_s=10.0, what=f"state {state}")
    )


# ------------------------------------------------------------------------------- nodes and versions


async def test_create_get_set_delete(store: MetadataStore) -> None:
    created = await store.create("/a", b"one")
    assert created.version == 0
    assert created.czxid == created.mzxid > 0
    assert created.ephemeral_owner == 0
    assert await store.get("/a") == (b"one", created)
    changed = await store.set("/a", b"two", version=0)
    assert changed.version == 1
    assert changed.czxid == created.czxid
    assert changed.mzxid > created.mzxid
    assert await store.get("/a") == (b"two", changed)
    await store.delete("/a", version=1)
    assert await store.exists("/a") is None


async def test_a_node_made_again_has_a_greater_czxid(store: MetadataStore) -> None:
    first = await store.create("/a", b"")
    await store.delete("/a")
    second = await store.create("/a", b"")
    assert second.czxid > first.czxid
    assert second.version == 0


async def test_empty_data_is_bytes(store: MetadataStore) -> None:
    await store.create("/a", b"")
    assert (await store.get("/a"))[0] == b""


async def test_set_without_version_always_sets(store: MetadataStore) -> None:
    await store.create("/a", b"")
    assert (await store.set("/a", b"1")).version == 1
    assert (await store.set("/a", b"2")).version == 2


async def test_children_are_sorted_and_counted(store: MetadataStore) -> None:
    await store.create("/dir", b"")
    for name in ("c", "a", "b"):
        await store.create(f"/dir/{name}", b"")
    assert await store.children("/dir") == ["a", "b", "c"]
    before = await store.exists("/dir")
    assert before is not None
    assert before.children_count == 3
    await store.delete("/dir/b")
    after = await store.exists("/dir")
    assert after is not None
    assert after.children_count == 2
    assert after.children_version > before.children_version
    assert after.version == before.version


async def test_children_of_the_root(store: MetadataStore) -> None:
    await store.create("/only", b"")
    assert "only" in await store.children("/")


async def test_make_parents(store: MetadataStore) -> None:
    await store.create("/x/y/z", b"leaf", make_parents=True)
    await store.create("/x/y/w", b"leaf", make_parents=True)
    assert await store.children("/x/y") == ["w", "z"]
    with pytest.raises(NodeExistsError):
        await store.create("/x/y/z", b"", make_parents=True)


async def test_delete_recursive(store: MetadataStore) -> None:
    for leaf in ("/t/a/1", "/t/a/2", "/t/b"):
        await store.create(leaf, b"", make_parents=True)
    with pytest.raises(NotEmptyError):
        await store.delete("/t")
    await store.delete("/t", recursive=True)
    assert await store.exists("/t") is None


async def test_errors_name_the_path(store: MetadataStore) -> None:
    await store.create("/here", b"")
    with pytest.raises(NodeExistsError) as exists:
        await store.create("/here", b"")
    assert exists.value.path == "/here"
    assert not exists.value.maybe_applied
    for call in (
        store.create("/missing/child", b""),
        store.get("/missing"),
        store.set("/missing", b""),
        store.delete("/missing"),
        store.children("/missing"),
    ):
        with pytest.raises(NoNodeError) as missing:
            await call
        assert missing.value.path.startswith("/missing")
        assert missing.value.op_index is None


async def test_wrong_versions_change_nothing(store: MetadataStore) -> None:
    await store.create("/a", b"one")
    for call in (store.set("/a", b"two", version=7), store.delete("/a", version=7)):
        with pytest.raises(BadVersionError):
            await call
    assert (await store.get("/a"))[0] == b"one"


async def test_too_large_is_refused_before_sending(store: MetadataStore) -> None:
    await store.create("/fits", bytes(REQUEST_BYTES_MAX - 1000))
    with pytest.raises(RequestTooLargeError):
        await store.create("/large", bytes(REQUEST_BYTES_MAX))
    with pytest.raises(RequestTooLargeError):
        await store.set("/fits", bytes(REQUEST_BYTES_MAX))
    half = bytes(REQUEST_BYTES_MAX // 2)
    with pytest.raises(RequestTooLargeError):
        await store.multi([Create("/l1", half), Create("/l2", half)])
    assert store.state is SessionState.CONNECTED
    assert len((await store.get("/fits"))[0]) == REQUEST_BYTES_MAX - 1000


async def test_many_calls_at_once_keep_their_order(store: MetadataStore) -> None:
    await store.create("/a", b"")
    stats = await asyncio.gather(*(store.set("/a", b"%d" % n) for n in range(700)))
    assert [stat.version for stat in stats] == list(range(1, 701))
    assert (await store.get("/a"))[0] == b"699"


# ------------------------------------------------------------------------------------------- multi


async def test_multi_applies_all(store: MetadataStore) -> None:
    await store.create("/epoch", b"1")
    await store.create("/old", b"")
    results = await store.multi(
        [
            CheckVersion("/epoch", 0),
            Create("/new", b"n", ephemeral=True),
            SetData("/epoch", b"2", 0),
            Delete("/old", 0),
        ]
    )
    assert results[0] is None
    assert results[1] is not None
    assert results[1].version == 0
    assert results[2] is not None
    assert results[2].version == 1
    assert results[3] is None
    assert (await store.get("/epoch"))[0] == b"2"
    assert await store.exists("/old") is None
    stat = await store.exists("/new")
    assert stat is not None
    assert stat.ephemeral_owner == store.session_id


async def test_operations_of_a_multi_see_each_other(store: MetadataStore) -> None:
    await store.multi([Create("/a", b""), Create("/a/b", b""), SetData("/a", b"x", 0)])
    assert await store.children("/a") == ["b"]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (CheckVersion("/a", 9), BadVersionError),
        (CheckVersion("/missing", 0), NoNodeError),
        (CheckVersion("/missing", ANY_VERSION), NoNodeError),
        (Create("/a", b""), NodeExistsError),
        (Create("/missing/b", b""), NoNodeError),
        (SetData("/a", b"x", 9), BadVersionError),
        (Delete("/missing"), NoNodeError),
        (Delete("/full"), NotEmptyError),
    ],
)
async def test_multi_is_all_or_nothing(
    store: MetadataStore, bad: CheckVersion | Create | SetData | Delete, error: type[StoreError]
) -> None:
    await store.create("/a", b"one")
    await store.create("/full/child", b"", make_parents=True)
    with pytest.raises(error) as raised:
        await store.multi([Create("/first", b""), SetData("/a", b"two"), bad, Create("/last", b"")])
    assert raised.value.op_index == 2
    assert raised.value.path == bad.path
    assert (await store.get("/a"))[0] == b"one"
    assert await store.exists("/first") is None
    assert await store.exists("/last") is None


async def test_empty_multi(store: MetadataStore) -> None:
    assert await store.multi([]) == []


# ----------------------------------------------------------------------------------------- watches


async def test_data_watch_fires_once(harness: StoreHarness, store: MetadataStore) -> None:
    other = await harness.open()
    await store.create("/a", b"")
    events: list[WatchEvent] = []
    await store.get("/a", watch=events.append)
    await other.set("/a", b"1")
    await eventually(lambda: events)
    await other.set("/a", b"2")
    await store.get("/a")
    assert events == [WatchEvent(WatchKind.CHANGED, "/a")]


async def test_each_read_arms_a_watch_of_its_own(store: MetadataStore) -> None:
    await store.create("/a", b"")
    events: list[WatchEvent] = []
    await store.get("/a", watch=events.append)
    await store.get("/a", watch=events.append)
    await store.set("/a", b"1")
    await eventually(lambda: len(events) == 2)


async def test_exists_watch_sees_creation_change_and_deletion(store: MetadataStore) -> None:
    events: list[WatchEvent] = []
    assert await store.exists("/a", watch=events.append) is None
    await store.create("/a", b"")
    await eventually(lambda: len(events) == 1)
    await store.exists("/a", watch=events.append)
    await store.set("/a", b"1")
    await eventually(lambda: len(events) == 2)
    await store.exists("/a", watch=events.append)
    await store.delete("/a")
    await eventually(lambda: len(events) == 3)
    kinds = [event.kind for event in events]
    assert kinds == [WatchKind.CREATED, WatchKind.CHANGED, WatchKind.DELETED]


async def test_children_watch(store: MetadataStore) -> None:
    await store.create("/dir", b"")
    events: list[WatchEvent] = []
    await store.children("/dir", watch=events.append)
    await store.set("/dir", b"not a child")
    await store.create("/dir/a", b"")
    await eventually(lambda: len(events) == 1)
    await store.children("/dir", watch=events.append)
    await store.set("/dir/a", b"grandchild data")
    await store.delete("/dir/a")
    await eventually(lambda: len(events) == 2)
    await store.children("/dir", watch=events.append)
    await store.delete("/dir")
    await eventually(lambda: len(events) == 3)
    kinds = [event.kind for event in events]
    assert kinds == [WatchKind.CHILDREN, WatchKind.CHILDREN, WatchKind.DELETED]
    assert {event.path for event in events} == {"/dir"}


async def test_a_failed_read_arms_nothing(store: MetadataStore) -> None:
    events: list[WatchEvent] = []
    for call in (
        store.get("/a", watch=events.append),
        store.children("/a", watch=events.append),
    ):
        with pytest.raises(NoNodeError):
            await call
    await store.create("/a", b"")
    await store.create("/a/b", b"")
    await store.get("/a")
    assert events == []


async def test_the_event_comes_before_the_new_value(
    harness: StoreHarness, store: MetadataStore
) -> None:
    """Who reads the new value has heard of it: no reader is left with stale state for good."""
    other = await harness.open()
    await store.create("/a", b"0")
    for number in range(1, 30):
        events: list[WatchEvent] = []
        await store.get("/a", watch=events.append)
        write = asyncio.ensure_future(other.set("/a", b"%d" % number))
        while (await store.get("/a"))[0] != b"%d" % number:
            pass
        assert events
        await write


async def test_a_multi_fires_watches(store: MetadataStore) -> None:
    await store.create("/a", b"")
    events: list[WatchEvent] = []
    await store.get("/a", watch=events.append)
    await store.children("/", watch=events.append)
    await store.multi([SetData("/a", b"1"), Create("/b", b"")])
    await eventually(lambda: len(events) == 2)


async def test_watches_stand_over_a_reconnect(harness: StoreHarness, store: MetadataStore) -> None:
    other = await harness.open()
    for path in ("/changed", "/deleted", "/dir", "/dir2", "/quiet", "/quietdir"):
        await store.create(path, b"")
    events: list[WatchEvent] = []
    for path in ("/changed", "/deleted", "/quiet"):
        await store.get(path, watch=events.append)
    for path in ("/dir", "/dir2", "/quietdir"):
        await store.children(path, watch=events.append)
    await store.exists("/created", watch=events.append)
    await store.exists("/never", watch=events.append)
    await harness.disconnect(store)
    await state_is(store, SessionState.DISCONNECTED)
    await other.set("/changed", b"1")
    await other.delete("/deleted")
    await other.create("/dir/child", b"")
    await other.delete("/dir2")
    await other.create("/created", b"")
    assert events == []
    await harness.reconnect(store)
    await state_is(store, SessionState.CONNECTED)
    await eventually(lambda: len(events) == 5)
    assert {(event.kind, event.path) for event in events} == {
        (WatchKind.CHANGED, "/changed"),
        (WatchKind.DELETED, "/deleted"),
        (WatchKind.CHILDREN, "/dir"),
        (WatchKind.DELETED, "/dir2"),
        (WatchKind.CREATED, "/created"),
    }
    del events[:]
    await other.set("/quiet", b"1")
    await other.create("/quietdir/child", b"")
    await other.create("/never", b"")
    await eventually(lambda: len(events) == 3)
    await other.set("/changed", b"2")  # its watch has fired: not again
    await store.get("/changed")
    assert len(events) == 3


async def test_watches_die_with_the_session(harness: StoreHarness, store: MetadataStore) -> None:
    other = await harness.open()
    await other.create("/a", b"")
    events: list[WatchEvent] = []
    await store.get("/a", watch=events.append)
    await harness.expire(store)
    await state_is(store, SessionState.EXPIRED)
    await store.restart_session()
    await other.set("/a", b"1")
    assert (await store.get("/a"))[0] == b"1"
    assert events == []


# ---------------------------------------------------------------------------------------- sessions


async def test_ephemeral_nodes_belong_to_the_session(
    harness: StoreHarness, store: MetadataStore
) -> None:
    other = await harness.open()
    assert store.session_id != other.session_id
    created = await store.create("/mine", b"", ephemeral=True)
    assert created.ephemeral_owner == store.session_id != 0
    gone: list[WatchEvent] = []
    await other.exists("/mine", watch=gone.append)
    with pytest.raises(StoreError):
        await store.create("/mine/child", b"")
    await store.close()
    await eventually(lambda: gone)
    assert await other.exists("/mine") is None


async def test_another_session_may_delete_an_ephemeral_node(
    harness: StoreHarness, store: MetadataStore
) -> None:
    other = await harness.open()
    await store.create("/mine", b"", ephemeral=True)
    await other.delete("/mine", version=0)
    replaced = await other.create("/mine", b"", ephemeral=True)
    await store.close()
    assert await other.exists("/mine") == replaced


async def test_disconnected_is_not_expired(harness: StoreHarness, store: MetadataStore) -> None:
    other = await harness.open()
    states: list[SessionState] = []
    store.on_session.append(states.append)
    session_id = store.session_id
    await store.create("/mine", b"", ephemeral=True)
    await harness.disconnect(store)
    await state_is(store, SessionState.DISCONNECTED)
    for call in (
        store.get("/mine"),
        store.create("/x", b""),
        store.multi([Create("/y", b"")]),
    ):
        with pytest.raises(StoreDisconnectedError) as raised:
            await call
        assert raised.value.maybe_applied
    assert await other.exists("/mine") is not None
    await harness.reconnect(store)
    await state_is(store, SessionState.CONNECTED)
    assert store.session_id == session_id
    assert (await store.get("/mine"))[1].ephemeral_owner == session_id
    assert states == [SessionState.DISCONNECTED, SessionState.CONNECTED]


async def test_the_server_expires_who_stays_away(
    harness: StoreHarness, store: MetadataStore
) -> None:
    other = await harness.open()
    await store.create("/mine", b"", ephemeral=True)
    gone: list[WatchEvent] = []
    await other.exists("/mine", watch=gone.append)
    await harness.disconnect(store)
    await eventually(lambda: gone, timeout_s=10 * SESSION_TIMEOUT_MS / 1000)
    assert store.state is SessionState.DISCONNECTED  # it cannot know yet
    await harness.reconnect(store)
    await state_is(store, SessionState.EXPIRED)


async def test_expired_is_final_until_restarted(
    harness: StoreHarness, store: MetadataStore
) -> None:
    other = await harness.open()
    states: list[SessionState] = []
    store.on_session.append(states.append)
    first_id = store.session_id
    await store.create("/mine", b"", ephemeral=True)
    await harness.expire(store)
    await state_is(store, SessionState.EXPIRED)
    assert states == [SessionState.DISCONNECTED, SessionState.EXPIRED]
    assert await other.exists("/mine") is None
    for call in (store.get("/"), store.create("/x", b""), store.multi([Create("/y", b"")])):
        with pytest.raises(SessionExpiredError) as raised:
            await call
        assert not raised.value.maybe_applied
    await store.restart_session()
    await state_is(store, SessionState.CONNECTED)
    assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert store.session_id not in (first_id, None)
    created = await store.create("/mine", b"", ephemeral=True)
    assert created.ephemeral_owner == store.session_id


async def test_restart_is_only_for_expired_sessions(store: MetadataStore) -> None:
    with pytest.raises(StoreError):
        await store.restart_session()
    assert store.state is SessionState.CONNECTED


async def test_a_lost_reply_says_nothing_about_the_effect(
    harness: StoreHarness, store: MetadataStore
) -> None:
    other = await harness.open()
    await store.create("/a", b"one")
    states: list[SessionState] = []
    store.on_session.append(states.append)
    await harness.lose_next_reply(store)
    with pytest.raises(StoreDisconnectedError) as raised:
        await store.set("/a", b"two")
    assert raised.value.maybe_applied
    await eventually(lambda: states == [SessionState.DISCONNECTED, SessionState.CONNECTED])
    assert (await other.get("/a"))[0] == b"two"
    assert (await store.get("/a"))[0] == b"two"


async def test_a_lost_multi_reply_leaves_its_nodes_to_the_session(
    harness: StoreHarness, store: MetadataStore
) -> None:
    """[Z2]: who loses the reply of an election finds itself elected when it reads again."""
    await store.create("/epoch", b"1")
    await harness.lose_next_reply(store)
    with pytest.raises(StoreDisconnectedError):
        await store.multi([Create("/controller", b"me", True), SetData("/epoch", b"2", 0)])
    assert (await read_again(store, "/controller"))[1].ephemeral_owner == store.session_id
    assert (await read_again(store, "/epoch"))[0] == b"2"


async def read_again(store: MetadataStore, path: str) -> tuple[bytes, NodeStat]:
    """Return what a node holds, however often the connection is lost before the answer."""
    async with asyncio.timeout(30):
        while True:
            await state_is(store, SessionState.CONNECTED)
            try:
                return await store.get(path)
            except StoreDisconnectedError:
                await asyncio.sleep(0)


async def test_close_tells_nobody_and_refuses_calls(store: MetadataStore) -> None:
    states: list[SessionState] = []
    store.on_session.append(states.append)
    await store.close()
    await store.close()
    assert store.session_id is None
    with pytest.raises(StoreDisconnectedError):
        await store.get("/")
    assert states == []


async def test_start_fails_when_nothing_answers(harness: StoreHarness) -> None:
    store = await harness.unreachable()
    with pytest.raises(StoreDisconnectedError):
        await store.start()
    assert store.state is SessionState.DISCONNECTED
    await store.close()
