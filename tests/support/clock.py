"""A test sets this wall clock by hand. It never moves by itself."""

from __future__ import annotations

__all__ = ["ManualClock"]


class ManualClock:
    """The date is what the test says; it may be set back, as a machine's may."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def expiry_ms(self) -> int:
        """The test is believed."""
        return self._now_ms

    def latest_ms(self) -> int:
        return self._now_ms

    def stamp_of(self, latest_ms: int) -> int:
        return latest_ms

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds

    def set(self, now_ms: int) -> None:
        self._now_ms = now_ms
