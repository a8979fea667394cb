"""Strikes are faults of transactions at one narrow window; imported for their registration."""

from __future__ import annotations

import asyncio

from oncelog.errors import OncelogError
from oncelog_protocol.coordinators import TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.types import TopicPartition
from simulation.group_faults import coordinator_of
from simulation.nemesis import Nemesis, fault
from simulation.txn_faults import transaction_of, txn_coordinator_of
from simulation.txn_workload import COPY_GROUP, Copier, Teller

STEP_S = 4.0
"""The longest wait of a step of a story; without what it waits for the story ends."""


@fault
async def decide_alone(self: Nemesis) -> None:
    """[K2]: a coordinator has written PREPARE, and dies before its follower has it.

    The application dies with it, so that nobody says again how the transaction was to end.
    """
    cluster, network = self.cluster, self.network
    tellers = [] if self.txns is None else [c for c in self.txns.clients if isinstance(c, Teller)]
    if not tellers or sorted(cluster.serving) != cluster.ids:
        return
    teller = self.chance.choice(tellers)
    coordinator = txn_coordinator_of(self, teller.transactional_id)
    heir = _heir(self, teller.transactional_id)
    if coordinator is None or heir is None or coordinator in self._busy:
        return
    wire = cluster.host(coordinator), cluster.host(heir)
    for _ in range(int(STEP_S / 0.001)):
        found = transaction_of(self, teller.transactional_id)
        saved = None if found is None else found.saved
        if saved is not None and len(getattr(saved, "partitions", ())) > 1:
            break
        await asyncio.sleep(0.001)
    else:
        return
    network.hold(*wire)
    try:
        for _ in range(300):
            found = transaction_of(self, teller.transactional_id)
            saved = None if found is None else found.saved
            if saved is not None and saved.state.is_prepared:
                break
            await asyncio.sleep(0.001)
        else:
            return
        await self._wait(0.003, 0.03)
        teller.kill()
        cluster.crash_broker(coordinator)
        await self._wait(0.1, 1.0)
    finally:
        network.release(*wire)
        cluster.start_broker(coordinator)


def _heir(nemesis: Nemesis, transactional_id: str) -> int | None:
    """Return who leads the partition of an id next: the first other member of its ISR."""
    count = nemesis.cluster.knobs.transaction_state_log_num_partitions
    name = TopicPartition(TRANSACTION_TOPIC, coordinator_partition(transactional_id, count))
    stored = nemesis.invariants.store.partitions.get(name)
    if stored is None:
        return None
    others = [b for b in stored.replicas if b != stored.state.leader and b in stored.state.isr]
    return others[0] if others else None


@fault
async def late_markers(self: Nemesis) -> None:
    """KIP-447: a copier gives its partitions up while the offsets that it has committed last are
    still pending at the group's coordinator."""
    copiers = [] if self.txns is None else [c for c in self.txns.clients if isinstance(c, Copier)]
    if not copiers:
        return
    copier = self.chance.choice(copiers)
    coordinator = txn_coordinator_of(self, copier.transactional_id)
    group = coordinator_of(self, COPY_GROUP)
    if coordinator is None or group is None or coordinator == group:
        return
    network = self.network
    wire = self.cluster.host(coordinator), self.cluster.host(group)
    for _ in range(int(STEP_S / 0.001)):
        found = transaction_of(self, copier.transactional_id)
        if found is not None and found.saved is not None and found.saved.state.is_prepared:
            break
        await asyncio.sleep(0.001)
    network.hold(*wire)
    copier.bounces = True
    try:
        await self._wait(0.3, 3.0)
    finally:
        copier.bounces = False
        network.release(*wire)


FRESH_MAX = 8
"""Topics that are made in one run."""


@fault
async def stale_image(self: Nemesis) -> None:
    """A broker does not hear of a new topic, and becomes coordinator of a transaction with it."""
    tellers = [] if self.txns is None else [c for c in self.txns.clients if isinstance(c, Teller)]
    cluster, txns = self.cluster, self.txns
    if txns is None or not tellers or sorted(cluster.serving) != cluster.ids or cluster.deaf:
        return
    teller = self.chance.choice(tellers)
    coordinator = txn_coordinator_of(self, teller.transactional_id)
    heir = _heir(self, teller.transactional_id)
    if coordinator is None or heir is None or coordinator in self._busy:
        return
    if len(txns.fresh) >= FRESH_MAX:
        return
    cluster.deaf[heir] = None
    try:
        await txns.create_fresh(f"n{len(txns.fresh) + 1}")
        place = txns.fresh[-1]
        for _ in range(int(STEP_S / 0.001)):
            found = transaction_of(self, teller.transactional_id)
            saved = None if found is None else found.saved
            if saved is not None and place in getattr(saved, "partitions", ()):
                break
            await asyncio.sleep(0.001)
        else:
            return
        cluster.loop.trace(f"stale broker-{heir} for {teller.transactional_id}")
        await self._wait(0.0, 0.05)
        await self._down(coordinator)
        await self._wait(0.0, 2 * self._session_s())
    except (OSError, TimeoutError, OncelogError):
        pass  # the topic could not be made: that is another fault's doing
    finally:
        cluster.deaf.pop(heir, None)
