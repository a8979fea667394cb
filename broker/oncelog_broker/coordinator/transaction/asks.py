"""Somebody who asks a transactional id for something, and has one answer coming.

An ask is carried out when it comes, or later: when the last transaction is complete, or when there
is a producer id for it. Rules:

- each is answered once, whatever comes first: the result, a refusal, the end of the shard;
- a producer id that was fetched for an ask and is not needed is lost, never given twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oncelog_broker.coordinator import logged
from oncelog_broker.coordinator.ports import ProducerIdSource
from oncelog_broker.coordinator.result import Result
from oncelog_protocol.errors import ApiError, OncelogError, error_for
from oncelog_runtime.tasks import Tasks

if TYPE_CHECKING:
    from oncelog_broker.coordinator.transaction.shard import TransactionShard

logger = logged.get_logger(__name__)

R = TypeVar("R")


class StillEndingError(OncelogError):
    """Raised by an operation that has to wait until the last transaction is complete."""


class ProducerIdNeededError(OncelogError):
    """Raised by an operation that cannot do without a new producer id."""


class Ask(Generic[R]):
    """One request of a client, a partition leader or a timer.

    :param key: the transactional id.
    :param operation: carried out on the shard, with a fresh producer id or None; may be carried out
        again, until it neither waits nor lacks an id.
    :param refused: makes the answer that says an error.
    """

    __slots__ = ("_refused", "_respond", "fresh_id", "key", "number", "operation")

    def __init__(
        self,
        key: str,
        operation: Callable[[TransactionShard, int | None], Result[R]],
        respond: Callable[[R], None],
        refused: Callable[[ApiError], R],
    ) -> None:
        self.key = key
        self.operation = operation
        self.fresh_id: int | None = None
        self.number = -1
        """Of those that wait in a shard."""
        self._respond: Callable[[R], None] | None = respond
        self._refused = refused

    @property
    def waits(self) -> bool:
        """Whether no answer was given yet."""
        return self._respond is not None

    def answer(self, response: R) -> None:
        """Give the answer, if none was given."""
        respond, self._respond = self._respond, None
        if respond is not None:
            respond(response)

    def refuse(self, error: ApiError) -> None:
        """Answer with an error, if no answer was given."""
        if self.waits:
            self.answer(self._refused(error))

    def reply(self, _value: object, error_code: int) -> None:
        """What the engine says of the operation that began it."""
        if error_code:
            self.refuse(error_for(error_code))


class ProducerIdRequests:
    """Producer ids for who cannot wait for them."""

    def __init__(self, source: ProducerIdSource, tasks: Tasks) -> None:
        self._source = source
        self._tasks = tasks

    def request(self, callback: Callable[[int | None], None]) -> None:
        """``callback`` gets a new id, or None when there is none to be had; not before this has
        returned."""
        if not self._tasks.closed:
            self._tasks.spawn("producer id", self._take(callback))

    async def _take(self, callback: Callable[[int | None], None]) -> None:
        try:
            producer_id = await self._source.take()
        except OncelogError as error:
            logger.info(logged.TRANSACTION_PRODUCER_ID_MISSING, error)
            callback(None)
        else:
            callback(producer_id)


AnyAsk = Ask[Any]
