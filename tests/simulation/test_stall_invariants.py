"""These tests check [I27] over a broker whose disk does not answer."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from simulation.stall_invariants import PATIENCE_S, StallInvariants
from simulation.store_view import InvariantViolation


def cluster(*, ahead: list[int], paused: bool = False, gives_way: bool = False) -> Any:
    """Make one broker, one partition, and a disk that stalls since 1 s."""
    log_dir = SimpleNamespace(online=True, full=False, flusher=SimpleNamespace(stalled_since=1.0))
    log_dir = cast(Any, _Hashed(log_dir))
    leader = SimpleNamespace(gives_way=gives_way, ahead=lambda *_: ahead)
    log = SimpleNamespace(log_dir=log_dir, synced_offset=3, log_end_offset=5)
    partition = SimpleNamespace(topic_partition=("t", 0), leader=leader, log=log)
    replicas = SimpleNamespace(now=lambda: 5.0, partitions=lambda: [partition])
    broker = SimpleNamespace(replicas=replicas, logs=SimpleNamespace(dirs=[log_dir]))
    return SimpleNamespace(
        brokers={1: broker},
        serving={1: None},
        process=lambda _: SimpleNamespace(
            paused=paused, run=lambda function, *args: function(*args)
        ),
    )


def test_for_how_long_the_disk_is_silent_is_read_on_the_clock_of_its_broker() -> None:
    """A slow clock says later that a round takes too long."""
    stalls, found = StallInvariants(), cluster(ahead=[2])
    flusher = found.brokers[1].logs.dirs[0].flusher

    def run(function: Callable[..., Any], *args: Any) -> Any:
        flusher.stalled_since = None
        try:
            return function(*args)
        finally:
            flusher.stalled_since = 1.0

    found.process = lambda _: SimpleNamespace(paused=False, run=run)
    stalls.check(found, 10.0)
    stalls.check(found, 10.1 + PATIENCE_S)


class _Hashed:
    def __init__(self, what: SimpleNamespace) -> None:
        self.__dict__.update(what.__dict__)


def test_a_leader_that_could_give_way_and_does_not_is_found() -> None:
    stalls = StallInvariants()
    stalls.check(cluster(ahead=[2]), 10.0)
    stalls.check(cluster(ahead=[2]), 10.0 + PATIENCE_S)
    with pytest.raises(InvariantViolation, match="I27.*broker 1 leads"):
        stalls.check(cluster(ahead=[2]), 10.1 + PATIENCE_S)


@pytest.mark.parametrize(
    "meanwhile", [{"ahead": []}, {"ahead": [2], "paused": True}, {"ahead": [2], "gives_way": True}]
)
def test_only_the_time_counts_in_which_it_could(meanwhile: dict[str, Any]) -> None:
    stalls = StallInvariants()
    stalls.check(cluster(ahead=[2]), 10.0)
    stalls.check(cluster(**meanwhile), 11.0)
    stalls.check(cluster(ahead=[2]), 12.0)
    stalls.check(cluster(ahead=[2]), 12.0 + PATIENCE_S)
