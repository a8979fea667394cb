"""Faults of evidence make brokers refuse each other's connections while all of them live.

A firewall that rejects, a wrong entry of a hosts file: who is refused takes the other for dead.
"""

from __future__ import annotations

from simulation.nemesis import Nemesis, fault


@fault
async def shunned(self: Nemesis) -> None:
    """One broker is refused by its peers, or refuses them, or both; ZooKeeper is fine.

    Mostly by all of them, with the connections that stood broken.
    """
    network, chance = self.network, self.chance
    broker_id = self._any()
    source = self.cluster.host(broker_id)
    peers = self._hosts(self._others(broker_id))
    if chance.random() < 0.2:
        peers.remove(chance.choice(peers))
    way = chance.choice(["from", "from", "to", "both"])
    wires = [network.wire(source, peer) for peer in peers if way != "to"]
    wires += [network.wire(peer, source) for peer in peers if way != "from"]
    for wire in wires:
        wire.refused = True
    if chance.random() < 0.7:
        for peer in peers:
            network.reset(source, peer)
    try:
        await self._wait(0.05, 4 * self._session_s())
    finally:
        for wire in wires:
            wire.refused = False
