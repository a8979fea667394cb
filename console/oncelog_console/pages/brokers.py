"""Brokers are shown with what they lead and hold, also those that are away."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from oncelog.admin.results import LogDirDescription
from oncelog_cli.documents.answer import Answer
from oncelog_cli.documents.cluster import cluster_document, directory_row
from oncelog_console.page import NotFoundError, Page, PageRoute, Visit
from oncelog_console.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker has a row when it is alive or is assigned replicas."""

    broker_id: int
    is_controller: bool
    alive: bool
    rack: str | None
    listeners: tuple[str, ...]
    state: str | None
    http: str | None
    leads: int | None
    replicas: int | None
    out_of_isr: int | None
    bytes_held: int | None
    free_percent: float | None
    free_bytes: int | None
    silent_ms: int | None
    """It has not been listed as alive for so long; None: it is, or was never seen."""
    error: str = ""
    """Why its directories are not known."""


def broker_rows(seen: Snapshot, now_ms: int) -> list[BrokerRow]:
    """Return a row for every broker that is alive or holds replicas, by id."""
    described = {} if seen.cluster.value is None else {
        row["broker_id"]: row for row in cluster_document(seen.cluster.value)["brokers"]
    }  # fmt: skip
    partitions = [p for topic in seen.topic_list for p in topic.partitions]
    known = seen.topics.value is not None
    leads = Counter(p.leader for p in partitions)
    holds = Counter(broker for p in partitions for broker in p.replicas)
    lags = Counter(broker for p in partitions for broker in p.replicas if broker not in p.isr)
    errors = {each.item.split()[1]: each.message for each in seen.log_dirs.missing}
    directories: dict[int, list[LogDirDescription]] = {}
    for item in seen.log_dirs.value or ():
        if item.error is None:
            directories.setdefault(item.broker_id, []).append(item)
    rows = []
    for broker_id in sorted({*described, *(each for each in holds if each >= 0)}):
        row, dirs = described.get(broker_id), directories.get(broker_id, [])
        total = sum(each.total_bytes for each in dirs)
        free = sum(each.free_bytes for each in dirs)
        held = sum(replica.size_bytes for each in dirs for replica in each.replicas)
        last_ms = seen.brokers_seen_ms.get(broker_id)
        rows.append(
            BrokerRow(
                broker_id,
                is_controller=bool(row and row["is_controller"]),
                alive=row is not None,
                rack=row and row["rack"],
                listeners=tuple(
                    f"{name} {at['host']}:{at['port']}" for name, at in row["listeners"].items()
                )
                if row
                else (),
                state=row and row["state"],
                http=row and row["http"],
                leads=leads[broker_id] if known else None,
                replicas=holds[broker_id] if known else None,
                out_of_isr=lags[broker_id] if known else None,
                bytes_held=held if dirs and row else None,
                free_percent=100 * free / total if total and row else None,
                free_bytes=free if total and row else None,
                silent_ms=None if row or last_ms is None else max(0, now_ms - last_ms),
                error=errors.get(str(broker_id), ""),
            )
        )
    return rows


async def show(visit: Visit) -> Page:
    """Show all brokers."""
    seen = visit.seen
    answer = None if seen.cluster.value is None else cluster_document(seen.cluster.value)
    view = {"brokers": broker_rows(seen, visit.now_ms), "silent": seen.cluster.error}
    command = ("cluster", "describe")
    return Page("Brokers", "brokers.html", view, command, answer, asked_ms=seen.cluster.asked_ms)


async def show_one(visit: Visit) -> Page:
    """Show one broker with its directories and their replicas, the largest first."""
    named = visit.named("broker")
    seen = visit.seen
    rows = [row for row in broker_rows(seen, visit.now_ms) if str(row.broker_id) == named]
    if not rows:
        raise NotFoundError(f"no broker {named} is alive or holds replicas")
    found = [item for item in seen.log_dirs.value or () if str(item.broker_id) == named]
    directories = [directory_row(item) for item in found if item.error is None]
    failures = [each for each in seen.log_dirs.missing if each.item.split()[1] == named]
    view = {
        "broker": rows[0],
        "directories": [
            {**row, "replicas": sorted(row["replicas"], key=lambda r: -r["size_bytes"])[:200]}
            for row in directories
        ],
        "failures": failures,
    }
    return Page(
        f"Broker {named}",
        "broker.html",
        view,
        ("log-dirs", "--broker", named),
        Answer({"log_dirs": directories}, failures),
        asked_ms=seen.log_dirs.asked_ms,
    )


PAGES = (PageRoute("/brokers", show), PageRoute("/brokers/{broker}", show_one))
