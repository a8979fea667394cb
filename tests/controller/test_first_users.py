"""First users are in the store as a controller has them, before there is one."""

from __future__ import annotations

import pytest

from oncelog_controller import security_nodes, user_nodes, znodes
from oncelog_controller.first_users import add_user
from oncelog_controller.loader import load_security, load_users
from oncelog_protocol.errors import (
    DuplicateResourceError,
    PolicyViolationError,
    UnacceptableCredentialError,
)
from oncelog_protocol.messages.users import CREATE, UserWish
from oncelog_protocol.sasl.user import CredentialRow
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.sasl import CREDENTIALS, SECRET, SHA_256, SHA_512


async def opened() -> MemoryMetadataStore:
    store = MemoryMetadataStore(MemoryZooKeeper())
    await store.start()
    return store


def wish(name: str, *mechanisms: str) -> UserWish:
    rows = [CredentialRow.of(each) for each in CREDENTIALS.values()]
    return UserWish(name, CREATE, [each for each in rows if each.mechanism in mechanisms])


BOTH = (str(SHA_256), str(SHA_512))


async def test_an_empty_store_has_the_user_and_what_users_need() -> None:
    store = await opened()
    await add_user(store, wish("admin", *BOTH), SECRET)
    known = await load_users(store)
    assert known is not None
    assert (known.version, known.secret) == (1, SECRET)
    user = known.users["admin"].user
    assert (user.generation, user.disabled) == (1, False)
    assert [user.credential(each) for each in (SHA_256, SHA_512)] == [
        CREDENTIALS[SHA_256],
        CREDENTIALS[SHA_512],
    ]


async def test_a_controller_goes_on_from_there() -> None:
    store = await opened()
    await add_user(store, wish("admin", *BOTH), SECRET)
    await add_user(store, wish("broker-1", str(SHA_256)), bytes(32))
    read = await load_security(store, bytes(32))
    assert (read.version, read.secret) == (2, SECRET), "the first secret stays"
    assert sorted(read.users) == ["admin", "broker-1"]


async def test_a_second_password_is_refused() -> None:
    store = await opened()
    await add_user(store, wish("admin", *BOTH), SECRET)
    with pytest.raises(DuplicateResourceError, match="user admin already"):
        await add_user(store, wish("admin", str(SHA_256)), SECRET)
    stat = await store.exists(security_nodes.VERSION)
    assert stat is not None
    assert stat.version == 1


async def test_a_name_that_nobody_can_have_leaves_no_trace() -> None:
    store = await opened()
    with pytest.raises(UnacceptableCredentialError):
        await add_user(store, wish("a b", *BOTH), SECRET)
    with pytest.raises(UnacceptableCredentialError, match="needs a credential"):
        await add_user(store, wish("admin"), SECRET)
    assert await store.exists("/security") is None


async def test_beside_a_broker_that_runs_nothing_is_written() -> None:
    store = await opened()
    await store.create(znodes.BROKER_IDS, b"", make_parents=True)
    await store.create(f"{znodes.BROKER_IDS}/3", b"{}", ephemeral=True)
    with pytest.raises(PolicyViolationError, match="brokers 3 .* run.*oncelog users add"):
        await add_user(store, wish("admin", *BOTH), SECRET)
    assert await store.exists(user_nodes.SECRET) is None
