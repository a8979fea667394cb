"""Connections, coordinators, deadlines and the date are shared by the admin client's parts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from oncelog.core.client import ClusterClient
from oncelog.core.coordinators import Coordinators, attempt_deadline
from oncelog.core.router import Failure, Router
from oncelog.errors import (
    ApiError,
    BrokerUnreachableError,
    ClientError,
    ClosedError,
    ConfigurationError,
    CoordinatorLoadInProgressError,
    NotControllerError,
    UnknownServerError,
    error_about,
    error_for,
    is_retriable,
)
from oncelog_protocol.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
)
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import WallClock

TIMEOUT_MS = 30_000

LOADING_S = 5.0
"""A broker that still loads what it coordinates is asked again for this long."""

NEEDS: dict[int, str] = {
    ApiKey.CREATE_TOPICS: CREATE,
    ApiKey.DELETE_TOPICS: DELETE,
    ApiKey.CREATE_PARTITIONS: ALTER,
    ApiKey.ELECT_LEADERS: ALTER,
    ApiKey.ALTER_REPLICA_LOG_DIRS: ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: DESCRIBE,
    ApiKey.BALANCE: DESCRIBE,
    ApiKey.ALTER_BROKER_STATES: ALTER,
    ApiKey.DESCRIBE_ACLS: DESCRIBE,
    ApiKey.CREATE_ACLS: ALTER,
    ApiKey.DELETE_ACLS: ALTER,
    ApiKey.DESCRIBE_USERS: DESCRIBE,
    ApiKey.ALTER_USERS: ALTER,
    ApiKey.DESCRIBE_QUOTAS: DESCRIBE_CONFIGS,
    ApiKey.ALTER_QUOTAS: ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS: DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS: ALTER_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER: DESCRIBE,
    ApiKey.DESCRIBE_LOG_DIRS: DESCRIBE,
    ApiKey.DESCRIBE_EVENTS: DESCRIBE,
    ApiKey.DESCRIBE_LOG: READ,
    ApiKey.OFFSET_COMMIT: READ,
}
"""What is asked needs these operations on what a denial is about."""

BrokerError = ApiError | ClientError


class AdminCalls(ClusterClient):
    """The admin client's parts share these ways to ask brokers and coordinators."""

    def __init__(self, router: Router, clock: WallClock | None) -> None:
        super().__init__(router, clock)
        self._coordinators = Coordinators(router)
        self._txn_coordinators = Coordinators(router, key_type=COORDINATOR_TRANSACTION)

    def _deadline(self, timeout_ms: int) -> float:
        """Return the loop's time at which a call with this ``timeout_ms`` ends.

        :raises ClosedError: the client is closed, or was not started.
        :raises WrongLoopError: it lives elsewhere.
        """
        self._router.home.check()
        if self._router.closed:
            raise ClosedError("the admin client is closed, or was not started")
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    def _left_ms(self, deadline: float) -> int:
        """Return the milliseconds until ``deadline``, at least 1: a late call gets one attempt."""
        left_s = deadline - asyncio.get_running_loop().time()
        return max(round(left_s * 1000), 1)

    async def _on_controller(self, request: Request, timeout_ms: int) -> Any:
        """Return the controller's answer; metadata say where it is when it has moved."""
        deadline = self._deadline(timeout_ms)
        with self._explaining(request):
            return await self._router.call_controller(request, deadline, _refused)

    @contextmanager
    def _explaining(self, request: Request, name: str = CLUSTER_NAME) -> Iterator[None]:
        """Let a denial of this request say what is missing; ``name`` is of what it is about."""
        try:
            yield
        except ApiError as error:
            told = self._explained(error, request, name)
            if told is error:
                raise
            raise told from error

    def _explained(self, error: ApiError, request: Request, name: str = CLUSTER_NAME) -> ApiError:
        operation = NEEDS.get(request.api_key)
        if operation is None:
            return error
        return self._router.explained(error, operation, name)

    async def _metadata(self, topics: list[str] | None, deadline: float) -> MetadataResponse:
        response: MetadataResponse = await self._router.call_any(MetadataRequest(topics), deadline)
        if response.error_code:
            raise error_for(response.error_code)
        return response

    async def _chosen(
        self,
        partitions: Iterable[TopicPartition] | None,
        topics: Iterable[str] | None,
        deadline: float,
    ) -> dict[TopicPartition, None]:
        """Return ``partitions``, and all partitions of ``topics``."""
        chosen = dict.fromkeys(TopicPartition(*tp) for tp in partitions or ())
        names = dict.fromkeys(topics or ())
        for topic in names:
            self._router.want(topic)  # One question is about all of them.
        for topic in names:
            await self._router.topic(topic, deadline)
            chosen.update(dict.fromkeys(self._router.cluster.topic_partitions(topic)))
        return chosen

    async def _listed(
        self, request: Request, deadline: float
    ) -> tuple[list[tuple[int, Any]], dict[int, BrokerError]]:
        """Ask all brokers what they coordinate.

        It returns answers and errors by broker id. One that still loads may have both.
        """
        await self._router.refresh_now()
        ids = sorted(self._router.cluster.brokers)
        asked = await asyncio.gather(*(self._listed_by(i, request, deadline) for i in ids))
        told = list(zip(ids, asked, strict=True))
        answers = [(broker_id, answer) for broker_id, (answer, _) in told if answer is not None]
        return answers, {broker_id: error for broker_id, (_, error) in told if error is not None}

    async def _listed_by(
        self, broker_id: int, request: Request, deadline: float
    ) -> tuple[Any, BrokerError | None]:
        """Ask one broker what it coordinates, again while it loads.

        It returns the broker's answer (None without one), and the error that makes it incomplete.
        """
        loop = asyncio.get_running_loop()
        patience = min(deadline, loop.time() + LOADING_S)
        pace = self._router.new_backoff("loading")
        while True:
            try:
                response = await self._router.call_broker(
                    broker_id, request, attempt_deadline(deadline)
                )
            except Failure as error:
                return None, broker_error(broker_id, error)
            error_code = response.error_code
            pause_s = pace.next_s()
            loading = error_code == CoordinatorLoadInProgressError.code
            if not loading or loop.time() + pause_s >= patience:
                incomplete = error_about(f"broker {broker_id}", error_code) if error_code else None
                return response, incomplete
            await asyncio.sleep(pause_s)


