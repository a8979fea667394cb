"""``oncelog groups`` shows what scripted brokers say, then does everything with real ones."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.errors import CoordinatorLoadInProgressError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import DescribedMember, OffsetCommitPartition
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster, KnownGroup
from support.cluster import Cluster
from support.shell import Shown, oncelog, start


def member(name: str, host: str, *partitions: int, instance: str | None = None) -> DescribedMember:
    assigned = ConsumerAssignment(tuple(TopicPartition("t", number) for number in partitions))
    return DescribedMember(
        *(name, instance, "app", host),
        encode_subscription(ConsumerSubscription(("t",))),
        encode_assignment(assigned),
    )


def commit(group: KnownGroup, topic: str, number: int, offset: int) -> None:
    item = OffsetCommitPartition(number, offset, -1, "note")
    group.offsets[TopicPartition(topic, number)] = item


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Topic t: three partitions, ten records each, and u: one, empty. Group "idle" (broker 1) has
    committed and has no members; "live" (broker 2) has two and shares out t-0, t-1, t-2."""
    async with AdminCluster(2) as cluster:
        for log in cluster.create_topic("t", 3):
            log.append(encode_batch([b"x"] * 10, timestamps=1000))
        cluster.create_topic("u")
        idle = cluster.known_groups["idle"] = KnownGroup(1)
        commit(idle, "t", 0, 4)
        commit(idle, "t", 1, 10)
        live = cluster.known_groups["live"] = KnownGroup(2)
        commit(live, "t", 0, 7)
        live.members = [
            member("m1", "10.0.0.1", 0, 2),
            member("m2", "10.0.0.2", 1, instance="worker-2"),
        ]
        live.subscribed = ["t"]
        yield cluster


async def groups(cluster: AdminCluster, *arguments: str) -> Shown:
    return await oncelog("groups", *arguments, bootstrap=cluster.bootstrap)


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# ------------------------------------------------------------------------------ list


async def test_list(cluster: AdminCluster) -> None:
    shown = await groups(cluster, "list")
    assert (shown.code, shown.err) == (0, "")
    assert cells(shown.out) == [
        ["GROUP", "STATE", "MEMBERS", "COORDINATOR"],
        ["idle", "Empty", "0", "1"],
        ["live", "Stable", "2", "2"],
    ]
    shown = await groups(cluster, "list", "--state", "Stable", "--json")
    (row,) = shown.document["groups"]
    assert row == {
        "group": "live",
        "state": "Stable",
        "member_count": 2,
        "coordinator": 2,
        "protocol_type": "consumer",
    }
    shown = await groups(cluster, "list", "-r", "i.*", "--json")
    assert [row["group"] for row in shown.document["groups"]] == ["idle"]
    shown = await groups(cluster, "list", "live", "none", "--json")
    assert [row["group"] for row in shown.document["groups"]] == ["live"]
    for wrong in (["--state", "Sleepy"], ["-r", "("]):
        shown = await groups(cluster, "list", *wrong)
        assert (shown.code, shown.out) == (2, "")


@pytest.mark.slow
async def test_a_list_that_may_lack_groups_says_so(cluster: AdminCluster) -> None:
    await cluster.brokers[2].stop()
    shown = await groups(cluster, "list", "--json")
    assert shown.code == 1
    assert [row["group"] for row in shown.document["groups"]] == ["idle"]
    (error,) = shown.document["errors"]
    assert (error["item"], error["error"]) == ("broker 2", "BrokerUnreachableError")
    shown = await groups(cluster, "describe", "-r", ".*", "--json")
    assert (shown.code, len(shown.document["groups"])) == (1, 1)
    cluster.brokers.pop(2)
    cluster.loading[1] = CoordinatorLoadInProgressError.code
    shown = await groups(cluster, "list")
    assert (shown.code, cells(shown.out)[1][0]) == (1, "idle")
    assert "broker 1: the coordinator is still reading its log" in shown.err


# ------------------------------------------------------------------------------ describe


async def test_describe_offsets(cluster: AdminCluster) -> None:
    shown = await groups(cluster, "describe", "live", "idle")
    assert (shown.code, shown.err) == (0, "")
    live, idle = shown.out.split("\n\nidle: ")
    assert live.splitlines()[0] == (
        "live: Stable, 2 members, lag 3, range, generation 3, coordinator 2"
    )
    assert cells(live)[2:] == [
        ["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER", "CLIENT", "HOST"],
        ["t", "0", "7", "10", "3", "m1", "app", "10.0.0.1"],
        ["t", "1", "-", "-", "-", "worker-2", "app", "10.0.0.2"],
        ["t", "2", "-", "-", "-", "m1", "app", "10.0.0.1"],
    ]
    assert idle.splitlines()[0].startswith("Empty, 0 members, lag 6, ")
    assert cells(idle)[3:] == [
        ["t", "0", "4", "10", "6", "-", "-", "-"],
        ["t", "1", "10", "10", "0", "-", "-", "-"],
    ]
    wide = await groups(cluster, "describe", "idle", "--format", "wide")
    assert cells(wide.out)[3][-3:] == ["0", "1970-01-01T00:00:01.000Z", "note"]


