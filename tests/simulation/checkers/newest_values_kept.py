"""[A33]: compaction takes away only what a newer record of the same key has replaced.

Rules: every record that is left is the one that was committed at its offset; of each key the newest
committed record is left, where the log had been committed when it was looked at. A tombstone may go
in its turn, and then nothing older of its key may be left: what was deleted does not come back.
Records below the log's start are retention's business. A replica that is away for longer than
tombstones are kept (KIP-534) does not hear of deletions; rules say where that may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simulation.checkers.violation import Rules, Violation, shown
from simulation.history import Key

PROMISE = "newest_values_kept"


class Kept(NamedTuple):
    """It is one record of a compacted log."""

    offset: int
    key: bytes | None
    value: bytes | None
    """None: a tombstone."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """It is one partition: what was ever committed, and what each broker has of it now."""

    committed: Sequence[Kept]
    """Records in the order of offsets."""
    logs: Mapping[int, Sequence[Kept]]
    """Logs by broker, up to where they are committed."""
    log_start: int = 0


def check(partitions: Mapping[Key, Compacted], rules: Rules) -> list[Violation]:
    """Find records that were changed, and newest ones that are not there."""
    found: list[Violation] = []
    for key, partition in sorted(partitions.items()):
        newest = newest_of(partition.committed)
        before = {record.offset: record for record in partition.committed}
        for broker, log in sorted(partition.logs.items()):
            found += _changed(key, broker, log, before)
            missing = _missing(key, broker, log, newest, partition.log_start)
            if rules.deletions_may_be_missed:
                missing = [v for v in missing if before[v.offsets[0]].value is not None]
            found += missing
    return found


def newest_of(records: Sequence[Kept]) -> dict[bytes, Kept]:
    """Return the last record of each key; those without one stand for themselves and are left
    out."""
    return {record.key: record for record in records if record.key is not None}


def superseded(records: Sequence[Kept]) -> set[int]:
    """Return offsets that compaction may take away: older records of a key, and tombstones."""
    newest = newest_of(records)
    return {
        record.offset
        for record in records
        if record.key is not None
        and (record.value is None or newest[record.key].offset != record.offset)
    }


def _changed(
    key: Key, broker: int, log: Sequence[Kept], before: Mapping[int, Kept]
) -> list[Violation]:
    found = []
    for record in log:
        was = before.get(record.offset)
        if was != record:
            text = (
                f"broker {broker} has {_said(record)} at {record.offset}, committed was"
                f" {_said(was)}"
            )
            found.append(Violation("A33", PROMISE, text, key, (record.offset,)))
    return found


def _missing(
    key: Key, broker: int, log: Sequence[Kept], newest: Mapping[bytes, Kept], log_start: int
) -> list[Violation]:
    found = []
    left = newest_of(log)
    for name, last in newest.items():
        here = left.get(name)
        if here == last or last.offset < log_start or (last.value is None and here is None):
            continue
        text = (
            f"broker {broker}: the newest value of key {shown(name)} is {_said(last)} at"
            f" {last.offset}, left is {_said(here)}"
        )
        found.append(Violation("A33", PROMISE, text, key, (last.offset,)))
    return found


def _said(record: Kept | None) -> str:
    if record is None:
        return "nothing"
    return f"{shown(record.key)}={shown(record.value)}"
