"""These tests go through what makes a cluster unhealthy, check by check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog import TopicPartition
from oncelog.admin.reassignments import COPYING, STALLED, PartitionReassignment
from oncelog.admin.results import (
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    PartitionDescription,
    TopicDescription,
)
from oncelog.errors import BrokerUnreachableError
from oncelog_cli.health import (
    ClusterSnapshot,
    HealthCheck,
    HealthLimits,
    Status,
    check_all,
    nagios_line,
    prometheus_text,
    worst,
)
from oncelog_cli.open_moves import KnownMoves
from oncelog_protocol.errors import StorageError


def partition(number: int, isr: tuple[int, ...] = (1, 2, 3), leader: int = 1) -> Any:
    return PartitionDescription(number, leader, 0, (1, 2, 3), isr, ())


def seen(
    *partitions: PartitionDescription,
    brokers: tuple[int, ...] = (1, 2, 3),
    controller: int = 1,
    min_isr: int = 2,
    log_dirs: tuple[LogDirDescription, ...] = (),
) -> ClusterSnapshot:
    cluster = ClusterDescription(
        "c", controller, 1, tuple(BrokerDescription(b, 1, None, {}) for b in brokers)
    )
    topics = [TopicDescription("t", None, "id", False, partitions or (partition(0),))]
    return ClusterSnapshot(cluster, topics, {"t": min_isr}, log_dirs)


def wrong(
    snapshot: ClusterSnapshot, limits: HealthLimits | None = None
) -> dict[str, tuple[Status, str]]:
    return {
        check.name: (check.status, check.detail)
        for check in check_all(snapshot, limits or HealthLimits())
        if check.status is not Status.OK
    }


def disk(broker: int, free: int, error: Any = None) -> LogDirDescription:
    return LogDirDescription(broker, f"/d{broker}", error, 1000, free)


def damaged(broker: int, free: int) -> LogDirDescription:
    return replace(disk(broker, free), damaged=(TopicPartition("t", 0),))


def test_a_healthy_cluster() -> None:
    checks = check_all(seen(log_dirs=(disk(1, 500),)), HealthLimits())
    assert worst(checks) is Status.OK
    assert [check.name for check in checks] == [
        "controller",
        "brokers",
        "leaderless",
        "under_min_isr",
        "under_replicated",
        "log_dirs",
        "disk",
    ]
    assert nagios_line(checks).startswith("OK healthy | brokers=0 leaderless=0")


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (seen(controller=-1), {"controller": (Status.CRITICAL, "nobody is controller")}),
        (
            seen(controller=9),
            {"controller": (Status.WARNING, "broker 9, which is not listed")},
        ),
        (
            seen(partition(0, (1, 2)), brokers=(1, 2)),
            {
                "brokers": (Status.WARNING, "missing: broker 3"),
                "under_replicated": (Status.WARNING, "1 of 1: t-0"),
            },
        ),
        (
            seen(partition(0, (1,)), partition(1)),
            {
                "under_min_isr": (Status.CRITICAL, "1 of 2: t-0"),
                "under_replicated": (Status.WARNING, "1 of 2: t-0"),
            },
        ),
        (
            seen(partition(0, (), -1), min_isr=1),
            {
                "leaderless": (Status.CRITICAL, "1 of 1: t-0"),
                "under_min_isr": (Status.CRITICAL, "1 of 1: t-0"),
                "under_replicated": (Status.WARNING, "1 of 1: t-0"),
            },
        ),
        (
            seen(log_dirs=(disk(1, 100), disk(2, 10))),
            {
                "disk": (
                    Status.CRITICAL,
                    "broker 2 /d2 1.0 % free, broker 1 /d1 10.0 % free",
                )
            },
        ),
        (
            seen(log_dirs=(LogDirDescription(2, "", BrokerUnreachableError(2, "h", "no")),)),
            {"log_dirs": (Status.WARNING, "no answer: broker 2")},
        ),
        (
            seen(
                log_dirs=(
                    LogDirDescription(2, "", BrokerUnreachableError(2, "h", "no")),
                    LogDirDescription(3, "/d", StorageError()),
                )
            ),
            {"log_dirs": (Status.CRITICAL, "offline, or no answer: broker 2, broker 3 /d")},
        ),
        (
            seen(log_dirs=(damaged(1, 500),)),
            {"log_dirs": (Status.CRITICAL, "damaged logs: broker 1 t-0")},
        ),
        (
            seen(log_dirs=(damaged(2, 500),)),
            {"log_dirs": (Status.WARNING, "damaged logs: broker 2 t-0")},
        ),
    ],
)
def test_what_is_wrong(snapshot: ClusterSnapshot, expected: dict[str, Any]) -> None:
    assert wrong(snapshot) == expected


def test_limits() -> None:
    snapshot = seen(log_dirs=(disk(1, 100),))
    limits = HealthLimits(brokers=4, disk_warning_percent=5, disk_critical_percent=1)
    assert wrong(snapshot, limits) == {"brokers": (Status.CRITICAL, "3 of 4")}
    (brokers,) = [check for check in check_all(snapshot, limits) if check.name == "brokers"]
    assert brokers.count == 1
    # A topic with fewer replicas than min.insync.replicas needs just those.
    assert wrong(seen(min_isr=9)) == {}


def test_every_broker_that_is_missing_is_counted() -> None:
    checks = check_all(seen(brokers=(1, 2)), HealthLimits(brokers=5))
    assert checks[1].detail == "2 of 5, missing: broker 3"
    assert checks[1].count == 3, "one that has replicas, and two that nobody has seen"
    assert "| brokers=3 " in nagios_line(checks)
    assert 'oncelog_health_count{check="brokers"} 3' in prometheus_text(checks)
    # Those that are away are wrong, also when enough others are there.
    assert check_all(seen(brokers=(1, 2)), HealthLimits(brokers=2))[1].count == 1


@pytest.mark.parametrize("controller", [-1, 9])
def test_a_controller_that_is_not_well_is_one_thing_wrong(controller: int) -> None:
    assert check_all(seen(controller=controller), HealthLimits())[0].count == 1
    assert check_all(seen(controller=1), HealthLimits())[0].count == 0


def test_many_things_are_counted_and_some_named() -> None:
    check = HealthCheck(
        "x", Status.WARNING, tuple(f"t-{number}" for number in range(12)), "12 of 12"
    )
    assert check.detail == "12 of 12: t-0, t-1, t-2, t-3, t-4 and 7 more"


def test_other_formats() -> None:
    checks = check_all(seen(partition(0, (1,)), controller=-1), HealthLimits())
    line = nagios_line(checks)
    assert line.startswith("CRITICAL controller nobody is controller; under_min_isr 1 of 1: t-0;")
    assert "| brokers=0 leaderless=0 under_min_isr=1 under_replicated=1" in line
    text = prometheus_text(checks)
    assert 'oncelog_health_status{check="controller"} 2' in text
    assert 'oncelog_health_count{check="under_min_isr"} 1' in text


# ------------------------------------------------------------------------------ moves


def moved(phase: str, moves_reason: str = "") -> KnownMoves:
    move = PartitionReassignment(
        TopicPartition("t", 0),
        *("p", phase, (1, 2, 3), (1,), (2, 3)),
        reason=moves_reason,
    )
    return KnownMoves({("t", 0): move})


def test_a_partition_that_moves_is_as_sound_as_it_was() -> None:
    copying = seen(partition(0, (1,)))
    assert wrong(copying).keys() == {"under_min_isr", "under_replicated"}
    assert wrong(replace(copying, moves=moved(COPYING))) == {}
    checks = {each.name: each for each in check_all(seen(), HealthLimits())}
    assert "moves" not in checks, "nobody has asked"
    checks = {
        each.name: each
        for each in check_all(replace(copying, moves=moved(COPYING)), HealthLimits())
    }
    assert checks["moves"].detail == "1 under way"


def test_a_stalled_move_is_named() -> None:
    stalled = replace(seen(partition(0, (1,))), moves=moved(STALLED, "broker 3 is away"))
    assert wrong(stalled) == {"moves": (Status.WARNING, "stalled: t-0 (broker 3 is away)")}


def test_moves_that_nobody_tells_are_no_fault() -> None:
    silent = replace(seen(), moves=KnownMoves(None, "you may not ask"))
    assert wrong(silent) == {}
    checks = {each.name: each for each in check_all(silent, HealthLimits())}
    assert checks["moves"].detail == "not known: you may not ask"
