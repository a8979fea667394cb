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


def stat(
    title: str, query: str, above: float | None = None, below: float | None = None, text: str = ""
) -> Panel:
    """Make a panel with a single number."""
    return Panel(title, ((query, ""),), "short", "stat", 3, above, below, text)


def graph(title: str, *queries: tuple[str, str], unit: str = "short", text: str = "") -> Panel:
    """Make a panel with lines over time."""
    return Panel(title, queries, unit, text=text)


def quantiles(metric: str, by: str, legend: str, selector: str = B) -> tuple[tuple[str, str], ...]:
    """Return the median, the 95th and the 99th percentile of a histogram, as queries."""
    return tuple(
        (
            f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket{{{selector}}}{RATE})))",
            f"p{int(q * 100)} {legend}".strip(),
        )
        for q in (0.5, 0.95, 0.99)
    )


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
            (f"sum by (topic) (rate(oncelog_topic_messages_in_total{{{B}}}{RATE})) > 0",
             "{{topic}}"),
            unit="cps",
        ),
        graph(
            "Bytes in",
            (f"sum by (topic) (rate(oncelog_topic_bytes_in_total{{{B}}}{RATE})) > 0", "{{topic}}"),
            unit="Bps",
        ),
        graph(
            "Bytes out",
            (f"sum by (topic) (rate(oncelog_topic_bytes_out_total{{{B}}}{RATE})) > 0", "{{topic}}"),
            unit="Bps",
        ),
        graph(
            "Replication",
            (f"sum by (broker) (rate(oncelog_replication_bytes_in_total{{{B}}}{RATE}))",
             "in {{broker}}"),
            (f"sum by (broker) (rate(oncelog_replication_bytes_out_total{{{B}}}{RATE}))",
             "out {{broker}}"),
            unit="Bps",
        ),
        graph("Leaders", (f"oncelog_leader_partitions{{{B}}}", "{{broker}}")),
        graph("Replicas", (f"oncelog_partitions{{{B}}}", "{{broker}}")),
    ],
    "Requests": [
        graph(
            "Requests",
            (f"sum by (api) (rate(oncelog_requests_total{{{B}}}{RATE})) > 0", "{{api}}"),
            unit="reqps",
        ),
        graph(
            "Errors",
            (f"sum by (api, error) (rate(oncelog_request_errors_total{{{B}}}{RATE}))",
             "{{api}} {{error}}"),
            unit="reqps",
            text="Some are of a healthy cluster: MEMBER_ID_REQUIRED is how a member gets its id.",
        ),
        graph(
            "Latency of Produce",
            *quantiles("oncelog_request_latency_seconds", "le", "", f'api="Produce",{B}'),
            unit="s",
        ),
        graph(
            "Latency by API, p99",
            (f"histogram_quantile(0.99, sum by (api, le) "
             f"(rate(oncelog_request_latency_seconds_bucket{{{B}}}{RATE})))", "{{api}}"),
            unit="s",
            text="A Fetch waits for records, a JoinGroup for the other members: long is no harm.",
        ),
        graph(
            "Parked requests",
            (f"sum by (api) (oncelog_parked_requests{{{B}}}) > 0", "{{api}}"),
        ),
        graph(
            "Connections",
            (f"oncelog_connections{{{B}}}", "{{broker}} {{listener}}"),
            (f"sum by (broker) (rate(oncelog_connections_refused_total{{{B}}}{RATE}))",
             "refused/s {{broker}}"),
        ),
        graph("Queued bytes", (f"oncelog_queued_bytes{{{B}}}", "{{broker}}"), unit="bytes"),
    ],
    "Replication": [
        graph(
            "Under-replicated, at and under min ISR",
            (f"oncelog_under_replicated_partitions{{{B}}}", "under-replicated {{broker}}"),
            (f"oncelog_at_min_isr_partitions{{{B}}}", "at min ISR {{broker}}"),
            (f"oncelog_under_min_isr_partitions{{{B}}}", "under min ISR {{broker}}"),
        ),
        graph(
            "ISR changes",
            (f"sum by (broker) (rate(oncelog_isr_shrinks_total{{{B}}}{RATE}))",
             "smaller {{broker}}"),
            (f"sum by (broker) (rate(oncelog_isr_expands_total{{{B}}}{RATE}))",
             "larger {{broker}}"),
        ),
        graph(
            "Elections",
            (f"sum(rate(oncelog_leader_changes_total{{{B}}}{RATE}))", "leader changes"),
            (f"sum(rate(oncelog_unclean_leader_elections_total{{{B}}}{RATE}))", "unclean"),
            (f"sum(rate(oncelog_controller_terms_total{{{B}}}{RATE}))", "controllers"),
        ),
        graph(
            "Follower lag",
            (f"oncelog_follower_lag_records{{{B}}}", "{{follower}} behind {{broker}}"),
        ),
        graph(
            "Not at preferred leader", ("sum(oncelog_preferred_replica_imbalance)", "partitions")
        ),
        graph(
            "Replicas out of service, rot",
            (f"oncelog_failed_replicas{{{B}}}", "out of service {{broker}}"),
            (f"oncelog_damaged_logs{{{B}}}", "damaged {{broker}}"),
        ),
    ],
    "Consumer groups": [
        graph(
            "Lag in records",
            ('sum by (consumergroup) (oncelog_consumergroup_lag_sum{consumergroup=~"$group"})',
             "{{consumergroup}}"),
        ),
        graph(
            "Lag in time",
            ('max by (consumergroup) '
             '(oncelog_consumergroup_lag_seconds_max{consumergroup=~"$group"})',
             "{{consumergroup}}"),
            unit="s",
        ),
        graph(
            "Partitions with most lag",
            ('topk(10, oncelog_consumergroup_lag{consumergroup=~"$group"})',
             "{{consumergroup}} {{topic}}-{{partition}}"),
        ),
        graph(
            "Members",
            ('sum by (consumergroup) (oncelog_consumergroup_members{consumergroup=~"$group"})',
             "{{consumergroup}}"),
        ),
        graph(
            "Rebalances",
            ('sum by (consumergroup) '
             '(changes(oncelog_consumergroup_generation{consumergroup=~"$group"}[10m]))',
             "{{consumergroup}}"),
            text="In the last ten minutes.",
        ),
        graph("Groups", ("sum by (state) (oncelog_consumer_groups)", "{{state}}")),
    ],
    "Transactions": [
        graph("Transactional ids", ("sum by (state) (oncelog_transactional_ids)", "{{state}}")),
        graph(
            "Oldest transaction",
            ("max(oncelog_open_transaction_age_seconds_max)", "open"),
            ("max(oncelog_transaction_ending_seconds_max)", "decided, markers under way"),
            unit="s",
        ),
        graph(
            "Committed records behind open transactions",
            ("sum by (topic) (oncelog_partition_last_stable_offset_lag) > -1", "{{topic}}"),
        ),
        graph(
            "Open transactions in partitions",
            ("sum by (topic) (oncelog_partition_open_transactions) > -1", "{{topic}}"),
        ),
        graph(
            "Producers",
            ("sum by (broker) (oncelog_partition_producers)", "{{broker}}"),
        ),
        graph(
            "Coordinators",
            ("sum by (coordinator, state) (oncelog_coordinator_partitions)",
             "{{coordinator}} {{state}}"),
        ),
    ],
    "Disks": [
        graph(
            "Free space",
            (f"oncelog_log_dir_free_bytes{{{B}}} / oncelog_log_dir_total_bytes{{{B}}}",
             "{{broker}} {{directory}}"),
            unit="percentunit",
        ),
        graph(
            "Size of logs",
            (f"sum by (topic) (oncelog_partition_size_bytes{{{B}}})", "{{topic}}"),
            unit="bytes",
            text="All replicas together.",
        ),
        graph(
            "Duration of syncs",
            *quantiles("oncelog_log_sync_seconds", "le", ""),
            unit="s",
        ),
        graph(
            "Syncs",
            (f"sum by (broker) (rate(oncelog_log_sync_seconds_count{{{B}}}{RATE}))", "{{broker}}"),
            unit="ops",
        ),
        graph(
            "Directories that work, or are full",
            (f"oncelog_log_dir_online{{{B}}}", "works {{broker}} {{directory}}"),
            (f"oncelog_log_dir_full{{{B}}}", "full {{broker}} {{directory}}"),
        ),
        graph(
            "Loaded at start",
            (f"oncelog_load_logs_done{{{B}}}", "done {{broker}}"),
            (f"oncelog_load_logs{{{B}}}", "all {{broker}}"),
        ),
    ],
    "Process": [
        graph(
            "CPU", ('rate(process_cpu_seconds_total{job="oncelog"}' + RATE + ")", "{{instance}}"),
            unit="percentunit",
        ),
        graph(
            "Memory", ('process_resident_memory_bytes{job="oncelog"}', "{{instance}}"),
            unit="bytes",
        ),
        graph(
            "File descriptors",
            ('process_open_fds{job="oncelog"} / process_max_fds{job="oncelog"}', "{{instance}}"),
            unit="percentunit",
        ),
        graph(
            "Lag of the event loop, p99",
            (f"histogram_quantile(0.99, sum by (broker, le) "
             f"(rate(oncelog_event_loop_lag_seconds_bucket{{{B}}}{RATE})))", "{{broker}}"),
            unit="s",
        ),
        graph("Tasks", (f"sum by (broker) (oncelog_tasks{{{B}}})", "{{broker}}")),
        graph(
            "Up since",
            ('time() - process_start_time_seconds{job="oncelog"}', "{{instance}}"),
            unit="s",
        ),
    ],
}  # fmt: skip


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
