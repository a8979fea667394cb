"""Rows of ``cluster events`` are made by hand here."""

from __future__ import annotations

from typing import Any

__all__ = ["event"]


def event(
    name: str,
    at_ms: int = 1_000,
    *,
    broker_id: int = 1,
    level: str = "info",
    sequence: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """Return an event of a broker."""
    return {
        "broker_id": broker_id,
        "timestamp_ms": at_ms,
        "level": level,
        "name": name,
        "sequence": sequence,
        "fields": fields,
    }
