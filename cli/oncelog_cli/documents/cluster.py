"""Brokers, their log directories, their APIs and their health are looked at here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Failures, Row, fields_of
from oncelog_cli.documents.known_moves import known_moves
from oncelog_cli.documents.names import topics_named
from oncelog_cli.health import ClusterSnapshot, HealthCheck, Status, worst

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import ClusterDescription, LogDirDescription

ASKED_AT_ONCE = 500
"""Topics of which settings are asked for in one request."""


async def described_cluster(admin: Admin) -> Document:
    """Return the document of ``cluster describe``: the controller, and a row a live broker.

    :raises OncelogError: no broker answers.
    """
    return cluster_document(await admin.describe_cluster())


def cluster_document(found: ClusterDescription) -> Document:
    """Return the document of ``cluster describe`` of what a broker has said."""
    rows = [
        {
            **fields_of(broker, "broker_id broker_epoch rack"),
            "is_controller": broker.broker_id == found.controller_id,
            "listeners": {
                name: {"host": host, "port": port}
                for name, (host, port) in sorted(broker.listeners.items())
            },
            **fields_of(broker, "state http"),
        }
        for broker in found.brokers
    ]
    return {**fields_of(found, "cluster_id controller_id controller_epoch"), "brokers": rows}


async def described_log_dirs(
    admin: Admin,
    topics: Sequence[str] | None = None,
    *,
    regex: bool = False,
    brokers: Sequence[int] | None = None,
) -> Answer:
    """Return the document of ``log-dirs``: a row a directory, with its replicas; sizes in bytes.

    :param topics: only their replicas. Without ``brokers`` all are asked. Brokers that do not
        answer and directories that are offline are failures.
    :raises CommandError: no topic is meant.
    """
    names = await topics_named(admin, topics, regex=regex) if topics else None
    failures = Failures()
    found = await admin.describe_log_dirs(brokers or None, topics=names)
    sound = failures.sound(found, lambda item: f"broker {item.broker_id} {item.path}".rstrip())
    return Answer({"log_dirs": [directory_row(item) for item in sound]}, failures)


def directory_row(item: LogDirDescription) -> Row:
    """Return the row of ``log-dirs`` of one directory."""
    held = sorted(item.replicas, key=lambda replica: replica.partition)
    fields = "size_bytes log_start_offset log_end_offset high_watermark"
    return {
        **fields_of(item, "broker_id path total_bytes free_bytes"),
        "size_bytes": sum(replica.size_bytes for replica in held),
        "replica_count": len(held),
        "replicas": [
            {**replica.partition._asdict(), **fields_of(replica, fields)} for replica in held
        ],
    }


async def spoken_apis(admin: Admin, brokers: Sequence[int] | None = None) -> Answer:
    """Return the document of ``api-versions``: a row for an API and those who speak it alike.

    Without ``brokers`` all are asked; those that do not answer are failures.
    """
    failures = Failures()
    speakers: dict[tuple[str, int, int], list[int]] = {}
    answers = await admin.describe_api_versions(brokers or None)
    for answer in failures.sound(answers, lambda answer: f"broker {answer.broker_id}"):
        for name, (low, high) in answer.versions.items():
            speakers.setdefault((name, low, high), []).append(answer.broker_id)
    rows = [
        {"api": name, "version_min": low, "version_max": high, "brokers": spoken_by}
        for (name, low, high), spoken_by in sorted(speakers.items())
    ]
    return Answer({"apis": rows}, failures)


# ------------------------------------------------------------------------------ health


async def snapshot(admin: Admin) -> ClusterSnapshot:
    """Look at the cluster once."""
    cluster = await admin.describe_cluster()
    topics = [topic for topic in await admin.describe_topics() if topic.error is None]
    log_dirs = await admin.describe_log_dirs([broker.broker_id for broker in cluster.brokers])
    names = [topic.topic for topic in topics]
    min_isr = await min_insync_replicas(admin, names)
    return ClusterSnapshot(cluster, topics, min_isr, log_dirs, await known_moves(admin))


async def min_insync_replicas(admin: Admin, topics: Sequence[str]) -> dict[str, int]:
    """Return min.insync.replicas of topics, without topics that were deleted meanwhile."""
    key = "min_insync_replicas"
    found: dict[str, int] = {}
    for first in range(0, len(topics), ASKED_AT_ONCE):
        some = topics[first : first + ASKED_AT_ONCE]
        for outcome in await admin.describe_configs(topics=some, keys=[key]):
            setting = outcome.settings.get(key)
            if outcome.error is None and setting is not None and setting.value is not None:
                found[outcome.name] = int(setting.value)
    return found


def health_of(checks: Sequence[HealthCheck]) -> Document:
    """Return the document of ``cluster health``: the verdict, and a row a check."""
    status = worst(checks)
    rows = [
        {
            "check": check.name,
            "status": str(check.status),
            **fields_of(check, "count detail items"),
        }
        for check in checks
    ]
    return {"healthy": status is Status.OK, "status": str(status), "checks": rows}
