"""The epoch history has the leader epoch of every stretch of a log. Pure.

It maps leader epochs to start offsets, and so tells where two logs diverge. It owns the entries of
one log. Rules:

- entries are strictly increasing in both columns (KAFKA-7415): an epoch that wrote nothing leaves
  no entry behind the one that starts at the same offset;
- it is never ahead of the log: truncation shortens it in the same step, even when the log itself
  has nothing to truncate (KAFKA-10706);
- it is made durable before the recovery point passes what it describes, and is rebuilt from batch
  headers above that; ``revision`` lets the writer of checkpoints see that something changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from oncelog_broker.log.invariants import check_history, check_neighbours
from oncelog_protocol.types import NO_EPOCH

NO_OFFSET = -1
UNDEFINED = (NO_EPOCH, NO_OFFSET)
""":meth:`EpochHistory.end_offset_for` answers this when nothing is known of the epoch."""


class EpochHistory:
    """It keeps the leader epochs of one log, oldest first."""

    __slots__ = ("_epochs", "_starts", "latest", "revision")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        """Take over (epoch, start offset) pairs; ValueError unless strictly increasing in both."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.revision = 0
        for epoch, start in entries:
            if epoch < 0 or start < 0:
                raise ValueError(f"epoch {epoch} at offset {start}: negative")
            if self._epochs and (epoch <= self._epochs[-1] or start <= self._starts[-1]):
                raise ValueError(
                    f"epoch {epoch} at offset {start} does not follow"
                    f" epoch {self._epochs[-1]} at offset {self._starts[-1]}"
                )
            self._epochs.append(epoch)
            self._starts.append(start)
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        """It is the newest epoch, -1 when there is none. It is asked for with each append."""

    def entries(self) -> list[tuple[int, int]]:
        """Return (epoch, start offset) pairs, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that ``epoch`` writes from ``start_offset`` on; return whether anything changed.

        Entries that contradict it are dropped when they wrote nothing, that is when they start
        at or above ``start_offset``. An older epoch may not take over offsets of a newer one that
        did write: ValueError, as offsets would then run back in epochs.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}: negative")
        epochs, starts = self._epochs, self._starts
        keep = bisect_left(starts, start_offset)
        if keep and epochs[keep - 1] > epoch:
            raise ValueError(
                f"epoch {epoch} at offset {start_offset} is older than epoch {epochs[keep - 1]},"
                f" which starts at offset {starts[keep - 1]}"
            )
        if keep and epochs[keep - 1] == epoch:
            if keep == len(epochs):
                return False
            del epochs[keep:], starts[keep:]
        elif keep < len(epochs) and epochs[keep] == epoch and starts[keep] == start_offset:
            if keep + 1 == len(epochs):
                return False
            del epochs[keep + 1 :], starts[keep + 1 :]
        else:
            del epochs[keep:], starts[keep:]
            epochs.append(epoch)
            starts.append(start_offset)
        check_neighbours(epochs, starts, -1)
        self._changed()
        return True

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote ``offset``; -1 when it is before the first entry."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (largest epoch <= ``epoch``, offset after its last record): KIP-279.

        - the newest epoch ends at the log end;
        - an epoch newer than all, or -1, is unknown: :data:`UNDEFINED`;
        - an epoch below all entries: (``epoch``, first start offset) (KAFKA-7415), that is: all of
          it lies before this log.
        """
        epochs = self._epochs
        if epoch == NO_EPOCH or not epochs or epoch > epochs[-1]:
            return UNDEFINED
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(epochs, epoch)
        if higher == 0:
            return epoch, self._starts[0]
        return epochs[higher - 1], self._starts[higher]

    def truncate_from_end(self, offset: int) -> bool:
        """Remove entries that start at or above ``offset``; return whether there were any."""
        keep = bisect_left(self._starts, offset)
        if keep == len(self._starts):
            return False
        del self._epochs[keep:], self._starts[keep:]
        self._changed()
        return True

    def truncate_from_start(self, offset: int) -> bool:
        """Let history begin at ``offset``: the epoch that holds it starts there from now on."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == offset):
            return False
        del self._epochs[:index], self._starts[:index]
        self._starts[0] = offset
        check_neighbours(self._epochs, self._starts, 1)
        self._changed()
        return True

    def check(self) -> None:
        """Check that the entries are strictly increasing in both columns.

        :raises InvariantError: the entries are out of order.
        """
        check_history(self._epochs, self._starts)

    def clear(self) -> None:
        """Forget all entries."""
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.revision += 1

    def __len__(self) -> int:
        return len(self._epochs)

    def __repr__(self) -> str:
        return f"EpochHistory({self.entries()!r})"
