"""``oncelog cluster health``: is the cluster healthy, and if not, what is wrong.

Rules: exit code 0 when it is healthy, 10 when it was looked at and is not, 1 when it could not be
looked at. ``--style nagios`` has Nagios' codes instead: 0 ok, 1 warning, 2 critical, 3 unknown.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.cluster import health_of, snapshot
from oncelog_cli.exits import EXIT_UNHEALTHY
from oncelog_cli.health import (
    DISK_CRITICAL_PERCENT,
    DISK_WARNING_PERCENT,
    ClusterSnapshot,
    HealthCheck,
    HealthLimits,
    Status,
    check_all,
    nagios_line,
    prometheus_text,
    worst,
    wrong_ones,
)
from oncelog_cli.options import UsageError
from oncelog_cli.render import Column, Output
from oncelog_cli.runner import run
from oncelog_cli.watching import (
    INTERVAL,
    IntervalOption,
    WatchOption,
    look_again,
    moment,
    seconds_of,
)

NAGIOS_UNKNOWN = 3

COLUMNS = (
    Column("CHECK", "check"),
    Column("STATUS", "status"),
    Column("WRONG", "count", right=True),
    Column("WHAT", "detail"),
)


class Style(StrEnum):
    """The command can print a health check in these styles, beside a table and documents."""

    PLAIN = "plain"
    NAGIOS = "nagios"
    PROMETHEUS = "prometheus"


BrokersOption = Annotated[
    int, typed.Option("--brokers", min=0, metavar="N", help="Critical with fewer brokers.")
]
WarningOption = Annotated[
    float,
    typed.Option(
        "--disk-warning", min=0, max=100, metavar="PERCENT", help="Warn below so much free space."
    ),
]
CriticalOption = Annotated[
    float,
    typed.Option("--disk-critical", min=0, max=100, metavar="PERCENT", help="Critical below it."),
]
ExitOption = Annotated[
    bool,
    typed.Option(
        "--exit-when-healthy", "-e", help="With --watch: end with 0 once the cluster is healthy."
    ),
]
TimeoutOption = Annotated[
    str | None,
    typed.Option(
        "--timeout",
        metavar="DURATION",
        help="With --watch: end after so long, with 10 if it is not healthy then.",
    ),
]
StyleOption = Annotated[
    Style,
    typed.Option(
        "--style",
        metavar="plain|nagios|prometheus",
        help="One line and exit codes for Nagios, or metrics, instead of a table.",
    ),
]


def health(
    output: Output,
    cluster: NamedCluster,
    brokers: BrokersOption = 0,
    disk_warning: WarningOption = DISK_WARNING_PERCENT,
    disk_critical: CriticalOption = DISK_CRITICAL_PERCENT,
    watch: WatchOption = False,
    interval: IntervalOption = INTERVAL,
    exit_when_healthy: ExitOption = False,
    timeout: TimeoutOption = None,
    style: StyleOption = Style.PLAIN,
) -> None:
    """Say whether the cluster is healthy: exit code 0 if it is, 10 if not.

    Checks the controller, missing brokers, partitions without a leader, below min.insync.replicas
    or under-replicated, log directories and free disk space.
    """
    limits = HealthLimits(brokers, disk_warning, disk_critical)
    if (exit_when_healthy or timeout is not None) and not watch:
        raise UsageError("--exit-when-healthy and --timeout are for --watch")
    if watch and output.is_json and not exit_when_healthy:
        raise UsageError("--watch has no end, and JSON is one document: add --exit-when-healthy")
    if style is not Style.PLAIN and (watch or output.is_json):
        raise UsageError("--style stands instead of a format, and not with --watch")
    if style is Style.NAGIOS:
        _nagios(cluster, limits)
    pause_s = seconds_of("--interval", interval)
    limit_s = None if timeout is None else seconds_of("--timeout", timeout)
    if watch:
        checks = run(
            _watch(cluster.servers, limits, output, pause_s, limit_s, until=exit_when_healthy)
        )
    else:
        checks = check_all(cluster.ask(snapshot), limits)
    status, document = worst(checks), health_of(checks)
    if style is Style.PROMETHEUS:
        output.line(prometheus_text(checks))
    elif not watch:
        output.line(_word(status))
        output.line()
        output.table(COLUMNS, document["checks"])
    output.finish(document)
    if status is not Status.OK:
        raise typed.Exit(EXIT_UNHEALTHY)


def _nagios(cluster: NamedCluster, limits: HealthLimits) -> None:
    from oncelog import OncelogError

    try:
        checks = check_all(cluster.ask(snapshot), limits)
    except (OncelogError, OSError) as error:
        print(f"UNKNOWN {' '.join(str(error).split())}")
        raise typed.Exit(NAGIOS_UNKNOWN) from None
    print(nagios_line(checks))
    raise typed.Exit(int(worst(checks)))


async def _watch(
    servers: str,
    limits: HealthLimits,
    output: Output,
    pause_s: float,
    limit_s: float | None,
    *,
    until: bool,
) -> list[HealthCheck]:
    """Look until it is healthy, or time is up; a cluster that does not answer may yet come."""
    checks: list[HealthCheck] = []

    def seen(found: ClusterSnapshot | Exception) -> bool:
        if isinstance(found, Exception):
            text = " ".join(str(found).split())
            checks[:] = [HealthCheck("answer", Status.CRITICAL, (), text, unnamed=1)]
        else:
            checks[:] = check_all(found, limits)
        status = worst(checks)
        output.line(f"{moment()}  {_word(status)}  {'; '.join(wrong_ones(checks))}".rstrip())
        return until and status is Status.OK

    await look_again(servers, snapshot, seen, pause_s, limit_s)
    return checks


def _word(status: Status) -> str:
    return "healthy" if status is Status.OK else f"unhealthy ({status})"
