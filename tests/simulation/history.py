"""Checkers read histories: events are paired to operations, and each knows who wrote and read.

The format and its recorder are :mod:`oncelog.history_events`, the same for the simulator, for tests
with real processes and for benchmarks.

Rules
-----
* An operation that was never ended is *info*: it may or may not have happened.
* Values are unique within their partition and say where they belong: see :func:`value_of`.
* What a poll returned counts whatever became of its operation: a reader may only ever be handed
  safe data. Clients whose name begins with "uncommitted" read what is not decided yet; what they
  saw says where records lie, not that they are committed.
* A send in a transaction is *ok* when it is stored; its *fate* is also that of the transaction. One
  whose commit was never asked for failed. A writer's part of a shared transaction has the fate of
  the one in which it was to win.
* Nothing here judges. Indexes are built once and shared by all checkers; do not change them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TextIO

from oncelog.history_events import (
    HistoryEvent,
    HistoryRecorder,
    MicroOp,
    event_of,
    json_lines,
    line_of,
)

__all__ = [
    "History",
    "HistoryEvent",
    "HistoryRecorder",
    "Key",
    "MicroOp",
    "Op",
    "Order",
    "Read",
    "Watermark",
    "Write",
    "event_of",
    "json_lines",
    "key_of",
    "keyed_value_of",
    "line_of",
    "place_of",
    "read_events",
    "value_of",
]

Key = tuple[str, int]
"""(topic, partition)."""


def value_of(topic: str, partition: int, process: str, number: int) -> bytes:
    """Return the value that a workload writes: unique, and naming its partition."""
    return f"{topic}/{partition}/{process}/{number}".encode()


def keyed_value_of(topic: str, partition: int, process: str, number: int, key: bytes) -> bytes:
    """Return the same for a compacted topic: it names the record's key, see :func:`key_of`."""
    return value_of(topic, partition, process, number) + b"/#" + key + b"/"


def key_of(value: bytes) -> bytes | None:
    """Return the key that a value names, if it was made by :func:`keyed_value_of`."""
    _, mark, rest = value.partition(b"#")
    return rest.partition(b"/")[0] if mark else None


def place_of(value: bytes) -> Key | None:
    """Return the partition that a value names, or None if it was not made by :func:`value_of`."""
    parts = value.split(b"/", 2)
    if len(parts) < 3 or not parts[1].isdigit():
        return None
    return parts[0].decode("utf-8", "replace"), int(parts[1])


def read_events(stream: TextIO) -> Iterator[HistoryEvent]:
    """Yield the events of a file of JSON lines. A torn last line, of a process that died, is left
    out.

    :raises ValueError: another line is not an event.
    """
    for line in stream:
        if line.endswith("\n"):
            yield event_of(line)


@dataclass(slots=True, eq=False)
class Op:
    """It is one operation: its invocation and what ended it, if anything did."""

    index: int
    """The place of its first event in the history."""
    invoke: HistoryEvent
    end: HistoryEvent | None = None
    ended: int | None = None
    """The place of the event that ended it; None: it was never ended."""
    txn: Op | None = None
    """The transaction that it is a part of."""
    parts: list[Op] = field(default_factory=list)
    """A transaction's sends and commits."""
    asked: int | None = None
    """A transaction's place in the history where its commit was about to be asked for."""
    wins: Op | None = None
    """The whole whose commit named this writer's part of a shared transaction."""
    winners: list[Op] = field(default_factory=list)
    """The parts of a shared transaction that its commit named."""

    @property
    def f(self) -> str:
        """Return what was done: "send", "poll", "txn", "assign" and others."""
        return self.invoke.f

    @property
    def client(self) -> tuple[str, str]:
        """Return (process, client)."""
        return self.invoke.process, self.invoke.client

    @property
    def group(self) -> str:
        """Return the group that it names; empty when it names none."""
        return self.invoke.group

    @property
    def member(self) -> str:
        """Return the member id that it names; empty from outside of the group."""
        return self.invoke.member

    @property
    def generation(self) -> int:
        """Return the generation that it names, or -1."""
        return self.invoke.generation

    @property
    def outcome(self) -> str:
        """Return "ok", "fail" or "info"."""
        return "info" if self.end is None else self.end.type

    @property
    def fate(self) -> str:
        """Return what became of its effects: "ok", "fail" or "info"; the module has the rules."""
        if self.txn is not None:
            fate = self.txn.fate
            return self.outcome if fate == "ok" or self.outcome == "fail" else fate
        if self.f == "txn":
            if self.wins is not None:
                return self.wins.fate
            if self.end is None and self.asked is None and not self.invoke.mops:
                return "fail"
        return self.outcome

    @property
    def reads_uncommitted(self) -> bool:
        """Return whether its client reads what is not decided yet."""
        return self.invoke.client.startswith("uncommitted")

    @property
    def mops(self) -> tuple[MicroOp, ...]:
        """Return the micro-operations, with offsets where they are known."""
        return self.end.mops if self.end is not None and self.end.mops else self.invoke.mops

    def __str__(self) -> str:
        return f"{self.f} {self.index} of {'/'.join(self.client)}"


