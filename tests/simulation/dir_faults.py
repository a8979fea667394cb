"""Faults move replicas between the directories of their brokers, and cut the power in the middle.

Imported to register; drawn in runs that move partitions. Where brokers have one directory each they
do nothing.
"""

from __future__ import annotations

import asyncio

from oncelog_broker.app import Broker
from oncelog_broker.log.dir_move import CLEANING, SWAPPING, DirMove
from oncelog_protocol.errors import ApiError
from oncelog_testing.memory.crashes import draw_power_cut
from oncelog_testing.memory.files import Operation
from simulation.cluster import SimCluster
from simulation.nemesis import Nemesis, move_fault

LOOK_S = 0.001
SHORT_S = 0.0001
LINGER_S = 1.0
"""So long an old copy stays at most where its directory is slow."""
STEP_S = 6.0
"""So long is waited for a log that changes its place; then the fault ends."""
OF_A_START: tuple[Operation, ...] = ("open", "read", "make_dirs", "rename")
"""A directory in which these fail is not there at a start."""


def place_anew(self: Nemesis, broker_id: int) -> None:
    """Ask for other directories of some replicas of a broker, and of partitions that it may get;
    what becomes of it, its log manager tells."""
    cluster = self.cluster
    broker, process = cluster.brokers.get(broker_id), cluster.process(broker_id)
    if broker is None or process is None or process.paused or broker_id not in cluster.serving:
        return
    share = self.chance.choice([0.2, 0.5, 1.0])
    for name in self.invariants.store.partitions:
        if self.chance.random() < share:
            path = self.chance.choice(broker.logs.dirs).path
            try:
                process.run(
                    lambda n=name, p=path: broker.logs.moves.begin(n, p, validate_only=False)
                )
            except ApiError:
                pass  # it has no room, is offline, or there is no such replica yet


def _several(self: Nemesis) -> bool:
    """Return whether brokers have more than one directory."""
    return self.cluster.knobs.log_dirs > 1


@move_fault
async def move_log_dir(self: Nemesis) -> None:
    """Replicas move between the directories of their brokers, at some brokers or at all; some get
    another wish before they have arrived."""
    if not _several(self):
        return
    ids = self.cluster.ids[:]
    self.chance.shuffle(ids)
    for _ in range(self.chance.randint(1, 3)):
        for broker_id in ids[: self.chance.randint(1, len(ids))]:
            place_anew(self, broker_id)
        await self._wait(0.0, 1.5)


@move_fault
async def power_in_a_swap(self: Nemesis) -> None:
    """A broker loses its power while a log of it changes its directory. In some cases the old
    directory is slow, so that the log takes writes in the new one before the old copy goes; in some
    the broker comes back before one of its directories does."""
    if not _several(self):
        return
    for broker_id in self.cluster.ids:
        place_anew(self, broker_id)
    for _ in range(int(STEP_S / LOOK_S)):
        for broker_id, broker in self.cluster.brokers.items():
            moves = changing_places(broker)
            if moves and broker_id not in self._busy and broker_id in self.cluster.serving:
                await _strike(self, broker_id, self.chance.choice(moves))
                return
        await asyncio.sleep(LOOK_S)


def changing_places(broker: Broker) -> list[DirMove]:
    """Return the moves of a broker's logs of which both copies, or neither, may have the name."""
    moves = broker.logs.moves._moves.values()
    return [move for move in moves if move.phase in (SWAPPING, CLEANING)]


async def _strike(self: Nemesis, broker_id: int, move: DirMove) -> None:
    cluster, slow = self.cluster, (broker_id, move.source.path)
    cluster.loop.trace(f"swap of {move.topic_partition} at broker-{broker_id}, {move.phase}")
    if self.chance.random() < 0.5 or slow in cluster.hangs or broker_id in self._hung:
        await self._wait(0.0, 2 * cluster.knobs.sync_s)
        await _end(self, broker_id, self._directory())
        return
    for _ in range(int(LINGER_S / SHORT_S)):
        if move.phase != SWAPPING:
            break
        await asyncio.sleep(SHORT_S)
    cluster.hangs[slow] = 2 * LINGER_S
    try:
        await self._wait(0.1, LINGER_S)
    finally:
        cluster.hangs.pop(slow, None)
    await _end(self, broker_id, move.target.path)


async def _end(self: Nemesis, broker_id: int, hidden: str) -> None:
    cluster = self.cluster
    if not self._may_fail(broker_id):
        await self._down(broker_id)
    elif self.chance.random() < 0.5:
        await self._down(broker_id, power=True)
    elif broker_id not in self._busy and broker_id in cluster.brokers:
        self._busy[broker_id] = None
        try:
            cluster.crash_broker(broker_id, power=True, keep=draw_power_cut(self.chance))
            hide(cluster, broker_id, hidden)
            await self._wait(0.0, self._session_s())
        finally:
            del self._busy[broker_id]
            cluster.start_broker(broker_id)
        await self._wait(0.0, 2 * self._session_s())
        await self._disk_fault(broker_id)


def hide(cluster: SimCluster, broker_id: int, path: str) -> None:
    """Have a directory of a broker that is down not work, until its disks are healed."""
    cluster.loop.trace(f"hide {cluster.host(broker_id)} {path}")
    for operation in OF_A_START:
        cluster.disks[broker_id].fail(operation, path, times=None)
