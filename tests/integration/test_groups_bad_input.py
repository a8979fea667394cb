"""Groups get bad input at a broker that serves a canary meanwhile.

Each case is a row: its name, what is sent, and the code that comes back; or the connection
ends. The broker's memory stays bounded, and the canary's group does not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from integration.group_peer import Canary, Peer, join, resident_mb, sync
from oncelog import Admin, NewTopic
from oncelog_cli.local.cluster import LocalCluster
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    MemberAssignment,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from support.server import RawPeer, frame, request_head

# One loop for the module: the canary sings through all of it.
pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

TOPIC = "canary"
GROUP = "victim"
MEMBERS_MAX = 20
GROWTH_MB_MAX = 160
"""How much memory a flood may cost: the requests of one connection that are worked on at once, and
what the allocator keeps."""

FLOOD = 20_000
GROUPS = 15_000
MANY = 50_000
MIB = 1024 * 1024
INT64_MAX = 2**63 - 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker and a ZooKeeper are running."""
    settings = {
        "group_initial_rebalance_delay_ms": 0,
        "group_max_size": MEMBERS_MAX,
        "offsets_topic_num_partitions": 3,
    }
    cluster = LocalCluster(tmp_path_factory.mktemp("bad-input"), brokers=1, settings=settings)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def singing(broker: LocalCluster) -> AsyncIterator[Canary]:
    """The whole module has one canary."""
    async with Admin(broker.bootstrap) as admin:
        (await admin.create_topics([NewTopic(TOPIC, 2, 1)])).raise_for_errors()
    async with Canary(broker.bootstrap, TOPIC) as canary:
        yield canary


@pytest_asyncio.fixture(loop_scope="module")
async def canary(singing: Canary) -> AsyncIterator[Canary]:
    """It must still sing when the test is over."""
    yield singing
    await singing.still_sings()


@pytest_asyncio.fixture(loop_scope="module")
async def peer(broker: LocalCluster, canary: Canary) -> AsyncIterator[Peer]:
    """Each test has a connection of its own."""
    async with Peer(broker.broker(1).port) as connected:
        await connected.ready(GROUP)
        yield connected


@pytest_asyncio.fixture(loop_scope="module")
async def victim(broker: LocalCluster, canary: Canary) -> AsyncIterator[JoinGroupResponse]:
    """It is the one member of the group; it must be there, in the same generation, afterwards."""
    async with Peer(broker.broker(1).port) as own:
        await own.ready(GROUP)
        joined = await own.become_member(GROUP)
        yield joined
        assert await alive(own, joined) == 0
        await own.ask(LeaveGroupRequest(GROUP, [LeavingMember(joined.member_id)]))


async def alive(peer: Peer, joined: JoinGroupResponse) -> int:
    """Return what a heartbeat says."""
    code: int = (
        await peer.ask(HeartbeatRequest(GROUP, joined.generation_id, joined.member_id, None))
    ).error_code
    return code


def pid_of(broker: LocalCluster) -> int:
    pid = broker.broker(1).pid
    assert pid is not None
    return pid


