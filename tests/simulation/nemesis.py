"""The nemesis brings the faults that one cluster can suffer, and takes them back.

Swarm style: each seed draws which faults it uses. One loop picks a fault, lets it work for a drawn
time, takes it back, and rests; a quarter of the time nothing is wrong, so that recovery is
exercised too. Two such loops run side by side, so that faults meet.

Rules: what may destroy data for good (power cuts under ``flush=interval``, wiped disks) happens to
one broker at a time, and not again before every partition has all replicas in sync: what the
product promises must stay promised. ``heal`` takes back everything.

Each fault that is applied has an id, such as "1.4" (the second loop's fifth), and a stream of
chance of its own: leaving one out by its id changes no other's draws. That is how a failing run is
shrunk.

To add a fault: write a method ``async def <name>(self)``, decorated with ``@fault(...)``, that
applies it, waits, and takes it back in a ``finally``.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from copy import copy
from typing import Any, TypeVar

from oncelog_controller.store import Op, SetData
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.crashes import draw_power_cut
from simulation.cluster import DATA, SimCluster
from simulation.group_workload import GroupWorkload
from simulation.invariants import Invariants
from simulation.rot import Rots
from simulation.security_workload import SecurityWorkload
from simulation.txn_workload import TxnWorkload

Fault = Callable[["Nemesis"], Awaitable[None]]
F = TypeVar("F", bound=Fault)

FAULTS: dict[str, Fault] = {}
"""Faults by name, in the order of this file."""

POWER_CUTS = frozenset(("power_one", "power_all", "wipe", "failed_sync", "failed_append"))
POWER_CUTS |= {"disk_full", "disk_read_only", "remount"}
"""Faults that may end in one: after a failed sync a machine is restarted."""


def fault(function: F) -> F:
    """Register a fault by the name of its method."""
    FAULTS[function.__name__] = function
    return function


OF_SECURITY: dict[str, None] = {}
"""Those of secured runs: they are drawn there only, so that other runs stay what they are."""


OF_MOVES: dict[str, None] = {}
"""Those of runs that move partitions, for the same reason."""


def security_fault(function: F) -> F:
    """Register a fault that changes something in secured runs only."""
    OF_SECURITY[function.__name__] = None
    return fault(function)


def move_fault(function: F) -> F:
    """Register a fault that has to do with moves of partitions."""
    OF_MOVES[function.__name__] = None
    return fault(function)


class Nemesis:
    """It breaks one cluster.

    :param invariants: know what is committed, and are told what rots.
    :param only: these faults instead of drawn ones.
    :param skip: ids of faults that are left out.
    :param groups: consumers in groups, for faults that strike them; :param txns: the same, and
        ``security``.
    """

    def __init__(
        self,
        cluster: SimCluster,
        entropy: SeededEntropy,
        invariants: Invariants,
        *,
        only: Sequence[str] | None = None,
        skip: Collection[str] = (),
        groups: GroupWorkload | None = None,
        txns: TxnWorkload | None = None,
        security: SecurityWorkload | None = None,
    ) -> None:
        self.cluster = cluster
        self.security = security
        self.groups = groups
        self.txns = txns
        self.invariants = invariants
        self.network = cluster.network
        self.rots = Rots(cluster, invariants)
        self.chance = entropy
        self.applied: Counter[str] = Counter()
        self.ids: list[str] = []
        """Of the faults that were applied, in order."""
        self.skipped: list[str] = []
        """What readers of topics that were made again left out: see ``topic_faults``."""
        self._skip = skip
        self.stopping = False
        names = [name for name in FAULTS if name not in OF_SECURITY and name not in OF_MOVES]
        share = entropy.choice([0.15, 0.3, 0.6])
        drawn = [name for name in names if entropy.random() < share]
        self.faults = list(only) if only is not None else drawn or [entropy.choice(names)]
        if only is None and cluster.knobs.secured:
            chance = entropy.fork("security")
            more = [name for name in OF_SECURITY if chance.random() < 0.6]
            self.faults += more or [chance.choice(list(OF_SECURITY))]
        if only is None and cluster.knobs.moves:
            chance = entropy.fork("moves")
            self.faults += [name for name in OF_MOVES if chance.random() < 0.6]
            self.faults += ["move_some"] * 2
        self._tasks: list[asyncio.Task[None]] = []
        self._destroyed_at_s: list[float] = []
        """When data was destroyed for good; shared by the views of ``_view``."""
        self._busy: dict[int, None] = {}
        self._hung: dict[int, None] = {}
        """Brokers of whose disks one hangs."""

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to break things."""
        loop = self.cluster.loop
        for number in range(2):
            self._tasks.append(loop.create_task(self._run(number), name=f"nemesis-{number}"))

    async def stop(self) -> None:
        """End what is under way, and heal everything."""
        self.stopping = True
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        self.heal()
        for error in ended:
            if isinstance(error, Exception):
                raise error  # a fault that fails breaks nothing from then on

    async def _run(self, loop: int) -> None:
        chance = self.chance.fork(f"loop-{loop}")
        count = 0
        while self.faults and not self.stopping:
            await asyncio.sleep(chance.random() * 1.5)
            if chance.random() < 0.25:
                await asyncio.sleep(chance.random() * 6)
                continue
            name, id = chance.choice(self.faults), f"{loop}.{count}"
            count += 1
            if id in self._skip:
                continue
            self.applied[name] += 1
            self.ids.append(id)
            self.cluster.loop.trace(f"fault {id} {name}")
            await FAULTS[name](self._view(id))

    def _view(self, id: str) -> Nemesis:
        """Return the same with a stream of chance of its own."""
        view = copy(self)
        view.chance = self.chance.fork(f"fault-{id}")
        return view

    def heal(self) -> None:
        """Take back everything that may still be wrong."""
        cluster = self.cluster
        cluster.loop.trace("heal")
        self.network.heal()
        if not cluster.zookeeper.running:
            cluster.zookeeper_process.run(cluster.zookeeper.start)
        cluster.zookeeper_delays.clear()
        cluster.deaf.clear()
        for broker_id in cluster.ids:
            cluster.sync_stall_s.pop(broker_id, None)
            cluster.remounts.pop(broker_id, None)
            cluster.hangs.clear()
            cluster.disks[broker_id].heal()
            cluster.resume_broker(broker_id)
            cluster.join_zookeeper(broker_id)
            self._repair(broker_id)
            cluster.start_broker(broker_id)

    # -- choosing ----------------------------------------------------------------------------

    async def _wait(self, low_s: float, high_s: float) -> None:
        await asyncio.sleep(low_s + (high_s - low_s) * self.chance.random())

    def _session_s(self) -> float:
        return self.cluster.knobs.zookeeper_session_timeout_ms / 1000

    def _any(self) -> int:
        """Pick a broker: often the leader of a partition or the controller, else any."""
        draw = self.chance.random()
        if draw < 0.4:
            return self._leader() or self.chance.choice(self.cluster.ids)
        if draw < 0.6:
            return self._controller() or self.chance.choice(self.cluster.ids)
        return self.chance.choice(self.cluster.ids)

    def _leader(self) -> int | None:
        partitions = self.invariants.store.partitions
        if not partitions:
            return None
        leader = partitions[self.chance.choice(list(partitions))].state.leader
        return leader if leader in self.cluster.ids else None

    def _controller(self) -> int | None:
        for broker_id, broker in self.cluster.brokers.items():
            if broker.runner.is_active:
                return broker_id
        return None

    def _others(self, broker_id: int) -> list[int]:
        return [other for other in self.cluster.ids if other != broker_id]

    def _hosts(self, ids: list[int]) -> list[str]:
        return [self.cluster.host(broker_id) for broker_id in ids]

    def _clients(self) -> list[str]:
        return sorted(name for name in self.network.hosts if name.startswith("client"))

    def may_destroy(self, broker_id: int) -> bool:
        """Return whether data of one broker may be lost for good now: all replicas have it all, and
        those of the others are sound."""
        cluster = self.cluster
        if cluster.knobs.min_insync_replicas < 2 or sorted(cluster.serving) != cluster.ids:
            return False
        settled_s = 2 * cluster.knobs.flush_interval_ms / 1000 + self._session_s()
        if self._destroyed_at_s and cluster.loop.now_s - self._destroyed_at_s[-1] < settled_s:
            return False
        factor = cluster.knobs.replication_factor
        for name in self.invariants.store.partitions:
            data = cluster.partition_state(*name)
            if data is None or not _all_in_sync(json.loads(data), factor):
                return False
        if not self.rots.atlas.may_wipe(broker_id):
            return False
        self._destroyed_at_s.append(cluster.loop.now_s)
        return True

    async def _down(self, broker_id: int, *, power: bool = False, wipe: bool = False) -> None:
        cluster = self.cluster
        if broker_id in self._busy:
            return
        self._busy[broker_id] = None
        try:
            keep = draw_power_cut(self.chance) if power else None
            cluster.crash_broker(broker_id, power=power, keep=keep)
            if wipe:
                cluster.wipe_disks(broker_id)
            await self._wait(0.0, 2.5 * self._session_s())
        finally:
            del self._busy[broker_id]
            cluster.start_broker(broker_id)

    # -- crashes and pauses ------------------------------------------------------------------

    @fault
    async def kill_one(self) -> None:
        """Kill -9, often of a leader or of the controller."""
        await self._down(self._any())

    @fault
    async def kill_chasing(self) -> None:
        """Kill the leader, and the next one, and the next."""
        for _ in range(self.chance.randint(2, 4)):
            await self._down(self._leader() or self._any())
            await self._wait(0.0, 0.5)

    @fault
    async def kill_all(self) -> None:
        """Kill every process at once, and start them again in a drawn order."""
        await asyncio.gather(*(self._down(broker_id) for broker_id in self.cluster.ids))

    @fault
    async def power_one(self) -> None:
        """One machine loses what it had not synced."""
        broker_id = self._any()
        if self.cluster.knobs.flush == "commit" or self.may_destroy(broker_id):
            await self._down(broker_id, power=True)

    @fault
    async def power_all(self) -> None:
        """Cut the power of every machine at once; only where that is promised to be survived."""
        if self.cluster.knobs.flush == "commit":
            await asyncio.gather(
                *(self._down(broker_id, power=True) for broker_id in self.cluster.ids)
            )

    @fault
    async def wipe(self) -> None:
        """One broker comes back with empty disks."""
        broker_id = self._any()
        if self.may_destroy(broker_id):
            await self._down(broker_id, power=True, wipe=True)

    @fault
    async def pause(self) -> None:
        """Send SIGSTOP for 0.1 to 3 session time-outs."""
        broker_id = self._any()
        self.cluster.pause_broker(broker_id)
        try:
            await self._wait(0.1 * self._session_s(), 3 * self._session_s())
        finally:
            self.cluster.resume_broker(broker_id)

    @fault
    async def restart(self) -> None:
        """Send SIGTERM and start again."""
        broker_id = self._any()
        if broker_id in self._busy:
            return
        self._busy[broker_id] = None
        try:
            await self.cluster.stop_broker(broker_id)
            await self._wait(0.0, 1.0)
        finally:
            del self._busy[broker_id]
            self.cluster.start_broker(broker_id)

    @fault
    async def rolling_restart(self) -> None:
        """Restart one after the other, each waiting for the one before."""
        for broker_id in self.cluster.ids:
            if broker_id in self._busy or sorted(self.cluster.serving) != self.cluster.ids:
                return
            await self.cluster.stop_broker(broker_id, hold=False)
            for _ in range(200):
                if broker_id in self.cluster.serving:
                    break
                await asyncio.sleep(0.1)

    # -- network -----------------------------------------------------------------------------

    async def _parted(self, left: list[str], right: list[str]) -> None:
        self.network.part(left, right)
        try:
            await self._wait(0.2, 3 * self._session_s())
        finally:
            for a in left:
                for b in right:
                    if self.chance.random() < 0.3:
                        self.network.reset(a, b, one_sided=self.chance.random() < 0.3)
                    self.network.release(a, b)
                    self.network.release(b, a)

    @fault
    async def isolate_from_followers(self) -> None:
        """Clients and ZooKeeper still reach it."""
        broker_id = self._any()
        await self._parted([self.cluster.host(broker_id)], self._hosts(self._others(broker_id)))

    @fault
    async def isolate_from_zookeeper(self) -> None:
        """Only the data plane is up."""
        broker_id = self._any()
        self.cluster.cut_from_zookeeper(broker_id)
        try:
            await self._wait(0.1, 3 * self._session_s())
        finally:
            self.cluster.join_zookeeper(broker_id)

    @fault
    async def isolate_with_client(self) -> None:
        """Put a leader and a client on an island."""
        broker_id = self._any()
        client = self.chance.choice(self._clients())
        rest = [*self._hosts(self._others(broker_id)), *self._clients()]
        rest.remove(client)
        self.cluster.cut_from_zookeeper(broker_id)
        try:
            await self._parted([self.cluster.host(broker_id), client], rest)
        finally:
            self.cluster.join_zookeeper(broker_id)

    @fault
    async def isolate_from_clients(self) -> None:
        """Clients cannot reach a broker that is fine."""
        broker_id = self._any()
        await self._parted([self.cluster.host(broker_id)], self._clients())

    @fault
    async def bridge(self) -> None:
        """Two brokers do not see each other, a third sees both."""
        ids = self.cluster.ids[:]
        self.chance.shuffle(ids)
        await self._parted(self._hosts(ids[:1]), self._hosts(ids[1:2]))

    @fault
    async def one_way(self) -> None:
        """Let bytes flow in one direction only."""
        ids = self.cluster.ids[:]
        self.chance.shuffle(ids)
        source, target = self._hosts(ids[:2])
        self.network.hold(source, target)
        try:
            await self._wait(0.2, 3 * self._session_s())
        finally:
            self.network.release(source, target)

    @fault
    async def flap(self) -> None:
        """Let a link come and go."""
        ids = self.cluster.ids[:]
        self.chance.shuffle(ids)
        source, target = self._hosts(ids[:2])
        for _ in range(self.chance.randint(3, 10)):
            self.network.part([source], [target])
            try:
                await self._wait(0.05, 0.6)
            finally:
                self.network.release(source, target)
                self.network.release(target, source)
            await self._wait(0.05, 0.6)

    @fault
    async def reset(self) -> None:
        """Connections break in the middle of a frame, some at one end only."""
        names = [*self._hosts(self.cluster.ids), *self._clients()]
        for _ in range(self.chance.randint(1, 10)):
            self.chance.shuffle(names)
            target = self.cluster.host(self._any())
            if names[0] != target:
                self.network.reset(names[0], target, one_sided=self.chance.random() < 0.3)
            await self._wait(0.0, 0.3)

    @fault
    async def slow_wires(self) -> None:
        """Some wires take 0.1 to 3 s, others do not."""
        names = [*self._hosts(self.cluster.ids), *self._clients()]
        wires = []
        for _ in range(self.chance.randint(1, 5)):
            self.chance.shuffle(names)
            wire = self.network.wire(names[0], names[1])
            wire.latency_s = 0.1 + self.chance.random() ** 3 * 3
            wires.append(wire)
        try:
            await self._wait(0.5, 6.0)
        finally:
            for wire in wires:
                wire.latency_s = 0.0

    @fault
    async def false_suspicion(self) -> None:
        """A live broker looks dead to all others: its connections break, new ones are refused."""
        target = self.cluster.host(self._any())
        others = [name for name in self._hosts(self.cluster.ids) if name != target]
        for other in others:
            self.network.wire(other, target).refused = True
            self.network.reset(other, target)
        try:
            await self._wait(0.05, 2 * self._session_s())
        finally:
            for other in others:
                self.network.wire(other, target).refused = False

    # -- ZooKeeper ---------------------------------------------------------------------------

    @fault
    async def zookeeper_outage(self) -> None:
        """The whole server is away."""
        cluster = self.cluster
        if cluster.zookeeper.running:
            cluster.zookeeper_process.run(cluster.zookeeper.stop)
        try:
            await self._wait(0.1, 3 * self._session_s())
        finally:
            if not cluster.zookeeper.running:
                cluster.zookeeper_process.run(cluster.zookeeper.start)

    @fault
    async def expire_one(self) -> None:
        """One session ends."""
        self.cluster.expire(self._any())

    @fault
    async def expire_all(self) -> None:
        """All sessions end at once."""
        for broker_id in self.cluster.ids:
            self.cluster.expire(broker_id)

    @fault
    async def lose_store_reply(self) -> None:
        """A write is applied and nobody hears, or it is lost; the connection breaks."""
        cluster = self.cluster
        zookeeper = cluster.zookeeper
        broker_id = self._controller() or self._any()
        store = cluster.stores.get(broker_id)
        if store is None or store.session is None:
            return
        lose = zookeeper.lose_reply if self.chance.random() < 0.7 else zookeeper.lose_request
        states_only = self.chance.random() < 0.5

        def matching(ops: list[Op]) -> bool:
            return not states_only or any(
                isinstance(op, SetData) and op.path.endswith("/state") for op in ops
            )

        if store.session.session_id in zookeeper.sessions():
            for _ in range(self.chance.randint(1, 3)):
                lose(store.session.session_id, matching)
        if self.chance.random() < 0.5:
            cluster.expire(self._any())  # so that something is written
        await self._wait(0.1, 1.0)

    @fault
    async def slow_zookeeper(self) -> None:
        """Delay replies and watches, and let ephemeral nodes outlive their session."""
        chance = self.chance.fork("delays")
        slow = {kind: chance.random() ** 2 * 2 for kind in ("request", "reply", "watch")}
        slow["ephemeral"] = chance.random() * self._session_s()

        def delay(kind: str, session_id: int) -> float:
            return slow[kind] * chance.random()

        delays = self.cluster.zookeeper_delays
        delays.append(delay)
        try:
            await self._wait(0.5, 5.0)
        finally:
            if delay in delays:
                delays.remove(delay)

    # -- disks and clocks --------------------------------------------------------------------

    @fault
    async def slow_disk(self) -> None:
        """Syncs take up to some seconds."""
        broker_id = self._any()
        self.cluster.sync_stall_s[broker_id] = self.chance.choice([0.05, 0.5, 5.0])
        try:
            await self._wait(0.5, 5.0)
        finally:
            self.cluster.sync_stall_s.pop(broker_id, None)

    async def _disk_fault(self, broker_id: int) -> None:
        """The broker loses that directory; the machine is then repaired and started again."""
        cluster = self.cluster
        await self._wait(0.1, 2 * self._session_s())
        cluster.disks[broker_id].heal()
        if broker_id in self._busy:
            return
        self._busy[broker_id] = None
        try:
            self._repair(broker_id)
            await self._wait(0.0, self._session_s())
        finally:
            del self._busy[broker_id]
            cluster.start_broker(broker_id)

    def _repair(self, broker_id: int) -> None:
        """Restart a machine that has lost a directory."""
        broker = self.cluster.brokers.get(broker_id)
        if broker is not None and not all(d.online for d in broker.logs.dirs):
            self.cluster.crash_broker(broker_id)

    def _may_fail(self, broker_id: int) -> bool:
        """Return whether a directory may fail. With ``flush=interval`` what was not synced there
        counts as lost from then on."""
        return self.cluster.knobs.flush == "commit" or self.may_destroy(broker_id)

    def _directory(self) -> str:
        return f"{DATA}/{self.chance.randint(0, self.cluster.knobs.log_dirs - 1)}"

    @fault
    async def failed_sync(self) -> None:
        """A sync fails once; the next one would succeed. Only the process is started again:
        what it reads may be nowhere but in the page cache."""
        broker_id = self._any()
        if self._may_fail(broker_id):
            self.cluster.disks[broker_id].fail("sync", self._directory())
            await self._disk_fault(broker_id)

    @fault
    async def rot(self) -> None:
        """Flip a bit in a log, an index or a checkpoint; some brokers then restart."""
        broker_id = self._any()
        tails_too = not POWER_CUTS.intersection(self.faults)
        if self.rots.strike(self.chance, broker_id, tails_too=tails_too) is None:
            return
        await self._wait(0.0, 1.0)
        if self.chance.random() < 0.4:
            await self._down(broker_id)

    @fault
    async def clock_jump(self) -> None:
        """Set a wall clock wrong by up to an hour."""
        clock = self.cluster.clocks[self._any()]
        jump_ms = self.chance.choice([1000, 60_000, 3_600_000])
        if self.chance.random() < 0.5:
            jump_ms = -jump_ms
        clock.error_ms += jump_ms
        try:
            await self._wait(0.1, 5.0)
        finally:
            clock.error_ms -= jump_ms


def _all_in_sync(state: dict[str, Any], factor: int) -> bool:
    """Return whether the ISR of a partition has all replicas but those that a move adds. ``factor``
    is their number where the state names none."""
    replicas = state.get("origin") or state.get("replicas") or range(factor)
    return len(set(state["isr"]).intersection(replicas)) == len(replicas)
