"""ZooKeeper is verified, told who this is, and lets nobody else read what was made."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_controller.store import (
    AccessDeniedError,
    Create,
    IdentityRejectedError,
    MetadataStore,
    SessionExpiredError,
    SessionState,
    StoreDisconnectedError,
)
from oncelog_controller.zookeeper import ZooKeeperStore
from oncelog_controller.zookeeper_access import (
    CREATOR,
    EVERYBODY,
    ZooKeeperAccess,
    lets_everybody_write,
)
from support.certificates import Papers
from support.tls_zookeeper import PASSWORD, USER, TlsZooKeeper, access
from support.waiting import eventually, in_thread

CHROOT_NUMBERS = itertools.count()
Open = Callable[..., ZooKeeperStore]


@pytest_asyncio.fixture
async def stores() -> AsyncIterator[Open]:
    """Make stores, which are closed at the end."""
    made: list[ZooKeeperStore] = []

    def make(address: str, given: ZooKeeperAccess, deadline_ms: int = 15_000) -> ZooKeeperStore:
        hosts, _, chroot = address.partition("/")
        store = ZooKeeperStore(hosts, chroot=chroot, access=given, connect_timeout_ms=deadline_ms)
        made.append(store)
        return store

    yield make
    for store in made:
        await store.close()


def place(address: str) -> str:
    return f"{address}/access{next(CHROOT_NUMBERS)}"


@contextmanager
def outsider(server: ZooKeeperServer, *credentials: str) -> Iterator[KazooClient]:
    """Reach ZooKeeper by hand, as nobody or by some digests."""
    client = KazooClient(server.address, auth_data=[("digest", each) for each in credentials])
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_nobody_and_without_tls_is_the_default() -> None:
    assert ZooKeeperAccess().options() == {}
    assert not access(creator_only=False).options().keys() - {"auth_data"}


def test_a_password_is_not_shown() -> None:
    assert PASSWORD not in repr(access())


def test_who_may_write() -> None:
    assert lets_everybody_write(EVERYBODY)
    assert not lets_everybody_write(CREATOR)


# ---- who may touch what was made


async def make_some(store: MetadataStore) -> list[str]:
    """Make nodes in every way that there is; return their paths."""
    await store.create("/security/users/b", b"a verifier", make_parents=True)
    await store.create("/mine", b"", ephemeral=True)
    await store.multi([Create("/many", b"1"), Create("/many/one", b"2", ephemeral=True)])
    return ["/security", "/security/users", "/security/users/b", "/mine", "/many", "/many/one"]


@pytest.mark.zookeeper
async def test_what_is_made_is_for_its_creator_alone(
    zookeeper: ZooKeeperServer, stores: Open
) -> None:
    there = place(zookeeper.address)
    store = stores(there, access())
    await store.start()
    paths = [store.chroot, *(store.chroot + path for path in await make_some(store))]

    def check(*credentials: str) -> None:
        with outsider(zookeeper, *credentials) as client:
            for path in paths:
                for forbidden, *more in (
                    (client.get,),
                    (client.get_children,),
                    (client.get_acls,),
                    (client.set, b"mine"),
                    (client.set_acls, EVERYBODY),
                ):
                    with pytest.raises(NoAuthError):
                        forbidden(path, *more)
                with pytest.raises(NoAuthError):
                    client.create(f"{path}/more", b"")
            for path in paths[1:]:
                with pytest.raises(NoAuthError):
                    client.delete(path)

    await in_thread(check)
    await in_thread(check, f"{USER}:another password")
    await in_thread(check, f"another:{PASSWORD}")
    again = stores(there, access())
    await again.start()
    assert (await again.get("/security/users/b"))[0] == b"a verifier"
    await again.set("/many", b"3")
    await again.delete("/mine")


@pytest.mark.zookeeper
async def test_the_wrong_password_is_told_apart_from_silence(
    zookeeper: ZooKeeperServer, stores: Open
) -> None:
    there = place(zookeeper.address)
    store = stores(there, access())
    await store.start()
    await store.create("/a", b"")
    other = access(password="guessed")
    with pytest.raises(AccessDeniedError, match=store.chroot):
        await stores(there, other).start()
    beside = stores(zookeeper.address, other)
    await beside.start()
    for call in (
        beside.get(f"{store.chroot}/a"),
        beside.set(f"{store.chroot}/a", b"x"),
        beside.children(store.chroot),
        beside.multi([Create(f"{store.chroot}/b", b"")]),
    ):
        with pytest.raises(AccessDeniedError):
            await call
    assert beside.state is SessionState.CONNECTED


@pytest.mark.zookeeper
async def test_nobody_cannot_make_what_is_for_its_creator(
    zookeeper: ZooKeeperServer, stores: Open
) -> None:
    store = stores(place(zookeeper.address), access(user=None))
    with pytest.raises(AccessDeniedError):
        await store.start()


@pytest.mark.zookeeper
async def test_a_chroot_whose_parent_is_another_ones_is_used(
    zookeeper: ZooKeeperServer, stores: Open
) -> None:
    there = place(zookeeper.address)
    admin = stores(there, access(user="admin"))
    await admin.start()
    await admin.create("/oncelog", b"")
    await admin.set_access_list("/oncelog", EVERYBODY)
    store = stores(f"{there}/oncelog", access())
    await store.start()
    await store.create("/a", b"")


@pytest.mark.zookeeper
async def test_an_open_root_is_told_once_to_whom_wants_closed_nodes(
    zookeeper: ZooKeeperServer, stores: Open, caplog: pytest.LogCaptureFixture
) -> None:
    there = place(zookeeper.address)
    before = stores(there, access(creator_only=False))
    await before.start()
    assert "zookeeper_root_open" not in caplog.text
    store = stores(there, access())
    await store.start()
    assert caplog.text.count(f"zookeeper_root_open path={store.chroot}") == 1
    caplog.clear()
    closed = stores(place(zookeeper.address), access())
    await closed.start()
    assert "zookeeper_root_open" not in caplog.text


# ---- TLS


@pytest.mark.zookeeper
async def test_a_certificate_is_an_identity(tls_zookeeper: TlsZooKeeper, stores: Open) -> None:
    there = place(tls_zookeeper.tls_address)
    papers = tls_zookeeper.papers
    brokers = access(papers, "brokers", user=None)
    store = stores(there, brokers)
    await store.start()
    await store.create("/a", b"x")
    (entry,) = await store.access_list("/a")
    assert entry.id.scheme == "x509"
    assert entry.id.id.startswith("CN=brokers,")
    for other in (access(papers, "another", user=None), access(papers)):
        with pytest.raises(AccessDeniedError):
            await stores(there, other).start()
    again = stores(there, brokers)
    await again.start()
    assert (await again.get("/a"))[0] == b"x"


@pytest.mark.zookeeper
async def test_a_server_of_another_ca_is_refused_and_the_start_says_why(
    tls_zookeeper: TlsZooKeeper,
    stores: Open,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = stores(place(tls_zookeeper.tls_address), access(Papers(tmp_path)), 1500)
    with pytest.raises(StoreDisconnectedError, match="not signed by a trusted CA"):
        await store.start()
    assert "zookeeper_tls_failed" in caplog.text
    assert store.session_id is None


@pytest.mark.zookeeper
async def test_a_server_of_another_name_is_refused(
    tls_zookeeper: TlsZooKeeper, stores: Open
) -> None:
    there = place(f"localhost:{tls_zookeeper.tls_port}")
    store = stores(there, access(tls_zookeeper.papers), 1500)
    with pytest.raises(StoreDisconnectedError, match="for another name"):
        await store.start()


@pytest.mark.zookeeper
async def test_a_server_without_tls_is_refused(tls_zookeeper: TlsZooKeeper, stores: Open) -> None:
    store = stores(place(tls_zookeeper.server.address), access(tls_zookeeper.papers), 1500)
    with pytest.raises(StoreDisconnectedError, match="no ZooKeeper answered"):
        await store.start()


@pytest.mark.zookeeper
async def test_files_are_looked_at_before_each_connection(
    tls_zookeeper: TlsZooKeeper,
    stores: Open,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What does not load is told, and the session goes on by what was there."""
    papers = Papers(tmp_path)
    shutil.copy(tls_zookeeper.papers.ca_file, papers.ca_file)
    store = stores(place(tls_zookeeper.tls_address), access(papers))
    await store.start()
    session_id = store.session_id
    states: list[SessionState] = []
    store.on_session.append(states.append)
    os.truncate(papers.ca_file, 100)
    await in_thread(break_connection, store)
    await eventually(lambda: states[-1:] == [SessionState.CONNECTED], timeout_s=20)
    assert "zookeeper_tls_files_refused" in caplog.text
    assert store.session_id == session_id


