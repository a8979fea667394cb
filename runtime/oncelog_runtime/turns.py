"""A thread beside an event loop finds out how long its turns are, and names what holds it.

A loop serves nobody while one call runs. Rules:

- the thread looks every ``LOOK_S`` at what the loop's thread does. A loop that waits for events is
  left alone, so an idle process pays the looks and nothing else. They take 0.4 % of a core, more
  than all else in an idle broker, so a loop that does nothing for seconds is seldom looked at;
- a loop that works is asked to run one small call. How long that takes is how long the loop was
  held; while it takes, the thread notes which functions the loop is in;
- the clock is the machine's, so this says how long others had to wait. The CPU time that is told
  with it says whether the work or the machine was slow;
- it works on every loop, and is for processes: a simulated loop has no threads beside it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

__all__ = ["LongTurn", "TurnWatch"]

LOOK_S = 0.02
"""The pause between two looks. A turn that is longer than the bound by less than this may go
unnoticed."""
IDLE_LOOK_S = 0.5
"""The same of a loop that ``IDLE_LOOKS`` looks in turn found waiting."""
IDLE_LOOKS = 100
BOUND_S = 0.05
"""The longest turn that is nobody's business."""
NAMES_MAX = 6
"""Functions that are named of a long turn: the outermost ones, where most is known of the work."""

_LOOPS = frozenset({"asyncio.base_events", "asyncio.runners", "selectors", "uvloop"})
"""Modules whose functions are on top while a loop waits. A loop in C shows who has called it."""
_PLUMBING = frozenset({"asyncio.events", "asyncio.runners", "asyncio.base_events", "selectors"})


class LongTurn(NamedTuple):
    """It describes one long turn."""

    seconds: float
    """How long at least others waited."""
    cpu_s: float
    """CPU time that the loop's thread had meanwhile."""
    ran: str
    """Functions in which the loop was, the outermost first; empty where nobody could see."""


class TurnWatch:
    """It watches the loop that ``start`` is called on. ``start`` once, ``stop`` once.

    :param on_held: told of each long turn, on the loop, when it is over.
    :param bound_s: what a turn may take.
    """

    def __init__(self, on_held: Callable[[LongTurn], None], *, bound_s: float = BOUND_S) -> None:
        self._on_held = on_held
        self._bound_s = bound_s
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._cpu_clock = 0
        self._asked_s = 0.0
        """When the loop was asked to run a call that it has not run yet; 0.0: it is not asked."""
        self._cpu_s = 0.0
        self._ran = ""
        self.held = 0
        """Long turns so far."""
        self.held_s = 0.0
        """Their length together."""

    def start(self) -> None:
        """Begin to look at the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._cpu_clock = time.pthread_getcpuclockid(self._loop_thread)
        threading.Thread(target=self._watch, name="turn watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more. The thread ends at its next look, and nobody waits for it."""
        self._stopped = True

    @property
    def has_seen(self) -> bool:
        """Return whether it knows what the present turn does, which it has found long."""
        return bool(self._ran)

    # ---- in the thread

    def _watch(self) -> None:
        waited = 0
        while True:
            # A plain sleep takes half of what waiting for an event with a time-out does.
            time.sleep(LOOK_S if waited < IDLE_LOOKS else IDLE_LOOK_S)
            if self._stopped:
                return
            frame = sys._current_frames().get(self._loop_thread)
            if frame is None:
                continue
            if self._asked_s:
                self._ran = self._ran or _names(frame)
            elif frame.f_globals.get("__name__") in _LOOPS:
                waited += 1
            else:
                waited = 0
                self._ask()

    def _ask(self) -> None:
        assert self._loop is not None
        self._ran = ""
        self._cpu_s = time.clock_gettime(self._cpu_clock)
        self._asked_s = time.perf_counter()
        try:
            self._loop.call_soon_threadsafe(self._turned)
        except RuntimeError:  # the loop is closed
            self._stopped = True

    # ---- on the loop

    def _turned(self) -> None:
        if self._stopped:
            return
        held = LongTurn(
            time.perf_counter() - self._asked_s, time.thread_time() - self._cpu_s, self._ran
        )
        if held.seconds >= self._bound_s:
            self.held += 1
            self.held_s += held.seconds
            self._on_held(held)
        self._asked_s = 0.0


def _names(frame: FrameType | None) -> str:
    """Return the calls that lead to ``frame`` from the loop's own functions on."""
    names: list[str] = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module in _PLUMBING or module == "uvloop":
            break
        names.append(f"{module.rpartition('.')[2]}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    names.reverse()
    return " > ".join(names[:NAMES_MAX])
