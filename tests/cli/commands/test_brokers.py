"""These tests take a broker of a scripted cluster out of service by ``oncelog brokers``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog.admin.broker_states import NOBODY_ELSE
from oncelog_cli.commands import brokers
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.messages.balance import BalanceResponse, PlannedReplicas
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.broker_states import AlterBrokerStatesRequest
from oncelog_protocol.messages.broker_states import AlterBrokerStatesResponse as Answer
from oncelog_protocol.messages.broker_states import HeldPartition as Held
from support.admin_cluster import AdminCluster
from support.fake_cluster import Action
from support.shell import Shown, oncelog


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Start two brokers."""
    async with AdminCluster(2) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again soon."""
    monkeypatch.setattr(brokers, "PAUSE_S", 0.01)


async def run(cluster: AdminCluster, *words: str) -> Shown:
    return await oncelog("brokers", *words, bootstrap=cluster.bootstrap)


def leads(*reasons: str) -> Answer:
    held = [Held("t", number, reason) for number, reason in enumerate(reasons)]
    return Answer(leaders_left=held, leaders_left_count=len(held))


def asked(cluster: AdminCluster) -> list[tuple[str, bool]]:
    found = [each for _, each in cluster.requests if isinstance(each, AlterBrokerStatesRequest)]
    return [(each.wanted, each.validate_only) for each in found]


async def test_a_drain_is_waited_for(cluster: AdminCluster) -> None:
    cluster.services.left[2] = [leads("", ""), leads(""), leads(NOBODY_ELSE, ""), leads()]
    shown = await run(cluster, "drain", "2", "--wait")
    assert shown.code == 0, shown.err
    assert "broker 2 would be draining" not in shown.out
    assert shown.out.splitlines()[-1] == "broker 2 is draining"
    assert asked(cluster) == [("draining", False)] + [("draining", True)] * 3


async def test_what_nobody_else_can_lead_is_not_waited_for(cluster: AdminCluster) -> None:
    cluster.services.left[2] = [leads("", NOBODY_ELSE), leads(NOBODY_ELSE)]
    shown = await run(cluster, "drain", "2", "--wait", "--json")
    assert shown.code == 10
    assert [row["reason"] for row in shown.document["leaders_left"]] == [NOBODY_ELSE]
    assert shown.document["dry_run"] is False
    shown = await run(cluster, "drain", "2", "--wait", "--timeout", "30ms")
    assert shown.code == 10, "it may yet come about, and time is up"
    assert cluster.services.states == {2: "draining"}


async def test_to_decommission_asks_first(cluster: AdminCluster) -> None:
    left = [Held("t", 0, "no broker has room for it on its disks")]
    cluster.services.left[2] = [Answer(replicas_left=left, replicas_left_count=1)]
    shown = await run(cluster, "decommission", "2")
    assert shown.code == 2
    assert "Decommission broker 2?" in shown.err
    assert cluster.services.states == {}
    shown = await run(cluster, "decommission", "2", "--accept-loss", "t:0,3")
    assert "lose the records of 2 partitions?" in shown.err
    shown = await run(cluster, "decommission", "2", "--wait", "--yes")
    assert shown.code == 10, "nothing moves it"
    assert "no broker has room" in shown.out
    assert cluster.services.states == {2: "decommissioning"}
    done = Answer(state="decommissioned")
    cluster.services.left[2] = [Answer(), done]
    shown = await run(cluster, "decommission", "2", "--wait", "--yes")
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "broker 2 is decommissioned")


async def test_a_dry_run_says_how_full_disks_would_be(cluster: AdminCluster) -> None:
    cluster.disk = (10_240, 8192)
    cluster.moves.balance = BalanceResponse(
        steps=[PlannedReplicas("t", 0, [2], [1], 1024, "evacuate")]
    )
    shown = await run(cluster, "decommission", "2", "--dry-run")
    assert "broker 1: disks 20 % full, afterwards 30 %" in shown.out
    (planned,) = cluster.moves.asked_for
    assert (planned.purpose, planned.from_brokers) == ("evacuate", [2])
    shown = await run(cluster, "decommission", "2", "--dry-run", "--json")
    assert [row["percent_after"] for row in shown.document["disks"]] == [30, 20]
    # What would change anyway is told also when the controller plans nothing at the moment.
    cluster.rule(ApiKey.BALANCE, Action.ERROR, error=PolicyViolationError)
    shown = await run(cluster, "decommission", "2", "--dry-run", "--json")
    assert (shown.code, shown.document["disks"]) == (0, [])
    assert cluster.services.states == {}


async def test_a_broker_comes_back(cluster: AdminCluster) -> None:
    await run(cluster, "drain", "2")
    shown = await run(cluster, "list")
    assert shown.out.splitlines()[2].split()[:2] == ["2", "draining"]
    shown = await run(cluster, "recommission", "2")
    assert (shown.code, shown.out) == (0, "broker 2 is active\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain", "2", "--timeout", "3s"), "--timeout is for --wait"),
        (("drain", "2", "--wait", "--dry-run"), "--wait has nothing to wait for"),
        (("decommission", "2", "-y", "--accept-loss", "t"), "name its partitions"),
    ],
)
async def test_lines_that_make_no_sense(
    cluster: AdminCluster, words: tuple[str, ...], said: str
) -> None:
    shown = await run(cluster, *words)
    assert shown.code == 2
    assert said in shown.err
    assert cluster.services.states == {}
