"""Every call that sends takes these options: of a producer, a transaction and a shared writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from oncelog.producer.checks import Headers


class RecordOptions(TypedDict, total=False):
    """``send``, ``enqueue`` and ``send_nowait`` take these options of one record."""

    key: bytes | None
    """Records with the same key go to the same partition, unless ``partition`` names one."""
    headers: Headers | None
    """Pairs of a name and a value go with the record; a name may occur more than once."""
    partition: int | None
    """The record goes to this partition; by default the partitioner chooses one."""
    timestamp_ms: int | None
    """This is the record's time, in milliseconds since 1970; by default it is now."""


class ColumnOptions(TypedDict, total=False):
    """``send_many`` and ``enqueue_many`` take these columns, each as long as the list of values."""

    keys: Sequence[bytes | None] | None
    """Records with the same key go to the same partition, unless ``partition`` names one."""
    headers: Sequence[Headers | None] | None
    """Each record has pairs of a name and a value, or None."""
    timestamps_ms: Sequence[int] | int | None
    """The records have these times, or all have this one; by default it is now."""
    partition: int | None
    """All records go to this partition; by default the partitioner chooses."""
