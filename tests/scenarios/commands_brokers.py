"""These commands begin and end brokers, and change their disks."""

from __future__ import annotations

from scenarios.grammar import CommandError, command
from scenarios.world import World
from simulation.loop import Process


@command("cluster NAME=VALUE...")
async def cluster(world: World, settings: dict[str, str]) -> None:
    """Start a cluster. Settings are those of ``simulation.knobs`` and of brokers, and
    ``controller=N``: who starts first, and so becomes controller."""
    await world.start(dict(settings))


@command("kill BROKERS")
async def kill(world: World, brokers: list[int]) -> None:
    """Kill as kill -9 does: the disk keeps everything, the host refuses connections from now on."""
    for broker_id in brokers:
        world.running(broker_id)
    for broker_id in brokers:
        world.cluster.crash_broker(broker_id)


@command("power BROKERS [keep=none|all]")
async def power(world: World, brokers: list[int], keep: str | None) -> None:
    """Pull the plug: the host is silent from now on; the disk keeps nothing unsynced, or all."""
    for broker_id in brokers:
        world.running(broker_id)
    for broker_id in brokers:
        kept = "all" if keep == "all" else "none"
        world.cluster.crash_broker(broker_id, power=True, keep=kept)  # type: ignore[arg-type]


@command("wipe BROKER")
async def wipe(world: World, broker_id: int) -> None:
    """Give a new, empty disk to a broker that is down."""
    if broker_id in world.cluster.brokers:
        raise CommandError(f"broker {broker_id} runs")
    world.cluster.wipe_disks(broker_id)


@command("replace-disk BROKER COUNT")
async def replace_disk(world: World, broker_id: int, number: int) -> None:
    """Put a new, empty disk in the place of one of several of a broker that is down."""
    if broker_id in world.cluster.brokers:
        raise CommandError(f"broker {broker_id} runs")
    for name in world.cluster.replace_disk(broker_id, number):
        world.invariants.note_damage(broker_id, name)


@command("start BROKERS")
async def start(world: World, brokers: list[int]) -> None:
    """Start brokers at once, and wait until they serve."""
    for broker_id in brokers:
        if broker_id in world.cluster.brokers:
            raise CommandError(f"broker {broker_id} runs already")
        world.cluster.start_broker(broker_id)
    for broker_id in brokers:
        await _serving(world, broker_id)


@command("stop BROKER")
async def stop(world: World, broker_id: int) -> None:
    """Send SIGTERM, so to say: a controlled shutdown goes to its end."""
    world.running(broker_id)
    await world.cluster.stop_broker(broker_id)


@command("pause BROKER [session=lives|ages]")
async def pause(world: World, broker_id: int, session: str | None) -> None:
    """Stop the process as SIGSTOP does. Its session with the store ages meanwhile, unless the pause
    is to be a short one of which the store hears nothing (``session=lives``)."""
    world.running(broker_id)
    world.broken_up = True
    if session == "lives":
        _process(world, broker_id).pause()
    else:
        world.cluster.pause_broker(broker_id)


@command("resume BROKER")
async def resume(world: World, broker_id: int) -> None:
    """Let the process go on, as SIGCONT does."""
    world.broken_up = False
    world.cluster.resume_broker(broker_id)


def _process(world: World, broker_id: int) -> Process:
    process = world.cluster.process(broker_id)
    assert process is not None
    return process


async def _serving(world: World, broker_id: int) -> None:
    cluster = world.cluster
    await world.until(lambda: broker_id in cluster.serving, f"broker {broker_id} serving", None)
