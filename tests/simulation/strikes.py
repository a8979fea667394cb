"""Strikes are faults at one narrow window, which chance alone seldom finds.

Each is a short story told with the same means as the other faults; imported for its registration.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.types import TopicPartition
from simulation.nemesis import Nemesis, fault

STEP_S = 8.0
"""The longest wait of a step of a story; without what it waits for the story ends."""


@fault
async def wipe_a_joiner(self: Nemesis) -> None:
    """[K22]: a follower has caught up, and is wiped before its request to be admitted is done.

    It was away, so that nobody needs what it held; wherever it is in the ISR, so are all others.
    """
    cluster, network = self.cluster, self.network
    victim = self.chance.choice(cluster.ids)
    if victim in self._busy or sorted(cluster.serving) != cluster.ids:
        return
    self._busy[victim] = None
    held: list[tuple[str, str]] = []
    try:
        cluster.pause_broker(victim)
        if not await _soon(lambda: not _needed(self, victim, full_counts=True)):
            return
        controller = self._controller()
        if controller is None or controller == victim:
            return
        target = cluster.host(controller)
        held = [(cluster.host(i), target) for i in cluster.ids if i not in (victim, controller)]
        for wire in held:
            network.hold(*wire)
        cluster.resume_broker(victim)
        await self._wait(0.2, 2.0)  # it catches up, and its leaders ask
        if not _needed(self, victim) and cluster.knobs.min_insync_replicas == 2:
            cluster.crash_broker(victim, power=True)
            cluster.wipe_disks(victim)
            cluster.expire_of_host(victim)
            cluster.start_broker(victim)
            await _soon(lambda: victim in cluster.serving)
    finally:
        for wire in held:
            network.release(*wire)
        cluster.resume_broker(victim)
        cluster.start_broker(victim)
        del self._busy[victim]


@fault
async def end_in_a_swap(self: Nemesis) -> None:
    """A broker ends while a compacted segment takes the place of those it was made of."""
    cluster = self.cluster
    power = cluster.knobs.flush == "commit" and self.chance.random() < 0.6
    before: dict[tuple[int, TopicPartition], int] = {}
    for _ in range(int(STEP_S / 0.001)):
        for broker_id, name, log in _compacting(self):
            swaps = before.setdefault((broker_id, name), log.swap.count)
            if (log.swap.replaced or log.swap.count > swaps) and broker_id not in self._busy:
                cluster.loop.trace(f"swap in {name} of broker-{broker_id}")
                await self._down(broker_id, power=power)
                return
            before[broker_id, name] = log.swap.count
        await asyncio.sleep(0.001)


def _compacting(nemesis: Nemesis) -> list[tuple[int, TopicPartition, PartitionLog]]:
    """Return the logs of running brokers that compact."""
    topics = nemesis.invariants.store.compacting
    names = [name for name in nemesis.invariants.store.partitions if name.topic in topics]
    return [
        (broker_id, name, log)
        for broker_id, broker in nemesis.cluster.brokers.items()
        for name in names
        if (log := broker.logs.get(name)) is not None
    ]


def _needed(nemesis: Nemesis, broker_id: int, *, full_counts: bool = False) -> bool:
    """Return whether some partition counts on a broker, and not on all others as well.

    :param full_counts: being one of a full ISR counts too.
    """
    for name in nemesis.invariants.store.partitions:
        data = nemesis.cluster.partition_state(*name)
        if data is None:
            return True
        state = json.loads(data)
        if broker_id in (*state["isr"], *state.get("elr", ()), state["leader"]):
            full = len(state["isr"]) == nemesis.cluster.knobs.replication_factor
            if full_counts or not full:
                return True
    return False


async def _soon(condition: Callable[[], bool]) -> bool:
    """Return whether it comes true in time."""
    for _ in range(int(STEP_S / 0.02)):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False
