"""The history port: what a client asked and what it then knew, for checkers of anomalies.

Rules: every operation is invoked once and ended at most once, as *ok* (it happened), *fail* (it
definitely did not) or *info* (nobody knows), which are the words and the meaning of Jepsen's
histories. An operation that is never ended counts as *info*. The recorder must not raise, and must
not keep the lists it is given: they belong to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncelog.errors import is_definite


class History(Protocol):
    """A recorder of operations."""

    def invoke(
        self, operation: str, topic: str, partition: int, values: Sequence[bytes | None]
    ) -> int:
        """Note that ``operation`` ("send" or "poll") begins; returns its number."""
        ...

    def ok(self, number: int, offsets: Sequence[int], values: Sequence[bytes | None] = ()) -> None:
        """Note that it happened, at these offsets; a poll adds what it read."""
        ...

    def fail(self, number: int, error: BaseException) -> None:
        """Note that it definitely had no effect."""
        ...

    def info(self, number: int, error: BaseException) -> None:
        """Note that it may or may not have had an effect."""
        ...


def note_failure(history: History, number: int, error: BaseException) -> None:
    """End an operation by what its error promises."""
    if is_definite(error):
        history.fail(number, error)
    else:
        history.info(number, error)
