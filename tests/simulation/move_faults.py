"""Faults move partitions: moves begin, turn back and get other ends, and those who take part die.

Imported to register; drawn in runs that move partitions only, from a stream of their own.
"""

from __future__ import annotations

import asyncio
import json

from oncelog import Admin, NewTopic
from oncelog.errors import OncelogError
from oncelog_controller.store import Op, SetData
from oncelog_controller.znodes import state_path
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.moves import (
    AlterPartitionReassignmentsRequest,
    ReassignedPartition,
)
from oncelog_protocol.types import TopicPartition
from simulation.loop import ProcessKilledError
from simulation.nemesis import Nemesis, move_fault
from simulation.store_view import StoredPartition
from support.room_settings import replica_settings

EXPECTED = (OncelogError, OSError, TimeoutError)
REPLICAS_MIN = 2
"""One lost disk must not lose what was acknowledged."""
ASK_S = 5.0
STEP_S = 6.0
"""How long what a fault waits for may take; else it ends."""


# ---- asking


def a_target(self: Nemesis) -> list[int]:
    """Draw other replicas of a partition: mostly as many as there were at first."""
    ids = self.cluster.ids[:]
    self.chance.shuffle(ids)
    factor = self.cluster.knobs.replication_factor
    count = factor if self.chance.random() < 0.6 else self.chance.randint(REPLICAS_MIN, len(ids))
    return ids[:count]


async def ask(self: Nemesis, items: list[ReassignedPartition], *, now: bool = False) -> None:
    """Ask for moves."""
    if items:
        reason = "the nemesis"
        await ask_controller(self, AlterPartitionReassignmentsRequest(items, True, now, reason))


async def ask_controller(self: Nemesis, request: Request) -> None:
    """Ask the controller of this moment; what becomes of it, the store tells."""
    controller = self._controller()
    process = None if controller is None else self.cluster.process(controller)
    if controller is None or process is None or process.paused:
        return
    runner = self.cluster.brokers[controller].runner
    try:
        async with asyncio.timeout(ASK_S):
            await process.call(runner.handle(request), "moves")
    except (*EXPECTED, ProcessKilledError):
        pass


def moving(self: Nemesis) -> list[StoredPartition]:
    """Return the partitions that move, as far as the store was looked at."""
    self.invariants.store.update()
    return [each for each in self.invariants.store.partitions.values() if each.state.origin]


def some(self: Nemesis, partitions: list[StoredPartition]) -> list[StoredPartition]:
    """Draw at least one of them."""
    share = self.chance.choice([0.2, 0.5, 1.0])
    drawn = [each for each in partitions if self.chance.random() < share]
    return drawn or ([self.chance.choice(partitions)] if partitions else [])


async def begin(self: Nemesis, partitions: list[StoredPartition]) -> None:
    """Give partitions other replicas."""
    await ask(self, [ReassignedPartition(*each.name, a_target(self)) for each in partitions])


async def one_that_moves(self: Nemesis) -> StoredPartition | None:
    """Return a partition that moves; if there is none, one begins."""
    if not moving(self):
        await begin(self, some(self, list(self.invariants.store.partitions.values())))
        await self._wait(0.0, 0.2)  # it was answered when the plan was in the store
    found = moving(self)
    return self.chance.choice(found) if found else None


async def begin_to(self: Nemesis, broker_id: int) -> None:
    """Give a broker replicas of partitions of which it has none."""
    partitions = self.invariants.store.partitions.values()
    items = []
    for each in some(self, [each for each in partitions if broker_id not in each.replicas]):
        others = [b for b in a_target(self) if b != broker_id]
        items.append(
            ReassignedPartition(*each.name, [*others[: len(each.replicas) - 1], broker_id])
        )
    await ask(self, items)


# ---- moves


@move_fault
async def move_some(self: Nemesis) -> None:
    """Partitions move, often many at once, the cluster's own among them."""
    await begin(self, some(self, list(self.invariants.store.partitions.values())))
    await self._wait(0.0, 3.0)


@move_fault
async def retarget(self: Nemesis) -> None:
    """Partitions that move get another end."""
    if await one_that_moves(self) is not None:
        await self._wait(0.0, 0.5)
        await begin(self, some(self, moving(self)))


