"""An application reads records of this form."""

from __future__ import annotations

from typing import NamedTuple

RecordHeaders = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """An application reads this; ``timestamp`` is in ms since 1970, and headers may repeat."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()
