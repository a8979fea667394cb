"""It is counted here how far a plan of moves is, from looks at what still moves. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_cli.documents.answer import Row


class MoveProgress:
    """It knows what a plan has to copy, and takes what is not listed any more for done.

    Bytes are counted where all are known beforehand, otherwise partitions.
    """

    def __init__(self, planned: Iterable[Row]) -> None:
        """Begin; ``planned`` are the rows that were taken into the plan."""
        rows = [row for row in planned if row["result"] == "planned"]
        sizes = [row["bytes_to_copy"] for row in rows if row["adding"]]
        self.counts_bytes = bool(sizes) and None not in sizes and sum(sizes) > 0
        self._weights: dict[tuple[str, int], int] = {}
        for row in rows:
            size = row["bytes_to_copy"] if row["adding"] else 0
            self._weights[row["topic"], row["partition"]] = size if self.counts_bytes else 1
        self.total = sum(self._weights.values())
        self.done = 0
        """It never becomes less."""

    def see(self, listed: Iterable[Row]) -> None:
        """Take in the rows of what moves now, or is to move."""
        left = 0
        for row in listed:
            weight = self._weights.get((row["topic"], row["partition"]))
            if weight is None or row["phase"] == "leaving":
                continue
            if self.counts_bytes and row["bytes_done"] is not None and row["bytes_total"]:
                weight = weight * (row["bytes_total"] - row["bytes_done"]) // row["bytes_total"]
            left += weight
        self.done = max(self.done, self.total - left)

    @property
    def percent(self) -> int:
        """Return whole percents of what is done; 100 only when all is."""
        return 100 if self.done >= self.total else 100 * self.done // self.total
