"""Who lives objects, who is dead is silent, and only the life that is meant may object."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog_controller import znodes
from oncelog_controller.accusations import Defence, objects
from oncelog_controller.loader import prepare_store
from oncelog_controller.store import StoreDisconnectedError
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_runtime.tasks import Tasks
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.waiting import eventually

ACCUSER, ACCUSED = 1, 2


async def client(server: MemoryZooKeeper) -> MemoryMetadataStore:
    store = MemoryMetadataStore(server)
    await store.start()
    await prepare_store(store)
    return store


async def registered(store: MemoryMetadataStore, broker_id: int) -> int:
    data = znodes.encode_broker([ListenerAddress("internal", "h", 1)], None)
    return (await store.create(znodes.broker_path(broker_id), data, ephemeral=True)).czxid


@asynccontextmanager
async def defended(server: MemoryZooKeeper) -> AsyncIterator[tuple[MemoryMetadataStore, list[int]]]:
    """Open a store of the accused, and note who has accused it."""
    store, tasks = await client(server), Tasks("test")
    heard: list[int] = []
    tasks.spawn("defence", Defence(store, ACCUSED, heard.extend).run())
    try:
        yield store, heard
    finally:
        await tasks.close()
        await store.close()


async def test_who_lives_objects_again_and_again() -> None:
    server = MemoryZooKeeper()
    accuser = await client(server)
    async with defended(server) as (accused, heard):
        epoch = await registered(accused, ACCUSED)
        for times in (1, 2, 3):
            assert await objects(accuser, ACCUSER, ACCUSED, epoch)
            assert heard == [ACCUSER] * times
        assert server.data(znodes.accusation_path(ACCUSED, ACCUSER)) is None
    await accuser.close()


async def test_who_is_dead_is_silent_and_nothing_is_left() -> None:
    server = MemoryZooKeeper()
    accuser = await client(server)
    assert not await objects(accuser, ACCUSER, ACCUSED, 7)
    assert server.data(znodes.accusation_path(ACCUSED, ACCUSER)) is None
    await accuser.close()


async def test_an_earlier_life_is_dead_although_there_is_a_new_one() -> None:
    server = MemoryZooKeeper()
    accuser = await client(server)
    async with defended(server) as (accused, heard):
        epoch = await registered(accused, ACCUSED)
        assert not await objects(accuser, ACCUSER, ACCUSED, epoch - 1)
        assert heard == []
    await accuser.close()


async def test_several_accuse_at_once() -> None:
    server = MemoryZooKeeper()
    accusers = [await client(server) for _ in range(3)]
    async with defended(server) as (accused, heard):
        epoch = await registered(accused, ACCUSED)
        asked = (objects(store, 10 + i, ACCUSED, epoch) for i, store in enumerate(accusers))
        assert all(await asyncio.gather(*asked))
        assert sorted(heard) == [10, 11, 12]
    for store in accusers:
        await store.close()


async def test_a_question_that_was_taken_back_is_in_nobodys_way() -> None:
    server = MemoryZooKeeper()
    accuser = await client(server)
    first = asyncio.get_running_loop().create_task(objects(accuser, ACCUSER, ACCUSED, 7))
    path = znodes.accusation_path(ACCUSED, ACCUSER)
    await eventually(lambda: server.data(path) is not None)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert server.data(path) is not None
    assert not await objects(accuser, ACCUSER, ACCUSED, 7)
    await accuser.close()


async def test_without_the_store_nobody_knows() -> None:
    server = MemoryZooKeeper()
    accuser = await client(server)
    assert accuser.session_id is not None
    server.disconnect(accuser.session_id)
    with pytest.raises(StoreDisconnectedError):
        await objects(accuser, ACCUSER, ACCUSED, 7)
    await accuser.close()


async def test_who_was_cut_off_from_the_store_objects_when_it_is_back() -> None:
    server = MemoryZooKeeper()
    accuser = await client(server)
    async with defended(server) as (accused, heard):
        epoch = await registered(accused, ACCUSED)
        assert await objects(accuser, ACCUSER, ACCUSED, epoch)
        assert accused.session_id is not None
        server.disconnect(accused.session_id)
        assert not await objects(accuser, ACCUSER, ACCUSED, epoch)
        server.reconnect(accused.session_id)
        assert await objects(accuser, ACCUSER, ACCUSED, epoch)
        assert heard == [ACCUSER] * 2
    await accuser.close()
