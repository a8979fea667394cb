"""Commands of consumer groups: members come, go, stand still and commit, and what each is given.

A member is a process with a consumer that polls all the time, but for when it is held. Its commits
are commands, so that the scenario says when they happen.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby

from oncelog import Admin, Consumer, Record
from oncelog.errors import MaxPollIntervalExceededError
from oncelog_broker.coordinator.group.group import Group
from oncelog_protocol.consumer_protocol import decode_assignment
from oncelog_protocol.coordinators import GROUP_TOPIC, coordinator_partition
from oncelog_protocol.types import NO_LEADER, TopicPartition
from scenarios.commands_clients import EXPECTED, describe
from scenarios.grammar import CommandError, command
from scenarios.world import World
from simulation.hasty_assignor import HastyAssignor, strategies
from simulation.loop import Process

_ID = re.compile(r"(\w+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A member id: the name that people know the member by, and something unique."""


@dataclass
class Member:
    """It is one member, and what its application was handed."""

    process: Process
    consumer: Consumer
    handed: list[Record] = field(default_factory=list)
    polling: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared, its application is busy with something else than polling."""
    course: asyncio.Task[None] | None = None


@command(
    "member NAME joins WORD reads TOPIC [instance=WORD] [strategy=WORD] [session=TIME] [poll=TIME]"
)
async def member(
    world: World,
    name: str,
    group: str,
    topic: str,
    instance: str | None,
    strategy: str | None,
    session: float | None,
    poll: float | None,
) -> None:
    """Open a consumer in a group. ``session`` and ``poll`` are its time-outs: 2 s and 60 s."""
    if name in world.members:
        raise CommandError(f"{name!r} is a member already")
    process = world.client(f"member-{name}")
    assignors = strategies(strategy or "cooperative-sticky")
    if world.without == "client.hand_over_after_revocation":
        assignors = (HastyAssignor("cooperative-sticky"),)

    async def work() -> Consumer:
        consumer = Consumer(
            topic,
            bootstrap_servers=world.cluster.bootstrap,
            client_id=name,
            group_id=group,
            group_instance_id=instance,
            enable_auto_commit=False,
            session_timeout_ms=int(1000 * (session or 2)),
            heartbeat_interval_ms=200,
            max_poll_interval_ms=int(1000 * (poll or 60)),
            partition_assignment_strategy=assignors,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            request_timeout_ms=3000,
            connect_timeout_ms=500,
            entropy=world.cluster.entropy.fork(process.name),
            history=world.recorder(process, "static" if instance else "consumer"),
        )
        await consumer.start()
        return consumer

    found = Member(process, await process.call(work(), name))
    found.polling.set()
    found.course = world.loop.create_task(_poll(found), name=name)
    world.members[name] = found


async def _poll(found: Member) -> None:
    """Poll as long as its application lives. It ends with its process."""
    with suppress(Exception):  # whoever asks the member next is told
        while True:
            await found.polling.wait()
            try:
                batch = await found.process.call(found.consumer.getmany(timeout_ms=50), "poll")
            except MaxPollIntervalExceededError:
                continue
            for records in batch.values():
                found.handed += records


def _member(world: World, name: str) -> Member:
    if name not in world.members:
        raise CommandError(f"there is no member {name!r}")
    found: Member = world.members[name]
    return found


@command("leave NAME")
async def leave(world: World, name: str) -> None:
    """Close a member's consumer: it leaves its group, unless it is a static one."""
    found = _member(world, name)
    found.polling.clear()
    await asyncio.sleep(0.1)
    await found.process.call(found.consumer.close(), "close")
    crash_member(world, name)


@command("crash NAME")
async def crash(world: World, name: str) -> None:
    """Kill a member's process, as kill -9 does."""
    crash_member(world, name)


def crash_member(world: World, name: str) -> None:
    """It is gone, and its name free."""
    found = world.members.pop(name)
    found.process.kill()
    if found.course is not None:
        found.course.cancel()


@command("hold NAME")
async def hold(world: World, name: str) -> None:
    """A member's application does something else than polling; its heartbeats go on."""
    _member(world, name).polling.clear()
    await asyncio.sleep(0.1)


@command("release NAME")
async def release(world: World, name: str) -> None:
    """It polls again."""
    _member(world, name).polling.set()


@command("freeze NAME")
async def freeze(world: World, name: str) -> None:
    """Stop a member's process as SIGSTOP does: there are no heartbeats either."""
    _member(world, name).process.pause()


@command("thaw NAME")
async def thaw(world: World, name: str) -> None:
    """Let it go on, as SIGCONT does."""
    _member(world, name).process.resume()


@command("handed NAME")
async def handed(world: World, name: str) -> str:
    """Tell what a member's application was handed since this was asked last."""
    found = _member(world, name)
    records, found.handed = found.handed, []
    by_partition: dict[TopicPartition, list[str]] = {}
    for record in records:
        place = TopicPartition(record.topic, record.partition)
        text = f"{(record.value or b'').decode()}@{record.offset}"
        by_partition.setdefault(place, []).append(text)
    lines = [f"{place}: {' '.join(texts)}" for place, texts in sorted(by_partition.items())]
    return "\n".join(lines) or "nothing"


