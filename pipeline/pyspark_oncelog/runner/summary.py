"""A query's progress, as Spark reports it after each micro-batch, is put into its user's terms.
Pure.

Spark's report is a document of some eighty lines; what is of use is here: rows in, speed, how far
behind the topics' ends, state, watermark, and rows that came too late and were dropped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MISFITS = "oncelog misfits: "
"""The names of Spark's observed metrics that count misfits begin so; a source's name ends them."""


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """A micro-batch is told in these figures."""

    batch: int
    rows: int
    rows_per_s: float
    duration_ms: int
    lag: int | None
    """Offsets between the batch's end and the topics' ends when it was planned; None: unknown."""
    state_rows: int | None
    """Rows of state after the batch; None without state."""
    late_rows: int
    """The rows that were dropped in this batch, because the watermark had passed them."""
    misfits: int
    """Records of the batch of which something did not fit its schema, and is NULL."""
    misfit: str | None
    """One of them: what did not fit."""
    watermark: str | None
    began_at: str
    """The time as Spark writes it: ISO, UTC."""

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name, for JSON."""
        return asdict(self)

    def as_line(self) -> str:
        """Return the summary as one line for people."""
        parts = [
            f"batch {self.batch}",
            f"{self.rows:,} rows",
            f"{self.rows_per_s:,.0f} rows/s",
            f"{self.duration_ms:,} ms",
        ]
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        if self.state_rows is not None:
            parts.append(f"state {self.state_rows:,} rows")
        if self.watermark is not None:
            parts.append(f"watermark {self.watermark}")
        if self.late_rows:
            parts.append(f"{self.late_rows:,} rows too late")
        if self.misfits:
            parts.append(f"{self.misfits:,} rows that do not fit, as {self.misfit}")
        return "  ".join(parts)


def summarise(progress: Mapping[str, Any]) -> BatchSummary:
    """Summarise ``StreamingQueryProgress.json``, parsed."""
    operators = progress.get("stateOperators") or []
    sources = progress.get("sources") or []
    misfits = misfits_of(progress.get("observedMetrics") or {})
    return BatchSummary(
        batch=int(progress["batchId"]),
        rows=int(progress.get("numInputRows") or 0),
        rows_per_s=round(_number(progress.get("processedRowsPerSecond")), 1),
        duration_ms=int(
            progress.get("batchDuration")
            or (progress.get("durationMs") or {}).get("triggerExecution")
            or 0
        ),
        lag=lag_of(sources),
        state_rows=sum(int(o.get("numRowsTotal", 0)) for o in operators) if operators else None,
        late_rows=sum(int(o.get("numRowsDroppedByWatermark", 0)) for o in operators),
        misfits=sum(count for count, _ in misfits),
        misfit=next((text for _, text in misfits if text), None),
        watermark=_watermark(progress),
        began_at=str(progress.get("timestamp", "")),
    )


def misfits_of(observed: Mapping[str, Any]) -> list[tuple[int, str | None]]:
    """Return (how many records, one of them) for each source that counts its misfits."""
    found = [row for name, row in sorted(observed.items()) if name.startswith(MISFITS)]
    # Spark's own rows where the report was not parsed.
    rows = [row.asDict() if hasattr(row, "asDict") else row for row in found]
    return [(int(row["records"] or 0), row["first"]) for row in rows]


def lag_of(sources: list[Mapping[str, Any]]) -> int | None:
    """Return how far the batch's end was behind the newest offsets, over all sources, or None.

    It is None when no source says.
    """
    lags = [
        _distance(_document(s.get("endOffset")), _document(s.get("latestOffset"))) for s in sources
    ]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def offsets_of(document: Any) -> dict[str, int]:
    """Return the offset by ``topic/partition`` in an offset document, Oncelog's or Kafka's."""
    if not isinstance(document, Mapping):
        return {}
    topics = document.get("topics", document)
    found: dict[str, int] = {}
    for topic, entry in topics.items() if isinstance(topics, Mapping) else ():
        if not isinstance(entry, Mapping):
            continue
        for partition, offset in entry.get("offsets", entry).items():
            if str(partition).isdecimal() and type(offset) is int:
                found[f"{topic}/{partition}"] = offset
    return found


def _distance(end: Any, latest: Any) -> int | None:
    ends, marks = offsets_of(end), offsets_of(latest)
    if not marks or not ends:
        return None
    return sum(max(0, mark - ends.get(place, 0)) for place, mark in marks.items())


def _document(value: Any) -> Any:
    """Offsets come as text or already parsed, as the version of Spark has it."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return None
    return value


def _watermark(progress: Mapping[str, Any]) -> str | None:
    found = (progress.get("eventTime") or {}).get("watermark")
    # 1970 is Spark's word for none yet.
    return None if found is None or str(found).startswith("1970-01-01") else str(found)


def _number(value: Any) -> float:
    """Return a number, with 0 for the NaN and infinity of batches without rows or without time."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return float(value)
