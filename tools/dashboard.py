"""Write deploy/grafana/dashboards/oncelog.json from the panels named here.

    python tools/dashboard.py            write it
    python tools/dashboard.py --check    say whether it is out of date, exit 1 if so

A panel is a title, queries and a unit; where it stands follows from its row. Grafana's own JSON is
long, and nobody can review a change in it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.generated import write_or_check  # noqa: E402

PATH = ROOT / "deploy/grafana/dashboards/oncelog.json"
DATASOURCE = {"type": "prometheus", "uid": "oncelog-prometheus"}
WIDTH = 24
B = 'broker=~"$broker"'
RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Panel:
    """A panel has a title, a unit and ``queries``, which are (expression, legend)."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    bad_above: float | None = None
    """A single number turns red above it ..."""
    bad_below: float | None = None
    """... or below it."""
    text: str = ""


def stat(title: str, query: str, above: float | None = None, below: float | None = None) -> Panel:
    """Make a panel with a single number."""
    return Panel(title, ((query, ""),), "short", "stat", 3, above, below)


def graph(title: str, *queries: tuple[str, str], unit: str = "short", text: str = "") -> Panel:
    """Make a panel with lines over time."""
    return Panel(title, queries, unit, text=text)


def own(metric: str, where: str = B) -> str:
    """Return a metric of ours, of the brokers that are chosen."""
    return f"oncelog_{metric}{{{where}}}"


def summed(by: str, expression: str) -> str:
    """Return the sum of something by a label."""
    return f"sum by ({by}) ({expression})"


def rate(metric: str, by: str = "") -> str:
    """Return how much a counter grows in a second, by a label or in all."""
    return f"sum{f' by ({by}) ' if by else ''}(rate({own(metric)}{RATE}))"


def quantile(fraction: float, metric: str, by: str = "le", where: str = B) -> str:
    """Return what so many of a histogram's values lie below."""
    counted = f"rate({own(f'{metric}_bucket', where)}{RATE})"
    return f"histogram_quantile({fraction}, sum by ({by}) ({counted}))"


def quantiles(metric: str, where: str = B) -> tuple[tuple[str, str], ...]:
    """Return the median, the 95th and the 99th percentile of a histogram, as queries."""
    return tuple((quantile(q, metric, where=where), f"p{int(q * 100)}") for q in (0.5, 0.95, 0.99))


def of_group(metric: str) -> str:
    """Return a metric of the consumer groups that are chosen."""
    return own(f"consumergroup_{metric}", 'consumergroup=~"$group"')


def of_process(metric: str) -> str:
    """Return what a broker's process tells of itself."""
    return f'process_{metric}{{job="oncelog"}}'


