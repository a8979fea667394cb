"""It is found here whether the syncs of a disk have become slow since replicas are copied. Pure.

Rules
-----
* What is usual is the median of the sync rounds before copying began, of the last half minute. A
  disk that was hardly used has no such median, and is never found slow: nobody else waits for it.
* Copies that follow each other leave no time to learn what is usual. What was usual before the
  first of them holds for the next ones, as long as the pauses between them are short.
* It is slow when the median of the rounds since it was asked last is several times the usual, and
  long enough for people to notice. One slow round among many says nothing: disks have such at all
  times.
"""

from __future__ import annotations

from collections import deque
from statistics import median

USUAL_S = 30.0
"""Rounds of so long before the copying say what is usual."""
ROUNDS_MIN = 16
"""Nothing is told from fewer rounds."""
ROUNDS_KEPT = 256
SLOWER = 3.0
"""A disk is slow whose rounds take so many times as long as usual."""
SLOW_S = 0.003
"""A round that takes no longer is not slow."""


class SyncTimes:
    """It is told of the sync rounds of one directory. Times are seconds of the loop's clock."""

    def __init__(self) -> None:
        self._before: deque[tuple[float, float]] = deque(maxlen=ROUNDS_KEPT)
        """When rounds ended, and how long they took, while nothing was copied."""
        self._since: deque[float] = deque(maxlen=ROUNDS_KEPT)
        """How long rounds took since somebody asked."""
        self._slow_s: float | None = None
        """Rounds are slow that take longer; None: it is not known what is usual."""
        self._copying = False
        self._ended_s: float | None = None
        """It is when copying ended last."""

    def note(self, seconds: float, now: float) -> None:
        """Note that a round took so long."""
        if self._copying:
            self._since.append(seconds)
        else:
            self._before.append((now, seconds))

    def copying_began(self, now: float) -> None:
        """Compare with what was before from now on."""
        recent = [seconds for at, seconds in self._before if now - at <= USUAL_S]
        if len(recent) >= ROUNDS_MIN:
            self._slow_s = max(SLOW_S, SLOWER * median(recent))
        elif self._ended_s is None or now - self._ended_s > USUAL_S:
            self._slow_s = None
        self._copying = True
        self._since.clear()

    def copying_ended(self, now: float) -> None:
        """Learn again what is usual."""
        self._copying = False
        self._ended_s = now

    @property
    def is_used(self) -> bool:
        """Return whether the disk was in use before copying began: others wait for it."""
        return self._slow_s is not None

    def take_slow(self) -> bool:
        """Return whether the rounds since the last call were slow."""
        since = list(self._since)
        self._since.clear()
        return self._slow_s is not None and bool(since) and median(since) > self._slow_s
