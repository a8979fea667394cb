"""What has happened at brokers is asked for here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oncelog_cli.documents.answer import Answer, Failures, Row, fields_of

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.events import BrokerEvents

FIELDS = "broker_id timestamp_ms level name sequence fields"


async def described_events(
    admin: Admin,
    brokers: Sequence[int] | None = None,
    *,
    names: Sequence[str] | None = None,
    number: int | None = None,
    topic: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Answer:
    """Return the document of ``cluster events``: a row an event, the oldest first.

    Without ``brokers`` all are asked, and those that do not answer are failures.

    :param names: only events of these names.
    :param number: only the last so many of those that are meant.
    :param topic: only events of this topic or one of its partitions.
    :param since_ms: only events from this time on, in ms since 1970.
    :param until_ms: only events before this time.
    """
    failures = Failures()
    found = await admin.describe_events(brokers or None, names=names or None)
    sound = failures.sound(found, lambda item: f"broker {item.broker_id}")
    rows = chosen_events(event_rows(sound), topic=topic, since_ms=since_ms, until_ms=until_ms)
    return Answer({"events": last(rows, number)}, failures)


def event_rows(found: Iterable[BrokerEvents]) -> list[Row]:
    """Return the events of all brokers in order of time."""
    rows = [fields_of(event, FIELDS) for answer in found for event in answer.events]
    return sorted(rows, key=lambda row: (row["timestamp_ms"], row["broker_id"], row["sequence"]))


def chosen_events(
    rows: Iterable[Row],
    *,
    brokers: Collection[int] = (),
    names: Collection[str] = (),
    topic: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> list[Row]:
    """Return the rows that are meant, in their order; what is empty or None chooses all."""
    return [
        row
        for row in rows
        if (not brokers or row["broker_id"] in brokers)
        and (not names or row["name"] in names)
        and (topic is None or topic_of(row) == topic)
        and (since_ms is None or row["timestamp_ms"] >= since_ms)
        and (until_ms is None or row["timestamp_ms"] < until_ms)
    ]


def topic_of(row: Mapping[str, Any]) -> str | None:
    """Return the topic that an event is about; None: it is about none."""
    topic = row["fields"].get("topic")
    if isinstance(topic, str):
        return topic
    partition = partition_of(row)
    return None if partition is None else partition.rpartition("-")[0]


def partition_of(row: Mapping[str, Any]) -> str | None:
    """Return the partition that an event is about, such as ``orders-3``; None: it is about none."""
    partition = row["fields"].get("partition")
    topic = row["fields"].get("topic")
    if isinstance(partition, int) and isinstance(topic, str):
        return f"{topic}-{partition}"
    return partition if isinstance(partition, str) and "-" in partition else None


def last(rows: Sequence[Row], number: int | None) -> list[Row]:
    """Return the last ``number`` rows; with None all."""
    return list(rows) if number is None else list(rows[len(rows) - min(number, len(rows)) :])