ROWS: dict[str, list[Panel]] = {
    "Overview": [
        stat("Brokers ready", "sum(oncelog_broker_ready)", below=1),
        stat("Controllers", "sum(oncelog_active_controller)", above=1.5, below=1),
        stat("Offline partitions", "sum(oncelog_offline_partitions)", above=1),
        stat("Under min ISR", "sum(oncelog_under_min_isr_partitions)", above=1),
        stat("Under-replicated", "sum(oncelog_under_replicated_partitions)", above=1),
        stat("At min ISR", "sum(oncelog_at_min_isr_partitions)", above=1),
        stat("Brokers missing", "sum(oncelog_missing_brokers)", above=1),
        stat("Assertions failed", "sum(oncelog_assertions_failed_total)", above=1),
    ],
    "Traffic": [
        graph(
            "Records in",
            (f"{rate('topic_messages_in_total', 'topic')} > 0", "{{topic}}"),
            unit="cps",
        ),
        graph(
            "Bytes in", (f"{rate('topic_bytes_in_total', 'topic')} > 0", "{{topic}}"), unit="Bps"
        ),
        graph(
            "Bytes out", (f"{rate('topic_bytes_out_total', 'topic')} > 0", "{{topic}}"), unit="Bps"
        ),
        graph(
            "Replication",
            (rate("replication_bytes_in_total", "broker"), "in {{broker}}"),
            (rate("replication_bytes_out_total", "broker"), "out {{broker}}"),
            unit="Bps",
        ),
        graph("Leaders", (own("leader_partitions"), "{{broker}}")),
        graph("Replicas", (own("partitions"), "{{broker}}")),
    ],
    "Requests": [
        graph("Requests", (f"{rate('requests_total', 'api')} > 0", "{{api}}"), unit="reqps"),
        graph(
            "Errors",
            (rate("request_errors_total", "api, error"), "{{api}} {{error}}"),
            unit="reqps",
            text="Some are of a healthy cluster: MEMBER_ID_REQUIRED is how a member gets its id.",
        ),
        graph(
            "Latency of Produce",
            *quantiles("request_latency_seconds", f'api="Produce",{B}'),
            unit="s",
        ),
        graph(
            "Latency by API, p99",
            (quantile(0.99, "request_latency_seconds", "api, le"), "{{api}}"),
            unit="s",
            text="A Fetch waits for records, a JoinGroup for the other members: long is no harm.",
        ),
        graph("Parked requests", (f"{summed('api', own('parked_requests'))} > 0", "{{api}}")),
        graph(
            "Connections",
            (own("connections"), "{{broker}} {{listener}}"),
            (rate("connections_refused_total", "broker"), "refused/s {{broker}}"),
        ),
        graph("Queued bytes", (own("queued_bytes"), "{{broker}}"), unit="bytes"),
    ],
    "Replication": [
        graph(
            "Under-replicated, at and under min ISR",
            (own("under_replicated_partitions"), "under-replicated {{broker}}"),
            (own("at_min_isr_partitions"), "at min ISR {{broker}}"),
            (own("under_min_isr_partitions"), "under min ISR {{broker}}"),
        ),
        graph(
            "ISR changes",
            (rate("isr_shrinks_total", "broker"), "smaller {{broker}}"),
            (rate("isr_expands_total", "broker"), "larger {{broker}}"),
        ),
        graph(
            "Elections",
            (rate("leader_changes_total"), "leader changes"),
            (rate("unclean_leader_elections_total"), "unclean"),
            (rate("controller_terms_total"), "controllers"),
        ),
        graph("Follower lag", (own("follower_lag_records"), "{{follower}} behind {{broker}}")),
        graph(
            "Not at preferred leader", ("sum(oncelog_preferred_replica_imbalance)", "partitions")
        ),
        graph(
            "Moves of partitions",
            ("sum(oncelog_reassigning_partitions)", "move"),
            ("sum(oncelog_moves_queued)", "wait for their turn"),
            ("sum(oncelog_moves_stalled)", "held up"),
        ),
        graph(
            "Replicas far behind",
            (rate("catch_up_bytes_total", "broker, direction"), "{{direction}} {{broker}}"),
            (own("catch_up_pace_bytes"), "pace {{direction}} {{broker}}"),
            unit="Bps",
        ),
        graph(
            "Replicas out of service, rot",
            (own("failed_replicas"), "out of service {{broker}}"),
            (own("damaged_logs"), "damaged {{broker}}"),
        ),
    ],
    "Consumer groups": [
        graph(
            "Lag in records",
            (summed("consumergroup", of_group("lag_sum")), "{{consumergroup}}"),
        ),
        graph(
            "Lag in time",
            (f"max by (consumergroup) ({of_group('lag_seconds_max')})", "{{consumergroup}}"),
            unit="s",
        ),
        graph(
            "Partitions with most lag",
            (f"topk(10, {of_group('lag')})", "{{consumergroup}} {{topic}}-{{partition}}"),
        ),
        graph("Members", (summed("consumergroup", of_group("members")), "{{consumergroup}}")),
        graph(
            "Rebalances",
            (
                summed("consumergroup", f"changes({of_group('generation')}[10m])"),
                "{{consumergroup}}",
            ),
            text="In the last ten minutes.",
        ),
        graph("Groups", (summed("state", "oncelog_consumer_groups"), "{{state}}")),
    ],
    "Transactions": [
        graph("Transactional ids", (summed("state", "oncelog_transactional_ids"), "{{state}}")),
        graph(
            "Oldest transaction",
            ("max(oncelog_open_transaction_age_seconds_max)", "open"),
            ("max(oncelog_transaction_ending_seconds_max)", "decided, markers under way"),
            unit="s",
        ),
        graph(
            "Committed records behind open transactions",
            (f"{summed('topic', 'oncelog_partition_last_stable_offset_lag')} > -1", "{{topic}}"),
        ),
        graph(
            "Open transactions in partitions",
            (f"{summed('topic', 'oncelog_partition_open_transactions')} > -1", "{{topic}}"),
        ),
        graph("Producers", (summed("broker", "oncelog_partition_producers"), "{{broker}}")),
        graph(
            "Coordinators",
            (
                summed("coordinator, state", "oncelog_coordinator_partitions"),
                "{{coordinator}} {{state}}",
            ),
        ),
    ],
    "Disks": [
        graph(
            "Free space",
            (
                f"{own('log_dir_free_bytes')} / {own('log_dir_total_bytes')}",
                "{{broker}} {{directory}}",
            ),
            unit="percentunit",
        ),
        graph(
            "Size of logs",
            (summed("topic", own("partition_size_bytes")), "{{topic}}"),
            unit="bytes",
            text="All replicas together.",
        ),
        graph("Duration of syncs", *quantiles("log_sync_seconds"), unit="s"),
        graph("Syncs", (rate("log_sync_seconds_count", "broker"), "{{broker}}"), unit="ops"),
        graph(
            "Directories that work, or are full",
            (own("log_dir_online"), "works {{broker}} {{directory}}"),
            (own("log_dir_full"), "full {{broker}} {{directory}}"),
        ),
        graph(
            "Loaded at start",
            (own("load_logs_done"), "done {{broker}}"),
            (own("load_logs"), "all {{broker}}"),
        ),
    ],
    "Process": [
        graph(
            "CPU",
            (f"rate({of_process('cpu_seconds_total')}{RATE})", "{{instance}}"),
            unit="percentunit",
        ),
        graph("Memory", (of_process("resident_memory_bytes"), "{{instance}}"), unit="bytes"),
        graph(
            "File descriptors",
            (f"{of_process('open_fds')} / {of_process('max_fds')}", "{{instance}}"),
            unit="percentunit",
        ),
        graph(
            "Lag of the event loop, p99",
            (quantile(0.99, "event_loop_lag_seconds", "broker, le"), "{{broker}}"),
            unit="s",
        ),
        graph("Tasks", (summed("broker", own("tasks")), "{{broker}}")),
        graph(
            "Up since", (f"time() - {of_process('start_time_seconds')}", "{{instance}}"), unit="s"
        ),
    ],
}


