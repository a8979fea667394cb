"""Tools that show a log as it is can hear of the markers that a consumer meets.

A consumer never hands out markers, whatever its isolation level. Who looks at a log for somebody
else may be told of them, in the order of their offsets, when the records before are handed out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oncelog.consumer.consumer import Consumer, core_of
from oncelog_protocol.records.control import ControlType, decode_marker
from oncelog_protocol.types import Buffer, TopicPartition


class TransactionMarker(NamedTuple):
    """A transaction has ended so in one partition; ``timestamp`` is in ms since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    committed: bool
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


MarkerCallback = Callable[[TransactionMarker], None]


def watch_markers(consumer: Consumer, callback: MarkerCallback) -> None:
    """Call ``callback``, inside of polls, with each marker that ``consumer`` passes from now on."""

    def told(tp: TopicPartition, batch: Buffer) -> None:
        callback(read_marker(tp, batch))

    core_of(consumer).reader.watch_control_batches(told)


def read_marker(tp: TopicPartition, batch: Buffer) -> TransactionMarker:
    """Parse the marker of a control batch; raise CorruptBatchError for what is none."""
    marker = decode_marker(batch, verify=False)
    return TransactionMarker(
        tp.topic,
        tp.partition,
        marker.offset,
        marker.timestamp_ms,
        marker.control_type is ControlType.COMMIT,
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
    )
