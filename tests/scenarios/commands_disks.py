"""These commands take room away from disks, and let bits of them flip."""

from __future__ import annotations

from oncelog_protocol.types import TopicPartition
from scenarios.grammar import CommandError, command
from scenarios.world import World


@command("fill BROKER")
async def fill(world: World, broker_id: int) -> None:
    """Leave no room on the disks of a broker, until there is some by ``make-room``."""
    world.running(broker_id)
    world.broken_up = True
    world.cluster.disks[broker_id].set_free_bytes(0)


@command("make-room BROKER")
async def make_room(world: World, broker_id: int) -> None:
    """Give the disks of a broker their room back."""
    world.broken_up = False
    world.cluster.disks[broker_id].heal()


@command("rot BROKER PARTITION OFFSET")
async def rot(world: World, broker_id: int, partition: TopicPartition, offset: int) -> None:
    """Flip a bit of the batch that has an offset, in the log of one replica. Nobody is told."""
    view = world.log_of(broker_id, partition)
    batch = None if view is None else view.at(offset)
    if view is None or batch is None:
        raise CommandError(f"broker {broker_id} has no record {offset} of {partition}")
    path, position = view._place(view.index(batch))
    was = view.bytes_on_disk(view.index(batch))
    world.cluster.disks[broker_id].corrupt(path, position + len(was) - 1, 1)
    now = was[:-1] + bytes([was[-1] ^ 1])
    world.invariants.note_rot(broker_id, partition, path, position, was, now)