def thresholds(panel: Panel) -> dict[str, Any]:
    """Return green, and red where it is bad."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    return {"mode": "absolute", "steps": steps}


def panel_json(panel: Panel, number: int, x: int, y: int, height: int) -> dict[str, Any]:
    """Return a panel as Grafana wants it."""
    return {
        "id": number,
        "title": panel.title,
        "description": panel.text,
        "type": panel.kind,
        "datasource": DATASOURCE,
        "gridPos": {"h": height, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": thresholds(panel)},
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """Return a choice at the top of the page."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 3,
    }


def dashboard() -> dict[str, Any]:
    """Return the whole page."""
    panels: list[dict[str, Any]] = []
    number = y = 0
    for title, row in ROWS.items():
        number += 1
        place = {"h": 1, "w": WIDTH, "x": 0, "y": y}
        panels.append(
            {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place,
             "panels": []}
        )  # fmt: skip
        y += 1
        x = 0
        for panel in row:
            height = 4 if panel.kind == "stat" else 8
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            number += 1
            panels.append(panel_json(panel, number, x, y, height))
            x += panel.width
        y += height
    return {
        "uid": "oncelog",
        "title": "Oncelog",
        "tags": ["oncelog"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                variable("broker", "Broker", "label_values(oncelog_broker_info, broker)"),
                variable(
                    "group", "Group", "label_values(oncelog_consumergroup_members, consumergroup)"
                ),
            ]
        },
        "panels": panels,
    }


def outputs() -> dict[Path, str]:
    """Return the content of each generated file."""
    return {PATH: json.dumps(dashboard(), indent=1) + "\n"}


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, outputs))
