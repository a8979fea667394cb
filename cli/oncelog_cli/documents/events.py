"""What has happened at brokers is asked for here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

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
) -> Answer:
    """Return the document of ``cluster events``: a row an event, the oldest first.

    Without ``brokers`` all are asked, and those that do not answer are failures.

    :param names: only events of these names.
    :param number: only the last so many.
    """
    failures = Failures()
    found = await admin.describe_events(brokers or None, names=names or None)
    sound = failures.sound(found, lambda item: f"broker {item.broker_id}")
    return Answer({"events": last(event_rows(sound), number)}, failures)


def event_rows(found: Iterable[BrokerEvents]) -> list[Row]:
    """Return the events of all brokers in order of time."""
    rows = [fields_of(event, FIELDS) for answer in found for event in answer.events]
    return sorted(rows, key=lambda row: (row["timestamp_ms"], row["broker_id"], row["sequence"]))


def last(rows: Sequence[Row], number: int | None) -> list[Row]:
    """Return the last ``number`` rows; with None all."""
    return list(rows) if number is None else list(rows[len(rows) - min(number, len(rows)) :])
