"""A coordinator's operation returns this: records that change the state, and the reply. Pure.

An operation changes nothing durable itself. The engine appends ``records``, feeds them to
``replay``, and gives the reply once the high watermark has passed them. An operation may change at
once what is not durable (members that are joining, timers). One that cannot be carried out yet says
what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from oncelog_protocol.errors import ApiError, OncelogError

T = TypeVar("T")


class CoordinatorRecord(NamedTuple):
    """One durable fact is stated by it; ``value`` None takes the fact of this key back (a
    tombstone)."""

    key: bytes
    value: bytes | None


class RecordFormatError(OncelogError):
    """A record of the internal topic cannot be read: it was not written by a coordinator."""


BARRIER = CoordinatorRecord(b"\xc0", None)
"""A barrier states nothing. If it is committed, its writer was the coordinator then. Its key,
msgpack's nil, is no shard's."""


class DelayedOperations:
    """These operations wait for the same thing, in the order in which they came.

    The shard owns the object and decides how they go on. The engine puts them in: a result with a
    ``Delay`` does that.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Callable[[ApiError | None], None], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, go_on: Callable[[ApiError | None], None]) -> None:
        """Have ``go_on`` called once, with None or why the wait was in vain."""
        self._waiting[go_on] = None

    def discard(self, go_on: Callable[[ApiError | None], None]) -> None:
        """Forget an operation that waits no longer; it is harmless when it did not."""
        self._waiting.pop(go_on, None)

    def resume(self) -> None:
        """Let them go on: what they wait for is there."""
        self._end(None)

    def refuse(self, error: ApiError) -> None:
        """End them with ``error``: what they wait for does not come, or takes too long."""
        self._end(error)

    def _end(self, error: ApiError | None) -> None:
        waiting, self._waiting = self._waiting, {}
        for go_on in waiting:
            go_on(error)


@dataclass(slots=True)
class Delay(Generic[T]):
    """An operation goes on later, in its turn, with the same caller.

    ``operation`` gets None, or the error with which the wait was ended. Whoever still waits when
    the shard is unloaded is told so, and ``operation`` is not called.
    """

    until: DelayedOperations
    operation: Callable[[ApiError | None], Result[T]]


@dataclass(slots=True)
class Result(Generic[T]):
    """A result holds records and reply of one operation.

    ``reply`` None: the operation has parked its caller and answers later by itself (JoinGroup,
    SyncGroup), or a ``delay`` says how it goes on. ``on_failure`` is called with the error code
    when the records could not be made durable: the shard takes back what it did in memory. With
    REQUEST_TIMED_OUT they may yet be: they were replayed if they were appended, and stay so.
    ``on_committed`` is called, before the reply is given, once they are.

    Without records all of that happens at once, unless the answer ``rests_on_log``: then it waits
    until everything that was appended before is committed, for what is told must not be lost again.
    """

    records: Sequence[CoordinatorRecord] = ()
    reply: T | None = None
    on_committed: Callable[[], None] | None = None
    on_failure: Callable[[int], None] | None = None
    rests_on_log: bool = False
    delay: Delay[T] | None = None
    """The caller is answered by what goes on then, or at once if the records are not committed."""
