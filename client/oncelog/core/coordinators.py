"""Coordinators of groups and transactional ids are found, remembered, and called.

Rules
-----
* Any broker is asked (FindCoordinator), and asked again while the cluster has none to name: the
  internal topic is being created, or its partition is between two leaders.
* An answer is used for all calls until a broker says NOT_COORDINATOR, or does not answer. An answer
  that says so of one group says nothing of the others.
* COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR are waited out, up to
  the caller's deadline, with the router's growing pauses. Nothing has happened after any of them.
* A final error speaks of the last attempt. When an earlier one may have been carried out, the error
  is not definite, whatever its class says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from oncelog.core.connection import CONTROL
from oncelog.core.router import Failure, Router
from oncelog.errors import (
    ApiError,
    DeadlineExceededError,
    RequestTimedOutError,
    is_definite,
    is_retriable,
    may_have_acted,
)
from oncelog_protocol.acls import READ, WRITE
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    error_for,
)
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import (
    COORDINATOR_GROUP,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIND_S = 3.0
"""How long one broker may take to name a coordinator before another is asked."""

ATTEMPT_S = 10.0
"""How long a coordinator may take: twice what it needs to commit, and less than a person waits. A
silent one may be deposed by now, so the way to it is asked for again."""

STILL_THERE = (CoordinatorLoadInProgressError, ConcurrentTransactionsError)
"""Retriable answers that only the right coordinator gives."""

Refused = Callable[[Any], ApiError | None]
"""The retriable error that an answer holds, None when it is one; raises what cannot heal."""


def refused_at_top(response: Any) -> ApiError | None:
    """Return the error of a whole answer if another attempt may heal it; raise any other."""
    if not response.error_code:
        return None
    error = error_for(response.error_code, getattr(response, "error_message", None) or "")
    if not error.retriable:
        raise error
    return error


class Coordinators:
    """The client remembers coordinators of ``key_type``, and calls them over ``purpose``."""

    def __init__(
        self, router: Router, *, key_type: int = COORDINATOR_GROUP, purpose: str = CONTROL
    ) -> None:
        self._router = router
        self._key_type = key_type
        self._purpose = purpose
        self._known: dict[str, int] = {}

    def known(self, key: str) -> int | None:
        """Return the coordinator's broker id as far as is known, else None."""
        return self._known.get(key)

    def learn(self, key: str, broker_id: int) -> None:
        """Note that a broker has shown that it coordinates ``key``."""
        self._known[key] = broker_id

    def forget(self, key: str) -> None:
        """Forget the coordinator of ``key``, which is another one by now, or is gone."""
        self._known.pop(key, None)

    async def call(
        self, key: str, request: Request, deadline: float, refused: Refused = refused_at_top
    ) -> Any:
        """Return the coordinator's answer; repeat ``request``, also elsewhere, as need be.

        :raises DeadlineExceededError: none in time; ``definite`` says whether it may have acted.
        :raises ApiError: what ``refused`` raises; not definite when an earlier attempt may have
            acted.
        """
        indefinite = False

        async def attempt() -> Any:
            nonlocal indefinite
            broker_id = await self._find(key, deadline)
            try:
                response = await self._router.call_broker(
                    broker_id, request, attempt_deadline(deadline), self._purpose
                )
                error = refused(response)
                if error is not None:
                    raise error
            except Failure as error:
                self.judge(key, error)
                if is_retriable(error):
                    indefinite = indefinite or not is_definite(error)
                elif indefinite:
                    may_have_acted(error)
                raise
            return response

        return await self._router.retry(attempt, deadline, type(request).__name__)

    async def call_each(
        self,
        keys: Iterable[str],
        request_for: Callable[[list[str]], Request],
        deadline: float,
    ) -> dict[str, Any]:
        """Return one item a key, from answers that have ``groups``.

        Every coordinator is asked for all of its own keys at once, and what one could not answer
        now is asked again. The value is an ApiError for a key whose coordinator was not found or
        did not answer in time; errors that stand in an item and cannot heal are left there.
        """
        found: dict[str, Any] = {}
        failed: dict[str, BaseException] = {}
        left = dict.fromkeys(keys)

        async def attempt() -> None:
            failed.clear()
            by_broker = await self._by_coordinator(list(left), found, failed, deadline)
            await asyncio.gather(
                *(
                    self._ask_about(broker_id, named, request_for(named), found, failed, deadline)
                    for broker_id, named in by_broker.items()
                )
            )
            for key in found:
                left.pop(key, None)
            for error in failed.values():
                raise error

        try:
            await self._router.retry(attempt, deadline, "asking the coordinators")
        except DeadlineExceededError as error:
            for key in left:
                found[key] = as_api_error(key, failed.get(key, error))
        return found

    def judge(self, key: str, error: BaseException) -> None:
        """Forget the coordinator after an error or silence, unless it is only still loading."""
        if is_retriable(error) and not isinstance(error, STILL_THERE):
            self.forget(key)

    async def _find(self, key: str, deadline: float) -> int:
        known = self._known.get(key)
        if known is not None:
            return known
        loop = asyncio.get_running_loop()
        response: FindCoordinatorResponse = await self._router.call_any(
            FindCoordinatorRequest(key, self._key_type), min(deadline, loop.time() + FIND_S)
        )
        if response.error_code:
            error = error_for(response.error_code, response.error_message or "")
            operation = READ if self._key_type == COORDINATOR_GROUP else WRITE
            raise self._router.explained(error, operation, key)
        # One that the metadata does not hold yet cannot be connected to.
        if response.broker_id not in self._router.cluster.brokers:
            raise CoordinatorNotAvailableError(
                f"{key!r} is coordinated by broker {response.broker_id}, which is not known yet"
            )
        self._known[key] = response.broker_id
        return response.broker_id

    async def _by_coordinator(
        self,
        keys: list[str],
        found: dict[str, Any],
        failed: dict[str, BaseException],
        deadline: float,
    ) -> dict[int, list[str]]:
        """Return keys by coordinator; the others go to ``failed``, or to ``found`` for good."""
        by_broker: dict[int, list[str]] = {}
        for key in keys:
            try:
                by_broker.setdefault(await self._find(key, deadline), []).append(key)
            except Failure as error:
                _put(key, error, found, failed)
        return by_broker

    async def _ask_about(
        self,
        broker_id: int,
        keys: list[str],
        request: Request,
        found: dict[str, Any],
        failed: dict[str, BaseException],
        deadline: float,
    ) -> None:
        """Ask one coordinator about several keys; its failure counts for all of them."""
        try:
            response = await self._router.call_broker(
                broker_id, request, attempt_deadline(deadline)
            )
            if response.error_code:
                raise error_for(response.error_code)
        except Failure as error:
            for key in keys:
                self.judge(key, error)
                _put(key, error, found, failed)
            return
        for item in response.groups:
            refusal = error_for(item.error_code, item.error_message or "")
            if item.error_code and refusal.retriable:
                self.judge(item.group_id, refusal)
                failed[item.group_id] = refusal
            else:
                found[item.group_id] = item
        for key in keys:
            if key not in found and key not in failed:
                failed[key] = CoordinatorNotAvailableError(f"broker {broker_id} left {key!r} out")


def _put(
    key: str, error: BaseException, found: dict[str, Any], failed: dict[str, BaseException]
) -> None:
    """Keep the error of a key: with the failed ones if another attempt may heal it."""
    if is_retriable(error):
        failed[key] = error
    else:
        found[key] = as_api_error(key, error)


def attempt_deadline(deadline: float) -> float:
    """Return when a broker is given up that does not answer, in the loop's time."""
    return min(deadline, asyncio.get_running_loop().time() + ATTEMPT_S)


def as_api_error(key: str, error: BaseException) -> ApiError:
    """Return the error of an item: the broker's answer, or that nobody answered in time."""
    if isinstance(error, ApiError):
        return error
    return RequestTimedOutError(f"{key}: {error}")
