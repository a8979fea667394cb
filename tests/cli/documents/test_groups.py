"""Groups have members and lag as rows, and those without members may be deleted."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from oncelog import Admin
from oncelog.admin.group_results import GroupHasMembersError
from oncelog.errors import ConfigurationError
from oncelog_cli.documents.groups import (
    deleted_groups,
    deleted_offsets,
    described_groups,
    doomed_groups,
    doomed_offsets,
    listed_groups,
)
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import DescribedMember, OffsetCommitPartition
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster, KnownGroup


@pytest_asyncio.fixture
async def cluster(fake: AdminCluster) -> AdminCluster:
    """Topic t has ten records a partition. "idle" has committed in t-0 and t-1; "live" in t-0, and
    its one member has t-0 and t-1."""
    for log in fake.create_topic("t", 2):
        log.append(encode_batch([b"x"] * 10, timestamps=1000))
    idle = fake.known_groups["idle"] = KnownGroup(1)
    live = fake.known_groups["live"] = KnownGroup(2)
    for group, number, offset in ((idle, 0, 4), (idle, 1, 10), (live, 0, 7)):
        committed = OffsetCommitPartition(number, offset, -1, "note")
        group.offsets[TopicPartition("t", number)] = committed
    has = ConsumerAssignment((TopicPartition("t", 0), TopicPartition("t", 1)))
    wants = encode_subscription(ConsumerSubscription(("t",)))
    live.members = [DescribedMember("m1", None, "app", "10.0.0.1", wants, encode_assignment(has))]
    live.subscribed = ["t"]
    return fake


async def test_lists(cluster: AdminCluster, asker: Admin) -> None:
    async def names(*patterns: str, **options: Any) -> list[str]:
        answer = await listed_groups(asker, patterns, **options)
        return [row["group"] for row in answer.document["groups"]]

    assert await names() == ["idle", "live"]
    assert await names(states=["Stable"]) == ["live"]
    assert await names("i.*", regex=True) == ["idle"]
    assert await names("none", "live") == ["live"], "a list shows what is there"
    with pytest.raises(ConfigurationError):
        await listed_groups(asker, states=["Sleepy"])


async def test_what_is_not_known_is_none(cluster: AdminCluster, asker: Admin) -> None:
    cluster.partition("t", 1).leader = -1
    answer = await described_groups(asker, ["idle", "live", "none"])
    idle, live = answer.document["groups"]
    assert [(row["offset"], row["lag"]) for row in idle["offsets"]] == [(4, 6), (10, None)]
    assert (idle["lag"], idle["topics"][0]["lag"]) == (None, 6)
    assert [(row["offset"], row["member"]) for row in live["offsets"]] == [(7, "m1"), (None, "m1")]
    assert (live["member_count"], live["members"][0]["assignment"]) == (1, "t:0,1")
    assert [(each.item, each.entry()["error"]) for each in answer.failures] == [
        ("none", "GROUP_ID_NOT_FOUND")
    ]
    with pytest.raises(CommandError):
        await described_groups(asker, ["x.*"], regex=True)


async def test_groups_with_members_are_not_doomed(cluster: AdminCluster, asker: Admin) -> None:
    plan = await doomed_groups(asker, ["idle", "live", "none"])
    assert plan.document["groups"] == [{"group": "idle", "deleted": False}]
    live, none = plan.failures
    assert isinstance(live.error, GroupHasMembersError)
    assert (live.item, none.item, plan.missing) == ("live", "none", [])
    plan = await doomed_groups(asker, ["none"], if_exists=True)
    assert (plan.document["groups"], plan.failures, plan.missing) == ([], [], ["none"])
    assert cluster.count(ApiKey.DELETE_GROUPS) == 0

    answer = await deleted_groups(asker, ["idle", "live"])
    idle, refused = answer.document["groups"]
    assert (idle, refused["deleted"]) == ({"group": "idle", "deleted": True}, False)
    assert [each.item for each in answer.failures] == ["live"]
    assert list(cluster.known_groups) == ["live"]
    answer = await deleted_groups(asker, ["idle"], if_exists=True)
    assert (answer.document["groups"], answer.failures) == (
        [{"group": "idle", "deleted": False}],
        [],
    )


async def test_offsets_that_nobody_committed_are_failures(
    cluster: AdminCluster, asker: Admin
) -> None:
    plan = await doomed_offsets(asker, "idle", Chosen(("u",), (("t", 1), ("t", 5))))
    assert plan.document["group"] == "idle"
    rows = plan.document["offsets"]
    assert rows == [{"topic": "t", "partition": 1, "deleted": False}]
    assert [(each.item, each.message) for each in plan.failures] == [
        ("t-5", "idle has no offset for t-5"),
        ("u", "idle has no offsets for u"),
    ]
    answer = await deleted_offsets(asker, "idle", rows)
    assert answer.document["offsets"] == [{"topic": "t", "partition": 1, "deleted": True}]
    assert list(cluster.known_groups["idle"].offsets) == [TopicPartition("t", 0)]

    plan = await doomed_offsets(asker, "live", Chosen(("t",)))
    answer = await deleted_offsets(asker, "live", plan.document["offsets"])
    assert [row["error"] for row in answer.document["offsets"]] == ["GROUP_SUBSCRIBED_TO_TOPIC"]
    assert [each.item for each in answer.failures] == ["t-0"]