@move_fault
async def cancel_some(self: Nemesis) -> None:
    """Partitions that move turn back; sometimes at once, whatever the added replicas hold."""
    if await one_that_moves(self) is None:
        return
    await self._wait(0.0, 0.5)
    items = [ReassignedPartition(*each.name, None) for each in some(self, moving(self))]
    await ask(self, items, now=self.chance.random() < 0.2)


@move_fault
async def move_to_and_fro(self: Nemesis) -> None:
    """One broker is taken from a partition and given back at once, again and again: it is a replica
    while it deletes, and leaves while it begins."""
    partitions = list(self.invariants.store.partitions.values())
    if not partitions:
        return
    name = self.chance.choice(partitions).name
    for _ in range(self.chance.randint(2, 6)):
        stored = self.invariants.store.partitions.get(name)
        if stored is None:
            break
        whole = list(stored.state.origin or stored.replicas)
        if len(whole) <= REPLICAS_MIN:
            break
        one = self.chance.choice(whole)
        await ask(self, [ReassignedPartition(*name, [b for b in whole if b != one])])
        await self._wait(0.0, 0.1)
        await ask(self, [ReassignedPartition(*name, whole)])
        await self._wait(0.0, 0.3)
        self.invariants.store.update()


@move_fault
async def slow_lane(self: Nemesis) -> None:
    """Replicas that are far behind get next to nothing, and one that lacks a little is far already.
    Partitions move meanwhile, and a topic is made, all of whose replicas are empty."""
    configs = [broker.live.replicas for broker in self.cluster.brokers.values()]
    most, near = self.chance.choice([1, 1_000, 100_000]), self.chance.choice([1, 4096])
    for config in configs:
        config.replica_catch_up_max_bytes_per_second = most
        config.replica_near_bytes = near
    name = f"slow-{self.chance.randint(0, 2**40)}"
    process = self.cluster.client_process(f"client-{name}")
    try:
        await begin(self, some(self, list(self.invariants.store.partitions.values())))
        async with asyncio.timeout(30):
            await process.call(_make(self, name), "a topic is made")
            await self._wait(0.5, 4.0)
            await process.call(_delete(self, name), "it is deleted")
    except (*EXPECTED, ProcessKilledError):
        pass
    finally:
        process.kill()
        unbounded = replica_settings()
        for config in configs:
            config.replica_catch_up_max_bytes_per_second = (
                unbounded.replica_catch_up_max_bytes_per_second
            )
            config.replica_near_bytes = unbounded.replica_near_bytes


# ---- those who take part


@move_fault
async def kill_receiver(self: Nemesis) -> None:
    """Kill -9 a broker to which partitions move."""
    broker_id = self.chance.choice(self.cluster.ids)
    await begin_to(self, broker_id)
    await self._wait(0.0, 0.1)
    await self._down(broker_id)


@move_fault
async def pause_receiver(self: Nemesis) -> None:
    """Partitions move to a broker that SIGSTOP has stopped."""
    broker_id = self.chance.choice(self.cluster.ids)
    self.cluster.pause_broker(broker_id)
    try:
        await begin_to(self, broker_id)
        await self._wait(0.1 * self._session_s(), 3 * self._session_s())
    finally:
        self.cluster.resume_broker(broker_id)


@move_fault
async def isolate_receiver(self: Nemesis) -> None:
    """A broker to which partitions move sees no other one; ZooKeeper and clients it does."""
    broker_id = self.chance.choice(self.cluster.ids)
    hosts = self._hosts(self._others(broker_id))
    await asyncio.gather(
        self._parted([self.cluster.host(broker_id)], hosts), begin_to(self, broker_id)
    )


@move_fault
async def wipe_receiver(self: Nemesis) -> None:
    """A broker to which partitions move comes back with empty disks."""
    broker_id = self.chance.choice(self.cluster.ids)
    await begin_to(self, broker_id)
    await self._wait(0.0, 0.1)
    if self.may_destroy(broker_id):
        await self._down(broker_id, power=True, wipe=True)


@move_fault
async def full_receiver(self: Nemesis) -> None:
    """There is no room on a broker to which partitions move; later there is again."""
    broker_id = self.chance.choice(self.cluster.ids)
    if self._may_fail(broker_id):
        self.cluster.disks[broker_id].set_free_bytes(self.chance.randint(0, 3000))
        await begin_to(self, broker_id)
        await self._disk_fault(broker_id)


