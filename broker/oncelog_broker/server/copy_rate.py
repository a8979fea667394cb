"""The rate at which a log that moves grows is the mean over some seconds. Pure.

Whoever asks how long a copy takes gets what is left through the rate of the copy less that of the
leader's log. A copy is fetched in bursts, and on a busy machine the bytes of one second are half or
twice those of the next; and producers write when they have something.
"""

from __future__ import annotations

from collections import deque

COPY_RATE_S = 10.0
"""The mean is over so long, or over the age of the copy."""


class CopyRate:
    """It belongs to one replica, and is told how much has come to it at each look."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def looked(self, now: float, appended_bytes: int) -> None:
        """Note how much has been appended to the log so far.

        :param now: the loop's time in seconds.
        """
        if self._seen and appended_bytes < self._seen[-1][1]:
            self._seen.clear()  # the log has begun anew
        self._seen.append((now, appended_bytes))
        while len(self._seen) > 2 and now - self._seen[1][0] >= COPY_RATE_S:
            self._seen.popleft()

    @property
    def bytes_per_s(self) -> int | None:
        """Return the mean; None: there was one look, or two at the same moment."""
        (began, had), (now, has) = self._seen[0], self._seen[-1]
        return round((has - had) / (now - began)) if now > began else None
