"""Partitions have states, and their leaders are elected where that is needed."""

from __future__ import annotations

import pytest

from oncelog import Admin
from oncelog.admin.results import PartitionDescription
from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_cli.documents.partitions import (
    chosen_partitions,
    elected_leaders,
    listed_partitions,
    needed_elections,
    states_of,
)
from oncelog_cli.documents.topics import listed_topics
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.moves import COPYING, PartitionMove
from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.fake_cluster import Action
from support.golden import tp


@pytest.mark.parametrize(
    ("leader", "isr", "needed", "states"),
    [
        (1, (1, 2, 3), 2, []),
        (1, (1, 2), 2, ["at-min-isr", "under-replicated"]),
        (2, (2,), 2, ["under-min-isr", "under-replicated", "not-preferred"]),
        (-1, (), 1, ["unavailable", "under-min-isr", "under-replicated"]),
        (1, (1, 2, 3), 3, []),
    ],
)
async def test_states(leader: int, isr: tuple[int, ...], needed: int, states: list[str]) -> None:
    item = PartitionDescription(0, leader, 0, (1, 2, 3), isr, ())
    assert states_of("t", item, {"t": needed}) == states


async def test_of_a_partition_that_moves_the_original_replicas_count(
    fake: AdminCluster, asker: Admin
) -> None:
    fake.create_topic("t")
    fake.moves.settled[tp("t")] = [1]
    fake.moves.open[tp("t")] = PartitionMove("t", 0, "p", [1, 2], [1], [2], [], COPYING)

    async def states() -> list[str]:
        (row,) = (await listed_partitions(asker)).document["partitions"]
        (topic,) = (await listed_topics(asker)).document["topics"]
        assert ("under-replicated" in row["states"]) == bool(topic["under_replicated"])
        assert ("at-min-isr" in row["states"]) == bool(topic["at_min_isr"])
        return list(row["states"])

    assert await states() == []
    fake.rule(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        Action.ERROR,
        error=ClusterAuthorizationFailedError,
        times=2,
    )
    assert await states() == ["at-min-isr", "under-replicated"], "nobody says what moves"


async def test_of_several_states_one_has_to_hold(fake: AdminCluster, asker: Admin) -> None:
    fake.create_topic("t", 3)
    for number, leader in enumerate((1, 2, -1)):
        fake.partition("t", number).leader = leader

    async def numbers(*states: str, leader: int | None = None) -> list[int]:
        answer = await listed_partitions(asker, ["t"], states=states, leader=leader)
        return [row["partition"] for row in answer.document["partitions"]]

    assert await numbers() == [0, 1, 2]
    assert await numbers("unavailable", "not-preferred") == [
        row["partition"]
        for row in (await listed_partitions(asker)).document["partitions"]
        if {"unavailable", "not-preferred"} & set(row["states"])
    ]
    assert 2 in await numbers("unavailable")
    assert await numbers(leader=2) == [1]
    answer = await listed_partitions(asker, ["none", "t"])
    assert [each.item for each in answer.failures] == ["none"]
    assert len(answer.document["partitions"]) == 3


async def test_what_is_chosen_must_be_there(fake: AdminCluster, asker: Admin) -> None:
    fake.create_topic("t", 3)
    fake.create_topic("u")
    assert list(await chosen_partitions(asker, Chosen(("u",), (("t", 2),)))) == [
        ("u", 0),
        ("t", 2),
    ]
    assert len(await chosen_partitions(asker, None)) == 4
    with pytest.raises(CommandError, match="topic 't' has no partition 7"):
        await chosen_partitions(asker, Chosen((), (("t", 7),)))
    with pytest.raises(UnknownTopicOrPartitionError):
        await chosen_partitions(asker, Chosen(("none",), ()))


async def test_elections_that_are_not_needed_are_not_held(real: Cluster, admin: Admin) -> None:
    await real.create_topic("t", partitions=2)
    plan = await needed_elections(admin, None, unclean=False)
    assert plan == {"dry_run": True, "unclean": False, "partitions": []}
    plan = await needed_elections(admin, Chosen((), (("t", 1),)), unclean=False)
    (row,) = plan["partitions"]
    assert (row["leader"], row["preferred"], row["result"]) == (1, 1, "not needed")
    answer = await elected_leaders(admin, plan["partitions"], unclean=False)
    assert (answer.document["partitions"], answer.failures) == ([row], [])
    # The plan was made long ago: somebody leads again by now.
    answer = await elected_leaders(admin, [{**row, "leader": -1, "result": "needed"}], unclean=True)
    assert (answer.document["partitions"], answer.failures) == ([row], [])
    gone = {**row, "partition": 9, "result": "needed"}
    answer = await elected_leaders(admin, [row, gone], unclean=False)
    assert answer.document["partitions"][0] == row
    failed = answer.document["partitions"][1]
    assert (failed["result"], failed["error"]) == ("failed", "UNKNOWN_TOPIC_OR_PARTITION")
    assert [each.item for each in answer.failures] == ["t-9"]
