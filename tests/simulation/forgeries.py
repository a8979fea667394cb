"""No controller gave these orders: they were garbled on their way, or forged by whoever reaches the
listener between brokers."""

from __future__ import annotations

import asyncio

from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.replication import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from oncelog_runtime.channel import RequestChannel
from simulation.nemesis import Nemesis, fault

INTERNAL_PORT = 9001
ANSWER_S = 5.0

Order = UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest


@fault
async def forged_order(self: Nemesis) -> None:
    """A broker is told of a controller epoch that the store has not seen, mostly of the last one
    that there can be: it must not believe in it."""
    cluster, chance = self.cluster, self.chance
    broker_id = self._any()
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        return
    epoch = chance.choice([2**31 - 1, 2**31 - 1, broker.fence.controller_epoch + 1])
    head = (chance.choice(cluster.ids), epoch, max(0, broker.broker_epoch))
    orders: list[Order] = [
        UpdateMetadataRequest(*head, False, [], list(broker.image.brokers.values())),
        LeaderAndIsrRequest(*head, False, [], list(broker.image.brokers.values())),
        StopReplicaRequest(*head, []),
    ]
    address = cluster.network.hosts[cluster.host(broker_id)].address
    forger = cluster.client_process(f"forger-{chance.randint(0, 2**40)}")  # there may be another
    cluster.loop.trace(f"forged epoch {epoch} to {cluster.host(broker_id)}")
    try:
        meant = Identity(broker.image.cluster_id, broker_id)
        await forger.call(_tell(address, meant, chance.choice(orders)), "forge")
    except (OSError, TimeoutError, OncelogError):
        pass
    finally:
        forger.kill()
    await self._wait(0.0, self._session_s())


async def _tell(address: str, meant: Identity, order: Order) -> None:
    machine = ClientConnection("forger", meant=meant, own_broker_id=order.controller_id)
    channel = await RequestChannel.open(address, INTERNAL_PORT, machine, connect_timeout_s=ANSWER_S)
    try:
        await channel.call(order, timeout_s=ANSWER_S)
    finally:
        channel.close()
    await asyncio.sleep(0)
