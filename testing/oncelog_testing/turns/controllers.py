"""A controller's turns are measured at full size: 10,000 partitions on 100 brokers.

The machine and the encoding of its orders are the controller's own. The store says yes to every
write, and brokers take what they are sent. ``scale`` measures more with the same parts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

from oncelog_broker.config import BrokerConfig
from oncelog_broker.controller_settings import controller_config
from oncelog_controller.broker_gateway import ORDER_COST, PARTITIONS_PER_TURN
from oncelog_controller.config import ControllerConfig
from oncelog_controller.effects import Effect, SendOrders, WriteStore
from oncelog_controller.events import (
    BrokersRead,
    ClusterLoaded,
    ClusterRead,
    Event,
    GoOn,
    RequestReceived,
    TimeReached,
    TopicRead,
    WriteSucceeded,
)
from oncelog_controller.machine import ControllerMachine
from oncelog_controller.orders import OrderRequest, Orders, weight
from oncelog_controller.state import (
    BrokerRegistration,
    ClusterState,
    DataClaim,
    DataLoss,
    PartitionState,
    Placement,
)
from oncelog_protocol import limits
from oncelog_protocol.messages.broker_reports import ANEW, BrokerReportRequest, ReportedTopic
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_protocol.packing import pack, unpack
from oncelog_protocol.schema import decode, encode
from oncelog_testing.turns.meter import TurnMeter
from oncelog_testing.turns.operations import Size
from oncelog_testing.turns.room import PARTITIONS_PER_TOPIC

__all__ = [
    "BROKER_EPOCH",
    "EPOCH",
    "ME",
    "Term",
    "new_controller",
    "registered",
    "settings",
    "topics_read",
]

REPLICAS = 3
ME, EPOCH = 1, 2
MISPLACED_EVERY = 5
"""Every fifth partition is led by its second replica."""
BROKER_EPOCH = 100
"""The epoch of every broker: none has restarted."""


async def new_controller(meter: TurnMeter, home: Path, size: Size) -> None:
    """It is elected when a broker has just died; another dies, and comes back."""
    brokers = [registered(broker_id) for broker_id in range(1, size.brokers + 1)]
    topics = topics_read(size.controlled, size.brokers)
    lived = tuple(brokers[:-1])
    term = Term()
    with meter.operation("controller, loads all"):
        await term.take(ClusterLoaded(ClusterRead(EPOCH, 1, lived, topics)))
    with meter.operation("controller, tells all brokers"):
        await term.keep_time()
    assert set(term.told) == {broker.broker_id for broker in lived}
    with meter.operation("controller, a broker dies"):
        await term.take(BrokersRead(lived[:-1]))
    with meter.operation("controller, a broker comes back"):
        await term.take(BrokersRead(lived))
    term.written = 0
    term.now += settings().leader_imbalance_check_interval_ms / 1000
    with meter.operation("controller, gives leaderships back"):
        await term.keep_time()
    assert term.written
    pages = [pack(encode(_page(each.broker_id, size.controlled), 0)) for each in lived[:-1]]
    with meter.operation("controller, takes reports"):
        for number, page in enumerate(pages):
            body = unpack(
                page, array_count_max=limits.ARRAY_COUNT_MAX, list_count_max=limits.HEAD_ARRAYS_MAX
            )
            await term.take(RequestReceived(number, decode(BrokerReportRequest, body, 0)))


def _page(broker_id: int, partitions: int) -> BrokerReportRequest:
    """Return a page of a report that is as large as one may be."""
    count = min(partitions, limits.REPORT_REPLICAS_MAX)
    topics = []
    for first in range(0, count, PARTITIONS_PER_TOPIC):
        numbers = list(range(min(PARTITIONS_PER_TOPIC, count - first)))
        sizes = [10**9 + broker_id * count + first + number for number in numbers]
        rates, places = [size // 1000 for size in sizes], [0] * len(numbers)
        name = f"id of topic-{first // PARTITIONS_PER_TOPIC:05d}"
        topics.append(ReportedTopic(name, numbers, sizes, rates, rates, places))
    return BrokerReportRequest(broker_id, BROKER_EPOCH, 1, ANEW, True, [], topics)


def settings() -> ControllerConfig:
    """Return the settings of a controller whose broker was told nothing."""
    return controller_config(BrokerConfig(broker_id=ME, log_dirs=["/data"]))


def registered(broker_id: int) -> BrokerRegistration:
    """Return a broker of this release that has never lost anything."""
    addresses = tuple(
        ListenerAddress(name, f"broker-{broker_id}.cluster.example", 9092)
        for name in ("internal", "clients")
    )
    return BrokerRegistration(
        broker_id, BROKER_EPOCH, addresses, None, DataClaim(0, None, DataLoss.NONE)
    )


def topics_read(partitions: int, brokers: int) -> tuple[TopicRead, ...]:
    """Return the topics of a cluster, with three replicas each; some are not led by the preferred
    one."""
    topics = []
    for first in range(0, partitions, PARTITIONS_PER_TOPIC):
        name = f"topic-{first // PARTITIONS_PER_TOPIC:05d}"
        numbers = range(first, min(first + PARTITIONS_PER_TOPIC, partitions))
        assignment = [[1 + (number + k) % brokers for k in range(REPLICAS)] for number in numbers]
        states: list[PartitionState | None] = [
            PartitionState(
                leader=replicas[number % MISPLACED_EVERY == 0],
                leader_epoch=0,
                isr=tuple(replicas),
                controller_epoch=1,
                version=0,
                admitted=tuple((broker_id, BROKER_EPOCH) for broker_id in sorted(replicas)),
                placement=Placement(tuple(replicas)),
            )
            for number, replicas in zip(numbers, assignment, strict=True)
        ]
        topics.append(TopicRead(name, f"id of {name}", assignment, 0, {}, None, states))
    return tuple(topics)


class Term:
    """It is a machine and what it orders. Every event, and every step of one, has a turn of its
    own."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: dict[int, int] = {}
        """How often each broker was told something."""
        self.written = 0
        """Operations on the store."""
        self.ordered_bytes = 0
        """What was sent to brokers, without heads of frames."""
        self._machine = ControllerMachine(ME, settings())
        self._writes: deque[WriteStore] = deque()

    @property
    def cluster(self) -> ClusterState:
        """Return what the machine knows."""
        return self._machine.cluster

    async def keep_time(self) -> None:
        """Wake the machine as long as it wants to be woken now."""
        while self.is_due():
            await self.take(TimeReached())

    def is_due(self) -> bool:
        """Return whether the machine wants a TimeReached."""
        wake_at = self._machine.wake_at
        return wake_at is not None and wake_at <= self.now

    async def take(self, event: Event) -> None:
        """Hand in one event, carry out what follows."""
        machine = self._machine
        await self._execute(machine.handle(event, self.now))
        while machine.unfinished:
            await self._execute(machine.handle(GoOn(), self.now))
        while self._writes:
            write = self._writes.popleft()
            await self._execute(machine.handle(WriteSucceeded(write.write_id), self.now))

    async def _execute(self, effects: list[Effect]) -> None:
        orders: list[tuple[int, Orders]] = []
        for effect in effects:
            if isinstance(effect, WriteStore):
                self._writes.append(effect)
                self.written += len(effect.ops)
            elif isinstance(effect, SendOrders):
                orders.append((effect.broker_id, effect.orders))
                self.told[effect.broker_id] = self.told.get(effect.broker_id, 0) + 1
        await asyncio.sleep(0)
        left = PARTITIONS_PER_TURN
        for _, each in orders:
            for request in each.requests(ME, EPOCH, BROKER_EPOCH):
                left -= weight(request) + ORDER_COST
                self.ordered_bytes += _encoded_bytes(request)
                if left <= 0:
                    left = PARTITIONS_PER_TURN
                    await asyncio.sleep(0)


def _encoded_bytes(request: OrderRequest) -> int:
    return len(pack(encode(request, request.versions[1])))
