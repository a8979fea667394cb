"""Faults of consumer groups are imported for their registration.

Without groups in the run they do nothing.
"""

from __future__ import annotations

import asyncio

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.coordinators import GROUP_TOPIC, coordinator_partition
from oncelog_protocol.types import TopicPartition
from simulation.group_workload import Member
from simulation.loop import Process
from simulation.nemesis import Nemesis, fault

MOMENT_S = 4.0
"""How long a fault waits for the moment at which it strikes; then it strikes anyhow."""


def _group(self: Nemesis) -> str | None:
    """Return one of the groups of the run."""
    if self.groups is None or not self.groups.groups:
        return None
    return self.chance.choice(self.groups.groups)


def _members(self: Nemesis, group: str) -> list[Member]:
    assert self.groups is not None
    return [member for member in self.groups.members if member.group == group]


def coordinator_of(self: Nemesis, group: str) -> int | None:
    """Return the broker that leads the group's partition, by the store."""
    count = self.cluster.knobs.offsets_topic_num_partitions
    name = TopicPartition(GROUP_TOPIC, coordinator_partition(group, count))
    stored = self.invariants.store.partitions.get(name)
    leader = -1 if stored is None else stored.state.leader
    return leader if leader in self.cluster.ids else None


def state_of(self: Nemesis, group: str) -> Group | None:
    """Return the group as its coordinator knows it."""
    broker = self.cluster.brokers.get(coordinator_of(self, group) or 0)
    if broker is None:
        return None
    for led in broker.coordination.engine.led:
        found = led.shard.groups.get(group)
        if found is not None:
            return found
    return None


@fault
async def kill_coordinator(self: Nemesis) -> None:
    """The coordinator of a group dies, often in the middle of a round or of a commit."""
    group = _group(self)
    if group is None:
        return
    moment = self.chance.choice(
        [None, GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE]
    )
    if moment is not None:
        if self.chance.random() < 0.5 and moment is not GroupState.STABLE:
            self.chance.choice(_members(self, group)).kill()  # so that there is a round
        for _ in range(int(MOMENT_S / 0.01)):
            found = state_of(self, group)
            if found is not None and found.state is moment:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02 * self.chance.random())
    coordinator = coordinator_of(self, group)
    if coordinator is not None:
        power = self.cluster.knobs.flush == "commit" and self.chance.random() < 0.3
        await self._down(coordinator, power=power)


@fault
async def move_coordinator(self: Nemesis) -> None:
    """The coordinator loses its leadership and lives: it is cut off, or stands still."""
    group = _group(self)
    coordinator = None if group is None else coordinator_of(self, group)
    if coordinator is None:
        return
    if self.chance.random() < 0.5:
        self.cluster.pause_broker(coordinator)
        try:
            await self._wait(0.5 * self._session_s(), 2.5 * self._session_s())
        finally:
            self.cluster.resume_broker(coordinator)
    else:
        self.cluster.cut_from_zookeeper(coordinator)
        hosts = self._hosts(self._others(coordinator))
        try:
            await self._parted([self.cluster.host(coordinator)], hosts)
        finally:
            self.cluster.join_zookeeper(coordinator)


@fault
async def bounce_members(self: Nemesis) -> None:
    """Members of a group are killed and come back, all at once or one after the other."""
    group = _group(self)
    if group is None:
        return
    rolling = self.chance.random() < 0.5
    for member in _members(self, group):
        member.kill()
        if rolling:
            await self._wait(0.2, 1.5)


@fault
async def pause_member(self: Nemesis) -> None:
    """A member stands still, for longer than its session or not, and then goes on."""
    group = _group(self)
    if group is None:
        return
    member = self.chance.choice(_members(self, group))
    process = member.process
    if process is None or not process.alive or process.paused:
        return
    self.cluster.loop.trace(f"pause {member.name}")
    process.pause()
    try:
        await self._wait(0.1, 2.5 * self.cluster.knobs.session_timeout_ms / 1000)
    finally:
        _resume(process)


def _resume(process: Process) -> None:
    if process.alive and process.paused:
        process.resume()


@fault
async def slow_member(self: Nemesis) -> None:
    """A member takes longer between two polls than it may, and commits then."""
    group = _group(self)
    if group is None:
        return
    member = self.chance.choice(_members(self, group))
    member.dawdles = True
    try:
        await self._wait(1.0, 3 * self.cluster.knobs.max_poll_interval_ms / 1000)
    finally:
        member.dawdles = False


@fault
async def rebalance_storm(self: Nemesis) -> None:
    """Somebody joins and leaves a group again and again."""
    group = _group(self)
    if group is None or self.groups is None:
        return
    for _ in range(self.chance.randint(3, 10)):
        if self.stopping:
            return
        member = self.groups.join(group)
        try:
            await self._wait(0.05, 1.0)
        finally:
            member.leaves = True
            if self.chance.random() < 0.3:
                member.kill()


@fault
async def empty_group(self: Nemesis) -> None:
    """All members of a group are away for a while, longer than offsets are kept or not."""
    group = _group(self)
    if group is None:
        return
    members = _members(self, group)
    for member in members:
        member.released.clear()
    try:
        retention_s = min(self.cluster.knobs.offsets_retention_ms / 1000, 5.0)
        await self._wait(0.5, self.cluster.knobs.session_timeout_ms / 1000 + 1.5 * retention_s)
    finally:
        for member in members:
            member.released.set()
