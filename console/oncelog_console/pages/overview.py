"""The first page: is the cluster healthy, what comes in, and who serves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oncelog_cli.documents.cluster import health_of
from oncelog_console.chart import trend_line
from oncelog_console.page import Page, PageRoute, Visit
from oncelog_console.pages.brokers import BrokerRow, broker_rows
from oncelog_console.rates import summed
from oncelog_console.snapshot import Snapshot
from oncelog_console.svg import Picture

EVENTS = 10
WRONG_PATHS = {
    "leaderless": "/topics?state=leaderless",
    "under_min_isr": "/topics?state=under_min_isr",
    "under_replicated": "/topics?state=under_replicated",
    "brokers": "/brokers",
    "disk": "/brokers",
    "log_dirs": "/brokers",
    "controller": "/brokers",
    "hanging_transactions": "/transactions?tab=hanging",
}


@dataclass(frozen=True, slots=True)
class Overview:
    """The view holds what the page shows."""

    status: str
    """It is "ok", "warning", "critical", or "unknown"."""
    wrong: tuple[dict[str, Any], ...]
    """Rows of checks that are not ok, as ``cluster health`` has them, each with ``path``, where to
    look."""
    records_per_s: float | None
    bytes_per_s: float | None
    picture: Picture
    """The records that came in at the last looks."""
    under_replicated: int | None
    leaderless: int | None
    partitions: int | None
    controller: int | None
    controller_epoch: int | None
    brokers: tuple[BrokerRow, ...]
    events: tuple[dict[str, Any], ...] | None
    """The last ones, the newest first; None: nobody may or can say."""
    silent: str
    """Why the cluster does not answer; "" when it does."""
    topic_count: int | None


def overview_of(seen: Snapshot, now_ms: int) -> Overview:
    """Return the view of what is known."""
    topics, cluster = seen.topics.value, seen.cluster.value
    partitions = None if topics is None else [p for topic in topics for p in topic.partitions]
    rates = seen.rates.values()
    events = None if seen.events.value is None else seen.events.value.document["events"]
    return Overview(
        status="unknown" if seen.status is None else str(seen.status),
        wrong=tuple(
            {**row, "path": WRONG_PATHS.get(row["check"], "/")}
            for row in health_of(seen.all_checks)["checks"]
            if row["status"] != "ok"
        ),
        records_per_s=sum(rate.records for rate in rates) if seen.rates else None,
        bytes_per_s=sum(rate.bytes for rate in rates) if seen.rates else None,
        picture=trend_line("records in at the last looks", summed([r.trend for r in rates])),
        under_replicated=None
        if partitions is None
        else sum(len(p.isr) < len(p.replicas) for p in partitions),
        leaderless=None if partitions is None else sum(p.leader < 0 for p in partitions),
        partitions=None if partitions is None else len(partitions),
        controller=None if cluster is None else cluster.controller_id,
        controller_epoch=None if cluster is None else cluster.controller_epoch,
        brokers=tuple(broker_rows(seen, now_ms)),
        events=None if events is None else tuple(reversed(events[-EVENTS:])),
        silent=seen.cluster.error,
        topic_count=None if topics is None else sum(not topic.internal for topic in topics),
    )


async def show(visit: Visit) -> Page:
    """Show the whole cluster at once."""
    seen = visit.seen
    return Page(
        "Overview",
        "overview.html",
        overview_of(seen, visit.now_ms),
        ("cluster", "health"),
        health_of(seen.checks),
        asked_ms=seen.cluster.asked_ms,
    )


PAGES = (PageRoute("/", show),)
