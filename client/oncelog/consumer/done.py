"""Records of one partition are done in any order; this knows what is done. Pure.

Rules
-----
* Records begin in the order of their offsets, which may have gaps (compaction, markers), and are
  done in any order; each begins once and is done once.
* The position is the offset of the first record that is not done: everything below it is. It never
  goes back.
"""

from __future__ import annotations

from collections import deque


class DoneOffsets:
    """A partition's position is kept here while several of its records are under way."""

    __slots__ = ("_begun", "_done", "_next")

    def __init__(self) -> None:
        self._begun: deque[int] = deque()
        """From the first one that is not done on, in order."""
        self._done: set[int] = set()
        """Those of ``_begun`` that are done."""
        self._next = -1

    @property
    def position(self) -> int:
        """Return the first offset that is not done, else the next one; -1 when none was begun."""
        return self._begun[0] if self._begun else self._next

    @property
    def span(self) -> int:
        """Return how many records, done or not, would be read again after a crash."""
        return len(self._begun)

    def follows(self, offset: int) -> bool:
        """Return whether ``offset`` may begin next."""
        return offset >= self._next

    def begin(self, offset: int) -> None:
        """Note that a record is under way."""
        assert offset >= self._next, f"offset {offset} begins, {self._next} was expected"
        self._begun.append(offset)
        self._next = offset + 1

    def finish(self, offset: int) -> None:
        """Note that a record is done."""
        begun, done = self._begun, self._done
        assert begun, f"offset {offset} is not under way"
        assert begun[0] <= offset < self._next, f"offset {offset} is not under way"
        if begun[0] != offset:
            assert offset not in done, f"offset {offset} is done twice"
            done.add(offset)
            return
        begun.popleft()
        while begun and begun[0] in done:
            done.remove(begun.popleft())
