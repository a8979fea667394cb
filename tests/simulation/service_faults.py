"""Faults take brokers out of service and back while partitions move, and change what writes need.

Imported to register; drawn in runs that move partitions only. What is left out of service when the
faults end is taken back by ``back_in_service``, before a run is judged.
"""

from __future__ import annotations

import asyncio
import json

from oncelog_controller.znodes import (
    BROKER_STATES,
    broker_state_path,
    config_path,
    decode_config,
)
from oncelog_protocol.messages.admin import (
    RESOURCE_TOPIC,
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigEntry,
)
from oncelog_protocol.messages.broker_states import (
    DECOMMISSIONED,
    DECOMMISSIONING,
    DRAINING,
    AlterBrokerStatesRequest,
)
from oncelog_protocol.messages.metadata import ACTIVE
from oncelog_protocol.messages.moves import ReassignedPartition
from oncelog_protocol.types import TopicPartition
from simulation.move_faults import (
    REPLICAS_MIN,
    a_target,
    ask,
    ask_controller,
    begin_to,
    one_that_moves,
)
from simulation.nemesis import POWER_CUTS, Nemesis, move_fault
from simulation.workload import TOPIC

LEAVE_S = 15.0
"""How long a broker may take to lose its replicas; else it is taken back with what it has."""
LOOK_S = 0.05


# ---- brokers


async def serve_as(self: Nemesis, broker_id: int, wanted: str) -> None:
    """Ask for a state of a broker; what becomes of it, the store tells."""
    await ask_controller(self, AlterBrokerStatesRequest(broker_id, wanted))


def service_of(self: Nemesis, broker_id: int) -> str:
    """Return the state of a broker in the store."""
    data = self.cluster.zookeeper.tree(BROKER_STATES).get(broker_state_path(broker_id))
    return ACTIVE if data is None else str(json.loads(data)["state"])


async def back_in_service(self: Nemesis, *, timeout_s: float) -> None:
    """Take back every broker that is out of service, and what writes need.

    :raises TimeoutError: no controller does it.
    """
    if self.applied["raise_min_isr"]:
        await _need(self, None)
    async with asyncio.timeout(timeout_s):
        for broker_id in self.cluster.ids:
            while service_of(self, broker_id) != ACTIVE:
                await serve_as(self, broker_id, ACTIVE)
                await asyncio.sleep(LOOK_S)


def held_by(self: Nemesis, broker_id: int) -> list[TopicPartition]:
    """Return the partitions of which a broker has a replica, or data that is to be deleted."""
    self.invariants.store.update()
    return [
        name
        for name, each in self.invariants.store.partitions.items()
        if broker_id in (*each.replicas, *each.state.leaving)
    ]


@move_fault
async def drain_and_back(self: Nemesis) -> None:
    """A broker gives its leaderships away, is sometimes restarted, and is taken back."""
    broker_id = self.chance.choice(self.cluster.ids)
    await serve_as(self, broker_id, DRAINING)
    await self._wait(0.0, 3.0)
    if self.chance.random() < 0.4:
        await self._down(broker_id)
    await self._wait(0.0, 2.0)
    await serve_as(self, broker_id, ACTIVE)


@move_fault
async def decommission_cycle(self: Nemesis) -> None:
    """Brokers are decommissioned and come back, one after the other, sometimes with empty
    disks; each gets replicas again."""
    for _ in range(self.chance.randint(1, 3)):
        broker_id = self.chance.choice(self.cluster.ids)
        await serve_as(self, broker_id, DECOMMISSIONING)
        if service_of(self, broker_id) == ACTIVE:
            return  # refused: some topic has as many replicas as there are brokers
        empty = await _leaves(self, broker_id) and self.rots.atlas.may_wipe(broker_id)
        if empty and self.chance.random() < 0.6:
            await self._down(broker_id, power=True, wipe=True)
        await serve_as(self, broker_id, ACTIVE)
        await self._wait(0.0, 1.0)
        await begin_to(self, broker_id)
        await self._wait(0.0, 2.0)


async def _leaves(self: Nemesis, broker_id: int) -> bool:
    """Wait until a broker has lost its replicas; return whether it is decommissioned in the end.
    The cluster moves them by itself; sometimes somebody has other wishes meanwhile."""
    by_hand = self.chance.random() < 0.5
    give_up_s = self.cluster.loop.now_s + LEAVE_S
    while self.cluster.loop.now_s < give_up_s:
        items = []
        for name in held_by(self, broker_id) if by_hand else ():
            each = self.invariants.store.partitions[name]
            whole = each.state.target or each.replicas
            if broker_id in whole:
                others = [b for b in a_target(self) if b not in (broker_id, *whole)]
                target = [b for b in whole if b != broker_id] + others[:1]
                if len(target) >= REPLICAS_MIN:
                    items.append(ReassignedPartition(*name, target))
        await ask(self, items)
        await self._wait(0.5, 1.5)
        if service_of(self, broker_id) == DECOMMISSIONED:
            return not held_by(self, broker_id)
    return False


# ---- what writes need


@move_fault
async def raise_min_isr(self: Nemesis) -> None:
    """Have writes need more replicas in sync in the midst of moves; later as many as before."""
    usual = self.cluster.knobs.min_insync_replicas
    await one_that_moves(self)
    await _need(self, usual + self.chance.randint(1, 2))
    await self._wait(0.2, 4.0)
    await _need(self, None)


async def _need(self: Nemesis, count: int | None) -> None:
    entry = ConfigEntry("min_insync_replicas", None if count is None else str(count))
    alteration = ConfigAlteration(RESOURCE_TOPIC, TOPIC, [entry])
    await ask_controller(self, AlterConfigsRequest([alteration]))
    config = self.cluster.zookeeper.tree().get(config_path(TOPIC))
    now = "" if config is None else decode_config(TOPIC, config).get(entry.key, "")
    self.cluster.loop.trace(f"writes need {now or 'what they did'}")


# ---- who is copied from


@move_fault
async def rot_of_donor(self: Nemesis) -> None:
    """Flip a bit on the disk of the broker that a partition is copied from."""
    partition = await one_that_moves(self)
    if partition is None or partition.state.leader not in self.cluster.ids:
        return
    tails_too = not POWER_CUTS.intersection(self.faults)
    donor = partition.state.leader
    if self.rots.strike(self.chance, donor, tails_too=tails_too) is None:
        return
    await self._wait(0.0, 1.0)
    if self.chance.random() < 0.3:
        await self._down(donor)
