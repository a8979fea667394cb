"""A cursor hands out one batch record by record.

Rules: the application's loop runs over an iterator in C, so a record costs no bookkeeping. Each
record is made when the loop asks for it: were all of a batch made at once, they would set off the
garbage collector, which then walks through every object of the process. What was handed out is
read off the iterator of the values when somebody asks (its length hint); a seek, a pause or a close
empties it under the loop, which then comes back here for more. That loop may run in another thread
(the blocking face): so the values are emptied first, in one step that no thread can interrupt, and
what was still in them tells the position.

The record that was handed out last is *in hand* until the application asks for the next one: what
it came back from ends before it (``safe``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import islice
from operator import length_hint
from typing import cast

from oncelog.consumer.columns import ColumnBatch, cut, records_of_values
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import TopicPartitionState


class Cursor:
    """A cursor has the records of one batch of one partition."""

    __slots__ = (
        "_batch",
        "_before",
        "_data",
        "_end",
        "_epoch",
        "_note",
        "_noted",
        "_returned",
        "_values",
        "iterator",
        "state",
        "version",
    )

    def __init__(
        self,
        state: TopicPartitionState,
        batch: ColumnBatch,
        epoch: int,
        data: memoryview,
        end: tuple[int, int],
        note: Callable[[ColumnBatch], None] | None = None,
    ) -> None:
        self.state = state
        self.version = state.version
        self._batch = batch
        self._values = iter(batch.values)
        self.iterator: Iterator[Record] = records_of_values(batch, self._values)
        self._returned = 0
        """How many the application came back from, as of its last poll."""
        self._before = (cast(int, state.offset), state.epoch)
        self._end = end
        """Behind the batch, and behind what follows it and is not handed out."""
        self._epoch = epoch
        self._data = data
        self._note = note
        """Told what was handed out, each record once, when somebody asks where we are."""
        self._noted = 0

    @property
    def left(self) -> int:
        """Return how many records are not handed out yet."""
        return length_hint(self._values)

    @property
    def handed_out(self) -> int:
        """Return how many records were handed out."""
        return len(self._batch) - length_hint(self._values)

    def came_back(self) -> None:
        """Note that the application asks for more: it has finished with the last record."""
        self._returned = self.handed_out

    def safe(self) -> tuple[int, int]:
        """Return (offset, leader epoch before it) up to which the application is done."""
        index = handed_out = self.handed_out
        if handed_out > self._returned:
            index -= 1
        if index == 0:
            return self._before
        if index == len(self._batch):
            return self._end
        return self._batch.offsets[index], self._epoch

    def settle(self) -> None:
        """Move the partition's position to what has been handed out by now."""
        self._settle(length_hint(self._values))

    def _settle(self, left: int) -> None:
        state = self.state
        if self._note is not None:
            self._tell(self._note, len(self._batch) - left)
        if state.version != self.version:
            return  # a seek came in between: the position is the application's
        if left == 0:
            state.advance(*self._end)
        elif left < len(self._batch):
            # The epoch before the position is this batch's: its earlier records have it too.
            state.advance(self._batch.offsets[-left], self._epoch)

    def take(self, count: int) -> Iterator[Record]:
        """Return an iterator over the next ``count`` records, or what is left."""
        return islice(self.iterator, count)

    def stop(self) -> int:
        """End the iteration, and return how many records go back to the partition's chunks."""
        left = len(list(self._values))  # one call that runs in C: nobody gets a record meanwhile
        self._settle(left)
        state = self.state
        if left and state.version == self.version:
            state.put_back(self._data, self._end)
        self.version = -1
        self._note = None
        return left

    def _tell(self, note: Callable[[ColumnBatch], None], handed_out: int) -> None:
        """Tell ``note`` of the records that were handed out since the last time."""
        if handed_out > self._noted:
            noted, self._noted = self._noted, handed_out
            note(cut(self._batch, noted, handed_out))


async def records_of(
    next_cursor: Callable[[], Awaitable[Cursor | None]],
) -> AsyncIterator[Record]:
    """Yield records one by one, until there is no further cursor."""
    while (cursor := await next_cursor()) is not None:
        for record in cursor.iterator:
            yield record
