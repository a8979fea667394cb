"""Markers go from the coordinator of a transaction to the leaders of its partitions.

Rules
-----
* An order is carried out in all its partitions, each for itself, for ever: with pauses, and by
  whoever leads the partition then. It is done when every partition has it, exactly once [B16], and
  never within ``send``. A cancelled order does nothing more.
* Markers for one broker that come while a request is under way leave together in the next one. A
  marker that did not get through the first time travels apart from those that have yet to try, so
  that a partition that is down holds up only itself. This broker itself is told without a socket.
* A topic that is no more needs no markers. If this broker does not know a partition, that proves
  nothing: a coordinator that came later may have heard less than the one that added it. So the
  metadata store is asked, and the marker waits until it says so, or the partition is known.
* INVALID_PRODUCER_EPOCH says that a newer transaction is open there, so this one has ended there.
  TRANSACTION_COORDINATOR_FENCED says that somebody else ends it: that is not tried again, nor done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from oncelog_broker.coordinator.ports import MarkerOrder
from oncelog_broker.transactions.marker_writer import MARKER_WAIT_S, MarkerWriter
from oncelog_broker.transactions.ports import BrokerCallsPort, ClusterView
from oncelog_protocol.errors import (
    NO_ERROR,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    OncelogError,
    TransactionCoordinatorFencedError,
)
from oncelog_protocol.messages.transactions import (
    MarkerResult,
    TxnMarker,
    TxnTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

ATTEMPT_S = MARKER_WAIT_S + 2.0
"""One request to another broker may take so long before its connection is given up."""

PAUSE_S = 0.02
PAUSE_S_MAX = 1.0
"""A marker is sent again after a pause, which doubles up to this maximum."""

DELETED_S = 5.0
"""The metadata store may take so long to say whether a partition was deleted."""

ASK_DELETED_S = 1.0
"""It is asked again after this pause for what is still not known here."""

BATCH_MAX = 2000
"""One request has about so many partitions."""

FIRST_LANE, NEXT_LANE = 100, 101
"""These are connections of their own: for first attempts, and for all further ones."""


@dataclass(slots=True, eq=False)
class _PendingCompletion:
    """It is an order that is under way."""

    order: MarkerOrder
    done: Callable[[], None] | None
    open_count: int = 0

    def one_done(self) -> None:
        """Count a partition that has its marker."""
        self.open_count -= 1
        if self.open_count <= 0:
            done, self.done = self.done, None
            if done is not None:
                done()

    def cancel(self) -> None:
        """Forget an order for which nobody waits any more."""
        self.done = None


@dataclass(slots=True, eq=False)
class _Marker:
    """It is one marker for one partition."""

    order: _PendingCompletion
    producer_id: int
    producer_epoch: int
    commit: bool
    where: TopicPartition
    number: int
    pause_s: float = PAUSE_S
    lane: int = FIRST_LANE


@dataclass(slots=True, eq=False)
class _Lane:
    """It is the queue of markers for one broker."""

    queue: deque[_Marker] = field(default_factory=deque)
    busy: bool = False

    def take(self) -> list[_Marker]:
        """Return the next markers, without those that were cancelled."""
        count = min(len(self.queue), BATCH_MAX)
        taken = [self.queue.popleft() for _ in range(count)]
        return [marker for marker in taken if marker.order.done is not None]


class MarkerSender:
    """It fulfils ``coordinator.ports.MarkerSenderPort``. It is made open; ``close`` ends it.

    :param is_deleted: whether a partition that was there once is no more, for certain; raises when
        that cannot be said now.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        image: ClusterView,
        calls: BrokerCallsPort,
        writer: MarkerWriter,
        tasks: Tasks,
        is_deleted: Callable[[TopicPartition], Awaitable[bool]],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._calls = calls
        self._writer = writer
        self._tasks = tasks
        self._is_deleted = is_deleted
        self._asking = False
        """It tells whether the store is being asked for partitions that are not known here."""
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._homeless: dict[_Marker, None] = {}
        """Nobody leads the partition of these, or it is not known here."""
        self._loop = asyncio.get_running_loop()
        self._closed = False
        image.on_change.append(self._metadata_changed)

    def send(self, order: MarkerOrder, done: Callable[[], None]) -> Callable[[], None]:
        """Write the markers of ``order``, for ever if need be; ``done`` is called once they all
        are, not before this has returned. Return what cancels it."""
        under_way = _PendingCompletion(order, done)
        markers = [
            _Marker(under_way, producer_id, producer_epoch, commit, where, number)
            for producer_id, producer_epoch, commit, partitions, number in order.markers
            for where in partitions
        ]
        under_way.open_count = len(markers)
        if not markers:
            self._loop.call_soon(under_way.one_done)
        for marker in markers:
            self._route(marker)
        return under_way.cancel

    def close(self) -> None:
        """Send nothing any more."""
        self._closed = True
        self._image.on_change.remove(self._metadata_changed)
        self._homeless.clear()
        for lane in self._lanes.values():
            lane.queue.clear()

    # ---- whom to tell

    def _route(self, marker: _Marker) -> None:
        """Have it told to its leader, or wait until there is one."""
        if marker.order.done is None or self._closed or self._tasks.closed:
            return
        state = self._image.partition(marker.where)
        if state is None or state.leader not in self._image.brokers:
            self._homeless[marker] = None
            if state is None and not self._asking:
                self._asking = True
                self._tasks.spawn("markers of unknown partitions", self._ask_for_unknown())
        else:
            key = state.leader, marker.lane
            lane = self._lanes.setdefault(key, _Lane())
            lane.queue.append(marker)
            if not lane.busy:
                lane.busy = True
                self._start(state.leader, marker.lane, lane)

    def _start(self, leader: int, number: int, lane: _Lane) -> None:
        """Start the lane in the next round of the loop, so that what comes in this one leaves
        together."""
        if leader == self._broker_id:
            self._loop.call_soon(self._write_here, lane)
        else:
            self._tasks.spawn(f"markers to broker {leader}", self._run(leader, number, lane))

    def _metadata_changed(self) -> None:
        waiting, self._homeless = self._homeless, {}
        for marker in waiting:
            self._route(marker)

    async def _ask_for_unknown(self) -> None:
        """Ask for the partitions that are not known here, until there are none."""
        try:
            while unknown := self._unknown():
                for where in unknown:
                    if await self._was_deleted(where):
                        self._give_up(where)
                await asyncio.sleep(ASK_DELETED_S)
        finally:
            self._asking = False

    def _unknown(self) -> list[TopicPartition]:
        for marker in [each for each in self._homeless if each.order.done is None]:
            del self._homeless[marker]
        waiting = dict.fromkeys(marker.where for marker in self._homeless)
        return [where for where in waiting if self._image.partition(where) is None]

    async def _was_deleted(self, where: TopicPartition) -> bool:
        try:
            async with asyncio.timeout(DELETED_S):
                return await self._is_deleted(where)
        except (OSError, TimeoutError, OncelogError) as error:
            logger.info("marker_partition_unknown", partition=where, error=error)
            return False

    def _give_up(self, where: TopicPartition) -> None:
        if self._image.partition(where) is not None:
            return  # made again meanwhile: a marker there does no harm
        for marker in [each for each in self._homeless if each.where == where]:
            del self._homeless[marker]
            logger.info("marker_not_needed", partition=where)
            marker.order.one_done()

    def _route_all(self, markers: list[_Marker]) -> None:
        for marker in markers:
            self._route(marker)

    # ---- telling

    def _write_here(self, lane: _Lane) -> None:
        lane.busy = False
        while lane.queue and not self._closed:
            batch = _Batch(lane.take())
            self._writer.write(batch.wire, partial(self._answered, batch))

    async def _run(self, leader: int, number: int, lane: _Lane) -> None:
        try:
            while lane.queue:
                batch = _Batch(lane.take())
                if batch.wire:
                    self._answered(batch, await self._tell(leader, number, batch))
        finally:
            lane.busy = False

    async def _tell(self, leader: int, number: int, batch: _Batch) -> list[MarkerResult]:
        """Send a batch and return the results; there are none if they cannot be known."""
        request = WriteTxnMarkersRequest(batch.wire)
        try:
            response: WriteTxnMarkersResponse = await self._calls.call(
                leader, request, timeout_s=ATTEMPT_S, lane=number
            )
        except (OSError, TimeoutError, OncelogError) as error:
            logger.info(
                "markers_sent_again", markers=len(batch.wire), broker_id=leader, error=error
            )
            return []
        if response.error_code:
            logger.warning("markers_refused", broker_id=leader, error_code=response.error_code)
            return []
        return response.markers

    def _answered(self, batch: _Batch, results: list[MarkerResult]) -> None:
        again: list[_Marker] = []
        for marker, error_code in batch.codes(results):
            if marker.order.done is None:
                continue
            if error_code in (NO_ERROR, InvalidProducerEpochError.code):
                marker.order.one_done()
            elif error_code == TransactionCoordinatorFencedError.code:
                logger.warning(
                    "marker_of_older_coordinator_refused",
                    partition=marker.where,
                    transactional_id=marker.order.order.transactional_id,
                    coordinator_epoch=marker.order.order.coordinator_epoch,
                )
            else:
                logger.debug("marker_delayed", partition=marker.where, error_code=error_code)
                again.append(marker)
        if again and not self._closed:
            pause_s = max(marker.pause_s for marker in again)
            for marker in again:
                marker.lane = NEXT_LANE
                marker.pause_s = min(2 * marker.pause_s, PAUSE_S_MAX)
            self._loop.call_later(pause_s, self._route_all, again)


