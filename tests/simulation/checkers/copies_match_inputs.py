"""[A22]: what a copier has consumed is what it has produced: once each, in order, none left out.

A copier reads a partition in a group and writes each record to another partition in the transaction
that commits its offset. Values say what they are copies of: see :func:`copied`.

Rules: no input has two visible copies; copies of one input partition in one output partition are in
its order; below the group's last committed offset every record that a reader saw has its copy, and
nothing at or above it has one. The last committed offset is that of the last transaction that was
certainly committed, or what an outsider was told at the end; without final polls only doubles and
order are looked at. A group copies if a copy names it, or a member of it committed in a
transaction: offsets that an outsider commits may stand for anything.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from simulation.checkers.violation import Rules, Violation, indexes, name_of, some
from simulation.history import History, Key, Op

PROMISE = "copies_match_inputs"

Stream = tuple[str, Key]
"""(group, input partition)."""


class _Copy(NamedTuple):
    offset: int
    """The input's."""
    at: int
    """The copy's."""
    key: Key
    op: Op


def copy_of(value: bytes, group: str, key: Key, offset: int) -> bytes:
    """Return a value that says what it is a copy of: the input's place, and for whom."""
    return value + f"/@{group}:{key[0]}:{key[1]}:{offset}/".encode()


def copied(value: bytes) -> tuple[str, Key, int] | None:
    """Return (group, input partition, its offset), if the value was made by :func:`copy_of`."""
    _, mark, rest = value.partition(b"/@")
    if not mark:
        return None
    group, topic, partition, offset = rest.partition(b"/")[0].decode().split(":")
    return group, (topic, int(partition)), int(offset)


def check(history: History, rules: Rules) -> list[Violation]:
    """Find inputs with more or fewer copies than one, and copies out of order."""
    if not rules.read_committed or rules.loss_permitted:
        return []
    found: list[Violation] = []
    streams = _streams(history)
    ends = _ends(history, streams)
    for stream in dict.fromkeys((*streams, *ends)):
        copies = streams.get(stream, [])
        found += _doubled(stream, copies)
        found += _out_of_order(stream, copies)
        if rules.final_polls and stream in ends:
            found += _torn(history, rules, stream, copies, *ends[stream])
    return found


def _streams(history: History) -> dict[Stream, list[_Copy]]:
    """Return visible copies by stream, in the order of their offsets."""
    found: dict[Stream, list[_Copy]] = {}
    for key, values in history.seen.items():
        for value, places in values.items():
            source = copied(value)
            if source is not None:
                group, input_key, offset = source
                at, op = min(places.items())
                found.setdefault((group, input_key), []).append(_Copy(offset, at, key, op))
    for copies in found.values():
        copies.sort(key=lambda copy: (copy.key, copy.at))
    return found


def _ends(history: History, copied_from: Collection[Stream]) -> dict[Stream, tuple[int, Op]]:
    """Return how far each group that copies has certainly come, and by what."""
    found: dict[Stream, tuple[int, Op]] = {}
    for op in history.grouping:
        certain = op.f == "commit" and op.txn is not None and op.fate == "ok"
        told = op.f == "committed" and op.outcome == "ok"
        if not (certain or told):
            continue
        for mop in op.mops:
            stream = op.group, (mop.topic, mop.partition)
            copies = stream in found or stream in copied_from or (certain and op.member)
            if mop.offset is None or not copies:
                continue
            if mop.offset >= found.get(stream, (-1, op))[0]:
                found[stream] = mop.offset, op
    return found


def _doubled(stream: Stream, copies: list[_Copy]) -> list[Violation]:
    found: list[Violation] = []
    first: dict[int, _Copy] = {}
    for copy in copies:
        before = first.setdefault(copy.offset, copy)
        if before is not copy:
            text = (
                f"group {stream[0]} has copied offset {copy.offset} of {name_of(stream[1])} twice:"
                f" to {name_of(before.key)} at {before.at} and to {name_of(copy.key)} at {copy.at}"
            )
            ops = indexes(before.op, copy.op)
            found.append(Violation("A22", PROMISE, text, copy.key, (copy.at,), ops))
    return found


def _out_of_order(stream: Stream, copies: list[_Copy]) -> list[Violation]:
    found: list[Violation] = []
    last: dict[Key, _Copy] = {}
    for copy in copies:
        before = last.get(copy.key)
        last[copy.key] = copy
        if before is not None and copy.offset < before.offset:
            text = (
                f"group {stream[0]}: the copy of offset {before.offset} of {name_of(stream[1])} is"
                f" at {before.at}, before that of offset {copy.offset} at {copy.at}"
            )
            ops = indexes(before.op, copy.op)
            found.append(Violation("A22", PROMISE, text, copy.key, (before.at, copy.at), ops))
    return found


def _torn(
    history: History, rules: Rules, stream: Stream, copies: list[_Copy], end: int, by: Op
) -> list[Violation]:
    found: list[Violation] = []
    group, key = stream
    have = {copy.offset for copy in copies}
    inputs = {read.offset for read in history.safe_reads.get(key, ()) if read.value is not None}
    missing = sorted(offset for offset in inputs if offset < end and offset not in have)
    missing = [offset for offset in missing if not rules.may_be_gone(key, offset)]
    if missing:
        text = f"group {group} has committed {end}, but has not copied {some(missing)}"
        found.append(Violation("A22", PROMISE, text, key, tuple(missing), indexes(by)))
    beyond = [copy for copy in copies if copy.offset >= end]
    if beyond and by.f == "committed":
        listed = some([copy.offset for copy in beyond])
        text = f"group {group} has copied {listed}, but has committed only {end}"
        ops = indexes(by, *(copy.op for copy in beyond))
        found.append(
            Violation("A22", PROMISE, text, key, tuple(copy.offset for copy in beyond), ops)
        )
    return found