def by_name(rows: list[tuple[Any, ...]]) -> Any:
    """Return the rows of a table as parameters, named by their first column."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


# ------------------------------------------------------------------------------ joining

JOINS: list[tuple[str, JoinGroupRequest, set[int]]] = [
    ("no group", join(""), {24}),
    ("session timeout 0", join(GROUP, session_ms=0), {26}),
    ("session timeout 10^9", join(GROUP, session_ms=10**9), {26}),
    ("session timeout negative", join(GROUP, session_ms=-(2**31)), {26}),
    ("rebalance timeout negative", join(GROUP, rebalance_ms=-1, protocols=[]), {23, 42}),
    ("no protocols", join(GROUP, protocols=[]), {23}),
    ("no protocol type", join(GROUP, protocol_type=""), {23}),
    ("unknown member", join(GROUP, member="nobody"), {25}),
    ("unknown member of an instance", join(GROUP, member="nobody", instance="i"), {25, 82}),
    ("another protocol type", join(GROUP, protocol_type="connect"), {23}),
    ("no assignor in common", join(GROUP, protocols=[("mine", b"")]), {23}),
]


@pytest.mark.parametrize(("request_", "codes"), by_name(JOINS))
async def test_joins_that_are_refused(
    peer: Peer, victim: JoinGroupResponse, request_: JoinGroupRequest, codes: set[int]
) -> None:
    assert (await peer.join(request_)).error_code in codes


FRAMES: list[tuple[str, int, list[Any]]] = [
    (
        "85 metadata of 10 MiB",
        ApiKey.JOIN_GROUP,
        [GROUP, 30_000, 2_000, "", None, "consumer", [["range", b"x" * 10 * MIB]], None],
    ),
    (
        "85 metadata of 2 MiB",
        ApiKey.JOIN_GROUP,
        [GROUP, 30_000, 2_000, "", None, "consumer", [["range", b"x" * 2 * MIB]], None],
    ),
    (
        "85 a group's name of 64 KiB",
        ApiKey.JOIN_GROUP,
        ["g" * 65536, 30_000, 2_000, "", None, "consumer", [["range", b""]], None],
    ),
    ("85 a session timeout of 2^31", ApiKey.JOIN_GROUP, [GROUP, 2**31, 0, "", None, "", [], None]),
    (
        "83 partitions above the limit",
        ApiKey.OFFSET_FETCH,
        [GROUP, [["t", [0] * 100_001]], True, "", -1],
    ),
    (
        "87 an offset of 2^63",
        ApiKey.OFFSET_COMMIT,
        [GROUP, -1, "", None, [["t", [[0, 2**63, -1, None]]]]],
    ),
    ("groups that are no names", ApiKey.DESCRIBE_GROUPS, [[1, 2, 3], True]),
]


@pytest.mark.parametrize(("key", "body"), by_name(FRAMES))
async def test_frames_that_end_the_connection(
    broker: LocalCluster, victim: JoinGroupResponse, key: int, body: list[Any]
) -> None:
    raw = await RawPeer.connect(("127.0.0.1", broker.broker(1).port), hello=True)
    raw.send(frame(request_head(key, body)))
    assert await raw.closed_within(5)
    await raw.close()


async def test_a_flood_of_members(broker: LocalCluster, peer: Peer, canary: Canary) -> None:
    """Members take an id and are never seen again: they count, and so there is an end."""
    before = resident_mb(pid_of(broker))
    codes: dict[int, int] = {}
    for _ in range(FLOOD // 500):
        for answer in await peer.ask_all(join("flooded") for _ in range(500)):
            codes[answer.error_code] = codes.get(answer.error_code, 0) + 1
    assert codes == {79: MEMBERS_MAX, 81: FLOOD - MEMBERS_MAX}
    assert resident_mb(pid_of(broker)) - before < GROWTH_MB_MAX
    await canary.still_sings()


async def test_a_flood_of_groups(broker: LocalCluster, peer: Peer, canary: Canary) -> None:
    """Groups that an id was handed out in and nobody joins: a broker keeps so many and no more,
    and groups that somebody has joined are not among them."""
    before = resident_mb(pid_of(broker))
    codes: dict[int, int] = {}
    for first in range(0, GROUPS, 500):
        names = [f"flood-{number}" for number in range(first, first + 500)]
        for answer in await peer.ask_all(join(name, session_ms=1_000) for name in names):
            codes[answer.error_code] = codes.get(answer.error_code, 0) + 1
    assert set(codes) <= {79, 15}
    assert resident_mb(pid_of(broker)) - before < GROWTH_MB_MAX
    joined = await peer.become_member("joined-in-the-flood")
    await peer.ask(LeaveGroupRequest("joined-in-the-flood", [LeavingMember(joined.member_id)]))
    await canary.still_sings()


async def test_metadata_of_a_whole_group(broker: LocalCluster, canary: Canary) -> None:
    """All members send as much of it as they may: the leader's answer would not fit a frame."""
    before = resident_mb(pid_of(broker))
    port = broker.broker(1).port
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(Peer(port)) for _ in range(MEMBERS_MAX)]
        await peers[0].ready("heavy")
        heavy = [("range", b"x" * MIB)]
        joining = [
            asyncio.create_task(peer.join(join("heavy", protocols=heavy, rebalance_ms=3_000)))
            for peer in peers
        ]
        answers = await asyncio.gather(*joining, return_exceptions=True)
        await canary.still_sings()
    refused = [a for a in answers if isinstance(a, JoinGroupResponse) and a.error_code]
    assert refused, "some must be told that it is too much"
    assert all(isinstance(answer, JoinGroupResponse) for answer in answers), answers
    assert resident_mb(pid_of(broker)) - before < GROWTH_MB_MAX


# ------------------------------------------------------------------------------ syncing

SYNCS: list[tuple[str, dict[str, Any], set[int]]] = [
    ("wrong generation", {"generation_id": 1000}, {22}),
    ("generation -1", {"generation_id": -1}, {22}),
    ("unknown member", {"member_id": "nobody"}, {25}),
    ("an instance that is not its own", {"group_instance_id": "i"}, {25, 82}),
    ("another protocol", {"protocol_name": "mine"}, {23}),
    ("another protocol type", {"protocol_type": "connect"}, {23}),
    ("no group", {"group_id": ""}, {24}),
    ("another group", {"group_id": "no-such-group"}, {25}),
]


