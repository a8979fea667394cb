"""Registration: own old nodes go, foreign ones are fatal, expiry renews (Z5, Z6)."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.membership import DuplicateBrokerIdError, Membership
from oncelog_controller.state import DataClaim, DataLoss
from oncelog_controller.store import NodeStat
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.waiting import eventually


class Process:
    """A broker process as far as membership goes."""

    def __init__(
        self,
        server: MemoryZooKeeper,
        broker_id: int = 1,
        previous_session: int | None = None,
        hint: str = "c-1",
    ) -> None:
        self.store = MemoryMetadataStore(server)
        self.remembered: list[int] = []
        self.epochs: list[int] = []
        self.failures: list[BaseException] = []
        self.membership = Membership(
            self.store,
            broker_id=broker_id,
            listeners=[ListenerAddress("internal", "localhost", 9092)],
            rack="r1",
            cluster_id_hint=hint,
            previous_session=previous_session,
            remember_session=self.remembered.append,
            claim_data=self._claim,
        )
        self.claims: list[int] = []
        self.membership.on_registered.append(self.epochs.append)
        self.membership.on_failed.append(self.failures.append)

    def _claim(self) -> DataClaim:
        self.claims.append(self.membership.broker_epoch)
        return DataClaim(len(self.claims), self.membership.broker_epoch, DataLoss.NONE)

    async def start(self) -> Process:
        await self.store.start()
        return self

    @property
    def session(self) -> int:
        assert self.store.session_id is not None
        return self.store.session_id

    async def close(self) -> None:
        await self.membership.close()
        await self.store.close()


def registered(server: MemoryZooKeeper, broker_id: int = 1) -> Any:
    data = server.data(znodes.broker_path(broker_id))
    return None if data is None else znodes.decode_broker(broker_id, data, NodeStat(0, 5))


@pytest.mark.asyncio
async def test_registration_and_leave() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    epoch = await process.membership.register()
    assert process.epochs == [epoch]
    assert process.remembered == [process.session]
    assert registered(server).rack == "r1"
    stat = await process.store.exists(znodes.broker_path(1))
    assert stat is not None
    assert stat.czxid == epoch
    await process.membership.close()
    assert registered(server) is None
    await process.close()


@pytest.mark.asyncio
async def test_the_cluster_id_is_made_once() -> None:
    server = MemoryZooKeeper()
    first = await Process(server, 1, hint="a").start()
    second = await Process(server, 2, hint="b").start()
    assert await first.membership.cluster_id() == "a"
    assert await second.membership.cluster_id() == "a"
    await first.close()
    await second.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("lost", ["reply", "request"])
async def test_lost_replies_are_found_out_by_reading(lost: str) -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.membership.cluster_id()
    getattr(server, f"lose_{lost}")(process.session)
    epoch = await process.membership.register()
    assert epoch > 0
    assert process.epochs == [epoch]
    await process.close()


@pytest.mark.asyncio
async def test_a_lost_reply_for_the_cluster_id() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    creates_id = lambda ops: ops[0].path == znodes.CLUSTER_ID  # noqa: E731
    server.lose_reply(process.session, creates_id)
    assert await process.membership.cluster_id() == "c-1"
    await process.close()


@pytest.mark.asyncio
async def test_a_restarted_broker_removes_its_own_old_registration() -> None:
    server = MemoryZooKeeper()
    old = await Process(server).start()
    before = await old.membership.register()
    old.store.crash()
    new = await Process(server, previous_session=old.remembered[-1]).start()
    after = await new.membership.register()
    assert after > before
    await new.close()


@pytest.mark.asyncio
async def test_the_registration_of_anybody_else_is_fatal() -> None:
    server = MemoryZooKeeper()
    other = await Process(server).start()
    await other.membership.register()
    twin = await Process(server, previous_session=77).start()
    with pytest.raises(DuplicateBrokerIdError, match="broker id 1"):
        await twin.membership.register()
    assert twin.remembered == [], "what was remembered before must not be lost"
    await twin.close()
    assert registered(server) is not None
    await other.close()


@pytest.mark.asyncio
async def test_after_expiry_it_registers_again_with_a_new_epoch() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    first = await process.membership.register()
    old_session = process.session
    server.expire(old_session)
    await eventually(lambda: len(process.epochs) == 2)
    assert process.epochs[1] > first
    assert process.remembered == [old_session, process.session]
    assert process.session != old_session
    assert process.claims == [-1, first], "asked before each registration, and only then"
    assert registered(server).data == DataClaim(2, first, DataLoss.NONE)
    await process.close()


@pytest.mark.asyncio
async def test_a_registration_of_its_expired_session_that_lingers_goes() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.membership.register()
    server.delay = lambda kind, _: 60.0 if kind == "ephemeral" else 0.0
    server.expire(process.session)
    await eventually(lambda: len(process.epochs) == 2)
    await process.close()


@pytest.mark.asyncio
async def test_a_short_disconnection_changes_nothing() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.membership.register()
    server.disconnect(process.session)
    assert process.store.state.value == "disconnected"
    server.reconnect(process.session)
    await eventually(lambda: process.store.state.value == "connected")
    assert len(process.epochs) == 1
    await process.close()


@pytest.mark.asyncio
async def test_registering_waits_for_contact() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    server.disconnect(process.session, for_s=0.05)
    assert await process.membership.register() > 0
    await process.close()


@pytest.mark.asyncio
async def test_a_registration_that_vanishes_is_made_again() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    first = await process.membership.register()
    janitor = MemoryMetadataStore(server)
    await janitor.start()
    await janitor.delete(znodes.broker_path(1))
    await eventually(lambda: len(process.epochs) == 2)
    assert process.epochs[1] > first
    await process.close()
    await janitor.close()


@pytest.mark.asyncio
async def test_who_was_replaced_by_another_process_has_to_stop() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.membership.register()
    twin = await Process(server, previous_session=process.session).start()
    await twin.membership.register()
    await eventually(lambda: process.failures)
    assert isinstance(process.failures[0], DuplicateBrokerIdError)
    await process.close()
    assert registered(server) is not None, "the other one's registration stays"
    await twin.close()


@pytest.mark.asyncio
async def test_leaving_without_contact_leaves_it_to_the_session() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.membership.register()
    server.disconnect(process.session)
    await process.membership.close()
    assert registered(server) is not None
    await process.close()


@pytest.mark.asyncio
async def test_a_failed_directory_is_reported_once_and_in_spite_of_a_lost_contact() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.membership.register()
    server.disconnect(process.session, for_s=0.05)
    await process.membership.report_storage_failure()
    assert server.data(znodes.storage_failure_path(1)) == b""
    await process.membership.report_storage_failure()
    await process.close()


@pytest.mark.asyncio
async def test_a_session_that_ended_before_the_first_registration_is_replaced() -> None:
    """Logs are recovered in between, which may take longer than a session lasts."""
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.membership.cluster_id()
    assert process.store.session_id is not None
    server.expire(process.store.session_id)
    await eventually(lambda: process.store.state.name == "EXPIRED")
    assert await process.membership.register() > 0
    await process.membership.close()
