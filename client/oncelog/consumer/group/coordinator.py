"""A member has two connections to its group's coordinator.

Rules
-----
* Requests of one connection are answered in order, and JoinGroup and SyncGroup are parked at the
  coordinator: membership has one connection, commits another, so that neither waits for the other.
* A call is one attempt. A coordinator that says that it is one no longer, or whose connection
  broke, is looked for anew by the next call; callers pause and try again.
* A parked call is not left alone with a coordinator that has gone silent: while it waits, the other
  brokers are asked who coordinates, and when that is somebody else the call is given up.
* What goes wrong is told once when it begins and once when it is over.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, NoReturn

from oncelog.core.connection import ask
from oncelog.core.router import Failure, Router
from oncelog.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    NotCoordinatorError,
)
from oncelog_protocol.acls import READ
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import (
    COORDINATOR_GROUP,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

MEMBERSHIP = "membership"
COMMITS = "commits"
"""The purposes of the two connections."""

WATCH_S = 5.0
"""How often the others are asked while a call is parked."""

MOVED = (CoordinatorNotAvailableError.code, NotCoordinatorError.code)
REFUSALS = (InvalidGroupIdError, GroupAuthorizationFailedError)


class Coordinator:
    """A client finds and calls the coordinator of one group."""

    def __init__(self, router: Router, group_id: str, tasks: Tasks) -> None:
        self.broker_id: int | None = None
        """None: to be found."""
        self._router = router
        self._group_id = group_id
        self._tasks = tasks
        self._finding = asyncio.Lock()
        self._error: BaseException | None = None
        self._told = False

    async def call(self, request: Request, purpose: str, timeout_s: float) -> Any:
        """Try a request once, and return the response, whatever error is in it.

        :raises ApiError: the group has no coordinator at the moment, or may not be asked for.
        :raises OSError: the coordinator was not reached, or its connection broke; TimeoutError when
            it did not answer within ``timeout_s``.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        async with asyncio.timeout_at(deadline):
            broker_id = await self._known()
        try:
            async with asyncio.timeout_at(deadline):
                channel = await self._router.connections.channel(broker_id, purpose)
            left_s = max(deadline - loop.time(), 0.001)
            response = await ask(channel, request, left_s)
        except Failure as error:
            self._lost(broker_id, str(error) or type(error).__name__)
            raise
        if response.error_code in MOVED:
            self._lost(broker_id, error_for(response.error_code).name)
        return response

    async def call_parked(self, request: Request, timeout_s: float) -> Any:
        """Make a call that may be parked for long, over the connection of membership."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        call = self._tasks.spawn("parked", self._outcome(request, timeout_s))
        try:
            while True:
                try:
                    async with asyncio.timeout(WATCH_S):
                        response, error = await asyncio.shield(call)
                except TimeoutError:
                    await self._look_around(call, deadline)
                    continue
                if error is not None:
                    raise error
                return response
        finally:
            if not call.done():
                call.cancel()
                # Its answer would come before that of the next call.
                if self.broker_id is not None:
                    self._router.connections.drop_channel(
                        self.broker_id, MEMBERSHIP, "a join was given up"
                    )
                await asyncio.gather(call, return_exceptions=True)

    async def _outcome(
        self, request: Request, timeout_s: float
    ) -> tuple[Any, BaseException | None]:
        """Return the answer of a call, or the expected error with which it failed."""
        try:
            return await self.call(request, MEMBERSHIP, timeout_s), None
        except Failure as error:
            return None, error

    async def _look_around(self, call: asyncio.Task[Any], deadline: float) -> None:
        asked = self.broker_id
        if asked is None:
            return
        others = [broker_id for broker_id in self._router.favoured() if broker_id != asked]
        patience = min(deadline, asyncio.get_running_loop().time() + WATCH_S)
        found = await self._ask_around(others, patience)
        if found is not None and found.broker_id != asked and not call.done():
            self._router.connections.drop_channel(
                asked, MEMBERSHIP, "another broker coordinates the group"
            )
            self._lost(asked, f"broker {found.broker_id} coordinates the group now")

    # ------------------------------------------------------------------------------ finding

    async def _known(self) -> int:
        async with self._finding:
            if self.broker_id is not None and self.broker_id in self._router.cluster.brokers:
                return self.broker_id
            self.broker_id = None
            timeout_s = self._router.options.request_timeout_ms / 1000
            deadline = asyncio.get_running_loop().time() + timeout_s
            self._error = None
            found = await self._ask_around(self._router.favoured(), deadline)
            if found is None:
                self._router.refresh_soon()
                self._refuse()
            if found.broker_id not in self._router.cluster.brokers:
                await self._router.refresh()
                if found.broker_id not in self._router.cluster.brokers:
                    raise CoordinatorNotAvailableError(
                        f"broker {found.broker_id} coordinates group {self._group_id!r}, but is"
                        " not in the cluster's metadata yet"
                    )
            self.broker_id = found.broker_id
            level = logging.INFO if self._told else logging.DEBUG
            self._told = False
            logger.log(level, "group %s: broker %d coordinates", self._group_id, found.broker_id)
            return found.broker_id

    def _refuse(self) -> NoReturn:
        raise self._error or CoordinatorNotAvailableError("no broker could be asked")

    async def _ask_around(
        self, brokers: list[int], deadline: float
    ) -> FindCoordinatorResponse | None:
        """Return the first answer that names a coordinator, without waiting for silent brokers."""
        attempts = [partial(self._ask_one, broker_id, deadline) for broker_id in brokers]
        return await self._router.first(attempts)

    async def _ask_one(self, broker_id: int, deadline: float) -> FindCoordinatorResponse:
        request = FindCoordinatorRequest(self._group_id, COORDINATOR_GROUP)
        try:
            response: FindCoordinatorResponse = await self._router.call_broker(
                broker_id, request, deadline
            )
            if response.error_code:
                error = error_for(response.error_code)
                told = type(error)(f"group {self._group_id!r}: {response.error_message or error}")
                raise self._router.explained(told, READ, self._group_id)
        except Failure as error:
            if not isinstance(self._error, REFUSALS):
                self._error = error
            raise
        return response

    def _lost(self, broker_id: int, why: str) -> None:
        if self.broker_id == broker_id:
            self.broker_id = None
            if not self._told:
                self._told = True
                logger.info(
                    "group %s: broker %d does not coordinate it now (%s), looking for who does",
                    self._group_id,
                    broker_id,
                    why,
                )
