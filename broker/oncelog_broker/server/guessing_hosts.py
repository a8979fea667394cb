"""This module remembers for a minute the addresses whose peers fail to authenticate.

Rules
-----
* An address that has failed ``OFTEN`` times within ``WINDOW_S`` is one that guesses: it is told of
  further failures after ``GUESS_S``. Only failures are told late; who knows a password is served
  at once, also from such an address.
* ``HOSTS_MAX`` addresses are remembered. Beyond it the one that failed least recently is forgotten:
  whoever has more addresses is bounded by the rate of connections of the listener.
"""

from __future__ import annotations

from collections import deque

OFTEN = 10
"""So many failures of an address are no mistyped passwords."""
WINDOW_S = 60.0
GUESS_S = 5.0
"""A guess is answered after this time."""
HOSTS_MAX = 4096


class GuessingHosts:
    """It counts the failures of addresses."""

    def __init__(self) -> None:
        # The times of the last failures, oldest first; the address that failed last is last.
        self._failures: dict[str, deque[float]] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def failed(self, host: str, now: float) -> bool:
        """Note that a peer at this address has failed at ``now``, in seconds of the loop's time.
        Return whether the address guesses."""
        times = self._failures.pop(host, None)
        if times is None:
            times = deque(maxlen=OFTEN)
        times.append(now)
        self._failures[host] = times
        if len(self._failures) > HOSTS_MAX:
            del self._failures[next(iter(self._failures))]
        return len(times) == OFTEN and now - times[0] < WINDOW_S
