"""Strikes of secured runs: orders of the past come again, and a broker poses as another.

Both need the passwords of brokers, which ``secured`` has. Imported to register.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oncelog_broker.app import Broker
from oncelog_broker.security import inter_broker_dialer
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.entropy import SeededEntropy
from simulation.nemesis import Nemesis, security_fault
from simulation.security_faults import a_right, workload_of

INTERNAL_PORT = 9001
ANSWER_S = 3.0
STEP_S = 0.05
BYTES_MAX = 64 * 1024
EXPECTED = (OSError, TimeoutError, OncelogError)

Talk = Callable[[RequestChannel], Awaitable[None]]


@security_fault
async def late_security_order(self: Nemesis) -> None:
    """A broker hears an older UPDATE_SECURITY again after a newer one: its first, which has
    everything, or any other; of the present controller or of a deposed one."""
    workload = workload_of(self)
    if workload is None:
        return
    chosen = a_right(self, workload, True)
    if chosen is not None and self.chance.random() < 0.7:
        await workload.change_right(*chosen, granted=False)
    else:
        chosen = None
    await self._wait(0.0, 2.0)
    targets = self.cluster.ids if self.chance.random() < 0.5 else [self._any()]
    for broker_id in targets:
        broker = self.cluster.brokers.get(broker_id)
        kept = [] if broker is None else workload.orders_to(broker)
        if broker is None or not kept:
            continue
        full = [order for order in kept if order.base < 0]
        order = self.chance.choice(full if full and self.chance.random() < 0.6 else kept)
        self.cluster.loop.trace(f"again version {order.version} to {broker_id}")
        workload.counts["security_orders_again"] += 1
        await _speak_once(self, order.controller_id, order.controller_id, broker, order)
    await self._wait(0.5, 3.0)
    if chosen is not None:
        await workload.change_right(*chosen, granted=True)


@security_fault
async def borrowed_identity(self: Nemesis) -> None:
    """Another broker that is cut off is imitated: a fetch in its name says that it has
    everything [S20]."""
    cluster = self.cluster
    ids = cluster.ids[:]
    self.chance.shuffle(ids)
    thief, victim, target = ids[:3]
    broker, posed = cluster.brokers.get(target), cluster.brokers.get(victim)
    workload = workload_of(self)
    if broker is None or posed is None or workload is None:
        return
    wires = [cluster.host(victim)], self._hosts(self._others(victim))
    self.network.part(*wires)
    try:
        workload.counts["identities_borrowed"] += 1
        until_s = cluster.loop.now_s + 0.5 + 2.5 * self.chance.random()
        await _in_the_name_of(self, thief, victim, broker, posed.broker_epoch, until_s)
    finally:
        for other in wires[1]:
            self.network.release(wires[0][0], other)
            self.network.release(other, wires[0][0])


async def _in_the_name_of(
    self: Nemesis, thief: int, victim: int, leader: Broker, epoch: int, until_s: float
) -> None:
    """Fetch from a leader as the victim, from the end of each log."""
    loop = self.cluster.loop

    async def fetch(channel: RequestChannel) -> None:
        number = 0
        while loop.now_s < until_s:
            request = FetchRequest(
                victim, epoch, 0, 0, BYTES_MAX, 0, number, _ends(leader, victim), []
            )
            await channel.call(request, timeout_s=ANSWER_S)
            number += 1
            await asyncio.sleep(STEP_S)

    await _speak(self, thief, victim, leader, fetch)


def _ends(leader: Broker, victim: int) -> list[FetchTopic]:
    """Return what a follower would name that holds all that a leader does."""
    topics = []
    for partition in leader.replicas.partitions():
        if partition.leader is None or victim not in partition.leader.followers:
            continue
        position = partition.position()
        named = FetchPartition(
            partition.topic_partition.partition,
            position.fetch_offset,
            BYTES_MAX,
            partition.leader_epoch,
            position.last_fetched_epoch,
            partition.log.log_start_offset,
        )
        topics.append(FetchTopic(partition.topic_partition.topic, [named], partition.topic_id))
    return topics


async def _speak_once(
    self: Nemesis, user_id: int, as_id: int, broker: Broker, request: Request
) -> None:
    async def say(channel: RequestChannel) -> None:
        await channel.call(request, timeout_s=ANSWER_S)

    await _speak(self, user_id, as_id, broker, say)


async def _speak(self: Nemesis, user_id: int, as_id: int, broker: Broker, talk: Talk) -> None:
    """Authenticate to a broker as one broker, say that one is another or the same, and talk."""
    cluster = self.cluster
    address = cluster.network.hosts[cluster.host(broker.broker_id)].address
    entropy = SeededEntropy(f"{self.chance.randint(0, 2**40)}")
    dialer = inter_broker_dialer(cluster.config(user_id), cluster.client_clock, entropy)
    meant = Identity(broker.image.cluster_id, broker.broker_id)
    ghost = cluster.client_process(f"ghost-{entropy.randint(0, 2**40)}")

    async def call() -> None:
        machine = ClientConnection("ghost", meant=meant, own_broker_id=as_id)
        channel = await dialer.open(address, INTERNAL_PORT, machine, connect_timeout_s=ANSWER_S)
        try:
            await talk(channel)
        finally:
            channel.close()
            await asyncio.sleep(0)

    try:
        await ghost.call(call(), "ghost")
    except EXPECTED:
        pass
    finally:
        ghost.kill()
