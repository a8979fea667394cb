"""These commands move partitions and take brokers out of service, and look what became of it."""

from __future__ import annotations

import json

from oncelog import Admin
from oncelog_controller import znodes
from oncelog_protocol.types import TopicPartition
from scenarios.commands_clients import administer
from scenarios.grammar import command
from scenarios.world import World
from simulation.store_view import StoreState
from support.room_settings import replica_settings


@command("move PARTITION to BROKERS [expected=BROKERS]")
async def move(
    world: World, partition: TopicPartition, target: list[int], expected: list[int] | None
) -> str | None:
    """Have a partition moved to brokers, the preferred leader first. A partition that moves already
    gets another end. With ``expected`` only if it has these replicas now."""
    wanted = None if expected is None else {partition: expected}
    return await administer(
        world,
        lambda admin: admin.alter_partition_reassignments(
            {partition: target}, expected=wanted, allow_replication_factor_change=True
        ),
    )


@command("cancel PARTITION [how=now]")
async def cancel(world: World, partition: TopicPartition, how: str | None) -> str | None:
    """Turn a move back; ``how=now`` gives up what only the added replicas hold."""
    return await administer(
        world,
        lambda admin: admin.alter_partition_reassignments({partition: None}, now=how is not None),
    )


@command("placement PARTITION")
async def placement(world: World, partition: TopicPartition) -> str:
    """Tell which replicas a partition has by the store, where it moves, and who has to delete."""
    stored = world.stored(partition)
    state = stored.state
    parts = [f"replicas {_ids(stored.replicas)}"]
    if state.origin:
        parts.append(f"from {_ids(state.origin)} to {_ids(state.target)}")
    if state.leaving:
        parts.append(f"leaving {_ids(state.leaving)}")
    return "; ".join(parts)


@command("wait moved PARTITION [within=TIME]")
async def wait_moved(world: World, partition: TopicPartition, within: float | None) -> None:
    """Wait until a partition moves no more, and everybody has deleted what has to go."""

    def rests() -> bool:
        state = world.stored(partition).state
        return not state.origin and not state.leaving and not _plans(world)

    await world.until(rests, f"{partition} moved", within)


@command("wait begun PARTITION [within=TIME]")
async def wait_begun(world: World, partition: TopicPartition, within: float | None) -> None:
    """Wait until a move has begun."""
    await world.until(lambda: _moves(world, partition), f"a move of {partition}", within)


@command("wait replicas PARTITION are BROKERS [within=TIME]")
async def wait_replicas(
    world: World, partition: TopicPartition, replicas: list[int], within: float | None
) -> None:
    """Wait until a partition has these replicas, in their order, and moves no more. Others may
    still have to delete what they have."""

    def rests() -> bool:
        stored = world.stored(partition)
        return list(stored.replicas) == replicas and not stored.state.origin

    await world.until(rests, f"{partition} on {_ids(tuple(replicas))}", within)


@command("plans")
async def plans(world: World) -> str:
    """Count the plans of moves in the store."""
    return str(len(_plans(world)))


@command("moves")
async def moves(world: World) -> str:
    """Tell what the controller says of everything that moves: how far it is, and what holds it
    up."""
    found: list[str] = []

    async def look(admin: Admin) -> None:
        listed = await admin.list_partition_reassignments()
        for each in sorted(listed.partitions, key=lambda each: each.partition):
            reason = f": {each.reason}" if each.reason else ""
            found.append(f"{each.partition} {each.phase}{reason}")

    told = await administer(world, look)
    return told or "\n".join(found) or "nothing moves"


@command("slow-lane COUNT")
async def slow_lane(world: World, bytes_per_second: int) -> None:
    """Let replicas that are not in sync get so few bytes a second, however little they lack; 0 is
    as usual."""
    usual = replica_settings().replica_near_bytes
    for broker in world.cluster.brokers.values():
        config = broker.live.replicas
        config.replica_catch_up_max_bytes_per_second = bytes_per_second
        config.replica_near_bytes = 1 if bytes_per_second else usual


@command("drain BROKER")
async def drain(world: World, broker_id: int) -> str | None:
    """Have a broker give its leaderships away."""
    return await administer(world, lambda a: a.alter_broker_states(broker_id, "draining"))


@command("decommission BROKER")
async def decommission(world: World, broker_id: int) -> str | None:
    """Take a broker out of service for good."""
    return await administer(world, lambda a: a.alter_broker_states(broker_id, "decommissioning"))


@command("recommission BROKER")
async def recommission(world: World, broker_id: int) -> str | None:
    """Take a broker back into service."""
    return await administer(world, lambda a: a.alter_broker_states(broker_id, "active"))


@command("wait service BROKER is WORD [within=TIME]")
async def wait_service(world: World, broker_id: int, state: str, within: float | None) -> None:
    """Wait until the store says of a broker what its service is."""
    await world.until(
        lambda: _service(world, broker_id) == state, f"broker {broker_id} {state}", within
    )


def _service(world: World, broker_id: int) -> str:
    data = world.cluster.zookeeper.data(znodes.broker_state_path(broker_id))
    return "active" if data is None else str(json.loads(data)["state"])


def _moves(world: World, partition: TopicPartition) -> bool:
    state: StoreState = world.stored(partition).state
    return bool(state.origin)


def _plans(world: World) -> list[str]:
    return list(world.cluster.zookeeper.tree(znodes.MOVES))


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
