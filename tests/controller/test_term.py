"""One term writes, loses contact, keeps requests waiting, and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.campaign import Campaign, Won
from oncelog_controller.evidence import Evidence
from oncelog_controller.loader import prepare_store
from oncelog_controller.store import SessionState, SetData, Watch, WatchEvent
from oncelog_controller.term import ControllerTerm
from oncelog_protocol.errors import NotControllerError, RequestTimedOutError
from oncelog_protocol.messages import admin
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.clock import ManualClock
from support.fake_broker import FakeBroker
from support.room_settings import controller_settings
from support.waiting import eventually


def ignore(_: WatchEvent) -> None:
    pass


class SlowStore(MemoryMetadataStore):
    """The children of one path are held back until the gate opens."""

    slow = ""

    def __init__(self, server: MemoryZooKeeper) -> None:
        super().__init__(server, session_timeout_ms=60_000)
        self.held = 0
        self.gate = asyncio.Event()

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = await super().children(path, watch)
        if path == self.slow:
            self.held += 1
            await self.gate.wait()
        return names


class Running:
    def __init__(self, server: MemoryZooKeeper, store: SlowStore, term: ControllerTerm) -> None:
        self.server, self.store, self.term = server, store, term
        self.task = asyncio.get_running_loop().create_task(term.run())

    @property
    def session(self) -> int:
        assert self.store.session_id is not None
        return self.store.session_id

    async def create(self, topic: str, *, timeout_ms: int = 1000) -> Any:
        new = admin.CreatableTopic(topic, 1, 1)
        return await self.term.handle(admin.CreateTopicsRequest([new], timeout_ms))

    async def renew_session(self) -> None:
        """Renew it as the membership does after expiry."""
        self.server.expire(self.session)
        await eventually(lambda: self.store.state is SessionState.EXPIRED)
        await self.store.restart_session()

    async def reason(self) -> str:
        async with asyncio.timeout(5):
            return await self.task


@asynccontextmanager
async def running(broker: FakeBroker) -> AsyncIterator[Running]:
    server = MemoryZooKeeper()
    store = SlowStore(server)
    await store.start()
    await prepare_store(store)
    stat = await store.create(
        znodes.broker_path(1), znodes.encode_broker(broker.listeners, None), ephemeral=True
    )
    broker.broker_epoch = stat.czxid
    won = await Campaign(store, 1).run(ignore)
    assert isinstance(won, Won)
    term = ControllerTerm(
        broker_id=1,
        store=store,
        clock=ManualClock(),
        entropy=SeededEntropy(1),
        config=controller_settings(),
        won=won,
        suspected=frozenset(),
        evidence=Evidence(),
    )
    made = Running(server, store, term)
    try:
        yield made
    finally:
        term.resign("the test is over")
        await made.task
        await store.close()


async def test_a_request_is_served() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        response = await run.create("t")
        assert response.topics[0].error_code == 0
        assert len(response.topics[0].topic_id) == 36
        assert [name.topic for name in broker.replicas] == ["t"]


async def test_a_write_whose_reply_was_lost_is_found_out() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        run.server.lose_reply(run.session)
        response = await run.create("t")
        assert response.topics[0].error_code == RequestTimedOutError.code
        await eventually(lambda: "t" in run.term.machine.cluster.topics)
        assert (await run.create("u")).topics[0].error_code == 0


async def test_nothing_is_done_without_contact() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        run.server.disconnect(run.session)
        asked = asyncio.get_running_loop().create_task(run.create("t"))
        await asyncio.sleep(0.05)
        assert not asked.done()
        assert run.server.data(znodes.topic_path("t")) is None
        run.server.reconnect(run.session)
        assert (await asked).topics[0].error_code == 0


async def test_expiry_ends_the_term() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        run.server.expire(run.session)
        assert "expired" in await run.reason()
        response = await run.create("t")
        assert response.error_code == NotControllerError.code


async def test_nothing_is_written_in_the_session_that_follows() -> None:
    """The broker has a new session before the term has heard that the old one is over."""
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("t")
        before = run.server.data(znodes.state_path("t", 0))
        run.store.slow = znodes.BROKER_IDS
        other = znodes.encode_broker(broker.listeners, None)
        await run.store.create(znodes.broker_path(2), other, ephemeral=True)
        await eventually(lambda: run.store.held)
        await run.renew_session()
        run.store.gate.set()
        assert "expired" in await run.reason()
        assert run.server.data(znodes.state_path("t", 0)) == before


async def test_a_notice_is_left_to_the_next_controller_when_the_session_is_over() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("t")
        run.store.slow = znodes.STORAGE_FAILURES
        await run.store.create(znodes.storage_failure_path(1), b"")
        await eventually(lambda: run.store.held)
        await run.renew_session()
        run.store.gate.set()
        assert "expired" in await run.reason()
        assert run.server.data(znodes.storage_failure_path(1)) is not None


async def test_a_fenced_write_ends_the_term_and_the_asker_is_told() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        run.server.apply(SetData(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(9)))
        response = await run.create("t")
        assert response.topics[0].error_code == RequestTimedOutError.code
        assert "fenced" in await run.reason()
        assert run.server.data(znodes.topic_path("t")) is None


async def test_a_broker_that_knows_a_newer_controller_is_believed_when_the_store_says_so() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await eventually(lambda: broker.orders)
        broker.controller_epoch = 2
        run.server.apply(SetData(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(2)))
        asking = asyncio.get_running_loop().create_task(run.create("t"))
        assert "fenced" in await run.reason() or "moved on" in await run.reason()
        await asking


async def test_a_broker_that_was_told_nonsense_does_not_end_the_term() -> None:
    async with FakeBroker(1) as broker:
        broker.controller_epoch = 2**31 - 1
        async with running(broker) as run:
            await eventually(lambda: len(broker.refused) > 3)
            broker.controller_epoch = -1
            await run.create("t")
            await eventually(lambda: broker.replicas)
            assert not run.task.done()


@pytest.mark.slow
async def test_a_broker_that_knows_a_newer_controller_is_believed_of_a_silent_store() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await eventually(lambda: broker.orders)
        broker.controller_epoch = 2
        run.server.delay = lambda kind, session_id: 3600.0
        run.term.controller_changed()
        run.term._fenced(1)
        assert "silent" in await run.reason()
        run.server.delay = lambda kind, session_id: 0.0


async def test_its_own_node_gone_ends_the_term() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        await run.store.delete(znodes.CONTROLLER)
        assert "gone" in await run.reason()


async def test_requests_that_wait_are_answered_at_the_end() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        broker.muted = True
        begun = asyncio.get_running_loop().create_task(run.create("t", timeout_ms=60_000))
        await eventually(lambda: run.server.data(znodes.topic_path("t")))
        run.server.disconnect(run.session)
        waiting = asyncio.get_running_loop().create_task(run.create("u"))
        await asyncio.sleep(0)
        run.term.resign("the test says so")
        assert await run.reason() == "the test says so"
        assert (await begun).error_code == RequestTimedOutError.code
        assert (await waiting).error_code == NotControllerError.code


async def test_an_asker_that_goes_away_is_forgotten() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        run.server.disconnect(run.session)
        asked = asyncio.get_running_loop().create_task(run.create("t"))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        run.server.reconnect(run.session)
        await run.create("u")
        assert run.server.data(znodes.topic_path("t")) is None


async def test_a_state_changed_by_hand_is_read_again() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("t")
        path = znodes.state_path("t", 0)
        data = run.server.data(path)
        assert data is not None
        run.server.apply(SetData(path, data))
        await run.term.handle(admin.DeleteTopicsRequest(["t"], 100))
        assert "t" not in run.term.machine.cluster.topics
        assert run.server.data(path) is None


async def test_answers_time_out_without_any_other_event() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        broker.muted = True
        response = await run.create("t", timeout_ms=30)
        assert response.topics[0].error_code == RequestTimedOutError.code


async def test_too_many_requests_are_refused() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("first")
        run.server.disconnect(run.session)
        loop = asyncio.get_running_loop()
        many = [
            loop.create_task(run.term.handle(admin.DeleteTopicsRequest([], 1)))
            for _ in range(10_001)
        ]
        await eventually(lambda: many[-1].done())
        assert many[-1].result().error_code == NotControllerError.code
        run.term.resign("enough")
        responses = await asyncio.gather(*many)
        assert {response.error_code for response in responses} == {NotControllerError.code}


async def test_a_notice_of_a_failed_directory_is_heard_and_cleared_away() -> None:
    async with FakeBroker(1) as broker, running(broker) as run:
        await run.create("t")
        before = len([order for order in broker.orders if getattr(order, "full", False)])
        await run.store.create(znodes.storage_failure_path(1), b"")
        await eventually(lambda: run.server.data(znodes.storage_failure_path(1)) is None)
        await eventually(
            lambda: len([o for o in broker.orders if getattr(o, "full", False)]) == before + 2
        )
        await run.store.create(znodes.storage_failure_path(1), b"")
        await eventually(lambda: run.server.data(znodes.storage_failure_path(1)) is None)