def break_connection(store: ZooKeeperStore) -> None:
    assert store._client is not None
    connection = store._client._connection._socket
    assert connection is not None
    connection.shutdown(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheard(ZooKeeperAccess):
    """Its identities are of schemes that ZooKeeper does not know, so that it rejects them."""

    identities: list[tuple[str, str]]

    def options(self) -> dict[str, Any]:
        return {"auth_data": list(self.identities)}


@pytest.mark.zookeeper
@pytest.mark.parametrize("with_chroot", [True, False])
async def test_an_identity_that_is_rejected_is_told_at_the_start(
    zookeeper: ZooKeeperServer, stores: Open, with_chroot: bool
) -> None:
    there = place(zookeeper.address) if with_chroot else zookeeper.address
    with pytest.raises(IdentityRejectedError):
        await stores(there, Unheard(identities=[("unheard", "x")])).start()


@pytest.mark.zookeeper
async def test_an_identity_that_is_rejected_later_ends_the_session_and_is_tried_again(
    zookeeper: ZooKeeperServer, stores: Open, caplog: pytest.LogCaptureFixture
) -> None:
    identities: list[tuple[str, str]] = []
    store = stores(place(zookeeper.address), Unheard(identities=identities))
    await store.start()
    identities.append(("unheard", "x"))
    assert store._client is not None
    store._client.auth_data.update(identities)
    break_connection(store)
    await eventually(lambda: store.state is SessionState.EXPIRED)
    with pytest.raises(SessionExpiredError):
        await store.get("/")
    again = asyncio.ensure_future(store.restart_session())
    await eventually(lambda: caplog.text.count("zookeeper_identity_rejected") >= 2)
    identities.clear()
    await again
    assert store.state is SessionState.CONNECTED
    assert "zookeeper_session_expired" not in caplog.text
