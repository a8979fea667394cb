"""[I26]: controllers are not elected without end.

Every fault of a run may cost an election or two, some at once. What elects again and again, though
nothing new has happened, is a fight: two brokers depose each other, or one that can do nothing
keeps winning. Safety is not in danger then, so no other promise sees it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from simulation.store_view import InvariantViolation

WINDOW_S = 5.0

ELECTIONS_MAX = 25
"""The most in any window. A broker that its peers refused once caused 250 elections a second."""


class ElectionRate:
    """It counts elections. ``now`` gives the simulated time, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._times: deque[float] = deque()
        self.most = 0
        """The most in any window."""

    def elected(self, epoch: int, session: int) -> None:
        """Serve as ``StoreView.on_controller``.

        :raises InvariantViolation: [I26].
        """
        now = self._now()
        self._times.append(now)
        while self._times[0] <= now - WINDOW_S:
            self._times.popleft()
        self.most = max(self.most, len(self._times))
        if len(self._times) > ELECTIONS_MAX:
            raise InvariantViolation(
                "I26",
                f"{len(self._times)} elections of a controller within {WINDOW_S:g} s, the last of"
                f" epoch {epoch}",
            )
