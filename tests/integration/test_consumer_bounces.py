"""Groups of consumer processes, bounced in every way: nothing is lost, no partition has two owners,
and what was committed is not read again.

After kafkatest's consumer_test (OffsetValidationTest): rolling and total bounces, clean and hard,
of dynamic and of static members. Whatever is done, the same judgement follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from integration.groups import Group, Member, moves_of
from integration.member import EXIT_FENCED
from integration.processes import Processes
from integration.workload import Workload
from oncelog import Consumer
from simulation.history import Key

pytestmark = pytest.mark.integration

TOPIC = "bounced"
PARTITIONS = 6
MEMBERS = 3
SHORT_SESSION_MS = 1_500
"""A test waits for a dead member's session to end."""
LONG_SESSION_MS = 30_000
"""No session may end, however slow the machine is."""
RATE = 150
"""Records a second: many processes share few cores here."""
RECORDS = 40
"""How many are read between two strikes."""


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running, with a fresh topic."""
    await processes.create_topic(TOPIC, PARTITIONS)
    yield processes
    await processes.delete_topic(TOPIC)


def group_of(cluster: Processes, directory: Path, **options: object) -> Group:
    return Group(directory, cluster.bootstrap, TOPIC, PARTITIONS, **options)


async def ends_of(cluster: Processes) -> dict[Key, int]:
    """Return where every partition ends."""
    async with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        ends = await consumer.end_offsets(await consumer.partitions_for(TOPIC))
    return {(tp.topic, tp.partition): end for tp, end in ends.items()}


async def settle(cluster: Processes, group: Group, load: Workload, *, once: bool) -> None:
    """The workload is over: the group reads the rest, closes, and is judged."""
    ends = await ends_of(cluster)
    await group.wait_all_polled(ends)
    for member in group.living:
        assert await member.stop() == 0
    group.judge(load.events, once=once)


def successor(group: Group, member: Member) -> Member:
    """Start the next life of a member, under the same instance id if it has one."""
    name, _, life = member.name.rpartition(".")
    return group.start(f"{name}.{int(life) + 1}", member.options.instance)


async def clean(member: Member) -> None:
    assert await member.stop() == 0


async def hard(member: Member) -> None:
    member.kill()


Bounce = Callable[[Member], Awaitable[None]]


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("bounce", [clean, hard], ids=lambda bounce: bounce.__name__)
async def test_rolling_bounce(
    cluster: Processes, tmp_path: Path, bounce: Bounce, static: bool
) -> None:
    session_ms = LONG_SESSION_MS if static or bounce is clean else SHORT_SESSION_MS
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        group_of(cluster, tmp_path, session_timeout_ms=session_ms) as group,
    ):
        for member in await group.start_all(MEMBERS, static=static):
            await group.wait_polled(RECORDS)
            before = {other.name: len(moves_of(other.events())) for other in group.living}
            await bounce(member)
            successor(group, member)
            await group.wait_shared()
            if static:
                others = [other for other in group.living if other.name in before]
                moved = [o.name for o in others if len(moves_of(o.events())) > before[o.name]]
                assert not moved, "a static member came back in time: nothing is taken from others"
        await load.stop()
        await settle(cluster, group, load, once=bounce is clean)


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("bounce", [clean, hard], ids=lambda bounce: bounce.__name__)
async def test_total_bounce(
    cluster: Processes, tmp_path: Path, bounce: Bounce, static: bool
) -> None:
    session_ms = LONG_SESSION_MS if static or bounce is clean else SHORT_SESSION_MS
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        group_of(cluster, tmp_path, session_timeout_ms=session_ms) as group,
    ):
        members = await group.start_all(MEMBERS, static=static)
        await group.wait_polled(RECORDS)
        generation = await cluster.generation(group.id)
        had = [member.owned() for member in members]
        await asyncio.gather(*(bounce(member) for member in members))
        heirs = [successor(group, member) for member in members]
        await group.wait_shared()
        if static:
            assert [heir.owned() for heir in heirs] == had
            assert await cluster.generation(group.id) == generation
        await group.wait_polled(RECORDS)
        await load.stop()
        await settle(cluster, group, load, once=bounce is clean)


async def test_a_second_process_under_an_instance_id_ends_the_first(
    cluster: Processes, tmp_path: Path
) -> None:
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        group_of(cluster, tmp_path, session_timeout_ms=LONG_SESSION_MS) as group,
    ):
        members = await group.start_all(MEMBERS, static=True)
        await group.wait_polled(RECORDS)
        second = successor(group, members[0])
        assert await members[0].ended() == EXIT_FENCED
        await group.wait_shared()
        assert second.owned()
        await group.wait_polled(RECORDS)
        await load.stop()
        await settle(cluster, group, load, once=False)


async def test_a_crash_while_committing(cluster: Processes, tmp_path: Path) -> None:
    """The commit may have been made or not; either way everything is read."""
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        group_of(cluster, tmp_path, session_timeout_ms=SHORT_SESSION_MS, commits="each") as group,
    ):
        await group.start_all(1)
        for life in range(2):
            doomed = group.start(f"doomed.{life}", crash_in_commit_after=RECORDS)
            assert await doomed.ended() == -9
            doomed.note_death()
            await group.wait_shared()
        await load.stop()
        await settle(cluster, group, load, once=False)


async def test_eager_members_share_and_lose_nothing(cluster: Processes, tmp_path: Path) -> None:
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        group_of(
            cluster, tmp_path, session_timeout_ms=LONG_SESSION_MS, strategies=["range"]
        ) as group,
    ):
        members = await group.start_all(2)
        await group.wait_polled(RECORDS)
        group.start("late.1")
        await group.wait_shared()
        await members[0].stop()
        await group.wait_shared()
        await group.wait_polled(RECORDS)
        await load.stop()
        await settle(cluster, group, load, once=True)