class _Batch:
    """It is a group of markers for one request."""

    __slots__ = ("_markers", "wire")

    def __init__(self, markers: list[_Marker]) -> None:
        grouped: dict[tuple[_PendingCompletion, int, int, bool], list[_Marker]] = {}
        for marker in markers:
            key = marker.order, marker.producer_id, marker.producer_epoch, marker.commit
            grouped.setdefault(key, []).append(marker)
        self._markers = list(grouped.values())
        self.wire = [_wire(group) for group in self._markers]

    def codes(self, results: list[MarkerResult]) -> list[tuple[_Marker, int]]:
        """Return the outcome of each marker; COORDINATOR_NOT_AVAILABLE where nothing is said of
        it."""
        found: list[tuple[_Marker, int]] = []
        for number, group in enumerate(self._markers):
            said: dict[tuple[str, int], int] = {}
            if number < len(results) and results[number].producer_id == group[0].producer_id:
                for topic in results[number].topics:
                    for result in topic.partitions:
                        said[topic.topic, result.partition] = result.error_code
            unknown = CoordinatorNotAvailableError.code
            found += [(marker, said.get(marker.where, unknown)) for marker in group]
        return found


def _wire(group: list[_Marker]) -> TxnMarker:
    first = group[0]
    topics: dict[str, TxnTopic] = {}
    for marker in group:
        topic = topics.setdefault(marker.where.topic, TxnTopic(marker.where.topic, []))
        topic.partitions.append(marker.where.partition)
    return TxnMarker(
        first.producer_id,
        first.producer_epoch,
        first.order.order.coordinator_epoch,
        first.commit,
        list(topics.values()),
        first.number,
    )
