"""Histories consist of events; this module has their JSON lines and the recorder that makes them.

One format for the simulator, for tests with real processes and for benchmarks; so one set of
checkers reads them all. One event is one line::

    {"time_s": 1.5, "process": "client-1", "client": "producer", "number": 7, "type": "ok",
     "f": "send", "mops": [["send", "orders", 0, "orders/0/client-1/12", 345]]}

Rules
-----
* The place of an event in its history is its index: one sink for all recorders of a run.
* ``invoke`` and the event that ends it share process, client and number. A client that is made anew
  after a crash needs another name or process, or :meth:`HistoryRecorder.crashed` before it.
* The micro-operations of the event that ends an operation, where it has any, replace those of its
  invocation: they know the offsets.
* A transaction is an operation too (``txn``), named by its number in the ``txn`` of its sends and
  commits: a number of the same process and client. *ending* says that its end is about to be asked
  for. Events of none leave the field out.
* Events of a group's member name group, member and generation; in others those fields are left out.
* Values are text where they are printable ASCII, else ``{"base64": ...}``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TextIO

from oncelog.history import GroupOperation, MoveReason, OwnerChange
from oncelog_protocol.types import TopicPartition

EventType = Literal["invoke", "ok", "fail", "info"]
Operation = Literal[
    "send",
    "poll",
    "txn",
    "ending",
    "assign",
    "watermark",
    "crash",
    "commit",
    "committed",
    "assigned",
    "revoked",
    "lost",
]
MicroKind = Literal["send", "poll", "assign", "watermark", "commit", "committed", "own", "winner"]


class MicroOp(NamedTuple):
    """A micro-operation says what happened to one record, partition or winner.

    It is one record sent or polled; one partition moved, or its watermark as a leader told it; one
    partition's committed offset; one partition that a member owns or no longer owns; or a winner of
    a shared transaction, with the writer's name as its value.
    """

    kind: MicroKind
    topic: str
    partition: int
    value: bytes | None = None
    offset: int | None = None
    """It is the record's offset, the new position (assign), or the high watermark (watermark).

    For a commit and a committed it is the committed offset, None for nothing.
    """
    leader_epoch: int | None = None
    """A watermark has the leader epoch."""
    end_offset: int | None = None
    """A watermark has the offset behind the last record that came with it."""
    last_stable_offset: int | None = None
    """A watermark has the last stable offset where it was asked for."""


class HistoryEvent(NamedTuple):
    """An event is one line of a history."""

    time_s: float
    """It is by the recorder's clock; times are comparable within one history."""
    process: str
    client: str
    """It names the client within the process, such as "producer"."""
    number: int
    type: EventType
    f: Operation
    mops: tuple[MicroOp, ...] = ()
    note: str = ""
    """It is the error of a fail or an info, the reason of an assign, or "commit" or "abort"."""
    group: str = ""
    member: str = ""
    """It is the member id; "" from outside of the group."""
    generation: int = -1
    txn: int = -1
    """It is the number of the transaction that this is a part of."""
    transactional_id: str = ""
    """A transaction has its id here."""


