"""Faults of transactions are imported for their registration.

Without transactional clients in the run they do nothing.
"""

from __future__ import annotations

import asyncio

from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_protocol.coordinators import TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.types import TopicPartition
from simulation.late_requests import LateRequests
from simulation.loop import Process
from simulation.nemesis import Nemesis, fault
from simulation.txn_workload import Hijacker, Teller, TxnClient

MOMENT_S = 4.0
"""How long a fault waits for the moment at which it strikes; then it strikes anyhow."""

MOMENTS = ("begun", "added", "prepared", "marking", "completed", "any")
"""The steps of a transaction at its coordinator, as far as they can be told apart."""


def _client(self: Nemesis) -> TxnClient | None:
    """Return one of the transactional clients of the run."""
    if self.txns is None or not self.txns.clients:
        return None
    return self.chance.choice(self.txns.clients)


def txn_coordinator_of(self: Nemesis, transactional_id: str) -> int | None:
    """Return the broker that leads the partition of a transactional id, by the store."""
    count = self.cluster.knobs.transaction_state_log_num_partitions
    name = TopicPartition(TRANSACTION_TOPIC, coordinator_partition(transactional_id, count))
    stored = self.invariants.store.partitions.get(name)
    leader = -1 if stored is None else stored.state.leader
    return leader if leader in self.cluster.ids else None


def transaction_of(self: Nemesis, transactional_id: str) -> TransactionMetadata | None:
    """Return the id as its coordinator knows it."""
    broker = self.cluster.brokers.get(txn_coordinator_of(self, transactional_id) or 0)
    if broker is None:
        return None
    for led in broker.transactions.engine.led:
        found: TransactionMetadata | None = led.shard.transactions.get(transactional_id)
        if found is not None:
            return found
    return None


def _is_at(found: TransactionMetadata | None, moment: str) -> bool:
    saved = None if found is None else found.saved
    if saved is None:
        return False
    partitions = len(getattr(saved, "partitions", ()))
    return {
        "begun": saved.state is TxnState.ONGOING and partitions <= 1,
        "added": saved.state is TxnState.ONGOING and partitions > 1,
        "prepared": saved.state.is_prepared,
        "marking": saved.state.is_prepared,
        "completed": saved.state.is_complete,
        "any": True,
    }[moment]


async def _until_moment(self: Nemesis, transactional_id: str) -> None:
    moment = self.chance.choice(MOMENTS)
    for _ in range(int(MOMENT_S / 0.002)):
        if _is_at(transaction_of(self, transactional_id), moment):
            self.cluster.loop.trace(f"moment {moment} of {transactional_id}")
            break
        await asyncio.sleep(0.002)
    if moment != "prepared":
        await asyncio.sleep(0.01 * self.chance.random())


@fault
async def kill_txn_coordinator(self: Nemesis) -> None:
    """The coordinator of a transaction dies at one of its six steps."""
    client = _client(self)
    if client is None:
        return
    await _until_moment(self, client.transactional_id)
    coordinator = txn_coordinator_of(self, client.transactional_id)
    if coordinator is not None:
        power = self.cluster.knobs.flush == "commit" and self.chance.random() < 0.3
        await self._down(coordinator, power=power)


@fault
async def move_txn_coordinator(self: Nemesis) -> None:
    """It loses its leadership and lives, and the next one does too."""
    client = _client(self)
    if client is None:
        return
    for _ in range(self.chance.randint(1, 3)):
        await _until_moment(self, client.transactional_id)
        coordinator = txn_coordinator_of(self, client.transactional_id)
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
async def strike_at_open_data(self: Nemesis) -> None:
    """The leader of a partition with an open transaction dies, or is paused."""
    for _ in range(int(MOMENT_S / 0.02)):
        opened = [name for name, txns in self.invariants.txns.undecided().items() if txns]
        if opened:
            stored = self.invariants.store.partitions.get(TopicPartition(*opened[0]))
            leader = -1 if stored is None else stored.state.leader
            if leader in self.cluster.ids:
                if self.chance.random() < 0.6:
                    await self._down(leader)
                    return
                self.cluster.pause_broker(leader)
                try:
                    await self._wait(0.3 * self._session_s(), 2 * self._session_s())
                finally:
                    self.cluster.resume_broker(leader)
                return
        await asyncio.sleep(0.02)


@fault
async def pause_txn_client(self: Nemesis) -> None:
    """An application stands still in the middle, for longer than a transaction may take or
    not; somebody may take its id over meanwhile."""
    client = _client(self)
    process = None if client is None else client.process
    if client is None or process is None or not process.alive or process.paused:
        return
    self.cluster.loop.trace(f"pause {client.name}")
    process.pause()
    try:
        if isinstance(client, Teller) and self.chance.random() < 0.5:
            await _hijack(self, client)
        timeout_s = min(self.cluster.knobs.transaction_timeout_ms / 1000, 6.0)
        await self._wait(0.1, 1.5 * timeout_s)
    finally:
        _resume(process)


def _resume(process: Process) -> None:
    if process.alive and process.paused:
        process.resume()


@fault
async def hijack(self: Nemesis) -> None:
    """A second client takes a teller's transactional id."""
    client = _client(self)
    if isinstance(client, Teller):
        await _hijack(self, client)


async def _hijack(self: Nemesis, client: Teller) -> None:
    assert self.txns is not None
    name = f"client-hijacker-{len(self.txns.clients)}"
    hijacker = Hijacker(
        self.txns, name, client.transactional_id, self.txns.entropy.fork(f"{name}-{client.name}")
    )
    task = self.txns.add(hijacker)
    self.txns.clients.append(hijacker)
    try:
        await asyncio.wait([task], timeout=5.0)
    finally:
        hijacker.leaves = True


@fault
async def bounce_txn_clients(self: Nemesis) -> None:
    """Transactional clients are killed and come back, one or all."""
    if self.txns is None or not self.txns.clients:
        return
    clients = list(self.txns.clients)
    if self.chance.random() < 0.5:
        clients = [self.chance.choice(clients)]
    for client in clients:
        client.kill()
        await self._wait(0.0, 0.5)


@fault
async def late_requests(self: Nemesis) -> None:
    """Requests of transactions come again, up to some transactions later, elsewhere."""
    if self.txns is None or not self.txns.clients:
        return
    if self.txns.late is None:
        self.txns.late = LateRequests(self.cluster)
        await self._wait(0.5, 2.0)
    late = self.txns.late
    for _ in range(self.chance.randint(5, 30)):
        if self.stopping or not late.kept:
            return
        kept = self.chance.choice(list(late.kept))
        target = kept.target
        if self.chance.random() < 0.3:
            target = self.cluster.host(self.chance.choice(self.cluster.ids))
        await late.again(kept, target)
        await self._wait(0.0, 0.2)


@fault
async def long_transaction(self: Nemesis) -> None:
    """Tellers leave transactions open for as long as they may, while logs roll and compact."""
    if self.txns is None:
        return
    for teller in self.txns.tellers:
        teller.dawdles = True
    try:
        await self._wait(1.0, min(self.cluster.knobs.transaction_timeout_ms / 1000, 8.0))
    finally:
        for teller in self.txns.tellers:
            teller.dawdles = False