@command("commit NAME")
async def commit(world: World, name: str) -> str:
    """Let a member commit what it was handed; why it cannot, if it cannot."""
    found = _member(world, name)

    async def work() -> str:
        try:
            await found.consumer.commit()
        except EXPECTED as error:
            return f"refused: {describe(error)}"
        return "committed"

    return str(await found.process.call(work(), "commit"))


@command("committed WORD")
async def committed(world: World, group: str) -> str:
    """Tell the committed offsets of a group, as anybody is told who asks."""

    async def work(process: Process) -> str:
        entropy = world.cluster.entropy.fork(process.name)
        async with Admin(world.cluster.bootstrap, entropy=entropy) as admin:
            offsets = await admin.list_group_offsets(group)
        known = {name: told.offset for name, told in sorted(offsets.items()) if told is not None}
        return " ".join(f"{name}={offset}" for name, offset in known.items())

    try:
        return await world.as_client(work) or "nothing"
    except EXPECTED as error:
        return describe(error)


# ---- looking


@command("group WORD")
async def show_group(world: World, group: str) -> str:
    """Show a group as its coordinator knows it, and what each member has of it."""
    found = _group(world, group)
    if found is None:
        return "nobody knows it"
    head = f"{found.state.value}; generation {found.generation}"
    if found.members:
        head += f"; {found.protocol_name}; led by {_name(found.leader or '')}"
    lines = [head]
    for each in sorted(found.members.values(), key=lambda one: one.member_id):
        partitions = decode_assignment(each.assignment).partitions
        lines.append(f"{_name(each.member_id)}: {' '.join(map(str, partitions)) or 'nothing'}")
    return "\n".join(lines)


@command("story WORD")
async def story(world: World, group: str) -> str:
    """Tell what members were given and gave up since this was asked last, in their own words. What
    several hear of one generation goes out at once: it is told in the order of their names."""
    events = world.events[world.told_events :]
    world.told_events = len(world.events)
    verbs = {"assigned": "gets", "revoked": "gives up", "lost": "has lost"}
    told = [event for event in events if event.group == group and event.f in verbs]
    lines = [
        f"generation {event.generation}: {_name(event.member)} {verbs[event.f]}"
        f" {' '.join(f'{mop.topic}-{mop.partition}' for mop in event.mops) or 'nothing new'}"
        for _, alike in groupby(told, lambda event: (event.generation, event.f))
        for event in sorted(alike, key=lambda event: _name(event.member))
    ]
    return "\n".join(lines) or "nothing"


def _name(member_id: str) -> str:
    return _ID.sub(r"\1", member_id)


def _coordinator(world: World, group: str) -> int | None:
    """Return the broker that leads the group's partition, by the store."""
    world.invariants.store.update()
    partitions = world.invariants.store.partitions
    count = sum(name.topic == GROUP_TOPIC for name in partitions)
    if not count:
        return None
    name = TopicPartition(GROUP_TOPIC, coordinator_partition(group, count))
    leader = partitions[name].state.leader
    return None if leader == NO_LEADER else leader


def _group(world: World, group: str) -> Group | None:
    """Return it as its coordinator knows it, once it has loaded it."""
    broker = world.cluster.brokers.get(_coordinator(world, group) or 0)
    if broker is None or broker.coordination.engine.refusal(group):
        return None
    found = broker.coordination.engine.all_shards(lambda shard: shard.groups.get(group))
    return next((each for each in found if each is not None), None)


@command("wait group WORD is WORD [members=COUNT] [within=TIME]")
async def wait_group(
    world: World, group: str, state: str, members: int | None, within: float | None
) -> None:
    """Wait until the coordinator says so, and each member that polls has taken notice."""

    def holds() -> bool:
        found = _group(world, group)
        if found is None or found.state.value != state:
            return False
        return members is None or len(found.members) == members

    what = f"group {group}: {state}" + ("" if members is None else f" with {members} members")
    await world.until(holds, what, within)
    await asyncio.sleep(0.3)
    await world.until(holds, what, within)


@command("kill-coordinator WORD")
async def kill_coordinator(world: World, group: str) -> None:
    """Kill the broker that coordinates a group, as kill -9 does."""
    broker_id = _coordinator(world, group)
    if broker_id is None:
        raise CommandError(f"nobody coordinates {group}")
    world.killed_coordinator = broker_id
    world.cluster.crash_broker(broker_id)


@command("start-coordinator")
async def start_coordinator(world: World) -> None:
    """Start the broker again that ``kill-coordinator`` has killed."""
    broker_id = world.killed_coordinator
    world.cluster.start_broker(broker_id)
    await world.until(lambda: broker_id in world.cluster.serving, "the broker serving", None)


@command("shadows")
async def shadows(world: World) -> str:
    """Count the coordinators that had read their partitions before they led, and those who forgot
    what they had read."""
    counts = world.coverage.counts
    return f"adopted {counts['shadow_adopted']}, thrown away {counts['shadow_thrown_away']}"


@command("wait coordinator WORD is WORD [within=TIME]")
async def wait_coordinator(world: World, group: str, who: str, within: float | None) -> None:
    """Wait until another broker than before coordinates a group and has loaded it ("another")."""
    if who != "another":
        raise CommandError('only "wait coordinator GROUP is another" can be said')

    def moved() -> bool:
        now = _coordinator(world, group)
        return now not in (None, world.killed_coordinator) and _group(world, group) is not None

    await world.until(moved, f"another coordinator of {group}", within)
