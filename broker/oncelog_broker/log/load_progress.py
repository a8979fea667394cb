"""A thread that loads a log directory tells here how far it is; it is read at any time. Pure.

Written by the thread that loads and read by the loop: plain numbers, of which each is right, if not
always all of the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LoadProgress:
    """It tells how far the loading of one directory is."""

    path: str
    logs_total: int = 0
    """So many partitions were found; it is known from the beginning of the loading."""
    logs_done: int = 0
    log: str = ""
    """The partition that is being loaded has this directory."""
    segments_total: int = 0
    """That partition has so many segments."""
    segments_done: int = 0
    segments_seen: int = 0
    """So many segments are loaded, of all partitions so far."""

    def found(self, logs: int) -> None:
        """Note how many partitions are to be loaded."""
        self.logs_total = logs

    def one_log(self) -> None:
        """Note that a partition is loaded."""
        self.logs_done += 1

    def begin(self, directory: str, segments: int) -> None:
        """Note that a partition with so many segments is next."""
        self.log = directory.rpartition("/")[2]
        self.segments_done, self.segments_total = 0, segments

    def one_segment(self) -> None:
        """Note that one segment of it is next, or the last one is done."""
        self.segments_done += 1
        self.segments_seen += 1

    @property
    def done(self) -> bool:
        """Return whether nothing is left to load."""
        return self.logs_done >= self.logs_total

    def describe(self) -> str:
        """Return a line for a person."""
        if self.done:
            return f"{self.path}: {self.logs_total} logs loaded"
        return (
            f"{self.path}: log {self.logs_done + 1} of {self.logs_total}"
            f" ({self.log}, segment {self.segments_done} of {self.segments_total})"
        )