def _refused(response: Any) -> ApiError | None:
    """Return the retriable error of an answer or of its items, else None. Raise any other error."""
    if response.error_code:
        error = error_for(response.error_code, getattr(response, "error_message", None) or "")
        if not is_retriable(error):
            raise error
        return error
    items = getattr(response, "topics", None) or getattr(response, "resources", None) or ()
    if any(item.error_code == NotControllerError.code for item in items):
        return NotControllerError()
    return None


def item_error(error_code: int, message: str | None, name: str = "") -> ApiError | None:
    """Return the error of an item, None for none; the text says its name."""
    if not error_code:
        return None
    error = error_for(error_code, message or "")
    if isinstance(error, UnknownServerError) or not name or (message and name in message):
        return error
    return type(error)(f"{name}: {error}")


def broker_error(broker_id: int, error: BaseException) -> BrokerError:
    """Return the error of one broker: without one of Oncelog's errors it is unreachable."""
    if isinstance(error, ApiError | ClientError):
        return error
    return BrokerUnreachableError(broker_id, "?", str(error) or "did not answer in time")


def checked_states(states: Iterable[str], allowed: Collection[str]) -> list[str]:
    """Return the states, each once; raise ConfigurationError for one that is not allowed."""
    wanted = list(dict.fromkeys(states))
    for state in wanted:
        if state not in allowed:
            raise ConfigurationError(f"state {state!r}: one of {', '.join(allowed)}")
    return wanted


def known(value: int) -> int | None:
    """Return a number from the wire; None for a negative one, which means that it is not known."""
    return None if value < 0 else value


def txn_coordinators(admin: AdminCalls) -> Coordinators:
    """Return what finds coordinators of transactional ids over an admin client's connections."""
    return admin._txn_coordinators
