"""A fleet is the machines of one cluster: who of its brokers runs, and what they agree on.

It is what every cluster of real brokers in one process stands on, that of a user's tests (``core``)
and those of our own. Rules: it lives on one loop, whichever that is; waiting ends by a deadline of
the machine's clock, since the loop's own may be set forward; what did not come in time is said
together with how things stand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_broker.app import Broker
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import Files
from oncelog_testing.faults import FaultPlan
from oncelog_testing.machines import Machine, NotRunningError
from oncelog_testing.memory.zookeeper import MemoryZooKeeper

__all__ = ["REPLICAS_MAX", "TIMEOUT_S", "Fleet"]

TIMEOUT_S = 10.0
SHOWN_MAX = 8
"""Partitions that an error message names."""

REPLICAS_MAX = 3
"""Topics have so many replicas, or as many as there are brokers."""


class Fleet:
    """It has brokers 1 to ``brokers``, and their metadata store.

    :param directory: it holds the brokers' data, on the real disk; None: each has a disk in memory.
    :param settings: of every broker; they and the other parameters are those of ``Machine``.
    """

    def __init__(
        self,
        brokers: int,
        *,
        clock: WallClock,
        entropy: Entropy,
        plan: FaultPlan,
        settings: Mapping[str, Any],
        directory: Path | None,
        files: Files | None = None,
        options: Mapping[str, Any] | None = None,
        listeners: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.plan = plan
        self.zookeeper = MemoryZooKeeper()
        replicas = min(brokers, REPLICAS_MAX)
        defaults = {
            "offsets_topic_replication_factor": replicas,
            "transaction_state_log_replication_factor": replicas,
        }
        self.machines: dict[int, Machine] = {}
        self._directory = directory
        self._entropy = entropy
        self._make = partial(
            Machine,
            zookeeper=self.zookeeper,
            clock=clock,
            plan=plan,
            settings={**defaults, **settings},
            files=files,
            options=options,
            listeners=listeners,
        )
        for broker_id in range(1, brokers + 1):
            self.add(broker_id)

    def add(self, broker_id: int) -> Machine:
        """Add a machine, and return it; its broker does not run yet."""
        name = f"broker-{broker_id}"
        directory = None if self._directory is None else str(self._directory / name)
        entropy = self._entropy.fork(name)
        machine = self._make(broker_id, entropy=entropy, directory=directory)
        self.machines[broker_id] = machine
        return machine

    async def close(self) -> None:
        """Stop everything, at once and not cleanly: nobody will read these logs again."""
        for machine in reversed(self.machines.values()):
            await machine.close()

    def running(self) -> list[Broker]:
        """Return the brokers that run, by id."""
        return [m.broker for m in self.machines.values() if m.broker is not None]

    def machine(self, broker_id: int) -> Machine:
        """Return the machine of a broker. :raises ValueError: there is none."""
        found = self.machines.get(broker_id)
        if found is None:
            raise ValueError(f"there is no broker {broker_id}; brokers are {list(self.machines)}")
        return found

    @property
    def bootstrap(self) -> str:
        """Return the addresses of the running brokers, with commas."""
        addresses = [broker.addresses["external"] for broker in self.running()]
        if not addresses:
            raise NotRunningError("no broker of the cluster runs")
        return ",".join(f"{host}:{port}" for host, port in addresses)

    @property
    def controller(self) -> Broker:
        """Return the broker that is controller: of several that believe so (one is paused, or cut
        off) the one of the newest epoch. :raises NotRunningError: nobody is, just now."""
        active = [broker for broker in self.running() if broker.runner.is_active]
        if not active:
            raise NotRunningError("no broker is controller just now")
        return max(active, key=lambda broker: broker.runner.epoch)

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsrPartition:
        """Return a partition as the controller has told it to its own broker.

        :raises UnknownTopicOrPartitionError: there is none.
        """
        state = self.controller.image.partition(TopicPartition(topic, partition))
        if state is None:
            raise UnknownTopicOrPartitionError(f"{topic}-{partition} does not exist")
        return state

    # -- waiting -----------------------------------------------------------------------------

    async def converged(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every running broker knows every running broker and one controller."""

        def same() -> bool:
            running = {b.broker_id: b.broker_epoch for b in self.running()}
            images = [broker.image for broker in self.running()]
            return len({image.controller_id for image in images}) <= 1 and all(
                {b: image.brokers[b].broker_epoch for b in image.brokers} == running
                for image in images
            )

        await self.until(same, timeout_s, "every broker knowing every other")

    async def wait_for_leader(
        self,
        topic: str,
        partition: int | None = None,
        *,
        broker: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Wait until every running broker knows a leader that runs (``broker``, if it is named) for
        a partition, or for all of the topic's.

        :raises TimeoutError: that did not happen; it says how the partitions stand.
        """
        running = {b.broker_id for b in self.running()}
        wanted = running if broker is None else {self.machine(broker).broker_id}

        def led() -> bool:
            for each in self.running():
                known = each.image.topics.get(topic)
                if known is None or not known.partitions:
                    return False
                numbers = list(known.partitions) if partition is None else [partition]
                states = [known.partitions.get(number) for number in numbers]
                if any(state is None or state.leader not in wanted for state in states):
                    return False
            return True

        await self.until(led, timeout_s, f"leaders of {topic}", topic)

    async def until(
        self, condition: Callable[[], bool], timeout_s: float, what: str, topic: str = ""
    ) -> None:
        deadline = time.monotonic() + timeout_s
        pause_s = 0.0
        while True:
            try:
                if condition():
                    return
            except NotRunningError:
                pass  # between two controllers there is none
            if time.monotonic() >= deadline:
                raise self.late(what, timeout_s, topic)
            await asyncio.sleep(pause_s)
            pause_s = min(0.01, pause_s + 0.0005)

    def late(self, what: str, timeout_s: float, topic: str = "") -> TimeoutError:
        return TimeoutError(f"after {timeout_s:g} s still waiting for {what}. {self.stands(topic)}")

    def stands(self, topic: str = "") -> str:
        """Return how things are, in one line for an error message."""
        knowing: Broker | None
        up = [broker.broker_id for broker in self.running()]
        parts = [f"brokers up: {up}"]
        down = [machine for machine in self.machines.values() if machine.broker is None]
        if down:
            parts.append(f"down: {[machine.broker_id for machine in down]}")
        parts += [f"broker {m.broker_id} failed: {m.failure!r}" for m in down if m.failure]
        try:
            knowing = self.controller
            parts.append(f"controller: {knowing.broker_id}")
        except NotRunningError:
            parts.append("controller: none")
            knowing = self.running()[0] if up else None
        known = None if knowing is None else knowing.image.topics.get(topic)
        if known is not None:
            orders = [known.partitions[number] for number in sorted(known.partitions)][:SHOWN_MAX]
            states = [f"{o.partition} led by {o.leader}, ISR {list(o.isr)}" for o in orders]
            parts.append(f"partitions of {topic}: {'; '.join(states)}")
        if self.plan.faults:
            parts.append(f"faults in force: {list(self.plan.faults)}")
        return ". ".join(parts)