async def test_describe_members_and_state(cluster: AdminCluster) -> None:
    shown = await groups(cluster, "describe", "live", "--members", "-f", "wide")
    assert cells(shown.out)[2:] == [
        [
            *("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS", "SUBSCRIBED", "ASSIGNMENT"),
        ],
        ["m1", "-", "app", "10.0.0.1", "2", "t", "t:0,2"],
        ["m2", "worker-2", "app", "10.0.0.2", "1", "t", "t:1"],
    ]
    shown = await groups(cluster, "describe", "-r", ".*", "--state")
    assert cells(shown.out) == [
        ["GROUP", "STATE", "MEMBERS", "LAG", "ASSIGNOR", "GENERATION", "COORDINATOR"],
        ["idle", "Empty", "0", "6", "range", "3", "1"],
        ["live", "Stable", "2", "3", "range", "3", "2"],
    ]
    shown = await groups(cluster, "describe", "live", "--members", "--offsets", "--state")
    assert [line[0] for line in cells(shown.out) if line and line[0].isupper()] == [
        *("GROUP", "MEMBER", "TOPIC"),
    ]


async def test_the_lag_of_each_topic(cluster: AdminCluster) -> None:
    shown = await oncelog("groups", "describe", "idle", "--by-topic", bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err
    heading, *rows = cells(shown.out)
    assert heading == ["GROUP", "TOPIC", "PARTITIONS", "LAG"]
    document = (
        await oncelog("groups", "describe", "idle", "--json", bootstrap=cluster.bootstrap)
    ).document["groups"][0]
    assert rows == [
        [row["group"], row["topic"], str(row["partition_count"]), str(row["lag"])]
        for row in document["topics"]
    ]
    assert sum(row["lag"] for row in document["topics"]) == document["lag"]
    shown = await oncelog("groups", "describe", "idle", "--verbose", bootstrap=cluster.bootstrap)
    assert all(word in shown.out for word in ("ASSIGNOR", "LEADER", "COMMITTED"))


async def test_describe_as_json(cluster: AdminCluster) -> None:
    cluster.partition("t", 1).leader = -1
    shown = await groups(cluster, "describe", "idle", "none", "--json")
    assert shown.code == 1
    (idle,) = shown.document["groups"]
    assert (idle["state"], idle["coordinator"], idle["lag"]) == ("Empty", 1, None)
    first, second = idle["offsets"]
    assert (first["topic"], first["partition"], first["offset"], first["lag"]) == ("t", 0, 4, 6)
    assert (second["offset"], second["end_offset"], second["lag"]) == (10, None, None)
    (error,) = shown.document["errors"]
    assert (error["item"], error["error"]) == ("none", "GROUP_ID_NOT_FOUND")
    shown = await groups(cluster, "describe", "live", "--json")
    (live,) = shown.document["groups"]
    assert live["members"][1]["group_instance_id"] == "worker-2"
    assert live["members"][0]["partitions"] == [
        {"topic": "t", "partition": 0},
        {"topic": "t", "partition": 2},
    ]
    shown = await groups(cluster, "describe", "-r", "no.*")
    assert (shown.code, shown.err) == (1, "error: no group matches no.*\n")


# ------------------------------------------------------------------------------ delete


async def test_delete(cluster: AdminCluster) -> None:
    shown = await groups(cluster, "delete", "idle")
    assert shown.code == 2
    assert "--yes" in shown.err
    shown = await groups(cluster, "delete", "idle", "live", "--dry-run")
    assert (shown.code, shown.out) == (1, "would delete idle\n")
    assert "group 'live' has live members: m1 (10.0.0.1), worker-2 (10.0.0.2)" in shown.err
    assert cluster.count(ApiKey.DELETE_GROUPS) == 0
    shown = await groups(cluster, "delete", "-r", ".*", "--yes", "--json")
    assert shown.code == 1
    assert shown.document["groups"] == [{"group": "idle", "deleted": True}]
    assert [e["error"] for e in shown.document["errors"]] == ["GroupHasMembersError"]
    assert sorted(cluster.known_groups) == ["live"]
    shown = await groups(cluster, "delete", "idle", "--yes")
    assert shown.code == 1
    shown = await groups(cluster, "delete", "idle", "--yes", "--if-exists")
    assert (shown.code, shown.out) == (0, "idle does not exist\n")


async def test_delete_offsets(cluster: AdminCluster) -> None:
    idle = cluster.known_groups["idle"]
    commit(idle, "u", 0, 0)
    shown = await groups(cluster, "delete-offsets", "idle", "-t", "t:1", "-t", "u", "--dry-run")
    assert shown.out == "would delete the offset of t-1\nwould delete the offset of u-0\n"
    assert (await groups(cluster, "delete-offsets", "idle", "-t", "t")).code == 2, "nobody to ask"
    assert len(idle.offsets) == 3
    shown = await groups(cluster, "delete-offsets", "idle", "-t", "t:1", "-t", "u", "-y")
    assert (shown.code, len(idle.offsets)) == (0, 1)
    shown = await groups(cluster, "delete-offsets", "idle", "-t", "t:1", "-t", "u", "-y", "--json")
    assert (shown.code, shown.document["offsets"]) == (1, [])
    assert [e["item"] for e in shown.document["errors"]] == ["t-1", "u"]
    shown = await groups(cluster, "delete-offsets", "live", "-t", "t", "-y", "--json")
    assert shown.code == 1
    assert shown.document["errors"][0]["error"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert not shown.document["offsets"][0]["deleted"]
    assert (await groups(cluster, "delete-offsets", "idle", "-t", "t:x", "-y")).code == 2


# ------------------------------------------------------------------------------ for real


async def test_the_life_of_a_group(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2, group_initial_rebalance_delay_ms=0) as cluster:
        await cluster.create_topic("orders", partitions=2)

        async def run(*arguments: str, code: int = 0) -> Any:
            shown = await oncelog(*arguments, "--json", bootstrap=cluster.bootstrap)
            assert shown.code == code, shown.err
            return shown.document

        async def described() -> Any:
            (group,) = (await run("groups", "describe", "billing"))["groups"]
            return group

        lines = "".join(f'{{"value": "{n}", "partition": {n % 2}}}\n' for n in range(10))
        await oncelog("produce", "orders", "-j", stdin=lines.encode(), bootstrap=cluster.bootstrap)
        arguments = ("consume", "orders", "-g", "billing", "-o", "start")
        async with start(*arguments, bootstrap=cluster.bootstrap) as process:
            assert process.stdout is not None
            async with asyncio.timeout(20):
                seen = [int(await process.stdout.readline()) for _ in range(10)]
            assert sorted(seen) == list(range(10))
            (listed,) = (await run("groups", "list"))["groups"]
            assert (listed["group"], listed["state"]) == ("billing", "Stable")
            group = await described()
            (member,) = group["members"]
            assert (member["client_id"], member["topics"]) == ("oncelog-cli", ["orders"])
            assert [(row["partition"], row["client_id"]) for row in group["offsets"]] == [
                (0, "oncelog-cli"),
                (1, "oncelog-cli"),
            ]
            reset = ("groups", "reset-offsets", "billing", "-t", "orders", "--to-earliest")
            refused = await run(*reset, "--execute", code=1)
            assert member["member_id"] in refused["errors"][0]["message"]
            assert (
                "live members"
                in (await run("groups", "delete", "billing", "-y", code=1))["errors"][0]["message"]
            )
            process.send_signal(signal.SIGINT)
            await process.wait()

        group = await described()
        assert (group["state"], group["members"], group["lag"]) == ("Empty", [], 0)
        await run(*reset)
        assert (await described())["lag"] == 0, "a plan changes nothing"
        await run(*reset, "--execute")
        assert (await described())["lag"] == 10
        shown = await oncelog(
            *("consume", "orders", "-g", "billing", "--until-end"), bootstrap=cluster.bootstrap
        )
        assert sorted(map(int, shown.out.split())) == list(range(10))
        await run("groups", "delete-offsets", "billing", "-t", "orders:1", "-y")
        assert [row["partition"] for row in (await described())["offsets"]] == [0]
        await run("groups", "delete", "billing", "-y")
        assert (await run("groups", "list"))["groups"] == []
        missing = await run("groups", "describe", "billing", code=1)
        assert missing["errors"][0]["error"] == "GROUP_ID_NOT_FOUND"


async def test_the_lag_is_known_whoever_leads_and_coordinates(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3, group_initial_rebalance_delay_ms=0) as cluster:
        await cluster.create_topic("t", partitions=6)
        lines = "".join(f'{{"value": "x", "partition": {n % 6}}}\n' for n in range(60))
        await oncelog("produce", "t", "-j", stdin=lines.encode(), bootstrap=cluster.bootstrap)
        names = [f"group-{n}" for n in range(6)]
        for name in names:
            shown = await oncelog(
                *("groups", "reset-offsets", name, "-t", "t", "--to-offset", "3", "--execute"),
                bootstrap=cluster.bootstrap,
            )
            assert shown.code == 0, shown.err
        shown = await oncelog(
            "groups", "describe", "-r", "group-.", "--json", bootstrap=cluster.bootstrap
        )
        found = shown.document["groups"]
        assert [group["group"] for group in found] == names
        assert [group["lag"] for group in found] == [42] * 6
        assert {row["lag"] for group in found for row in group["offsets"]} == {7}
        assert len({group["coordinator"] for group in found}) > 1
