"""Gray failures are machines that work in most ways and are wrong in one; imported to register."""

from __future__ import annotations

import asyncio

from simulation.loop import Process
from simulation.nemesis import Nemesis, fault
from simulation.store_view import InvariantViolation

DAY_MS = 86_400_000


@fault
async def clock_leap(self: Nemesis) -> None:
    """One broker's wall clock is a day or ten off, over a restart as well. The others', which
    are the majority, are right: what they hold of it is given time to go."""
    cluster = self.cluster
    broker_id = self._any()
    if cluster.leapt or broker_id in self._busy:
        return
    clock = cluster.clocks[broker_id]
    days = self.chance.choice([1, 10, 10])
    leap_ms = days * DAY_MS if self.chance.random() < 0.7 else -days * DAY_MS
    cluster.leapt.append(broker_id)
    cluster.loop.trace(f"leap {cluster.host(broker_id)} {leap_ms}")
    clock.error_ms += leap_ms
    try:
        await self._wait(0.1, 3.0)
        if self.chance.random() < 0.4:
            await self._down(broker_id)
        await self._wait(0.1, 5.0)
    finally:
        clock.error_ms -= leap_ms
        cluster.loop.call_later(2 * self._session_s() + 3.0, cluster.leapt.remove, broker_id)


@fault
async def hung_loop(self: Nemesis) -> None:
    """A broker's loop hangs, while its kernel and its thread for ZooKeeper go on. After two
    session time-outs and some its session is over. :raises InvariantViolation: [I25], it is not."""
    cluster = self.cluster
    broker_id = self._any()
    process, session = cluster.process(broker_id), cluster._session(broker_id)
    if process is None or _hangs(process) or session is None or broker_id in self._busy:
        return
    cluster.loop.trace(f"hang {process.name}")
    process.pause()
    self._busy[broker_id] = None
    hung_s, for_s = 0.0, (0.3 + 3.7 * self.chance.random()) * self._session_s()
    try:
        while hung_s < for_s and _hangs(process):
            await asyncio.sleep(0.1)
            # A store that is away does not count how long a client is silent.
            hung_s = hung_s + 0.1 if cluster.zookeeper.running else 0.0
        registered = session in cluster.zookeeper.sessions()
        if _hangs(process) and hung_s > 3 * self._session_s() and registered:
            raise InvariantViolation(
                "I25", f"broker {broker_id} has hung for {hung_s:.1f} s, and is still registered"
            )
    finally:
        del self._busy[broker_id]
        if _hangs(process):
            cluster.loop.trace(f"goes on {process.name}")
            process.resume()


def _hangs(process: Process) -> bool:
    return process.alive and process.paused