class Write(NamedTuple):
    """It is one value sent to one partition."""

    op: Op
    place: int
    """Which micro-operation of ``op``."""
    offset: int | None
    """The place that the acknowledgement names; None without one."""


class Read(NamedTuple):
    """It is one record that a poll returned."""

    op: Op
    offset: int
    value: bytes | None


class Watermark(NamedTuple):
    """A leader said this of its partition, in the order in which one observer heard it.

    Observers are compared with themselves only: their answers overtake each other on the way.
    """

    observer: str
    topic: str
    partition: int
    leader_epoch: int
    high_watermark: int
    last_stable_offset: int | None = None
    end_offset: int = -1
    """Behind the last record that came in the same answer; -1 without any."""


@dataclass(slots=True)
class Order:
    """It is what is known of one partition's log: values by offset, as first seen."""

    values: dict[int, bytes | None] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    """The known offsets, sorted: a record's place among them is its dense index."""

    def between(self, low: int, high: int) -> Sequence[int]:
        """Return known offsets strictly between two."""
        if high - low <= 1:
            return ()
        return self.offsets[bisect_right(self.offsets, low) : bisect_left(self.offsets, high)]


class History:
    """It is a whole run: events in the order in which they were recorded."""

    def __init__(self, events: Iterable[HistoryEvent]) -> None:
        self.events = list(events)
        self.ops: list[Op] = []
        """By first event."""
        self.derived: dict[object, Any] = {}
        """What checkers have found out and share."""
        self._numbered: dict[tuple[str, str, int], Op] = {}
        self._named: dict[str, Op] = {}
        self._pair()

    @classmethod
    def from_events(cls, events: Iterable[HistoryEvent]) -> History:
        """Make a history of events, in the order in which they were recorded."""
        return cls(events)

    @classmethod
    def from_lines(cls, stream: TextIO) -> History:
        """Make a history of JSON lines."""
        return cls(read_events(stream))

    def _pair(self) -> None:
        running: dict[tuple[str, str, int], Op] = {}
        for index, event in enumerate(self.events):
            name = event.process, event.client, event.number
            if event.f == "ending":
                self._ending(index, event)
            elif event.type == "invoke":
                op = running[name] = Op(index, event)
                self.ops.append(op)
                self._join(op)
            elif (begun := running.pop(name, None)) is not None:
                begun.end, begun.ended = event, index
            else:  # moves, watermarks, owners and crashes are one event
                self.ops.append(Op(index, event, event, index))

    def _join(self, op: Op) -> None:
        """Know a transaction, or the one that an operation is a part of."""
        event = op.invoke
        if event.f == "txn":
            self._numbered[event.process, event.client, event.number] = op
            self._named[event.transactional_id] = op
        elif event.txn != -1:
            op.txn = self._numbered.get((event.process, event.client, event.txn))
            if op.txn is not None:
                op.txn.parts.append(op)

    def _ending(self, index: int, event: HistoryEvent) -> None:
        op = self._numbered.get((event.process, event.client, event.txn))
        if op is None or event.note != "commit":
            return
        op.asked = index if op.asked is None else op.asked
        for mop in event.mops:
            part = self._named.get((mop.value or b"").decode("utf-8", "replace"))
            if part is not None and part.wins is None:
                part.wins = op
                op.winners.append(part)

    @cached_property
    def txns(self) -> list[Op]:
        """Return transactions; of a shared one the whole, without its writers' parts."""
        return [op for op in self.ops if op.f == "txn" and op.wins is None]

    @cached_property
    def sending(self) -> list[Op]:
        """Return operations that may have written."""
        return [op for op in self.ops if op.f in ("send", "txn")]

    @cached_property
    def reading(self) -> list[Op]:
        """Operations that may have read, or that say where reading goes on."""
        return [op for op in self.ops if op.f in ("poll", "txn", "assign", "crash")]

    @cached_property
    def grouping(self) -> list[Op]:
        """Return operations of groups' members, and of others on committed offsets; and crashes."""
        return [op for op in self.ops if op.group or op.f == "crash"]

    @cached_property
    def groups(self) -> dict[tuple[str, str], str]:
        """Return the group of each client that is in one."""
        return {op.client: op.group for op in self.ops if op.group and op.member}

    @cached_property
    def writes(self) -> dict[Key, dict[bytes, Write]]:
        """Return every value that somebody tried to write, by partition."""
        found: dict[Key, dict[bytes, Write]] = {}
        for op in self.sending:
            acked = op.outcome == "ok"
            for place, mop in enumerate(op.mops):
                if mop.kind == "send" and mop.value is not None:
                    values = found.setdefault((mop.topic, mop.partition), {})
                    values[mop.value] = Write(op, place, mop.offset if acked else None)
        return found

    @cached_property
    def reads(self) -> dict[Key, list[Read]]:
        """Return every record that was polled, by partition."""
        found: dict[Key, list[Read]] = {}
        for op in self.reading:
            if op.f == "assign":
                continue
            for mop in op.mops:
                if mop.kind == "poll" and mop.offset is not None:
                    reads = found.setdefault((mop.topic, mop.partition), [])
                    reads.append(Read(op, mop.offset, mop.value))
        return found

    @cached_property
    def safe_reads(self) -> dict[Key, list[Read]]:
        """Return those by clients that are handed nothing but what is decided."""
        return {
            key: [read for read in reads if not read.op.reads_uncommitted]
            for key, reads in self.reads.items()
        }

    @cached_property
    def seen(self) -> dict[Key, dict[bytes, dict[int, Op]]]:
        """Return where each value was polled: offsets, each with the first operation that did."""
        found: dict[Key, dict[bytes, dict[int, Op]]] = {}
        for key, reads in self.safe_reads.items():
            values = found.setdefault(key, {})
            for op, offset, value in reads:
                if value is not None:
                    values.setdefault(value, {}).setdefault(offset, op)
        return found

    @cached_property
    def ends(self) -> dict[Key, int]:
        """Return the highest offset that anyone polled, by partition."""
        return {
            key: max(read.offset for read in reads)
            for key, reads in self.safe_reads.items()
            if reads
        }

    @cached_property
    def proven(self) -> frozenset[int]:
        """Return indexes of unfinished operations whose values an ok poll saw."""
        found = set()
        for key, reads in self.safe_reads.items():
            writes = self.writes.get(key, {})
            for op, _, value in reads:
                write = None if value is None else writes.get(value)
                if write is not None and write.op is not op and op.outcome == "ok":
                    found.add(write.op.index)
        return frozenset(found)

    def order(self, key: Key, *, acks: bool) -> Order:
        """Return what is known of a partition by polls and, with ``acks``, by acknowledgements."""
        return self.orders(acks=acks).get(key, _UNKNOWN)

    def orders(self, *, acks: bool) -> dict[Key, Order]:
        """:meth:`order` of every partition."""
        return self._orders_with_acks if acks else self._orders_by_polls

    @cached_property
    def _orders_by_polls(self) -> dict[Key, Order]:
        found: dict[Key, Order] = {}
        for key, reads in self.safe_reads.items():
            values: dict[int, bytes | None] = {}
            for _, offset, value in reads:
                values.setdefault(offset, value)
            found[key] = Order(values, sorted(values))
        return found

    @cached_property
    def _orders_with_acks(self) -> dict[Key, Order]:
        found: dict[Key, Order] = {}
        for key in dict.fromkeys((*self.writes, *self.reads)):
            values = dict(self.order(key, acks=False).values)
            for value, write in self.writes.get(key, {}).items():
                if write.offset is not None and write.op.fate == "ok":
                    values.setdefault(write.offset, value)
            found[key] = Order(values, sorted(values))
        return found

    @cached_property
    def watermarks(self) -> list[Watermark]:
        """Return what clients were told in their fetches."""
        return [
            Watermark(
                "/".join(op.client),
                mop.topic,
                mop.partition,
                -1 if mop.leader_epoch is None else mop.leader_epoch,
                -1 if mop.offset is None else mop.offset,
                mop.last_stable_offset,
                -1 if mop.end_offset is None else mop.end_offset,
            )
            for op in self.ops
            if op.f == "watermark"
            for mop in op.mops
        ]


_UNKNOWN = Order()
