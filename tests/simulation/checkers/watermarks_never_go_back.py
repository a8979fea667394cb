"""[A23]: a leader epoch's committed records stay committed, and readers get nothing else.

Rules: within one leader epoch neither high watermark nor last stable offset decreases, the latter
is never above the former, and no answer holds records from the high watermark on. A new leader may
begin with a lower high watermark: that it holds the records is [A3]'s business.
"""

from __future__ import annotations

from collections.abc import Iterable

from simulation.checkers.violation import Rules, Violation
from simulation.history import Watermark


def check(watermarks: Iterable[Watermark], rules: Rules) -> list[Violation]:
    """Find watermarks that go back, by one observer's word; or that were overstepped."""
    found: list[Violation] = []
    highest: dict[tuple[object, ...], int] = {}
    for mark in watermarks:
        for name, offset in (
            ("high watermark", mark.high_watermark),
            ("last stable offset", mark.last_stable_offset),
        ):
            if offset is None:
                continue
            place = mark.observer, mark.topic, mark.partition, mark.leader_epoch, name
            before = highest.get(place, -1)
            if offset < before:
                found.append(_of(mark, f"{name} went from {before} back to {offset}", offset))
            highest[place] = max(before, offset)
        stable = mark.last_stable_offset
        if stable is not None and stable > mark.high_watermark:
            text = f"last stable offset {stable} above high watermark {mark.high_watermark}"
            found.append(_of(mark, text, stable))
        limit = mark.high_watermark
        if rules.read_committed and stable is not None:
            limit = min(limit, stable)
        if mark.end_offset > limit:
            text = f"records up to {mark.end_offset} were handed out, the limit was {limit}"
            found.append(_of(mark, text, mark.end_offset))
    return found


def _of(mark: Watermark, text: str, offset: int) -> Violation:
    whole = f"epoch {mark.leader_epoch}, seen by {mark.observer}: {text}"
    key = mark.topic, mark.partition
    return Violation("A23", "watermarks_never_go_back", whole, key, (offset,))
