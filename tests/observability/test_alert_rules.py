"""Alert rules, with their shipped bounds and times, are silent or fire as they should.

``promtool test rules`` runs Prometheus' own evaluation over made-up series. That real brokers make
such series is ``test_prometheus``'s business.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.house import ROOT
from support.prometheus import programs

RULES = ROOT / "deploy/prometheus/alerts.yml"


def rules() -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


@dataclass(frozen=True)
class Case:
    """``series`` has values by name from minute 0 on, one a minute; the alert is silent at minute
    ``silent`` and fires at minute ``fires``."""

    series: dict[str, str]
    silent: int
    fires: int


def gauge(name: str, good: float, bad: float, at: int = 10, labels: str = "") -> dict[str, str]:
    """Make a series that is good until minute ``at``, and bad from then on."""
    labels = f",{labels}" if labels else ""
    return {f'{name}{{job="oncelog",broker="1"{labels}}}': f"{good}x{at - 1} {bad}x40"}


def histogram(name: str, good_le: str, bad_le: str, labels: str = "") -> dict[str, str]:
    """Count one value a second: at most ``good_le`` until minute 10, then above ``bad_le``."""
    labels = f",{labels}" if labels else ""
    series = {}
    for le in (good_le, bad_le):
        key = f'{name}_bucket{{job="oncelog",broker="1",le="{le}"{labels}}}'
        series[key] = "0+60x10 600x40"
    last = f'{name}_bucket{{job="oncelog",broker="1",le="+Inf"{labels}}}'
    return {**series, last: "0+60x50"}


CASES = {
    "OncelogBrokerDown": Case({'up{job="oncelog",instance="a:1"}': "1x9 0x40"}, 10, 12),
    "OncelogBrokerNotReady": Case(gauge("oncelog_broker_ready", 1, 0), 11, 13),
    "OncelogBrokerRestarted": Case(
        {'process_start_time_seconds{job="oncelog",instance="a:1"}': "100x9 700x40"}, 9, 11
    ),
    "OncelogBrokersMissing": Case(gauge("oncelog_missing_brokers", 0, 1), 10, 12),
    "OncelogControllerCount": Case(gauge("oncelog_active_controller", 1, 0), 10, 12),
    "OncelogZooKeeperDisconnected": Case(gauge("oncelog_zookeeper_connected", 1, 0), 10, 11),
    "OncelogUncleanElection": Case(gauge("oncelog_unclean_leader_elections_total", 0, 1), 9, 12),
    "OncelogAssertionFailed": Case(gauge("oncelog_assertions_failed_total", 0, 1), 9, 10),
    "OncelogOfflinePartitions": Case(gauge("oncelog_offline_partitions", 0, 3), 10, 11),
    "OncelogUnderMinIsr": Case(gauge("oncelog_under_min_isr_partitions", 0, 1), 10, 12),
    "OncelogUnderReplicatedPartitions": Case(
        gauge("oncelog_under_replicated_partitions", 0, 1), 11, 13
    ),
    "OncelogAtMinIsr": Case(gauge("oncelog_at_min_isr_partitions", 0, 1), 14, 16),
    "OncelogFailedReplicas": Case(gauge("oncelog_failed_replicas", 0, 2), 10, 12),
    "OncelogDamagedLogs": Case(gauge("oncelog_damaged_logs", 0, 1), 19, 21),
    "OncelogMoveStalled": Case(gauge("oncelog_moves_stalled", 0, 1), 24, 26),
    "OncelogLogDirOffline": Case(gauge("oncelog_log_dir_online", 1, 0), 9, 10),
    "OncelogLogDirFull": Case(gauge("oncelog_log_dir_full", 0, 1), 9, 10),
    "OncelogDiskSpaceLow": Case(
        {
            **gauge("oncelog_log_dir_free_bytes", 16, 14, labels='directory="/d"'),
            **gauge("oncelog_log_dir_total_bytes", 100, 100, labels='directory="/d"'),
        },
        10,
        12,
    ),
    "OncelogSyncSlow": Case(
        histogram("oncelog_log_sync_seconds", "0.004096", "0.524288", 'directory="/d"'), 10, 25
    ),
    "OncelogConsumerLag": Case(gauge("oncelog_consumergroup_lag_sum", 1000, 1001), 14, 16),
    "OncelogConsumerLagTime": Case(
        gauge("oncelog_consumergroup_lag_seconds_max", 300, 301), 10, 12
    ),
    "OncelogNoMessages": Case(
        {'oncelog_topic_messages_in_total{job="oncelog",topic="t"}': "0+60x10 600x40"}, 15, 23
    ),
    "OncelogRequestLatency": Case(
        histogram("oncelog_request_latency_seconds", "0.5", "1.048576", 'api="Produce"'), 10, 25
    ),
    "OncelogOpenTransaction": Case(
        gauge("oncelog_open_transaction_age_seconds_max", 900, 901), 10, 12
    ),
    "OncelogTransactionEnding": Case(
        gauge("oncelog_transaction_ending_seconds_max", 60, 61), 10, 12
    ),
    "OncelogEventLoopLag": Case(
        histogram("oncelog_event_loop_lag_seconds", "0.1", "0.262144"), 10, 25
    ),
    "OncelogFileDescriptors": Case(
        {
            'process_open_fds{job="oncelog",instance="a:1"}': "89x9 91x40",
            'process_max_fds{job="oncelog",instance="a:1"}': "100x50",
        },
        10,
        12,
    ),
    "OncelogCoordinatorFailed": Case(
        gauge("oncelog_coordinator_partitions", 0, 1, labels='state="failed"'), 10, 12
    ),
}


def promtool_test(case: Case, alert: str) -> dict[str, Any]:
    expression = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    return {
        "name": alert,
        "interval": "1m",
        "input_series": [{"series": k, "values": v} for k, v in case.series.items()],
        "promql_expr_test": [
            {"expr": expression, "eval_time": f"{case.silent}m", "exp_samples": []},
            {
                "expr": expression,
                "eval_time": f"{case.fires}m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            },
        ],
    }


def run_promtool(tmp_path: Path, tests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "tests.json"
    document = {"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": tests}
    path.write_text(json.dumps(document))
    return subprocess.run(
        [str(programs().promtool), "test", "rules", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_rule_has_a_case_and_says_what_to_do() -> None:
    assert sorted(rules()) == sorted(CASES)
    for rule in rules().values():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_every_rule_fires_in_its_time_and_not_before(tmp_path: Path) -> None:
    done = run_promtool(tmp_path, [promtool_test(case, name) for name, case in CASES.items()])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["OncelogDiskSpaceLow", "OncelogControllerCount"])
def test_a_case_would_notice_a_rule_that_does_not_fire(tmp_path: Path, name: str) -> None:
    """The good values alone: promtool must complain."""
    case = CASES[name]
    good = {key: values.replace(" 14x40", " 16x40").replace(" 0x40", " 1x40")
            for key, values in case.series.items()}  # fmt: skip
    done = run_promtool(tmp_path, [promtool_test(Case(good, case.silent, case.fires), name)])
    assert done.returncode == 1
    assert name in done.stdout + done.stderr


def test_the_shipped_files_are_what_prometheus_reads() -> None:
    for verb, path in (("rules", RULES), ("config", RULES.parent / "prometheus.yml")):
        done = subprocess.run(
            [str(programs().promtool), "check", verb, str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
