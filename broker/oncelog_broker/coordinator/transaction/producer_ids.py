"""A shard asks here for producer ids, which it cannot wait for."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.coordinator.ports import ProducerIdSource
from oncelog_protocol.errors import OncelogError
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)


class ProducerIdRequests:
    """It gives every request an id of its own by callback. An id that is not needed then is lost,
    never given twice."""

    def __init__(self, source: ProducerIdSource, tasks: Tasks) -> None:
        self._source = source
        self._tasks = tasks

    def request(self, callback: Callable[[int | None], None]) -> None:
        """Fetch a new id for ``callback``, which gets None when there is none to be had. It is not
        called before this has returned."""
        if not self._tasks.closed:
            self._tasks.spawn("producer id", self._take(callback))

    async def _take(self, callback: Callable[[int | None], None]) -> None:
        try:
            producer_id = await self._source.take()
        except OncelogError as error:
            logger.info("transaction_producer_id_missing", error=error)
            callback(None)
        else:
            callback(producer_id)
