"""This broker hands out producer ids from blocks of the controller (KIP-730).

The first block is asked for when the broker starts, the next one while some of the last are left.
So nobody waits for one as a rule, and new producers can begin while the metadata store is silent.
There is one request at a time however many wait; a block that comes when it is no longer waited for
is kept.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from oncelog_protocol.errors import CoordinatorNotAvailableError, OncelogError, error_for
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.transactions import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

LEFT_MIN = 100
"""With fewer left, the next block is asked for."""

BLOCK_TIMEOUT_S = 10.0
RETRY_S = 1.0
"""The first block is asked for again after this pause."""


_SILENCE = "it did not answer in time, as when the metadata store (ZooKeeper) is silent"


class ControllerCalls(Protocol):
    """It is the way to the controller; ``ControllerChannel`` is one."""

    async def call(self, request: Request, *, timeout_s: float) -> AllocateProducerIdsResponse:
        """Return the controller's response. :raises TimeoutError: none came."""
        ...


class ProducerIds:
    """It hands out each id once."""

    def __init__(
        self, broker_id: int, controller: ControllerCalls, fence: BrokerEpoch, tasks: Tasks
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._fence = fence
        self._tasks = tasks
        self._next = 0
        self._left = 0
        self._following: tuple[int, int] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._failure = ""
        """It says why the last block that was asked for did not come."""

    @property
    def left(self) -> int:
        """Return how many ids can be given out without asking anybody."""
        return self._left + (self._following[1] if self._following is not None else 0)

    async def stock(self) -> None:
        """Have a block, however long that takes."""
        while not self._any():
            await asyncio.shield(self._fetch_soon())
            if not self._any():
                await asyncio.sleep(RETRY_S)

    async def take(self) -> int:
        """Return a producer id that nobody had.

        :raises CoordinatorNotAvailableError: there is none left and no block could be had.
        """
        while True:
            if not self._left and self._following is not None:
                (self._next, self._left), self._following = self._following, None
            if self._left:
                producer_id = self._next
                self._next += 1
                self._left -= 1
                if self._left < LEFT_MIN and self._following is None:
                    self._fetch_soon()
                return producer_id
            fetching = self._fetch_soon()
            await asyncio.shield(fetching)
            if not self._any():
                raise CoordinatorNotAvailableError(
                    "this broker has no producer ids left, and no block of them could be had from"
                    f" the controller: {self._failure}"
                )

    def _any(self) -> bool:
        return self.left > 0

    def _fetch_soon(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._fetching = self._tasks.spawn("block of producer ids", self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        request = AllocateProducerIdsRequest(self._broker_id, self._fence.broker_epoch)
        try:
            response = await self._controller.call(request, timeout_s=BLOCK_TIMEOUT_S)
        except (OSError, TimeoutError, OncelogError) as error:
            logger.warning("producer_ids_failed", error=error)
            late = isinstance(error, TimeoutError)
            self._failure = _SILENCE if late else repr(error)
            return
        if response.error_code or response.count < 1:
            logger.warning("producer_ids_refused", error_code=response.error_code)
            self._failure = repr(error_for(response.error_code))
            return
        self._following = (response.first_producer_id, response.count)


class BrokerEpoch(Protocol):
    """It knows under which epoch the broker is registered; ``ControllerFence`` does."""

    @property
    def broker_epoch(self) -> int:
        """Return the czxid of the registration."""
        ...
