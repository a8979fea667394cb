"""A log's invariants are checked here while it runs. Pure.

A broken invariant is a defect of the program, or of the memory it runs in. Whatever the replica
says of itself is then worth nothing, so it goes out of service at once and alone
(``Partition.break_down``); its copies on other brokers go on. The checks are comparisons of numbers
that are at hand; the functions here are called when one has failed, or off the path of data.

- offsets along a log have neither gaps nor repeats, and leader epochs do not go back [I1];
- the epoch history is strictly increasing in both columns (KAFKA-7415).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt
from typing import NoReturn

from oncelog_protocol.errors import Kind, StorageError


class InvariantError(
    StorageError,
    code=StorageError.code,
    kind=Kind.RETRIABLE,
    definite=StorageError.definite,
    label="STORAGE_ERROR",
):
    """A replica contradicts itself. Clients are told STORAGE_ERROR: its leader must be another."""


def append_does_not_follow(segment_end: int, base_offset: int, last_offset: int) -> NoReturn:
    """Raise InvariantError, since offsets about to be written would leave a gap, repeat, or run
    backwards."""
    raise InvariantError(
        f"offsets {base_offset} to {last_offset} do not follow the segment's end, {segment_end}"
    )


def check_history(epochs: Sequence[int], starts: Sequence[int]) -> None:
    """Check that an epoch history increases strictly in both columns, from its first entry to its
    last."""
    if (
        len(epochs) != len(starts)
        or not all(map(lt, epochs, epochs[1:]))
        or not all(map(lt, starts, starts[1:]))
    ):
        raise InvariantError(f"epochs {list(epochs)} at offsets {list(starts)}")


def check_neighbours(epochs: Sequence[int], starts: Sequence[int], index: int) -> None:
    """Check that entry ``index`` of an epoch history lies above the one before it, in both columns.

    Negative numbers count from the end; an entry without one before it is right.
    """
    at = index + len(epochs) if index < 0 else index
    if 0 < at < len(epochs) and not (epochs[at - 1] < epochs[at] and starts[at - 1] < starts[at]):
        raise InvariantError(
            f"epoch {epochs[at]} at offset {starts[at]} after"
            f" epoch {epochs[at - 1]} at offset {starts[at - 1]}"
        )
