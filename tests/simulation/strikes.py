"""Faults that aim at one narrow window, which chance alone seldom hits.

Each is a short story told with the same means as the other faults; imported for its registration.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from simulation.nemesis import TOPIC, Nemesis, fault

STEP_S = 8.0
"""What a step of a story waits for at most; without it the story ends."""


@fault
async def wipe_a_joiner(self: Nemesis) -> None:
    """K22: a follower has caught up, and is wiped while the request that admits it is under way.

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


def _needed(nemesis: Nemesis, broker_id: int, *, full_counts: bool = False) -> bool:
    """Whether some partition counts on a broker, and not on all others as well.

    :param full_counts: being one of a full ISR counts too.
    """
    for partition in range(nemesis.cluster.knobs.partitions):
        data = nemesis.cluster.partition_state(TOPIC, partition)
        if data is None:
            return True
        state = json.loads(data)
        if broker_id in (*state["isr"], *state.get("elr", ()), state["leader"]):
            full = len(state["isr"]) == nemesis.cluster.knobs.replication_factor
            if full_counts or not full:
                return True
    return False


async def _soon(condition: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    for _ in range(int(STEP_S / 0.02)):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False
