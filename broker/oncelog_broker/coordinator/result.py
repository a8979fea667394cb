"""What a coordinator's handler returns: records that change the state, and the reply. Pure.

A handler changes nothing durable itself. The engine appends ``records``, feeds them to ``replay``,
and gives the reply once the high watermark has passed them. What is not durable (members that are
joining, timers) a handler may change at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class CoordinatorRecord(NamedTuple):
    """One durable fact; ``value`` None takes the fact of this key back (a tombstone)."""

    key: bytes
    value: bytes | None


BARRIER = CoordinatorRecord(b"\xc0", None)
"""States nothing. That it was committed shows that whoever wrote it was the coordinator then. Its
key, msgpack's nil, is no shard's."""


@dataclass(slots=True)
class Result(Generic[T]):
    """Records and reply of one operation.

    ``reply`` None: the operation has parked its caller and answers later by itself (JoinGroup,
    SyncGroup). ``on_failure`` is called with the error code when the records could not be made
    durable: the shard takes back what it did in memory. With REQUEST_TIMED_OUT they may yet be:
    they were replayed if they were appended, and stay so. ``on_committed`` is called, before the
    reply is given, once they are.

    Without records all of that happens at once, unless the answer ``rests_on_log``: then it waits
    until everything that was appended before is committed, for what is told must not be lost again.
    """

    records: Sequence[CoordinatorRecord] = ()
    reply: T | None = None
    on_committed: Callable[[], None] | None = None
    on_failure: Callable[[int], None] | None = None
    rests_on_log: bool = False
