"""Topics that cannot be described, made or deleted stand beside those that can."""

from __future__ import annotations

from oncelog import Admin, NewTopic
from oncelog_cli.documents.answer import Answer, Row
from oncelog_cli.documents.topics import (
    altered_topics,
    created_topics,
    deleted_topics,
    described_topics,
    doomed_topics,
    listed_topics,
)
from oncelog_protocol.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.moves import STALLED, PartitionMove
from oncelog_protocol.records.builder import encode_batch
from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.fake_cluster import Action
from support.golden import tp


async def test_conditions(fake: AdminCluster, asker: Admin) -> None:
    for name in ("a", "b"):
        fake.create_topic(name, 2)
    fake.partition("b", 1).leader = -1

    async def names(*patterns: str, conditions: tuple[str, ...] = ()) -> list[str]:
        answer = await listed_topics(asker, patterns, conditions=conditions)
        return [row["topic"] for row in answer.document["topics"]]

    assert await names() == ["a", "b"]
    assert await names(conditions=("leaderless",)) == ["b"]
    assert await names(conditions=("leaderless", "under_min_isr")) == []
    answer = await listed_topics(asker, ["none", "b"])
    assert [row["leaderless"] for row in answer.document["topics"]] == [1]
    assert [(each.item, each.entry()["error"]) for each in answer.failures] == [
        ("none", "UNKNOWN_TOPIC_OR_PARTITION")
    ]


async def test_offsets_that_a_leader_does_not_tell_hide_no_others(
    fake: AdminCluster, asker: Admin
) -> None:
    for number, partition in enumerate(fake.create_topic("t", 3)):
        partition.leader = (1, 2, -1)[number]
        partition.append(encode_batch([b"x"] * 10, timestamps=1000))
    fake.rule(
        ApiKey.LIST_OFFSETS, Action.ERROR, error=TopicAuthorizationFailedError, broker=2, times=9
    )
    answer = await described_topics(asker, ["t"])
    (topic,) = answer.document["topics"]
    held = [(row["start_offset"], row["end_offset"]) for row in topic["partitions"]]
    assert held == [(0, 10), (None, None), (None, None)]
    (note,) = answer.notes
    assert note.startswith("offsets of t:1 are not known: "), "nobody leads t-2 and could be asked"
    assert not answer.failures, "the rest is known"

    asked = fake.count(ApiKey.LIST_OFFSETS)
    answer = await described_topics(asker, ["t"], offsets=False)
    assert (fake.count(ApiKey.LIST_OFFSETS), answer.notes) == (asked, [])


async def test_settings_of_the_topic_or_all(real: Cluster, admin: Admin) -> None:
    await real.create_topic("t", retention_ms=60_000)

    async def settings(every: bool) -> dict[str, str]:
        answer = await described_topics(admin, ["t"], every_setting=every)
        return {row["key"]: row["source"] for row in answer.document["topics"][0]["configs"]}

    assert await settings(every=False) == {"retention_ms": "topic"}
    assert (await settings(every=True))["segment_bytes"] == "default"


async def test_one_that_exists_is_a_failure_or_is_not(real: Cluster, admin: Admin) -> None:
    new = [NewTopic("a", 2, 1), NewTopic("b", 1, 1)]
    plan = await created_topics(admin, new[:1], dry_run=True)
    assert plan.document["dry_run"] is True
    assert plan.document["topics"][0]["created"] is False
    assert not real.brokers[1].image.topics
    await created_topics(admin, new[:1])
    answer = await created_topics(admin, new)
    a, b = answer.document["topics"]
    assert a == {"topic": "a", "created": False, "error": "TOPIC_ALREADY_EXISTS"}
    assert (b["created"], b["partition_count"], b["replication_factor"]) == (True, 1, 1)
    assert [each.item for each in answer.failures] == ["a"]
    answer = await created_topics(admin, new, if_not_exists=True)
    assert answer.document["topics"] == [{"topic": name, "created": False} for name in "ab"]
    assert not answer.failures


async def test_a_topic_whose_settings_are_refused_is_not_grown(real: Cluster, admin: Admin) -> None:
    await real.create_topic("a")
    answer = await altered_topics(admin, ["a", "none"], {"segment_bytes": "much"}, 3)
    assert [row["altered"] for row in answer.document["topics"]] == [False, False]
    assert [each.item for each in answer.failures] == ["a", "none"]
    answer = await altered_topics(admin, ["a", "none"], {}, 3)
    assert answer.document["topics"] == [
        {"topic": "a", "altered": True},
        {"topic": "none", "altered": False, "error": "UNKNOWN_TOPIC_OR_PARTITION"},
    ]
    (described,) = await admin.describe_topics(["a"])
    assert len(described.partitions) == 3


async def test_what_would_be_deleted_and_what_was(fake: AdminCluster, asker: Admin) -> None:
    for name in ("a", "b"):
        fake.create_topic(name)
    plan = await doomed_topics(asker, ["a", "b", "none"])
    assert plan.document["topics"] == [{"topic": name, "deleted": False} for name in "ab"]
    assert ([each.item for each in plan.failures], plan.missing) == (["none"], [])
    plan = await doomed_topics(asker, ["a", "none"], if_exists=True)
    assert (plan.failures, plan.missing) == ([], ["none"])
    assert set(fake.topics) == {"a", "b"}, "a plan changes nothing"

    del fake.topics["b"]  # somebody else was faster
    answer = await deleted_topics(asker, ["a", "b"])
    a, b = answer.document["topics"]
    assert (a["deleted"], b["deleted"], b["error"]) == (True, False, "UNKNOWN_TOPIC_OR_PARTITION")
    assert [each.item for each in answer.failures] == ["b"]
    answer = await deleted_topics(asker, ["a"], if_exists=True)
    assert answer.document["topics"] == [{"topic": "a", "deleted": False}]
    assert not answer.failures


async def test_what_is_added_is_not_counted_as_under_replicated(
    fake: AdminCluster, asker: Admin
) -> None:
    fake.create_topic("t", 2)
    for number in range(2):
        fake.moves.settled[tp("t", number)] = [1]
    stalled = PartitionMove("t", 0, "p", [1, 2], [1], [2], [], STALLED, reason="broker 2 is away")
    fake.moves.open[tp("t")] = stalled

    async def described() -> tuple[Row, Answer]:
        answer = await described_topics(asker, ["t"])
        return answer.document["topics"][0], answer

    row, answer = await described()
    assert (row["under_replicated"], row["replication_factor"]) == (0, 1)
    moving, still = row["partitions"]
    assert (moving["replicas"], moving["adding"], moving["removing"]) == ((1, 2), [2], [1])
    assert (still["adding"], still["removing"]) == ([], [])
    assert answer.notes == ["the move of t-0 is stalled: broker 2 is away"]
    fake.rule(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, Action.ERROR, error=ClusterAuthorizationFailedError
    )
    row, answer = await described()
    assert row["under_replicated"] == 1
    assert (row["partitions"][0]["adding"], answer.failures) == (None, [])
    (note,) = answer.notes
    assert note.startswith("moves not known: ")
