"""Orders over real sockets: in turn, bundled, again until answered, never to another life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from oncelog_controller import security_orders
from oncelog_controller.broker_gateway import BrokerGateway
from oncelog_controller.events import BrokerCleared, BrokerSuspected, Event, OrdersAnswered
from oncelog_controller.evidence import Evidence
from oncelog_controller.orders import SLICE_PARTITIONS, Orders, Whole
from oncelog_controller.safeguards import SAFE
from oncelog_controller.security_orders import SecurityOrder
from oncelog_controller.state import BrokerRegistration
from oncelog_controller.suspicions import Suspicions
from oncelog_protocol.acls import ALLOW, LITERAL, TOPIC, WRITE, AclBinding
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_protocol.messages.replication import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopPartition,
    UpdateMetadataRequest,
)
from oncelog_protocol.messages.security import FULL, UpdateSecurityRequest
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks
from support.fake_broker import FakeBroker
from support.room_settings import controller_settings
from support.waiting import eventually


@dataclass
class Heard:
    gateway: BrokerGateway
    events: list[Event] = field(default_factory=list)
    fenced: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def gateway(order_timeout_ms: int = 30_000) -> AsyncIterator[Heard]:
    events: list[Event] = []
    fenced: list[int] = []
    failed: list[str] = []
    tasks = Tasks("test")
    made = BrokerGateway(
        controller_id=9,
        controller_epoch=5,
        config=controller_settings(order_timeout_ms=order_timeout_ms),
        report=events.append,
        suspicions=Suspicions(
            controller_id=9,
            evidence=Evidence(),
            ask=nobody_objects,
            report=events.append,
            step_down=failed.append,
            tasks=tasks,
            safeguards=SAFE,
        ),
        on_fenced=fenced.append,
        on_failed=failed.append,
    )
    try:
        yield Heard(made, events, fenced, failed)
    finally:
        await tasks.close()
        await made.close()


async def nobody_objects(broker_id: int, broker_epoch: int) -> bool:
    """Whoever refuses is dead."""
    return False


def life(broker: FakeBroker, epoch: int = 10) -> BrokerRegistration:
    return BrokerRegistration(broker.broker_id, epoch, tuple(broker.listeners))


def tell(*leader_epochs: tuple[str, int]) -> Orders:
    orders = {
        TopicPartition(topic, 0): LeaderAndIsrPartition(
            topic, "id", 0, 1, epoch, [1], epoch, [1], False
        )
        for topic, epoch in leader_epochs
    }
    return Orders([], replicas=dict(orders), metadata=dict(orders))


def leader_epochs(broker: FakeBroker) -> list[int]:
    return [
        partition.leader_epoch
        for order in broker.orders
        if isinstance(order, LeaderAndIsrRequest)
        for partition in order.partitions
    ]


async def test_orders_arrive_in_turn_and_answers_are_reported() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        heard.gateway.send(1, 10, tell(("a", 1)))
        await eventually(lambda: len(broker.orders) == 2)
        assert [type(order) for order in broker.orders] == [
            LeaderAndIsrRequest,
            UpdateMetadataRequest,
        ]
        assert (broker.orders[0].controller_epoch, broker.orders[0].broker_epoch) == (5, 10)
        await eventually(lambda: heard.of(OrdersAnswered))
        (answered,) = heard.of(OrdersAnswered)
        assert isinstance(answered, OrdersAnswered)
        assert answered.response.partitions[0].topic == "a"


async def test_what_waits_is_bundled() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        for epoch in range(50):  # the connection is not there yet
            heard.gateway.send(1, 10, tell(("a", epoch), (f"t{epoch}", 1)))
        await eventually(lambda: len(broker.orders) == 2)
        assert len(broker.orders[0].partitions) == 51
        assert broker.orders[0].partitions[0].leader_epoch == 49


async def test_a_broker_that_does_not_answer_gets_few_and_then_bundles() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        await eventually(lambda: broker.accepted == 1)
        broker.muted = True
        for epoch in range(30):
            heard.gateway.send(1, 10, tell(("a", epoch)))
            await asyncio.sleep(0)
        broker.muted = False
        broker.break_connections()
        await eventually(lambda: 29 in leader_epochs(broker))
        assert len(leader_epochs(broker)) < 10


async def test_an_order_whose_answer_was_lost_is_sent_again() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        await eventually(lambda: heard.of(BrokerCleared))
        broker.muted = True
        heard.gateway.send(1, 10, tell(("a", 1), ("b", 1)))
        heard.gateway.send(1, 10, tell(("a", 2)))
        broker.muted = False
        broker.break_connections()
        await eventually(lambda: heard.of(OrdersAnswered))
        taken = {name.topic: order.leader_epoch for name, order in broker.replicas.items()}
        assert taken == {"a": 2, "b": 1}


async def test_an_order_without_answer_is_sent_again_on_a_new_connection() -> None:
    async with FakeBroker(1) as broker, gateway(order_timeout_ms=50) as heard:
        heard.gateway.connect([life(broker)])
        await eventually(lambda: heard.of(BrokerCleared))
        broker.muted = True
        heard.gateway.send(1, 10, tell(("a", 1)))
        await eventually(lambda: broker.accepted >= 2)
        broker.muted = False
        await eventually(lambda: heard.of(OrdersAnswered))
        assert not heard.of(BrokerSuspected)


async def test_an_order_that_failed_is_sent_again_before_any_later_one() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        failures = [BrokerNotAvailableError.code] * 3
        broker.answer = lambda request: failures.pop() if failures else 0
        heard.gateway.connect([life(broker)])
        heard.gateway.send(1, 10, tell(("a", 1)))
        await eventually(lambda: not failures)
        heard.gateway.send(1, 10, tell(("b", 1)))
        await eventually(lambda: sorted(name.topic for name in broker.replicas) == ["a", "b"])
        assert sorted(name.topic for name in broker.metadata) == ["a", "b"]


async def test_a_stale_broker_epoch_is_not_retried() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        broker.broker_epoch = 11
        heard.gateway.connect([life(broker, 10)])
        heard.gateway.send(1, 10, tell(("a", 1)))
        await eventually(lambda: broker.refused)
        heard.gateway.send(1, 10, tell(("a", 2)))
        heard.gateway.connect([life(broker, 11)])
        heard.gateway.send(1, 10, tell(("b", 1)))
        heard.gateway.send(1, 11, tell(("c", 1)))
        await eventually(lambda: broker.replicas)
        assert [name.topic for name in broker.replicas] == ["c"]
        assert not heard.fenced


async def test_a_broker_that_knows_a_newer_controller_is_told_of() -> None:
    """Two orders are in flight, and both are refused. They are sent again until the term ends, or
    until the broker knows better."""
    async with FakeBroker(1) as broker, gateway() as heard:
        broker.controller_epoch = 6
        heard.gateway.connect([life(broker)])
        heard.gateway.send(1, 10, tell(("a", 1)))
        await eventually(lambda: len(heard.fenced) >= 2)
        assert set(heard.fenced) == {1}
        broker.controller_epoch = 5
        await eventually(lambda: [type(order) for order in broker.orders] == ORDERS)
        assert not heard.failed


ORDERS = [LeaderAndIsrRequest, UpdateMetadataRequest]


async def test_suspicion_and_clearing() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        await eventually(lambda: heard.of(BrokerCleared))
        await broker.die()
        await eventually(lambda: heard.of(BrokerSuspected))
        heard.gateway.send(1, 10, tell(("a", 1)))
        await asyncio.sleep(0.1)
        assert heard.of(BrokerSuspected) == [BrokerSuspected(1, 10)], "told once"
        await broker.start()
        await eventually(lambda: len(heard.of(BrokerCleared)) == 2)
        await eventually(lambda: leader_epochs(broker) == [1])


async def test_a_broker_that_was_never_there_is_suspected_too() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        await broker.die()
        heard.gateway.connect([life(broker)])
        await eventually(lambda: heard.of(BrokerSuspected))


async def test_a_dead_broker_does_not_hold_up_the_others() -> None:
    async with FakeBroker(1) as dead, FakeBroker(2) as broker, gateway() as heard:
        await dead.die()
        heard.gateway.connect([life(dead), life(broker)])
        for broker_id in (1, 2, 9):
            heard.gateway.send(broker_id, 10, tell(("a", 1)))
        await eventually(lambda: broker.replicas)


async def test_brokers_that_left_are_dropped() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two, gateway() as heard:
        heard.gateway.connect([life(one), life(two)])
        await eventually(lambda: one.connections and two.connections)
        heard.gateway.connect([life(two)])
        await eventually(lambda: not one.connections)
        assert two.accepted == 1
        heard.gateway.connect([BrokerRegistration(3, 1, ())])
        await eventually(lambda: not two.connections)


def described(count: int) -> Orders:
    """Return everything there is, for brokers that know nothing."""
    partitions = {
        TopicPartition("t", n): LeaderAndIsrPartition("t", "id", n, 1, 0, [1], 0, [1], False)
        for n in range(count)
    }
    whole = Whole(partitions, {})
    return Orders([], metadata=partitions, metadata_full=True, whole=whole)


def knows(broker: FakeBroker, partitions: int) -> bool:
    return len(broker.metadata) == partitions


async def test_a_description_reaches_every_broker_in_slices() -> None:
    count = 9 * SLICE_PARTITIONS
    async with FakeBroker(1) as one, FakeBroker(2) as two, gateway() as heard:
        heard.gateway.connect([life(one), life(two)])
        await eventually(lambda: len(heard.of(BrokerCleared)) == 2)
        orders = described(count)
        for broker_id in (1, 2):
            heard.gateway.send(broker_id, 10, orders)
            heard.gateway.send(broker_id, 10, tell(("a", 1)))
        for broker in (one, two):
            await eventually(partial(knows, broker, count + 1))
            assert [order.full for order in broker.orders] == [True] * 9 + [False] * 2


async def test_a_description_that_broke_off_begins_anew() -> None:
    """The slices that were answered are in a broker's hands that may be another life's by now."""
    count = 20 * SLICE_PARTITIONS
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        heard.gateway.send(1, 10, described(count))
        await eventually(lambda: len(broker.orders) >= 3)
        before = len(broker.orders)
        assert before < 20
        broker.break_connections()
        await eventually(lambda: len(broker.metadata) == count)
        firsts = [n for n, order in enumerate(broker.orders) if order.first]
        assert len(firsts) == 2
        assert len(broker.orders) - firsts[1] == 20


async def test_a_broker_of_an_older_release_gets_it_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UpdateMetadataRequest, "versions", (0, 1))
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        heard.gateway.send(1, 10, described(2 * SLICE_PARTITIONS))
        await eventually(lambda: len(broker.metadata) == 2 * SLICE_PARTITIONS)
        assert len(broker.orders) == 1


async def test_stops_travel_too() -> None:
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        stop = StopPartition("a", "id", 0, -2, True)
        heard.gateway.send(1, 10, Orders([], stops={(TopicPartition("a", 0), "id"): stop}))
        heard.gateway.send(1, 10, Orders([]))
        await eventually(lambda: heard.of(OrdersAnswered))
        assert len(broker.orders) == 1


async def test_what_brokers_decide_by_is_acknowledged_and_what_broke_off_begins_anew() -> None:
    entries = [
        AclBinding(TOPIC, LITERAL, f"t{n}-" + "x" * 200, "User:app", "*", WRITE, ALLOW)
        for n in range(20 * security_orders.SLICE_CHARS // 400)
    ]
    everything = SecurityOrder(FULL, 3, {entry.pattern: (entry,) for entry in entries})
    async with FakeBroker(1) as broker, gateway() as heard:
        heard.gateway.connect([life(broker)])
        heard.gateway.send(1, 10, Orders([], security=everything))
        heard.gateway.send(1, 10, Orders([], security=SecurityOrder(3, 4, {})))
        await eventually(lambda: len(broker.orders) >= 3)
        broker.break_connections()
        await eventually(lambda: broker.security_version == 4)
        firsts = [n for n, order in enumerate(broker.orders) if order.first]
        assert len(firsts) == 2, "the change is merged into what was sent again"
        assert broker.orders[firsts[1]].version == 4
        await eventually(lambda: 4 in versions(heard))
        assert all(isinstance(order, UpdateSecurityRequest) for order in broker.orders)


def versions(heard: Heard) -> list[int]:
    """Return what brokers have acknowledged."""
    return [event.response.version for event in heard.events if isinstance(event, OrdersAnswered)]