@pytest.mark.parametrize(("changes", "codes"), by_name(SYNCS))
async def test_syncs_that_are_refused(
    peer: Peer, victim: JoinGroupResponse, changes: dict[str, Any], codes: set[int]
) -> None:
    answer = await peer.ask(sync(GROUP, victim, **changes))
    assert answer.error_code in codes


async def test_assignments_that_do_not_fit_a_record(peer: Peer, canary: Canary) -> None:
    """The group is told, and can begin again."""
    joined = await peer.join(join("large"))
    everybody = [MemberAssignment(joined.member_id, b"x" * MIB)] * 6
    answer = await peer.ask(sync("large", joined, assignments=everybody))
    assert answer.error_code
    again = await peer.join(join("large", member=joined.member_id))
    if again.error_code == 25:  # it was thrown out
        again = await peer.join(join("large"))
    assert again.error_code == 0
    assert (await peer.ask(sync("large", again))).error_code == 0


async def test_assignments_for_members_that_are_not(peer: Peer, canary: Canary) -> None:
    joined = await peer.join(join("strange"))
    strangers = [MemberAssignment(f"stranger-{n}", b"") for n in range(50_000)]
    assert (await peer.ask(sync("strange", joined, assignments=strangers))).error_code in (0, 42)
    described = (await peer.ask(DescribeGroupsRequest(["strange"]))).groups[0]
    assert [member.member_id for member in described.members] == [joined.member_id]


# ------------------------------------------------------------------------------ committing


def commit(
    victim: JoinGroupResponse, *partitions: OffsetCommitPartition, **changes: Any
) -> OffsetCommitRequest:
    """Return a commit of the member's, well-formed unless told otherwise."""
    topics = [OffsetCommitTopic(TOPIC, list(partitions or [OffsetCommitPartition(0, 5)]))]
    request = OffsetCommitRequest(GROUP, victim.generation_id, victim.member_id, None, topics)
    for name, value in changes.items():
        setattr(request, name, value)
    return request


COMMITS: list[tuple[str, dict[str, Any], set[int]]] = [
    ("generation to come", {"generation_id": 1000}, {22}),
    ("generation gone by", {"generation_id": 0}, {22}),
    ("generation -1 with a member", {"generation_id": -1}, {22, 25}),
    ("unknown member", {"member_id": "nobody"}, {25}),
    ("no member, though the group has some", {"member_id": "", "generation_id": -1}, {22, 25}),
    ("an instance that is not its own", {"group_instance_id": "i"}, {25, 82}),
    ("no group", {"group_id": ""}, {24}),
    ("a member of another group", {"group_id": "no-such-group"}, {22, 25}),
]


@pytest.mark.parametrize(("changes", "codes"), by_name(COMMITS))
async def test_commits_that_are_refused(
    peer: Peer, victim: JoinGroupResponse, changes: dict[str, Any], codes: set[int]
) -> None:
    asked = OffsetFetchRequest(GROUP, [OffsetFetchTopic(TOPIC, [0])])
    before = await peer.ask(asked)
    answer = await peer.ask(commit(victim, OffsetCommitPartition(0, 777), **changes))
    assert answer.error_code in codes
    assert await peer.ask(asked) == before


PARTITIONS: list[tuple[str, str, OffsetCommitPartition, set[int]]] = [
    ("87 unknown topic", "no-such-topic", OffsetCommitPartition(0, 5), {3}),
    ("87 illegal topic", "../../etc", OffsetCommitPartition(0, 5), {3, 17}),
    ("87 unknown partition", TOPIC, OffsetCommitPartition(99, 5), {3}),
    ("87 partition -1", TOPIC, OffsetCommitPartition(-1, 5), {3}),
    ("87 metadata too large", TOPIC, OffsetCommitPartition(0, 5, -1, "x" * 4097), {12}),
    ("87 metadata of 64 KiB", TOPIC, OffsetCommitPartition(0, 5, -1, "é" * 65_000), {12}),
    ("88 leader epoch ahead", TOPIC, OffsetCommitPartition(0, 5, 2**31 - 1), {0}),
    ("87 the largest offset", TOPIC, OffsetCommitPartition(0, INT64_MAX), {0}),
]


@pytest.mark.parametrize(("topic", "partition", "codes"), by_name(PARTITIONS))
async def test_partitions_that_are_refused(
    peer: Peer,
    victim: JoinGroupResponse,
    topic: str,
    partition: OffsetCommitPartition,
    codes: set[int],
) -> None:
    """One bad partition does not spoil the good one beside it."""
    topics = [
        OffsetCommitTopic(topic, [partition]),
        OffsetCommitTopic(TOPIC, [OffsetCommitPartition(1, 6)]),
    ]
    answer = await peer.ask(commit(victim, topics=topics))
    assert answer.error_code == 0
    assert answer.topics[0].partitions[0].error_code in codes
    assert answer.topics[1].partitions[0].error_code == 0


