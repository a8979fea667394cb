"""These commands break what is between brokers: the network, the store, the evidence; and time."""

from __future__ import annotations

import asyncio

from oncelog_controller.store import Op
from scenarios.grammar import CommandError, command
from scenarios.world import World
from simulation.cluster import DATA


@command("advance TIME")
async def advance(world: World, seconds: float) -> None:
    """Let time pass."""
    world.cluster  # noqa: B018  nothing can happen before there is a cluster
    await asyncio.sleep(seconds)


@command("cut BROKER from BROKERS")
async def cut(world: World, broker_id: int, others: list[int]) -> None:
    """Let nothing through between a broker and others: connections break, new ones find silence.
    Nobody is refused, so it is no evidence of a death."""
    world.broken_up = True
    network, host = world.cluster.network, world.cluster.host
    network.part([host(broker_id)], [host(other) for other in others])
    for other in others:
        network.reset(host(broker_id), host(other))


@command("heal")
async def heal(world: World) -> None:
    """Take back every cut, every false suspicion, and what delays watches and disks. A sync that
    is under way takes its time."""
    cluster = world.cluster
    cluster.hangs.clear()
    world.broken_up = False
    cluster.network.heal(reset_chance=0.0)
    cluster.zookeeper.delay = cluster._zookeeper_delay
    for broker_id in cluster.stores:
        cluster.join_zookeeper(broker_id)


@command("suspect BROKER")
async def suspect(world: World, broker_id: int) -> None:
    """Let a live broker look dead to all others: its connections break, new ones are refused, until
    the command ``heal``."""
    world.broken_up = True
    network, target = world.cluster.network, world.cluster.host(broker_id)
    for other in world.cluster.ids:
        if other != broker_id:
            network.wire(world.cluster.host(other), target).refused = True
            network.reset(world.cluster.host(other), target)


@command("shun BROKER")
async def shun(world: World, broker_id: int) -> None:
    """Let all others look dead to one broker, which they reach, until the command ``heal``: the
    mirror of ``suspect``."""
    world.broken_up = True
    network, source = world.cluster.network, world.cluster.host(broker_id)
    for other in world.cluster.ids:
        if other != broker_id:
            network.wire(source, world.cluster.host(other)).refused = True
            network.reset(source, world.cluster.host(other))


@command("stall BROKERS TIME")
async def stall(world: World, brokers: list[int], seconds: float) -> None:
    """Slow the disks of brokers down until the command ``heal``: what they are asked to sync takes
    so much longer."""
    for broker_id in brokers:
        world.running(broker_id)
        for number in range(world.cluster.knobs.log_dirs):
            world.cluster.hangs[broker_id, f"{DATA}/{number}"] = seconds


@command("clear BROKER")
async def clear(world: World, broker_id: int) -> None:
    """End the suspicion of one broker."""
    target = world.cluster.host(broker_id)
    for other in world.cluster.ids:
        world.cluster.network.wire(world.cluster.host(other), target).refused = False


# ---- ZooKeeper


@command("zookeeper stop|start")
async def zookeeper(world: World, what: str) -> None:
    """Take the whole store away, or bring it back."""
    server, process = world.cluster.zookeeper, world.cluster.zookeeper_process
    world.broken_up = what == "stop"
    process.run(server.stop if what == "stop" else server.start)


@command("expire BROKER")
async def expire(world: World, broker_id: int) -> None:
    """End a broker's session with the store as if its time had passed."""
    world.session_of(broker_id)
    world.cluster.expire(broker_id)


@command("slow-store BROKER asks|watches TIME")
async def slow_store(world: World, broker_id: int, what: str, seconds: float) -> None:
    """Slow the store down for one broker until the command ``heal``: what it asks takes so long to
    get there; or what it is told of changes takes so long, and all answers wait behind that."""
    world.broken_up = True
    session, usual = world.session_of(broker_id), world.cluster._zookeeper_delay
    slow = "request" if what == "asks" else "watch"

    def delay(kind: str, session_id: int) -> float:
        return seconds if (kind, session_id) == (slow, session) else usual(kind, session_id)

    world.cluster.zookeeper.delay = delay


@command("lose-reply BROKER PATH")
async def lose_reply(world: World, broker_id: int, path: str) -> None:
    """The broker's next write to that path, or below it, is applied; it will not hear so."""
    world.cluster.zookeeper.lose_reply(world.session_of(broker_id), lambda ops: _touches(ops, path))


@command("kill-at-write BROKER PATH applied|lost")
async def kill_at_write(world: World, broker_id: int, path: str, what: str) -> None:
    """Kill a broker in the middle of its next write to that path, or below it: when the store has
    applied it, or before the store has it."""
    if not path.startswith("/"):
        raise CommandError(f"{path!r} is not a path")
    cluster, session = world.cluster, world.session_of(broker_id)
    if what == "applied":

        def applied(writer: int, ops: list[Op]) -> None:
            if writer == session and _touches(ops, path):
                world.on_write.remove(applied)
                cluster.loop.root.post(cluster.crash_broker, broker_id)

        world.on_write.append(applied)
        return

    def asked(ops: list[Op]) -> bool:
        if not _touches(ops, path):
            return False
        cluster.loop.root.post(cluster.crash_broker, broker_id)
        return True

    cluster.zookeeper.lose_request(session, asked)


def _touches(ops: list[Op], path: str) -> bool:
    return any(op.path == path or op.path.startswith(f"{path}/") for op in ops)