class HistoryRecorder:
    """A recorder turns the operations of one client object into events (the port History).

    :param sink: takes every event at once, such as ``[].append`` or :func:`json_lines`.
    :param clock: seconds, such as ``loop.time``.
    """

    def __init__(
        self,
        process: str,
        sink: Callable[[HistoryEvent], None],
        clock: Callable[[], float],
        *,
        client: str = "client",
    ) -> None:
        self._process = process
        self._client = client
        self._sink = sink
        self._clock = clock
        self._count = 0
        self._open: dict[int, HistoryEvent] = {}

    def invoke(
        self,
        operation: str,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        txn: int = -1,
    ) -> int:
        """Begin a send or a poll, and return its number."""
        assert operation in ("send", "poll")
        mops = tuple(MicroOp("send", topic, partition, value) for value in values)
        if not mops:
            mops = (MicroOp("poll", topic, partition),)
        event = self._note("invoke", "send" if operation == "send" else "poll", mops, txn=txn)
        self._open[event.number] = event
        return event.number

    def begin_txn(self, transactional_id: str) -> int:
        """Begin a transaction, and return its number."""
        event = self._note("invoke", "txn", (), transactional_id=transactional_id)
        self._open[event.number] = event
        return event.number

    def ending_txn(self, txn: int, commit: bool, winners: Sequence[bytes] = ()) -> None:
        """Note that the transaction's end is about to be requested."""
        mops = tuple(MicroOp("winner", "", -1, value) for value in winners)
        self._note("ok", "ending", mops, "commit" if commit else "abort", txn=txn)

    def ok(
        self,
        number: int,
        offsets: Sequence[int | None],
        values: Sequence[bytes | None] = (),
    ) -> None:
        """Note that the operation happened, at these offsets; a poll adds what it read."""
        invoked = self._open.pop(number)
        if invoked.f in ("commit", "committed"):
            told = zip(invoked.mops, offsets, strict=False)
            self._end(invoked, "ok", tuple(mop._replace(offset=offset) for mop, offset in told))
            return
        if invoked.f == "txn":
            self._end(invoked, "ok", ())
            return
        topic, partition = invoked.mops[0].topic, invoked.mops[0].partition
        kind: MicroKind = "send" if invoked.f == "send" else "poll"
        taken = [mop.value for mop in invoked.mops] if kind == "send" else values
        mops = tuple(
            MicroOp(kind, topic, partition, value, offset)
            for value, offset in zip(taken, offsets, strict=False)
        )
        self._end(invoked, "ok", mops)

    def fail(self, number: int, error: BaseException) -> None:
        """Note that the operation definitely had no effect."""
        self._end(self._open.pop(number), "fail", (), error)

    def info(self, number: int, error: BaseException) -> None:
        """Note that nobody knows whether the operation had an effect."""
        self._end(self._open.pop(number), "info", (), error)

    def moved(self, topic: str, partition: int, offset: int | None, reason: MoveReason) -> None:
        """Note that the next poll of a partition need not continue the last one."""
        self._note("ok", "assign", (MicroOp("assign", topic, partition, None, offset),), reason)

    def watermark(
        self,
        topic: str,
        partition: int,
        leader_epoch: int,
        high_watermark: int,
        end_offset: int,
        last_stable_offset: int = -1,
    ) -> None:
        """Note the watermarks that a leader told in a fetch."""
        stable = None if last_stable_offset < 0 else last_stable_offset
        mop = MicroOp(
            "watermark", topic, partition, None, high_watermark, leader_epoch, end_offset, stable
        )
        self._note("ok", "watermark", (mop,))

    def invoke_group(
        self,
        operation: GroupOperation,
        group: str,
        member: str,
        generation: int,
        offsets: Mapping[TopicPartition, int | None],
        txn: int = -1,
    ) -> int:
        """Begin a commit, or a question for committed offsets, and return its number."""
        mops = tuple(MicroOp(operation, *tp, None, offset) for tp, offset in offsets.items())
        whose = (group, member, generation)
        event = self._note("invoke", operation, mops, group=whose, txn=txn)
        self._open[event.number] = event
        return event.number

    def owned(
        self,
        how: OwnerChange,
        group: str,
        member: str,
        generation: int,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """Note that a member began or ceased to own these partitions."""
        mops = tuple(MicroOp("own", *tp) for tp in partitions)
        self._note("ok", how, mops, group=(group, member, generation))

    def crashed(self) -> None:
        """Note that the client is gone: its open operations stay open."""
        self._open.clear()
        self._note("info", "crash", ())

    def _note(
        self,
        type: EventType,
        f: Operation,
        mops: tuple[MicroOp, ...],
        note: str = "",
        group: tuple[str, str, int] = ("", "", -1),
        txn: int = -1,
        transactional_id: str = "",
    ) -> HistoryEvent:
        self._count += 1
        whose = (self._process, self._client, self._count)
        event = HistoryEvent(
            self._clock(), *whose, type, f, mops, note, *group, txn, transactional_id
        )
        self._sink(event)
        return event

    def _end(
        self,
        invoked: HistoryEvent,
        type: EventType,
        mops: tuple[MicroOp, ...],
        error: BaseException | None = None,
    ) -> None:
        note = "" if error is None else f"{error.__class__.__name__}: {error}"
        self._sink(invoked._replace(time_s=self._clock(), type=type, mops=mops, note=note))


def json_lines(stream: TextIO) -> Callable[[HistoryEvent], None]:
    """Return a sink that writes one line an event. The caller flushes and closes the stream."""

    def write(event: HistoryEvent) -> None:
        stream.write(line_of(event) + "\n")

    return write


def line_of(event: HistoryEvent) -> str:
    """Return the JSON line of an event, without the line's end."""
    fields: dict[str, Any] = event._asdict()
    fields["mops"] = [_packed(mop) for mop in event.mops]
    if not event.note:
        del fields["note"]
    if not event.group:
        del fields["group"], fields["member"], fields["generation"]
    if event.txn == -1:
        del fields["txn"]
    if not event.transactional_id:
        del fields["transactional_id"]
    return json.dumps(fields)


def event_of(line: str) -> HistoryEvent:
    """Parse an event's JSON line; raise ValueError when it is none of ours."""
    try:
        fields = json.loads(line)
        fields["mops"] = tuple(_unpacked(mop) for mop in fields["mops"])
        return HistoryEvent(**fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an event of a history: {line[:200]!r}") from error


def _packed(mop: MicroOp) -> list[Any]:
    fields: list[Any] = list(mop)
    fields[3] = _value_out(mop.value)
    while fields[-1] is None:
        fields.pop()
    return fields


def _unpacked(fields: list[Any]) -> MicroOp:
    mop = MicroOp(*fields)
    return mop._replace(value=_value_in(mop.value))


def _value_out(value: bytes | None) -> Any:
    if value is None:
        return None
    if value.isascii() and (text := value.decode("ascii")).isprintable():
        return text
    return {"base64": base64.b64encode(value).decode("ascii")}


def _value_in(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("ascii")
    return base64.b64decode(value["base64"], validate=True)
