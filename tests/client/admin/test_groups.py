"""Admin calls about groups: lists that say what they lack, descriptions, resets as plans."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import Admin, OffsetReset, TopicPartition
from oncelog.admin.group_results import CommittedOffset, GroupHasMembersError
from oncelog.admin.results import AdminError
from oncelog.consumer.offset_metadata import OffsetAndMetadata
from oncelog.errors import (
    BrokerUnreachableError,
    ClosedError,
    ConfigurationError,
    DeadlineExceededError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import DescribedMember, OffsetCommitPartition
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.admin_cluster import AdminCluster, KnownGroup
from support.fake_cluster import Action

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def make(cluster: AdminCluster, **options: Any) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1), **options)


def member(name: str = "m1", *partitions: TopicPartition) -> DescribedMember:
    return DescribedMember(
        name,
        None,
        "app",
        "10.0.0.1",
        encode_subscription(ConsumerSubscription(("t",))),
        encode_assignment(ConsumerAssignment(partitions)),
    )


def topic_with(cluster: AdminCluster, partitions: int = 2, records: int = 10) -> None:
    """Make topic ``t`` with records 0 to 9 in each partition, stamped 1000, 2000 and so on."""
    for log in cluster.create_topic("t", partitions):
        for n in range(records):
            log.append(encode_batch([b"x"], timestamps=1000 * (n + 1)))


def committed(group: KnownGroup, **offsets: int) -> None:
    for name, offset in offsets.items():
        number = int(name.removeprefix("p"))
        group.offsets[TopicPartition("t", number)] = OffsetCommitPartition(number, offset, -1, "n")


# ------------------------------------------------------------------------------ list


async def test_groups_of_all_brokers_are_one_list() -> None:
    async with AdminCluster(3) as cluster, make(cluster) as admin:
        for n, name in enumerate(("c", "a", "b")):
            cluster.known_groups[name] = KnownGroup(n + 1)
        cluster.known_groups["a"].members.append(member())
        listed = (await admin.list_groups()).raise_for_errors()
        assert [(g.group_id, g.state, g.member_count, g.coordinator) for g in listed] == [
            ("a", "Stable", 1, 2),
            ("b", "Empty", 0, 3),
            ("c", "Empty", 0, 1),
        ]
        assert [g.group_id for g in listed[1:]] == ["b", "c"]
        assert [g.group_id for g in await admin.list_groups(states=["Stable"])] == ["a"]
        await admin.describe_groups(["a", "b", "c"])
        assert cluster.count(ApiKey.FIND_COORDINATOR) == 0, "the list says who coordinates"
        with pytest.raises(ConfigurationError, match="state 'Sleepy': one of Empty"):
            await admin.list_groups(states=["Sleepy"])


async def test_a_broker_that_is_down_is_named() -> None:
    async with AdminCluster(2) as cluster, make(cluster) as admin:
        cluster.known_groups["here"], cluster.known_groups["there"] = KnownGroup(1), KnownGroup(2)
        await cluster.brokers[2].stop()
        listed = await admin.list_groups()
        assert [g.group_id for g in listed] == ["here"]
        assert isinstance(listed.unanswered[2], BrokerUnreachableError)
        with pytest.raises(BrokerUnreachableError):
            listed.raise_for_errors()
        held = cluster.rule(ApiKey.LIST_GROUPS, Action.HOLD, times=9)
        listed = await admin.list_groups(timeout_ms=300)
        assert sorted(listed.unanswered) == [1, 2]
        with pytest.raises(AdminError, match="did not answer|no answer"):
            listed.raise_for_errors()
        held.release.set()


async def test_a_broker_that_loads_is_waited_for_and_then_named() -> None:
    async with AdminCluster(1) as cluster, make(cluster) as admin:
        cluster.known_groups["known"] = KnownGroup(1)
        cluster.rule(
            ApiKey.LIST_GROUPS, Action.ERROR, error=CoordinatorLoadInProgressError, times=2
        )
        assert [g.group_id for g in (await admin.list_groups()).raise_for_errors()] == ["known"]
        cluster.loading[1] = CoordinatorLoadInProgressError.code
        listed = await admin.list_groups(timeout_ms=100)
        assert [g.group_id for g in listed] == ["known"], "what is known is not held back"
        assert isinstance(listed.unanswered[1], CoordinatorLoadInProgressError)


# ------------------------------------------------------------------------------ describe


async def test_a_description() -> None:
    async with AdminCluster(2) as cluster, make(cluster) as admin:
        topic_with(cluster)
        group = cluster.known_groups["g"] = KnownGroup(2)
        group.members = [member("m1", T0), member("m2", T1)]
        committed(group, p0=4, p1=10)
        found, missing = await admin.describe_groups(["g", "none"])
        assert isinstance(missing.error, GroupIdNotFoundError)
        assert "none" in str(missing.error)
        assert (found.state, found.generation_id, found.coordinator) == ("Stable", 3, 2)
        assert (found.protocol_type, found.protocol_name) == ("consumer", "range")
        assert [(m.member_id, m.topics, m.partitions) for m in found.members] == [
            ("m1", ("t",), (T0,)),
            ("m2", ("t",), (T1,)),
        ]
        first, second = found.offsets
        assert first.committed == CommittedOffset(4, -1, "n", 1000)
        assert (first.log_start_offset, first.end_offset, first.lag, second.lag) == (0, 10, 6, 0)
        assert found.lag == 6
        (bare,) = await admin.describe_groups(["g"], include_offsets=False)
        assert (bare.offsets, bare.lag) == ((), None)


async def test_what_is_not_known_is_not_guessed() -> None:
    async with AdminCluster(1) as cluster, make(cluster) as admin:
        topic_with(cluster)
        group = cluster.known_groups["g"] = KnownGroup(1)
        committed(group, p0=4, p1=10)
        cluster.partition("t", 1).leader = -1
        strange = member()
        strange.metadata, strange.assignment = b"\xff", b"\xff"
        group.members = [strange]
        (found,) = await admin.describe_groups(["g"])
        assert (found.offsets[1].end_offset, found.offsets[1].lag, found.lag) == (None, None, None)
        shown = found.members[0]
        assert (shown.topics, shown.partitions, shown.metadata) == ((), (), b"\xff")


async def test_a_coordinator_that_is_not_there_is_the_error_of_its_group() -> None:
    async with AdminCluster(1) as cluster, make(cluster) as admin:
        cluster.known_groups["good"], cluster.known_groups["bad"] = KnownGroup(1), KnownGroup(-1)
        bad, good = await admin.describe_groups(["bad", "good"], timeout_ms=200)
        assert isinstance(bad.error, CoordinatorNotAvailableError)
        assert (good.error, good.state) == (None, "Empty")


# ------------------------------------------------------------------------------ offsets


async def test_offsets_are_listed_and_altered() -> None:
    async with AdminCluster(2) as cluster, make(cluster) as admin:
        topic_with(cluster)
        assert await admin.list_group_offsets("new") == {}
        missing = TopicPartition("none", 0)
        outcomes = await admin.alter_group_offsets(
            "new", {T0: 3, T1: OffsetAndMetadata(4, "why", 2), missing: 1}
        )
        assert [outcome.partition for outcome in outcomes] == [T0, T1, missing]
        assert isinstance(outcomes[2].error, UnknownTopicOrPartitionError)
        found = await admin.list_group_offsets("new", [T0, T1, T2])
        assert found == {
            T0: CommittedOffset(3, -1, "", 1000),
            T1: CommittedOffset(4, 2, "why", 1000),
            T2: None,
        }
        with pytest.raises(ConfigurationError, match="t-0: offset -1 is negative"):
            await admin.alter_group_offsets("new", {T0: -1})
        with pytest.raises(InvalidGroupIdError):
            await admin.list_group_offsets("")


async def test_offsets_in_doubt_are_waited_for() -> None:
    async with AdminCluster(1) as cluster, make(cluster) as admin:
        topic_with(cluster)
        group = cluster.known_groups["g"] = KnownGroup(1)
        committed(group, p0=4)
        group.unstable = 2
        assert list(await admin.list_group_offsets("g", require_stable=True)) == [T0]
        group.unstable = 1000
        assert list(await admin.list_group_offsets("g")) == [T0]
        with pytest.raises(DeadlineExceededError):
            await admin.list_group_offsets("g", require_stable=True, timeout_ms=100)


async def test_a_group_with_members_is_left_alone() -> None:
    async with AdminCluster(1) as cluster, make(cluster) as admin:
        topic_with(cluster)
        group = cluster.known_groups["g"] = KnownGroup(1)
        committed(group, p0=4)
        plan = await admin.plan_offset_reset("g", OffsetReset.to_latest())
        group.members = [member(f"m{n}") for n in range(7)]
        for call in (
            admin.alter_group_offsets("g", {T0: 1}),
            admin.reset_group_offsets(plan),
            admin.plan_offset_reset("g", OffsetReset.to_earliest()),
        ):
            with pytest.raises(GroupHasMembersError, match=r"m0 \(10.0.0.1\), .* and 2 more") as e:
                await call
            assert (e.value.group_id, len(e.value.members), e.value.definite) == ("g", 7, True)
        assert group.offsets[T0].offset == 4


async def test_deleting() -> None:
    async with AdminCluster(2) as cluster, make(cluster) as admin:
        topic_with(cluster)
        for name in ("empty", "busy", "offsets"):
            cluster.known_groups[name] = KnownGroup(1)
        cluster.known_groups["busy"].members = [member()]
        empty, busy, missing = await admin.delete_groups(["empty", "busy", "none"])
        assert (empty.group_id, empty.error) == ("empty", None)
        assert isinstance(busy.error, NonEmptyGroupError)
        assert isinstance(missing.error, GroupIdNotFoundError)
        assert sorted(cluster.known_groups) == ["busy", "offsets"]

        group = cluster.known_groups["offsets"]
        committed(group, p0=1)
        gone, never = await admin.delete_group_offsets("offsets", [T0, T1])
        assert (gone.partition, gone.error) == (T0, None)
        assert isinstance(never.error, UnknownTopicOrPartitionError)
        group.subscribed = ["t"]
        (read,) = await admin.delete_group_offsets("offsets", [T0])
        assert isinstance(read.error, GroupSubscribedToTopicError)
        with pytest.raises(GroupIdNotFoundError):
            await admin.delete_group_offsets("nobody", [T0])


async def test_members_are_taken_out() -> None:
    async with AdminCluster(2) as cluster, make(cluster) as admin:
        group = cluster.known_groups["g"] = KnownGroup(2)
        group.members = [member("m1"), member("m2")]
        group.members[0].group_instance_id = "i1"
        gone, never = await admin.remove_group_members("g", ["i1", "i2"], reason="replaced")
        assert (gone.group_instance_id, gone.error) == ("i1", None)
        assert isinstance(never.error, UnknownMemberIdError)
        assert "i2" in str(never.error)
        (last,) = await admin.remove_group_members("g")
        assert (last.member_id, last.error, group.members) == ("m2", None, [])
        assert list(await admin.remove_group_members("g")) == []


# ------------------------------------------------------------------------------ resets


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        (OffsetReset.to_earliest(), [2, 2]),
        (OffsetReset.to_latest(), [10, 10]),
        (OffsetReset.to_current(), [6, 10]),
        (OffsetReset.to_offset(5), [5, 5]),
        (OffsetReset.to_offset(0), [2, 2]),
        (OffsetReset.to_offset(99), [10, 10]),
        (OffsetReset.shift_by(3), [9, None]),
        (OffsetReset.shift_by(-3), [3, None]),
        (OffsetReset.shift_by(-9), [2, None]),
        (OffsetReset.shift_by(9), [10, None]),
        (OffsetReset.to_timestamp(5500), [5, 5]),
        (OffsetReset.to_timestamp(99_000), [10, 10]),
    ],
    ids=lambda value: f"{value.where} {value.number}" if isinstance(value, OffsetReset) else "",
)
async def test_where_a_reset_goes(to: OffsetReset, wanted: list[int | None]) -> None:
    async with AdminCluster(2) as cluster, make(cluster) as admin:
        topic_with(cluster)
        for log in cluster.topics["t"]:
            log.log_start_offset = 2
        group = cluster.known_groups["g"] = KnownGroup(2)
        committed(group, p0=6)
        plan = await admin.plan_offset_reset("g", to, topics=["t"])
        assert [row.partition for row in plan.rows] == [T0, T1]
        assert [row.current for row in plan.rows] == [6, None]
        assert [row.new for row in plan.rows] == wanted
        held = [(row.log_start_offset, row.end_offset) for row in plan.rows]
        assert held == [(2, 10), (2, 10)]
        assert group.offsets[T0].offset == 6, "a plan writes nothing"
        (await admin.reset_group_offsets(plan)).raise_for_errors()
        offsets = {tp: item.offset for tp, item in group.offsets.items()}
        assert offsets == {tp: new for tp, new in zip((T0, T1), wanted, strict=True) if new}


async def test_which_partitions_a_reset_means() -> None:
    async with AdminCluster(1) as cluster, make(cluster) as admin:
        topic_with(cluster, partitions=3)
        cluster.create_topic("u", 2)
        group = cluster.known_groups["g"] = KnownGroup(1)
        committed(group, p0=1, p2=2)
        latest = OffsetReset.to_latest()

        async def named(**which: Any) -> list[str]:
            plan = await admin.plan_offset_reset("g", latest, **which)
            return [str(row.partition) for row in plan.rows]

        assert await named() == ["t-0", "t-2"]
        assert await named(topics=["u"]) == ["u-0", "u-1"]
        assert await named(topics=["u"], partitions=[T1]) == ["t-1", "u-0", "u-1"]
        assert await named(partitions=[T2, T2]) == ["t-2"]
        assert await named(topics=[], partitions=[]) == []
        with pytest.raises(UnknownTopicOrPartitionError):
            await named(partitions=[TopicPartition("u", 2)])
        empty = await admin.plan_offset_reset("unheard of", latest)
        assert (empty.rows, list(await admin.reset_group_offsets(empty))) == ((), [])


async def test_an_offset_a_partition() -> None:
    async with AdminCluster(1) as cluster, make(cluster) as admin:
        topic_with(cluster)
        plan = await admin.plan_offset_reset("new", {T1: 3, T0: 77})
        assert [(row.partition, row.new, row.note) for row in plan.rows] == [
            (T0, 10, "77 is beyond the end, 10 instead"),
            (T1, 3, ""),
        ]
        partly = await admin.plan_offset_reset("new", {T1: 3}, topics=["t"])
        assert [(row.new, row.note) for row in partly.rows] == [(None, "no offset given"), (3, "")]
        await admin.reset_group_offsets(partly)
        assert {tp: item.offset for tp, item in cluster.known_groups["new"].offsets.items()} == {
            T1: 3
        }


async def test_a_closed_client_says_so() -> None:
    async with AdminCluster(1) as cluster:
        admin = make(cluster)
        with pytest.raises(ClosedError):
            await admin.list_groups()
