"""These metrics tell of the broker as a process and as a member of the cluster."""

from __future__ import annotations

import asyncio
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import ProcessCollector

from oncelog_broker.app import Broker
from oncelog_broker.observability import catalogue as c
from oncelog_broker.observability import probes
from oncelog_broker.observability.page import MetricsPage
from oncelog_controller.store import SessionState
from oncelog_runtime.audit_file import AuditFile
from oncelog_runtime.observe import Histogram, Stopwatch
from oncelog_runtime.turns import TurnWatch

LOOP_LAG_INTERVAL_S = 0.1
"""The lag of the event loop is measured this often."""

_OF_PROCESS = {metric.name: metric for metric in c.CATALOGUE["Process"]}


def release() -> str:
    """Return the version of the installed package, or "unknown" if it is not installed."""
    try:
        return version("oncelog")
    except PackageNotFoundError:
        return "unknown"


class BrokerMetrics:
    """It gathers the metrics of one broker and of its process."""

    def __init__(
        self,
        broker: Broker,
        stopwatch: Stopwatch,
        turns: TurnWatch | None = None,
        audit: AuditFile | None = None,
    ) -> None:
        self._broker = broker
        self._stopwatch = stopwatch
        self._turns = turns
        self._audit = audit
        self._release = release()
        self._process = ProcessCollector(registry=None)
        self.loop_lag = Histogram()

    async def measure_loop_lag(self) -> None:
        """Observe for ever how late a timer runs."""
        while True:
            due = self._stopwatch() + LOOP_LAG_INTERVAL_S
            await asyncio.sleep(LOOP_LAG_INTERVAL_S)
            self.loop_lag.observe(self._stopwatch() - due)

    async def collect(self, page: MetricsPage) -> None:
        """Add the samples of the broker, its session, its clock and its process to ``page``."""
        broker = self._broker
        rack = broker.config.rack or ""
        page.add(c.BROKER_INFO, 1, self._release, broker.image.cluster_id, rack)
        told = broker.image.brokers.get(broker.config.broker_id)
        if told is not None:
            page.add(c.BROKER_STATE, 1, told.state)
        page.add(c.BROKER_PHASE, 1, broker.phase.label)
        page.add(c.BROKER_READY, probes.ready(broker).ok)
        lifecycle = broker.lifecycle
        page.add(c.BROKER_REGISTRATIONS, lifecycle.registrations if lifecycle is not None else 0)
        page.add(c.STORE_CONNECTED, broker.metadata_store.state is SessionState.CONNECTED)
        tokens = broker.tokens
        page.add(c.TOKEN_KEYS, len(tokens.keys) if tokens is not None else 0)
        page.add(c.TOKEN_KEY_FAILURES, tokens.keys.failures if tokens is not None else 0)
        page.add(c.CLOCK_LEAPS, broker.clock.leaps)
        page.add(c.CLOCK_ERROR, broker.clock.error_ms / 1000)
        page.add_histogram(c.LOOP_LAG, self.loop_lag)
        page.add(c.LOOP_HELD, self._turns.held if self._turns is not None else 0)
        page.add(c.LOOP_HELD_SECONDS, self._turns.held_s if self._turns is not None else 0.0)
        page.add(c.AUDIT_LINES_LOST, 0 if self._audit is None else self._audit.lost)
        page.add(c.TASKS, len(broker.tasks), "broker")
        page.add(c.TASKS, broker.replicas.task_count, "replication")
        page.add(c.TASKS, broker.logs.task_count, "logs")
        page.add(c.ASSERTIONS_FAILED, broker.replicas.assertions_failed, "replication")
        page.add(c.ASSERTIONS_FAILED, broker.runner.stats.assertions_failed, "controller")
        groups, transactions = broker.coordination, broker.transactions
        failed = groups.assertions_failed + groups.engine.breakdowns
        page.add(c.ASSERTIONS_FAILED, failed, "groups")
        page.add(c.ASSERTIONS_FAILED, transactions.engine.breakdowns, "transactions")
        self._collect_process(page)

    def _collect_process(self, page: MetricsPage) -> None:
        """Add what Linux tells of this process; elsewhere the library finds nothing."""
        for family in self._process.collect():
            for sample in family.samples:
                page.add(_OF_PROCESS[sample.name], sample.value)