async def test_a_group_of_another_protocol(peer: Peer, canary: Canary) -> None:
    """A tool's commit does not get into a group of workers; nor do its offsets go with theirs."""
    joined = await peer.become_member("workers", protocol_type="connect")
    topics = [OffsetCommitTopic(TOPIC, [OffsetCommitPartition(0, 5)])]
    outside = OffsetCommitRequest("workers", -1, "", None, topics)
    assert (await peer.ask(outside)).error_code in (22, 23, 25)
    (deleted,) = (await peer.ask(DeleteGroupsRequest(["workers"]))).groups
    assert deleted.error_code == 68
    offsets = OffsetDeleteRequest("workers", [OffsetFetchTopic(TOPIC, [0])])
    assert (await peer.ask(offsets)).error_code == 68
    await peer.ask(LeaveGroupRequest("workers", [LeavingMember(joined.member_id)]))


# ------------------------------------------------------------------------------ very many


async def test_very_many_partitions(
    broker: LocalCluster, peer: Peer, victim: JoinGroupResponse
) -> None:
    before = resident_mb(pid_of(broker))
    same = [OffsetCommitPartition(0, 5)] * MANY
    answer = await peer.ask(commit(victim, *same))
    codes = {p.error_code for t in answer.topics for p in t.partitions}
    assert answer.error_code or codes <= {0, 28}
    unknown = [OffsetCommitPartition(n, 5) for n in range(1000, 1000 + MANY)]
    answer = await peer.ask(commit(victim, *unknown))
    assert {p.error_code for t in answer.topics for p in t.partitions} == {3}
    wanted = OffsetFetchRequest(GROUP, [OffsetFetchTopic(TOPIC, list(range(MANY)))])
    answer = await peer.ask(wanted)
    assert len(answer.topics[0].partitions) == MANY
    assert resident_mb(pid_of(broker)) - before < GROWTH_MB_MAX


NAMES = [f"no-such-group-{n}" for n in range(50_000)]
MANY_NAMES: list[tuple[str, Request, set[int]]] = [
    ("described", DescribeGroupsRequest(NAMES), {69}),
    ("deleted", DeleteGroupsRequest(NAMES), {69}),
    ("leaving", LeaveGroupRequest(GROUP, [LeavingMember(name) for name in NAMES]), {25}),
]


@pytest.mark.parametrize(("request_", "codes"), by_name(MANY_NAMES))
async def test_very_many_groups_and_members(
    peer: Peer, victim: JoinGroupResponse, request_: Request, codes: set[int]
) -> None:
    answer = await peer.ask(request_)
    items = answer.members if isinstance(request_, LeaveGroupRequest) else answer.groups
    assert len(items) == len(NAMES)
    assert {item.error_code for item in items} == codes


# ------------------------------------------------------------------------------ the rest

OTHERS: list[tuple[str, Request, set[int]]] = [
    ("a coordinator of what?", FindCoordinatorRequest(GROUP, 7), {42}),
    ("a coordinator of nothing", FindCoordinatorRequest("", 0), {24, 42}),
    ("heartbeat of a stranger", HeartbeatRequest(GROUP, 1, "nobody", None), {25}),
    ("heartbeat to nothing", HeartbeatRequest("", 1, "nobody", None), {24}),
    ("leaving nothing", LeaveGroupRequest("", [LeavingMember("m")]), {24}),
    ("offsets of nothing", OffsetFetchRequest("", None), {24}),
    ("offsets for a stranger", OffsetFetchRequest(GROUP, None, True, "nobody", 1), {25}),
]


@pytest.mark.parametrize(("request_", "codes"), by_name(OTHERS))
async def test_others_that_are_refused(
    peer: Peer, victim: JoinGroupResponse, request_: Request, codes: set[int]
) -> None:
    assert (await peer.ask(request_)).error_code in codes


async def test_what_may_not_be_deleted(peer: Peer, victim: JoinGroupResponse) -> None:
    (deleted,) = (await peer.ask(DeleteGroupsRequest([GROUP]))).groups
    assert deleted.error_code == 68
    (nothing,) = (await peer.ask(DeleteGroupsRequest([""]))).groups
    assert nothing.error_code in (24, 69)
    nobody = OffsetDeleteRequest("no-such-group", [OffsetFetchTopic(TOPIC, [0])])
    assert (await peer.ask(nobody)).error_code == 69
    listed = await peer.ask(ListGroupsRequest(["NoSuchState"]))
    assert listed.groups == []
