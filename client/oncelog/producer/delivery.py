"""What a send hands back: metadata of one record, of many, and the delivery that is still to come.

Rules: a Delivery is cheap, two slots and no future, because there is one a record; what waits is
attached to the batch. It may be awaited any number of times, by any number of tasks; cancelling
an await cancels nothing but the await.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from oncelog.producer.accumulator import Batch


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is. ``offset`` is -1 with ``acks=0``: nobody was asked."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class WrittenRange(NamedTuple):
    """A batch that was acknowledged: ``rows`` are positions in the list that was sent, in order;
    row ``rows[i]`` has offset ``base_offset + i``."""

    partition: int
    base_offset: int
    rows: Sequence[int]


class BatchMetadata(NamedTuple):
    """Where the records of one ``send_many`` are."""

    topic: str
    ranges: tuple[WrittenRange, ...]

    @property
    def record_count(self) -> int:
        """The number of acknowledged records."""
        return sum(len(written.rows) for written in self.ranges)

    def positions(self) -> Iterator[tuple[int, int, int]]:
        """(row, partition, offset) of each record, batch by batch."""
        for partition, base_offset, rows in self.ranges:
            for index, row in enumerate(rows):
                yield row, partition, (base_offset + index if base_offset >= 0 else -1)


class Delivery:
    """One record on its way. ``await delivery`` gives its RecordMetadata or raises why not."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self._batch.done

    def result(self) -> RecordMetadata:
        """The metadata of a delivery that is done; raises its error."""
        batch = self._batch
        if not batch.done:
            raise RuntimeError("the delivery is not done: await it")
        batch.observed = True
        if batch.error is not None:
            raise batch.error
        return self._metadata()

    def exception(self) -> BaseException | None:
        """The error of a delivery that is done, None when it was acknowledged."""
        batch = self._batch
        if not batch.done:
            raise RuntimeError("the delivery is not done: await it")
        batch.observed = True
        return batch.error

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call ``callback(delivery)`` on the loop when it is done; at once when it is already."""
        self._batch.add_callback(callback, self)

    def _metadata(self) -> RecordMetadata:
        batch, index = self._batch, self._index
        tp = batch.queue.tp
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        return RecordMetadata(tp.topic, tp.partition, offset, batch.timestamp_of(index))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch = self._batch
        batch.observed = True
        if not batch.done:
            yield from batch.wait().__await__()
        if batch.error is not None:
            raise batch.error
        return self._metadata()

    def __repr__(self) -> str:
        return f"<Delivery {self._batch.queue.tp} {'done' if self._batch.done else 'pending'}>"
