"""Brokers are killed in turns, one at a time, and are started again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_suites import kills
from kafka_suites.kills import TURNS, Kills, TooFewKillsError
from oncelog.errors import OncelogError
from oncelog_cli.local.process import LocalClusterError

DEADLINE_S = 10.0


class FakeCluster:
    """It writes down who was killed and started."""

    bootstrap = "there:1"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.enough = threading.Event()
        self.broken = False

    def broker(self, number: int) -> Any:
        """Return what can be killed."""
        return SimpleNamespace(kill=lambda: self.done.append(f"kill {number}"))

    def start_broker(self, number: int) -> None:
        """Start it again."""
        self.done.append(f"start {number}")
        if self.broken:
            raise LocalClusterError("it was not ready")
        if len(self.done) >= 2 * len(TURNS):
            self.enough.set()


class FakeAdmin:
    """It knows a cluster in which each kind of broker is another one."""

    groups: Sequence[Any] = (SimpleNamespace(coordinator=5),)
    asked = 0
    listed = 0

    def __init__(self, bootstrap: str) -> None:
        assert bootstrap == FakeCluster.bootstrap

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def describe_topics(self) -> list[Any]:
        """One topic of clients: 1 leads, 3 follows; the internal one is nobody's turn."""
        partition = SimpleNamespace(leader=1, isr=(1, 3))
        others = SimpleNamespace(leader=9, isr=(9, 8))
        return [
            SimpleNamespace(internal=False, partitions=[partition]),
            SimpleNamespace(internal=True, partitions=[others]),
        ]

    def list_transactions(self, states: Sequence[str]) -> list[Any]:
        """One is open; it is not told at once."""
        assert list(states) == ["Ongoing"]
        FakeAdmin.asked += 1
        if FakeAdmin.asked == 1:
            raise OncelogError("busy")
        return [SimpleNamespace(coordinator=2)] if FakeAdmin.asked > 2 else []

    def list_groups(self) -> Sequence[Any]:
        """Return the groups."""
        FakeAdmin.listed += 1
        return self.groups

    def describe_cluster(self) -> Any:
        """Return who is controller."""
        return SimpleNamespace(controller_id=4)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kills, "Admin", FakeAdmin)
    monkeypatch.setattr(kills, "DOWN_S", (0.0, 0.0))
    monkeypatch.setattr(kills, "PAUSE_S", (0.0, 0.0))
    monkeypatch.setattr(kills, "POLL_S", 0.0)
    monkeypatch.setattr(FakeAdmin, "asked", 0)
    return FakeCluster()


def test_each_kind_of_broker_has_its_turn_and_is_started_before_the_next(cluster: Any) -> None:
    said: list[str] = []
    with kills.killed_in_turns(cluster, said.append, seed=7) as running:
        assert cluster.enough.wait(DEADLINE_S)
    running.check()
    turns = [f"{what} {number}" for number in (1, 2, 3, 4, 5) for what in ("kill", "start")]
    assert cluster.done[: len(turns)] == turns
    assert len(cluster.done) <= len(turns) * kills.ROUNDS
    assert cluster.done[::2] == [each.replace("start", "kill") for each in cluster.done[1::2]]
    assert "kill -9 of broker 2, transaction coordinator" in said


def test_nobody_is_killed_before_the_groups_are_there(cluster: Any) -> None:
    before = FakeAdmin.listed
    with kills.killed_in_turns(cluster, lambda _: None, groups=2) as running:
        until(lambda: FakeAdmin.listed > before + 5)
    assert not cluster.done
    with pytest.raises(TooFewKillsError, match="nobody was killed as leader, transaction_coord"):
        running.check()


def test_a_broker_that_does_not_serve_again_is_told(cluster: Any) -> None:
    cluster.broken = True
    running = Kills(cluster, lambda _: None, 1, 1)
    running.start()
    until(lambda: bool(cluster.done))
    with pytest.raises(LocalClusterError, match="not ready"):
        running.end()


def test_the_follower_leads_the_fewest() -> None:
    led = [SimpleNamespace(leader=1, isr=(1, 2, 3)), SimpleNamespace(leader=2, isr=(1, 2, 3))]
    admin: Any = SimpleNamespace(
        describe_topics=lambda: [SimpleNamespace(internal=False, partitions=led)]
    )
    assert {kills.follower(admin, random.Random(seed)) for seed in range(20)} == {3}
    nobody: Any = SimpleNamespace(describe_topics=list)
    assert kills.follower(nobody, random.Random(1)) is None
    assert kills.leader(nobody, random.Random(1)) is None


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
