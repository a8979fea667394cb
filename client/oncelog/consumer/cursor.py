"""A cursor hands out one batch record by record.

Rules: the application's loop runs over a plain list iterator, so a record costs no bookkeeping.
What was handed out is read off the iterator when somebody asks (its length hint); a seek, a pause
or a close empties the iterator under the loop, which then comes back here for more. That loop may
run in another thread (the blocking face): so the iterator is emptied first, in one step that no
thread can interrupt, and what was still in it tells the position.

The record that was handed out last is *in hand* until the application asks for the next one: what
it came back from ends before it (``safe``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from operator import length_hint
from typing import Any, cast

from oncelog.consumer.record import Record
from oncelog.consumer.subscription import TopicPartitionState


class Cursor:
    """A cursor has the records of one batch of one partition."""

    __slots__ = (
        "_before",
        "_data",
        "_end",
        "_epoch",
        "_note",
        "_noted",
        "_records",
        "_returned",
        "iterator",
        "state",
        "version",
    )

    def __init__(
        self,
        state: TopicPartitionState,
        records: list[Record],
        next_offset: int,
        epoch: int,
        data: memoryview,
        note: Callable[[Sequence[Record]], None] | None = None,
        end: tuple[int, int] | None = None,
    ) -> None:
        self.state = state
        self.version = state.version
        self.iterator: Iterator[Record] = iter(records)
        self._records = records
        self._returned = 0
        """How many the application came back from, as of its last poll."""
        self._before = (cast(int, state.offset), state.epoch)
        self._end = end or (next_offset, epoch)
        """Behind the batch, and behind what follows it and is not handed out."""
        self._epoch = epoch
        self._data = data
        self._note = note
        """Told what was handed out, each record once, when somebody asks where we are."""
        self._noted = 0

    @property
    def left(self) -> int:
        """Return how many records are not handed out yet."""
        return length_hint(self.iterator)

    @property
    def handed_out(self) -> int:
        """Return how many records were handed out."""
        return len(self._records) - length_hint(self.iterator)

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
        if index == len(self._records):
            return self._end
        return self._records[index].offset, self._epoch

    def settle(self) -> None:
        """Move the partition's position to what has been handed out by now."""
        self._settle(length_hint(self.iterator))

    def _settle(self, left: int) -> None:
        state = self.state
        if self._note is not None:
            self._tell(self._note, len(self._records) - left)
        if state.version != self.version:
            return  # a seek came in between: the position is the application's
        if left == 0:
            state.advance(*self._end)
        elif left < len(self._records):
            # The epoch before the position is this batch's: its earlier records have it too.
            state.advance(self._records[-left].offset, self._epoch)

    def take(self, count: int) -> Sequence[Record]:
        """Return the next ``count`` records, or what is left."""
        left = length_hint(self.iterator)
        start = len(self._records) - left
        taken = self._records[start : start + count]
        self._move_to(start + len(taken))
        return taken

    def stop(self) -> int:
        """End the iteration, and return how many records go back to the partition's chunks."""
        left = len(list(self.iterator))  # one call that runs in C: nobody gets a record meanwhile
        self._settle(left)
        state = self.state
        if left and state.version == self.version:
            state.put_back(self._data, self._end)
        self.version = -1
        self._note = None
        return left

    def _tell(self, note: Callable[[Sequence[Record]], None], handed_out: int) -> None:
        """Tell ``note`` of the records that were handed out since the last time."""
        if handed_out > self._noted:
            noted, self._noted = self._noted, handed_out
            note(self._records[noted:handed_out])

    def _move_to(self, index: int) -> None:
        # list iterators support this for pickling; it is how their position is set.
        cast(Any, self.iterator).__setstate__(index)
        if index >= len(self._records):
            for _ in self.iterator:  # an iterator at its end must also know that it has ended
                pass


async def records_of(
    next_cursor: Callable[[], Awaitable[Cursor | None]],
) -> AsyncIterator[Record]:
    """Yield records one by one, until there is no further cursor."""
    while (cursor := await next_cursor()) is not None:
        for record in cursor.iterator:
            yield record
