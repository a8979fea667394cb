"""Brokers are listed with what they lead, and what holds them up is a document."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import Admin
from oncelog.admin.broker_states import NOBODY_ELSE, NOT_PLANNED, PASSES
from oncelog_cli.documents.brokers import altered_broker, is_over, is_stuck, listed_brokers
from oncelog_protocol.messages.broker_states import (
    MOVES,
    AlterBrokerStatesResponse,
    HeldPartition,
)
from support.admin_cluster import AdminCluster
from support.golden import tp


async def test_brokers_are_listed_with_what_they_lead(fake: AdminCluster, asker: Admin) -> None:
    fake.create_topic("t", 3)
    fake.moves.settled[tp("t", 0)] = [1]
    fake.services.states[2] = "draining"
    answer = await listed_brokers(asker)
    assert answer.failures == []
    rows = answer.document["brokers"]
    assert [(row["broker_id"], row["state"], row["replicas"]) for row in rows] == [
        (1, "active", 3),
        (2, "draining", 2),
    ]
    assert sum(row["leaders"] for row in rows) == 3


async def test_what_is_left_of_a_broker(fake: AdminCluster, asker: Admin) -> None:
    said = AlterBrokerStatesResponse(0, None, "", 1234, "User:me", [HeldPartition("t", 1, "x")], 1)
    fake.services.left[2] = [said]
    document = await altered_broker(asker, 2, "draining", dry_run=True)
    assert document["leaders_left"] == [
        {"topic": "t", "partition": 1, "reason": "x", "passes": False}
    ]
    assert (document["state"], document["since_ms"], document["by"]) == (
        "draining",
        1234,
        "User:me",
    )
    assert fake.services.states == {}, "it was only asked"
    back = await altered_broker(asker, 1, "active")
    assert (back["since_ms"], back["by"]) == (None, None)


def held(state: str, leaders: list[str], replicas: list[str]) -> dict[str, Any]:
    return {
        "state": state,
        "leaders_left_count": len(leaders),
        "replicas_left_count": len(replicas),
        "leaders_left": [{"reason": reason, "passes": reason in PASSES} for reason in leaders],
        "replicas_left": [{"reason": reason, "passes": reason in PASSES} for reason in replicas],
    }


@pytest.mark.parametrize(
    ("document", "over", "stuck"),
    [
        (held("draining", [], []), True, False),
        (held("draining", [""], []), False, False),
        (held("draining", ["", NOBODY_ELSE], []), False, False),
        (held("draining", [NOBODY_ELSE], []), False, True),
        (held("decommissioning", [], [NOT_PLANNED]), False, False),
        (held("decommissioning", [], ["no room"]), False, True),
        (held("decommissioning", [], ["no room", MOVES]), False, False),
        (held("decommissioning", [], []), False, False),
        (held("decommissioned", [], []), True, False),
    ],
)
def test_when_to_stop_waiting(document: dict[str, Any], over: bool, stuck: bool) -> None:
    assert (is_over(document), is_stuck(document)) == (over, stuck)
