"""The exposition makes the page of metrics and switches on what is measured for it.

A page is made when somebody asks. Whoever asks while one is being made gets the same: a crowd of
scrapers costs no more than one. A collector that fails loses its part of the page, is logged, and
shows up in ``oncelog_scrape_errors_total``; the rest is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from oncelog_broker.app import Broker
from oncelog_broker.observability.broker_metrics import BrokerMetrics
from oncelog_broker.observability.catalogue import SCRAPE_ERRORS, SCRAPE_SECONDS
from oncelog_broker.observability.controller_metrics import collect_controller
from oncelog_broker.observability.disk_metrics import collect_disks
from oncelog_broker.observability.group_metrics import GroupMetrics
from oncelog_broker.observability.page import CONTENT_TYPE, MetricsPage
from oncelog_broker.observability.partition_metrics import collect_partitions
from oncelog_broker.observability.request_metrics import collect_requests
from oncelog_runtime.audit_file import AuditFile
from oncelog_runtime.observe import Stopwatch
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks
from oncelog_runtime.turns import TurnWatch

logger = get_logger(__name__)

Collector = Callable[[MetricsPage], Awaitable[None]]
"""A collector adds its part to a page; it must not fail on a broker that is half started."""


class Exposition:
    """It makes the metrics of one broker. ``start`` and ``close`` belong to what is measured beside
    it."""

    def __init__(
        self,
        broker: Broker,
        stopwatch: Stopwatch,
        turns: TurnWatch | None = None,
        audit: AuditFile | None = None,
    ) -> None:
        self._broker = broker
        self._stopwatch = stopwatch
        self._tasks = Tasks(f"metrics-{broker.broker_id}")
        self._under_way: asyncio.Task[list[bytes]] | None = None
        self._last_s = 0.0
        self._errors: dict[str, int] = {}
        self.longest_slice_s = 0.0
        """The last page kept the event loop waiting at most so long."""
        self.brokers = BrokerMetrics(broker, stopwatch, turns, audit)
        self.groups = GroupMetrics(broker, asyncio.get_running_loop().time)
        self.collectors: dict[str, Collector] = {
            "broker": self.brokers.collect,
            "requests": partial(collect_requests, broker),
            "disks": partial(collect_disks, broker),
            "partitions": partial(collect_partitions, broker),
            "controller": partial(collect_controller, broker),
            "coordinators": self.groups.collect,
        }

    def start(self) -> None:
        """Begin to measure latencies, sync times, traffic, the event loop's lag and ends of
        partitions."""
        self._broker.dispatcher.stats.measure_with(self._stopwatch)
        for log_dir in self._broker.logs.dirs:
            log_dir.flusher.measure_with(self._stopwatch)
        self._broker.replicas.traffic.count_by_itself(self._broker.config.metrics_topics_max)
        self._tasks.spawn("event loop lag", self.brokers.measure_loop_lag())
        self._tasks.spawn("ends of partitions", self.groups.watch_ends())

    async def close(self) -> None:
        """Measure no more."""
        await self._tasks.close()

    async def scrape(self) -> list[bytes]:
        """Return the page, in pieces."""
        if self._under_way is None or self._under_way.done():
            self._under_way = self._tasks.spawn("scrape", self._make_page())
        return await asyncio.shield(self._under_way)

    async def _make_page(self) -> list[bytes]:
        began = self._stopwatch()
        page = MetricsPage(self._broker.broker_id, self._stopwatch)
        for name, collect in self.collectors.items():
            self._errors.setdefault(name, 0)
            try:
                await collect(page)
            except Exception:
                self._errors[name] += 1
                logger.exception("collector_failed", part=name)
            await page.turn()
        for name, count in self._errors.items():
            page.add(SCRAPE_ERRORS, count, name)
        page.add(SCRAPE_SECONDS, self._last_s)
        pieces = await page.finish()
        self._last_s = self._stopwatch() - began
        self.longest_slice_s = page.longest_slice_s
        return pieces


__all__ = ["CONTENT_TYPE", "Collector", "Exposition"]
