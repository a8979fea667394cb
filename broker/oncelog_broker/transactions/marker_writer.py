"""Markers are written here to the partitions of this broker, which ends transactions there.

Rules
-----
* A marker of a partition of users' data is appended to it, and counts once it is committed. In a
  partition of committed offsets there are no batches of transactions: its coordinator takes the
  pending offsets over, or drops them, and answers when that is committed and in force [K15].
* Errors and time-outs are reported per partition.
* The asker is answered within ``MARKER_WAIT_S``: a partition that is not held by enough replicas by
  then is answered REQUEST_TIMED_OUT, and keeps nobody from hearing of the others. Its marker is in
  the log, and the next attempt finds it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from oncelog_broker.replication.purgatory import Deadline
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.transactions.ports import EndsGroupTransactions
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import ApiError, ProtocolError, RequestTimedOutError, StorageError
from oncelog_protocol.messages.transactions import (
    MarkerPartitionResult,
    MarkerResult,
    MarkerTopicResult,
    TxnMarker,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

MARKER_WAIT_S = 1.0


@dataclass(slots=True, eq=False)
class _Written:
    """These markers were asked for together: they are answered when all are known, or the time is
    up."""

    respond: Callable[[list[MarkerResult]], None] | None
    results: list[MarkerResult] = field(default_factory=list)
    open: dict[int, MarkerPartitionResult] = field(default_factory=dict)
    """These have no answer yet, by the order of asking."""
    deadline: Deadline | None = None

    def known(self, number: int, error_code: int) -> None:
        """Take in the outcome of one marker; late news change nothing."""
        result = self.open.pop(number, None)
        if result is not None:
            result.error_code = error_code
            self.finish()

    def expired(self) -> None:
        """Answer REQUEST_TIMED_OUT for those that are open, as their time is up."""
        self.deadline = None
        for result in self.open.values():
            result.error_code = RequestTimedOutError.code
        self.open.clear()
        self.finish()

    def finish(self) -> None:
        """Answer when nothing is open."""
        if self.open or self.respond is None:
            return
        respond, self.respond = self.respond, None
        if self.deadline is not None:
            self.deadline.cancel()
        respond(self.results)


class MarkerWriter:
    """It writes markers here. ``groups`` ends transactions in partitions of committed offsets."""

    def __init__(self, replicas: ReplicaManager, groups: EndsGroupTransactions) -> None:
        self._replicas = replicas
        self._groups = groups

    def write(
        self, markers: Sequence[TxnMarker], respond: Callable[[list[MarkerResult]], None]
    ) -> None:
        """Write all; ``respond`` gets one result a marker, in order, with the outcome in each of
        its partitions: codes as in ``messages.transactions.MarkerPartitionResult``."""
        written = _Written(respond)
        asked: list[tuple[TxnMarker, TopicPartition]] = []
        for marker in markers:
            answers = []
            for topic in marker.topics:
                results = [MarkerPartitionResult(partition) for partition in topic.partitions]
                for result in results:
                    written.open[len(asked)] = result
                    asked.append((marker, TopicPartition(topic.topic, result.partition)))
                answers.append(MarkerTopicResult(topic.topic, results))
            written.results.append(MarkerResult(marker.producer_id, answers))
        if not asked:
            written.finish()
            return
        written.deadline = self._replicas.deadlines.add(
            self._replicas.now() + MARKER_WAIT_S, written.expired
        )
        for number, (marker, topic_partition) in enumerate(asked):
            self._end(marker, topic_partition, partial(written.known, number))

    def _end(
        self, marker: TxnMarker, topic_partition: TopicPartition, callback: Callable[[int], None]
    ) -> None:
        if topic_partition.topic == GROUP_TOPIC:
            self._groups.end_transaction(
                topic_partition.partition,
                marker.producer_id,
                marker.producer_epoch,
                marker.commit,
                callback,
                number=marker.number,
            )
            return
        try:
            partition = self._replicas.partition(topic_partition)
            append = partition.append_marker(
                marker.commit,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                self._replicas.now(),
                marker.number,
            )
        except ApiError as error:
            logger.debug("marker_refused", partition=topic_partition, error=error)
            callback(error.code)
        except (OSError, ProtocolError) as error:
            logger.error("marker_append_failed", partition=topic_partition, error=error)
            callback(StorageError.code)
        else:
            partition.when_committed(append.last_offset + 1, callback)
