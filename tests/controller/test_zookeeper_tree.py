"""A tree goes over to its creator, and back to everybody, node by node and as often as wanted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_controller import zookeeper_tree
from oncelog_controller.store import AccessDeniedError, Create, Op, StoreDisconnectedError
from oncelog_controller.zookeeper import ZooKeeperStore
from oncelog_controller.zookeeper_access import (
    EVERYBODY,
    AccessList,
    ZooKeeperAccess,
    lets_everybody_write,
)
from oncelog_controller.zookeeper_tree import OURS, Walked, close_tree, open_tree
from support.tls_zookeeper import TlsZooKeeper, access

pytestmark = pytest.mark.zookeeper
CHROOT_NUMBERS = itertools.count()
BROKER = access(creator_only=False)
"""It has an identity, and makes nodes for everybody."""
TREE = (
    *("/brokers", "/brokers/ids", "/brokers/topics", "/brokers/topics/t", "/config"),
    *("/security", "/security/users", "/security/users/b"),
)


class Opened:
    """It opens stores of one tree."""

    def __init__(self, server: ZooKeeperServer, chroot: str) -> None:
        self.server = server
        self.chroot = chroot
        self.stores: list[ZooKeeperStore] = []

    async def open(self, given: ZooKeeperAccess = BROKER) -> ZooKeeperStore:
        store = ZooKeeperStore(self.server.address, chroot=self.chroot, access=given)
        self.stores.append(store)
        await store.start()
        return store


@pytest_asyncio.fixture
async def opened(zookeeper: ZooKeeperServer) -> AsyncIterator[Opened]:
    made = Opened(zookeeper, f"/tree{next(CHROOT_NUMBERS)}")
    yield made
    for store in made.stores:
        await store.close()


@pytest_asyncio.fixture
async def store(opened: Opened) -> ZooKeeperStore:
    """It is a session with an identity, in a tree that is for everybody."""
    store = await opened.open()
    for path in TREE:
        await store.create(path, b"x")
    await store.create("/brokers/ids/1", b"", ephemeral=True)
    return store


NODES = len(TREE) + 2
"""The ephemeral one and the root are nodes as well."""


async def are_open(store: ZooKeeperStore) -> set[bool]:
    """Return whether nodes may be written by everybody: both, if some may and others not."""
    paths = ["/", "/brokers/ids/1", *TREE]
    return {lets_everybody_write(await store.access_list(path)) for path in paths}


async def test_a_tree_is_closed_and_opened_and_says_how_many_nodes_were_changed(
    opened: Opened, store: ZooKeeperStore
) -> None:
    stranger = await opened.open(access(user=None, creator_only=False))
    assert await close_tree(store) == Walked(NODES, ())
    assert await are_open(store) == {False}
    for path in ("/security/users/b", "/brokers/ids/1", "/"):
        with pytest.raises(AccessDeniedError):
            await stranger.get(path)
    assert (await store.get("/security/users/b"))[0] == b"x"
    assert await close_tree(store) == Walked(0, ())
    assert await open_tree(store) == Walked(NODES, ())
    assert await are_open(store) == {True}
    assert (await stranger.get("/security/users/b"))[0] == b"x"
    assert await open_tree(store) == Walked(0, ())


async def test_what_brokers_watch_and_the_versions_stay(store: ZooKeeperStore) -> None:
    fired: list[object] = []
    before = await store.get("/config", watch=fired.append)
    await close_tree(store)
    assert await store.get("/config") == before
    assert fired == []


async def test_what_is_new_or_gone_meanwhile_ends_no_walk(
    opened: Opened, store: ZooKeeperStore
) -> None:
    broker = await opened.open(access())

    async def live() -> None:
        for number in itertools.count():
            await broker.create(f"/brokers/topics/n{number}", b"")
            await broker.delete(f"/brokers/topics/n{number}")

    living = asyncio.create_task(live())
    walked = await close_tree(store)
    living.cancel()
    assert walked.changed >= NODES
    assert await are_open(store) == {False}


async def test_a_walk_that_was_cut_off_is_done_again(store: ZooKeeperStore) -> None:
    """The store goes after some nodes: what is done is done, and the rest is left for later."""
    left = iter(range(4))

    class Breaking(ZooKeeperStore):
        """It loses its connection after some changes."""

        async def set_access_list(self, path: str, acl: AccessList) -> None:
            if next(left, None) is None:
                raise StoreDisconnectedError(path)
            await super().set_access_list(path, acl)

    breaking = Breaking(store._hosts, chroot=store.chroot, access=BROKER)
    await breaking.start()
    with pytest.raises(StoreDisconnectedError):
        await close_tree(breaking)
    await breaking.close()
    assert await are_open(store) == {True, False}
    assert await close_tree(store) == Walked(NODES - 4, ())
    assert await are_open(store) == {False}


async def test_nobody_has_nothing_to_close_and_another_one_cannot_open(
    opened: Opened, store: ZooKeeperStore
) -> None:
    nobody = await opened.open(access(user=None, creator_only=False))
    with pytest.raises(AccessDeniedError):
        await close_tree(nobody)
    assert await are_open(store) == {True}
    another = await opened.open(access(user="another", creator_only=False))
    await close_tree(store)
    with pytest.raises(AccessDeniedError):
        await open_tree(another)
    assert await are_open(store) == {False}


async def test_nodes_of_more_than_one_step_and_level(
    opened: Opened, store: ZooKeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_tree, "NODES_AT_ONCE", 3)
    ops: list[Op] = [Create(f"/brokers/topics/t/{number}", b"") for number in range(10)]
    await store.multi(ops)
    assert (await close_tree(store)).changed == NODES + len(ops)


async def test_all_identities_of_a_session_are_in_a_node(tls_zookeeper: TlsZooKeeper) -> None:
    """Whoever shows a certificate and has a user is known by both, and either is enough."""
    given = access(tls_zookeeper.papers, "broker-1", creator_only=False)
    store = ZooKeeperStore(tls_zookeeper.tls_address, chroot="/both", access=given)
    await store.start()
    await store.create("/brokers", b"")
    assert (await close_tree(store)).changed == 2
    schemes = {entry.id.scheme for entry in await store.access_list("/brokers")}
    assert schemes == {"digest", "x509"}
    assert (await close_tree(store)).changed == 0
    await store.close()


# ---- without a chroot


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """It is a ZooKeeper whose root is one cluster's."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("alone"))
    server.start()
    yield server
    server.stop()


async def test_the_root_of_zookeeper_is_closed_unless_others_have_nodes_there(
    alone: ZooKeeperServer,
) -> None:
    opened = Opened(alone, "")
    store = await opened.open()
    for path in TREE:
        await store.create(path, b"")
    await store.create("/kafka", b"", ephemeral=True)
    assert await close_tree(store) == Walked(len(TREE), ("/kafka",))
    for path in ("/", "/kafka"):
        assert await store.access_list(path) == EVERYBODY
    await store.delete("/kafka")
    assert await close_tree(store) == Walked(1, ())
    assert not lets_everybody_write(await store.access_list("/"))
    assert await store.access_list("/zookeeper") == EVERYBODY
    assert await open_tree(store) == Walked(len(TREE) + 1, ())
    await store.close()


async def test_a_root_with_nothing_of_ours_is_left_alone(alone: ZooKeeperServer) -> None:
    store = await Opened(alone, "").open()
    await store.create("/kafka", b"")
    assert await close_tree(store) == Walked(0, ("/kafka",))
    await store.close()


def test_ours_are_the_nodes_that_znodes_names() -> None:
    assert {"brokers", "config", "controller", "controller_epoch", "security", "cluster"} <= OURS
