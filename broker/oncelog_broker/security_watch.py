"""A broker that cannot know what was revoked stops to serve clients after a while.

It decides by what the controller has told it. That may be old for two reasons: the store has a
newer version and the controller's order does not come, or the broker has lost the store and the
controller alike [S23]. When one of them has lasted for ``security_stale_max_ms``, clients get
BROKER_NOT_AVAILABLE, and go elsewhere; brokers are served, so replication goes on.

While the store is away for everybody the controller answers. Nothing can be revoked then, and all
goes on. That its connection stands says nothing: where packets are lost it does so for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

LOOK_S = 1.0
"""The store is asked for its version this often, so that no notice of a change can be lost."""


class StoredSecurity(Protocol):
    """It knows the version that the store has."""

    async def version(self) -> int | None:
        """Return it, None without an answer of the store."""
        ...


class SecurityWatch:
    """It watches how old what one broker decides by may be."""

    def __init__(
        self,
        stored: StoredSecurity,
        known: Callable[[], int],
        *,
        stale_max_ms: int,
        in_touch: Callable[[], Awaitable[bool]],
        refuse: Callable[[bool], None],
    ) -> None:
        """Make a watch.

        :param known: returns the version that the broker has.
        :param in_touch: asks whether the controller answers; it is called while the store does not.
        :param refuse: called with True when clients are to be refused, with False when no more.
        """
        self._stored = stored
        self._known = known
        self._stale_max_s = stale_max_ms / 1000
        self._in_touch = in_touch
        self._refuse = refuse
        self._newest = -1
        self._since: dict[str, float] = {}
        """Each reason stands here with the loop's time since when it holds."""
        self._refusing = ""
        self._heard_at: float | None = None
        """When the last look began, on the loop's clock, that heard the store or the controller."""

    @property
    def refusal(self) -> str:
        """Return why clients are refused now; "" while they are served."""
        return self._refusing

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(min(LOOK_S, self._stale_max_s / 4))

    async def look(self) -> None:
        """Look once, and refuse clients or serve them again."""
        began = asyncio.get_running_loop().time()
        version = await self._stored.version()
        lost = version is None and not await self._in_touch()
        if self._heard_at is None or not lost:
            self._heard_at = began
        self._newest = max(self._newest, -1 if version is None else version)
        now = asyncio.get_running_loop().time()
        self._note("the store has a newer version", self._newest > self._known(), now)
        self._note("neither the store nor the controller is there", lost, self._heard_at)
        reasons = [why for why, at in self._since.items() if now - at >= self._stale_max_s]
        if bool(reasons) == bool(self._refusing):
            return
        self._refusing = reasons[0] if reasons else ""
        if reasons:
            logger.error("clients_refused", why=reasons[0], version=self._known())
        else:
            logger.info("clients_served_again", version=self._known())
        self._refuse(bool(reasons))

    def _note(self, reason: str, holds: bool, now: float) -> None:
        if holds:
            self._since.setdefault(reason, now)
        else:
            self._since.pop(reason, None)
