"""Brokers that refuse the controller's connections are dead, or it is cut off: this judges which.

Rules
-----
* A refusal that is proof (see ``evidence``) makes a suspect at once. Any other is first held
  against the broker through the store (see ``accusations``); who is silent is a suspect then.
* Where most of the other brokers refuse, no refusal is proof: all are asked. When most of them
  object, the controller is the one who is cut off: it steps down.
* A broker that lives, and that this controller alone cannot reach for ``UNREACHABLE_S``, is a
  suspect too: it hears of no leadership that it is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from oncelog_controller.events import BrokerCleared, BrokerSuspected, Event
from oncelog_controller.evidence import Evidence
from oncelog_controller.safeguards import ControllerSafeguards
from oncelog_controller.state import BrokerRegistration
from oncelog_controller.store import StoreError
from oncelog_runtime.tasks import Tasks

UNREACHABLE_S = 5.0

Ask = Callable[[int, int], Awaitable[bool]]
"""Whether that life of a broker objects.

:raises StoreError: nobody knows."""


class Suspicions:
    """They belong to one term."""

    def __init__(
        self,
        *,
        controller_id: int,
        evidence: Evidence,
        ask: Ask,
        report: Callable[[Event], None],
        step_down: Callable[[str], None],
        tasks: Tasks,
        safeguards: ControllerSafeguards,
    ) -> None:
        self._controller_id = controller_id
        self._evidence = evidence
        self._ask = ask
        self._report = report
        self._step_down = step_down
        self._tasks = tasks
        self._safeguards = safeguards
        self._loop = asyncio.get_running_loop()
        self._lives: dict[int, int] = {}
        self._refused: dict[int, float] = {}
        """Since when each refuses connections."""
        self._objecting: dict[int, None] = {}
        """Those among them that have objected since."""
        self._suspected: dict[int, None] = {}

    def watch(self, brokers: Sequence[BrokerRegistration]) -> None:
        """Watch the brokers that there are now; what was known of others, or of earlier lives,
        goes."""
        lives = {broker.broker_id: broker.broker_epoch for broker in brokers}
        for broker_id in list(self._lives):
            if lives.get(broker_id) != self._lives[broker_id]:
                self._forget(broker_id)
        self._lives = lives

    def up(self, broker_id: int, broker_epoch: int) -> None:
        """A connection to it stands."""
        if self._lives.get(broker_id) != broker_epoch:
            return
        self._evidence.met(broker_id, broker_epoch, self._loop.time())
        self._forget(broker_id)
        self._report(BrokerCleared(broker_id, broker_epoch))

    def refused(self, broker_id: int, broker_epoch: int) -> None:
        """It refused a connection: called for every attempt."""
        if self._tasks.closed or self._lives.get(broker_id) != broker_epoch:
            return  # the controller ends before its links do, or it was another life
        now = self._loop.time()
        since = self._refused.setdefault(broker_id, now)
        if not self._safeguards.hears(broker_id != self._controller_id):
            self._suspect(broker_id, broker_epoch)
            return
        cut_off = self._are_most(self._refused)
        if not cut_off and broker_id not in self._suspected:
            unreachable = broker_id in self._objecting and now - since >= UNREACHABLE_S
            if unreachable or self._evidence.proves(broker_id, broker_epoch, now):
                self._suspect(broker_id, broker_epoch)
        if broker_id in self._suspected and not cut_off:
            return
        if self._evidence.asks(broker_id, broker_epoch, now):
            self._tasks.spawn(f"ask broker-{broker_id}", self._hear(broker_id, broker_epoch))

    async def _hear(self, broker_id: int, broker_epoch: int) -> None:
        evidence = self._evidence
        try:
            objected = await self._ask(broker_id, broker_epoch)
        except (StoreError, asyncio.CancelledError) as error:
            evidence.unasked(broker_id, broker_epoch)
            if isinstance(error, StoreError):
                return
            raise
        if objected:
            evidence.objected(broker_id, broker_epoch, self._loop.time())
        if self._lives.get(broker_id) != broker_epoch or broker_id not in self._refused:
            evidence.unasked(broker_id, broker_epoch)  # it has answered, or is gone, meanwhile
            return
        if not objected:
            evidence.silent(broker_id, broker_epoch)
            self._suspect(broker_id, broker_epoch)
            return
        self._objecting[broker_id] = None
        if self._are_most(self._objecting):
            refusing = ", ".join(map(str, sorted(self._objecting)))
            self._step_down(f"it cannot reach most brokers, which live: {refusing}")

    def _suspect(self, broker_id: int, broker_epoch: int) -> None:
        if broker_id not in self._suspected:
            self._suspected[broker_id] = None
            self._report(BrokerSuspected(broker_id, broker_epoch))

    def _are_most(self, some: dict[int, float] | dict[int, None]) -> bool:
        """Return whether they are more than half of the other brokers, of which there are several:
        of two that do not reach each other nobody can say who is cut off."""
        others = [broker_id for broker_id in self._lives if broker_id != self._controller_id]
        count = sum(broker_id in some for broker_id in others)
        return len(others) > 1 and 2 * count > len(others)

    def _forget(self, broker_id: int) -> None:
        self._refused.pop(broker_id, None)
        self._objecting.pop(broker_id, None)
        self._suspected.pop(broker_id, None)
