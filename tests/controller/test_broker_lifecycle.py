"""Registration: own old nodes go, foreign ones are fatal, expiry renews [Z5] [Z6]."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.broker_lifecycle import (
    SESSIONS_WAITED,
    BrokerLifecycle,
    DuplicateBrokerIdError,
)
from oncelog_controller.features import UnknownFeatureError
from oncelog_controller.life import AskLife, Life, ask_life
from oncelog_controller.state import DataClaim, DataLoss
from oncelog_controller.store import NodeStat
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.waiting import eventually


class Process:
    """It is a broker process as far as membership goes."""

    def __init__(
        self,
        server: MemoryZooKeeper,
        broker_id: int = 1,
        previous_session: int | None = None,
        hint: str = "c-1",
        ask: AskLife = ask_life,
        patience_s: float = 18.0,
        port: int = 9092,
        wants: Collection[str] = (),
    ) -> None:
        self.store = MemoryMetadataStore(server)
        self.remembered: list[int] = []
        self.epochs: list[int] = []
        self.failures: list[BaseException] = []
        self.lifecycle = BrokerLifecycle(
            self.store,
            broker_id=broker_id,
            listeners=[ListenerAddress("internal", "localhost", port)],
            rack="r1",
            wants=wants,
            cluster_id_hint=hint,
            previous_session=previous_session,
            remember_session=self.remembered.append,
            claim_data=self._claim,
            session_timeout_s=patience_s / SESSIONS_WAITED,
            ask=ask,
            inter_broker_listener="internal",
        )
        self.claims: list[int] = []
        self.losses: dict[str, int] = {}
        self.lifecycle.on_registered.append(self.epochs.append)
        self.lifecycle.on_failed.append(self.failures.append)

    def _claim(self, losses: Mapping[str, int]) -> DataClaim:
        self.losses = dict(losses)
        self.claims.append(self.lifecycle.broker_epoch)
        return DataClaim(len(self.claims), self.lifecycle.broker_epoch, DataLoss.NONE)

    async def start(self) -> Process:
        await self.store.start()
        return self

    @property
    def session(self) -> int:
        assert self.store.session_id is not None
        return self.store.session_id

    async def close(self) -> None:
        await self.lifecycle.close()
        await self.store.close()


def registered(server: MemoryZooKeeper, broker_id: int = 1) -> Any:
    data = server.data(znodes.broker_path(broker_id))
    return None if data is None else znodes.decode_broker(broker_id, data, NodeStat(0, 5))


async def test_registration_and_leave() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    epoch = await process.lifecycle.register()
    assert process.epochs == [epoch]
    assert process.remembered == [process.session]
    assert registered(server).rack == "r1"
    stat = await process.store.exists(znodes.broker_path(1))
    assert stat is not None
    assert stat.czxid == epoch
    await process.lifecycle.close()
    assert registered(server) is None
    await process.close()


async def test_a_release_that_does_not_know_a_feature_does_not_register() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.cluster_id()
    await process.store.create(znodes.FEATURES, b'{"version":1,"features":{"tomorrow":1}}')
    with pytest.raises(UnknownFeatureError, match="uses tomorrow, which this release"):
        await process.lifecycle.register()
    assert registered(server) is None
    assert process.claims == [], "no claim was made, so none has to be remembered"
    await process.close()


async def test_a_broker_says_what_it_wants_and_hears_what_is_in_use() -> None:
    server = MemoryZooKeeper()
    process = await Process(server, wants=["kafka_batches"]).start()
    await process.lifecycle.register()
    assert registered(server).wants == {"kafka_batches"}
    assert process.lifecycle.features == frozenset()
    await process.store.create(znodes.FEATURES, znodes.encode_features(["moves"]))
    await eventually(lambda: process.lifecycle.features == {"moves"})
    await process.store.set(znodes.FEATURES, znodes.encode_features(["moves", "kafka_batches"]))
    await eventually(lambda: process.lifecycle.features == {"moves", "kafka_batches"})
    again = await Process(server, 2).start()
    await again.lifecycle.register()
    assert registered(server, 2).wants == frozenset()
    assert again.lifecycle.features == {"moves", "kafka_batches"}
    assert process.failures == []
    await again.close()
    await process.close()


async def test_a_session_that_ends_while_features_are_read_is_no_failure() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    first = await process.lifecycle.register()
    other = await Process(server, 2).start()
    await other.store.create(znodes.FEATURES, znodes.encode_features(["moves"]))
    server.disconnect(process.session)  # it was told of the change, and cannot ask
    await asyncio.sleep(0)
    server.expire(process.session)
    server.reconnect(process.session)
    await eventually(lambda: process.epochs[-1] > first)
    await eventually(lambda: process.lifecycle.features == {"moves"})
    assert process.failures == []
    await other.close()
    await process.close()


async def test_the_cluster_id_is_made_once() -> None:
    server = MemoryZooKeeper()
    first = await Process(server, 1, hint="a").start()
    second = await Process(server, 2, hint="b").start()
    assert await first.lifecycle.cluster_id() == "a"
    assert await second.lifecycle.cluster_id() == "a"
    await first.close()
    await second.close()


@pytest.mark.parametrize("lost", ["reply", "request"])
async def test_lost_replies_are_found_out_by_reading(lost: str) -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.cluster_id()
    getattr(server, f"lose_{lost}")(process.session)
    epoch = await process.lifecycle.register()
    assert epoch > 0
    assert process.epochs == [epoch]
    await process.close()


async def test_a_lost_reply_for_the_cluster_id() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    creates_id = lambda ops: ops[0].path == znodes.CLUSTER_ID  # noqa: E731
    server.lose_reply(process.session, creates_id)
    assert await process.lifecycle.cluster_id() == "c-1"
    await process.close()


async def test_a_restarted_broker_removes_its_own_old_registration() -> None:
    server = MemoryZooKeeper()
    old = await Process(server).start()
    before = await old.lifecycle.register()
    old.store.crash()
    new = await Process(server, previous_session=old.remembered[-1]).start()
    after = await new.lifecycle.register()
    assert after > before
    await new.close()


async def test_the_registration_of_anybody_else_is_fatal() -> None:
    server = MemoryZooKeeper()
    other = await Process(server).start()
    await other.lifecycle.register()
    twin = await Process(server, previous_session=77).start()
    with pytest.raises(DuplicateBrokerIdError, match="broker id 1"):
        await twin.lifecycle.register()
    assert twin.remembered == [], "what was remembered before must not be lost"
    await twin.close()
    assert registered(server) is not None
    await other.close()


async def test_after_expiry_it_registers_again_with_a_new_epoch() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    first = await process.lifecycle.register()
    old_session = process.session
    server.expire(old_session)
    await eventually(lambda: len(process.epochs) == 2)
    assert process.epochs[1] > first
    assert process.remembered == [old_session, process.session]
    assert process.session != old_session
    assert process.claims == [-1, first], "asked before each registration, and only then"
    assert registered(server).data == DataClaim(2, first, DataLoss.NONE)
    await process.close()


async def test_a_registration_of_its_expired_session_that_lingers_goes() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.register()
    server.delay = lambda kind, _: 60.0 if kind == "ephemeral" else 0.0
    server.expire(process.session)
    await eventually(lambda: len(process.epochs) == 2)
    await process.close()


async def test_a_short_disconnection_changes_nothing() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.register()
    server.disconnect(process.session)
    assert process.store.state.value == "disconnected"
    server.reconnect(process.session)
    await eventually(lambda: process.store.state.value == "connected")
    assert len(process.epochs) == 1
    await process.close()


async def test_registering_waits_for_contact() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    server.disconnect(process.session, for_s=0.05)
    assert await process.lifecycle.register() > 0
    await process.close()


async def test_a_registration_that_vanishes_is_made_again() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    first = await process.lifecycle.register()
    janitor = MemoryMetadataStore(server)
    await janitor.start()
    await janitor.delete(znodes.broker_path(1))
    await eventually(lambda: len(process.epochs) == 2)
    assert process.epochs[1] > first
    await process.close()
    await janitor.close()


async def test_who_was_replaced_by_another_process_has_to_stop() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.register()
    twin = await Process(server, previous_session=process.session).start()
    await twin.lifecycle.register()
    await eventually(lambda: process.failures)
    assert isinstance(process.failures[0], DuplicateBrokerIdError)
    await process.close()
    assert registered(server) is not None, "the other one's registration stays"
    await twin.close()


async def test_leaving_without_contact_leaves_it_to_the_session() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.register()
    server.disconnect(process.session)
    await process.lifecycle.close()
    assert registered(server) is not None
    await process.close()


async def test_a_failed_directory_is_reported_once_and_in_spite_of_a_lost_contact() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.register()
    server.disconnect(process.session, for_s=0.05)
    await process.lifecycle.report_storage_failure()
    assert server.data(znodes.storage_failure_path(1)) == b""
    await process.lifecycle.report_storage_failure()
    await process.close()


async def test_what_a_directory_may_have_lost_is_told_to_the_next_registration() -> None:
    server = MemoryZooKeeper()
    process = await Process(server).start()
    epoch = await process.lifecycle.register()
    assert process.losses == {}
    server.disconnect(process.session, for_s=0.05)
    await process.lifecycle.report_loss("first")
    await process.lifecycle.report_loss("second")
    await process.lifecycle.report_loss("second")
    await process.close()
    successor = await Process(server).start()
    await successor.lifecycle.register()
    assert successor.losses == {"first": epoch, "second": epoch}
    await successor.close()


async def test_a_session_that_ended_before_the_first_registration_is_replaced() -> None:
    """Logs are recovered in between, which may take longer than a session lasts."""
    server = MemoryZooKeeper()
    process = await Process(server).start()
    await process.lifecycle.cluster_id()
    assert process.store.session_id is not None
    server.expire(process.store.session_id)
    await eventually(lambda: process.store.state.name == "EXPIRED")
    assert await process.lifecycle.register() > 0
    await process.lifecycle.close()


class Address:
    """It says these things at the address of a registration, in turn, and repeats the last."""

    def __init__(self, *answers: Life) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[ListenerAddress, Identity, int]] = []

    async def ask(self, address: ListenerAddress, broker: Identity, epoch: int) -> Life:
        self.asked.append((address, broker, epoch))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_a_copy_of_a_directory_deposes_nobody_who_answers() -> None:
    server = MemoryZooKeeper()
    original = await Process(server).start()
    epoch = await original.lifecycle.register()
    address = Address(Life.HERE)
    copy = await Process(server, previous_session=original.session, ask=address.ask).start()
    await copy.lifecycle.cluster_id()
    with pytest.raises(DuplicateBrokerIdError, match=r"alive at localhost:9092.*copy") as caught:
        await copy.lifecycle.register()
    assert "; stop that process first" in str(caught.value)
    asked, broker, of = address.asked[0]
    assert (asked.port, broker, of) == (9092, Identity("c-1", 1), epoch)
    assert copy.remembered == []
    await copy.close()
    stat = await original.store.exists(znodes.broker_path(1))
    assert stat is not None
    assert stat.czxid == epoch
    assert original.failures == []
    await original.close()


@pytest.mark.parametrize("answer", [Life.GONE, Life.OTHER])
async def test_a_life_that_is_over_is_taken_over_at_once(answer: Life) -> None:
    server = MemoryZooKeeper()
    old = await Process(server).start()
    before = await old.lifecycle.register()
    old.store.crash()
    address = Address(answer)
    new = await Process(server, previous_session=old.remembered[-1], ask=address.ask).start()
    await new.lifecycle.cluster_id()
    assert await new.lifecycle.register() > before
    assert len(address.asked) == 1, "and is asked once"
    await new.close()


async def test_silence_is_waited_out_until_the_session_ends() -> None:
    server = MemoryZooKeeper()
    old = await Process(server).start()
    before = await old.lifecycle.register()
    old.store.crash()
    address = Address(Life.SILENT)
    new = await Process(server, previous_session=old.remembered[-1], ask=address.ask).start()
    await new.lifecycle.cluster_id()
    registering = asyncio.create_task(new.lifecycle.register())
    await eventually(lambda: len(address.asked) > 1)
    assert not registering.done()
    server.expire(old.remembered[-1])
    assert await registering > before
    await new.close()


async def test_who_was_silent_and_then_is_refused_is_taken_over() -> None:
    server = MemoryZooKeeper()
    old = await Process(server).start()
    before = await old.lifecycle.register()
    old.store.crash()
    address = Address(Life.SILENT, Life.GONE)
    new = await Process(server, previous_session=old.remembered[-1], ask=address.ask).start()
    await new.lifecycle.cluster_id()
    assert await new.lifecycle.register() > before
    await new.close()


async def test_a_silent_process_whose_session_lives_on_is_not_deposed() -> None:
    server = MemoryZooKeeper()
    silent = await Process(server).start()
    await silent.lifecycle.register()
    copy = await Process(
        server, previous_session=silent.session, ask=Address(Life.SILENT).ask, patience_s=0.1
    ).start()
    await copy.lifecycle.cluster_id()
    with pytest.raises(DuplicateBrokerIdError, match="does not answer, and whose session is still"):
        await copy.lifecycle.register()
    assert registered(server) is not None
    await copy.close()
    await silent.close()


async def test_a_process_that_has_just_registered_may_not_know_its_epoch_yet() -> None:
    server = MemoryZooKeeper()
    original = await Process(server).start()
    await original.lifecycle.register()
    address = Address(Life.OTHER, Life.HERE)
    copy = await Process(
        server, previous_session=original.session, ask=address.ask, port=9093
    ).start()
    await copy.lifecycle.cluster_id()
    with pytest.raises(DuplicateBrokerIdError, match="alive"):
        await copy.lifecycle.register()
    await copy.close()
    await original.close()


async def test_a_session_of_this_life_is_its_own_without_asking() -> None:
    server = MemoryZooKeeper()
    address = Address(Life.HERE)
    process = await Process(server, ask=address.ask).start()
    await process.lifecycle.cluster_id()
    first = await process.lifecycle.register()
    server.expire(process.session)
    await eventually(lambda: process.epochs[-1] > first)
    assert address.asked == []
    await process.close()