@move_fault
async def kill_leader_of_moving(self: Nemesis) -> None:
    """Kill -9 the leader of a partition that moves."""
    partition = await one_that_moves(self)
    if partition is None:
        return
    await self._wait(0.0, 0.3)
    current = self.invariants.store.partitions.get(partition.name)
    if current is not None and current.state.leader in self.cluster.ids:
        await self._down(current.state.leader)


@move_fault
async def controller_dies_between_writes(self: Nemesis) -> None:
    """Kill -9 the controller right after it has written a step of a move: its beginning, its end,
    or that somebody has nothing any more."""
    writes = self.cluster.zookeeper.writes
    seen, steps = len(writes), self.chance.randint(1, 4)
    known = _known_steps(self)
    await begin(self, some(self, list(self.invariants.store.partitions.values())))
    for _ in range(int(STEP_S / 0.001)):
        for _, ops in writes[seen:]:
            steps -= any(_is_step(known, op) for op in ops if isinstance(op, SetData))
        seen = len(writes)
        if steps <= 0:
            controller = self._controller()
            if controller is not None:
                await self._down(controller)
            return
        await asyncio.sleep(0.001)


def _known_steps(self: Nemesis) -> dict[str, tuple[list[int], list[int]]]:
    """Return who moves and who leaves by now, by the path of the state."""
    self.invariants.store.update()
    return {
        state_path(*name): (list(each.state.origin), list(each.state.leaving))
        for name, each in self.invariants.store.partitions.items()
    }


@move_fault
async def lose_reply_of_a_step(self: Nemesis) -> None:
    """A step of a move is written and the controller does not hear so, or it is lost on its way;
    the connection to ZooKeeper breaks."""
    zookeeper, controller = self.cluster.zookeeper, self._controller()
    store = None if controller is None else self.cluster.stores.get(controller)
    if store is None or store.session is None:
        return
    known, steps = _known_steps(self), self.chance.randint(1, 4)

    def matching(ops: list[Op]) -> bool:
        nonlocal steps
        steps -= any(_is_step(known, op) for op in ops if isinstance(op, SetData))
        return steps <= 0

    lose = zookeeper.lose_reply if self.chance.random() < 0.7 else zookeeper.lose_request
    if store.session.session_id in zookeeper.sessions():
        lose(store.session.session_id, matching)
    await begin(self, some(self, list(self.invariants.store.partitions.values())))
    await self._wait(0.5, 3.0)


def _is_step(known: dict[str, tuple[list[int], list[int]]], op: SetData) -> bool:
    """Return whether a write says something else of who moves and who leaves; it is known then."""
    if op.path not in known:
        return False
    state = json.loads(op.data)
    was, known[op.path] = known[op.path], (state.get("origin", []), state.get("leaving", []))
    return was != known[op.path]


@move_fault
async def delete_moving_topic(self: Nemesis) -> None:
    """A topic is deleted while its partitions move, and made again under the same name."""
    name = f"moving-{self.chance.randint(0, 2**40)}"
    process = self.cluster.client_process(f"client-{name}")
    try:
        async with asyncio.timeout(30):
            await process.call(_make(self, name), "a topic is made")
            parts = [TopicPartition(name, index) for index in range(2)]
            await ask(self, [ReassignedPartition(*each, a_target(self)) for each in parts])
            await self._wait(0.0, 0.5)
            await process.call(_delete(self, name), "it is deleted")
            if self.chance.random() < 0.5:
                await process.call(_make(self, name), "it is made again")
                await process.call(_delete(self, name), "it is deleted again")
    except (*EXPECTED, ProcessKilledError):
        pass
    finally:
        process.kill()


def _admin(self: Nemesis, what: str) -> Admin:
    entropy = self.chance.fork(what)
    return Admin(self.cluster.bootstrap, security=self.cluster.security, entropy=entropy)


async def _make(self: Nemesis, topic: str) -> None:
    factor = self.cluster.knobs.replication_factor
    async with _admin(self, f"make {topic}") as admin:
        await admin.create_topics([NewTopic(topic, 2, factor)])


async def _delete(self: Nemesis, topic: str) -> None:
    async with _admin(self, f"delete {topic}") as admin:
        await admin.delete_topics([topic])
