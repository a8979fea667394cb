"""Plans are worked at here, one after another, in many short turns. Pure.

Rules
-----
* A plan of a large cluster takes seconds of work; a turn takes a millisecond. Between two turns
  the controller handles whatever has come.
* A plan is of the cluster as it was. When the store is read again, the one that is worked at begins
  anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from oncelog_controller.balance.turns import Work
from oncelog_controller.core import Core

PlanJob: TypeAlias = Callable[[], Work[None]]
"""It begins the work at a plan; the last turn does something with it."""


class PlanDesk:
    """It has the jobs that wait, the first of which is worked at."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._jobs: deque[PlanJob] = deque()
        self._work: Work[None] | None = None

    @property
    def waiting(self) -> int:
        """Return how many jobs are not done."""
        return len(self._jobs)

    @property
    def deadline(self) -> float | None:
        """Return when the next turn may be: now, or None when there is no job."""
        return self._core.now if self._jobs else None

    def loaded(self) -> None:
        """The store was read: what was worked out before is of no use."""
        self._work = None

    def ask(self, job: PlanJob) -> None:
        """Have a job done after those that wait."""
        self._jobs.append(job)

    def go_on(self) -> None:
        """Do the next turn, if there is a job."""
        if not self._jobs:
            return
        if self._work is None:
            self._work = self._jobs[0]()
        if next(self._work, self) is self:
            self._work = None
            self._jobs.popleft()
