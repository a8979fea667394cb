"""Hand-made histories, one operation a line.

::

    p1 send x a@0 b@1        a batch of two, acknowledged at these offsets of partition 0 of topic x
    p1 send x c ?            nobody knows what became of it
    p1 send x d !            it failed for certain
    c1 poll x a@0 y.e@1      what a consumer was handed; "y.e" is the value e of topic y
    c1 seek x 5              also: found, assign, reset, truncated; with an offset or without
    c1 crash
    t1 txn send x a@0 ; poll y b@3 ; assign y   one operation of several, also with ? and !

A process whose name begins with p is a producer, with c a consumer, with t both at once.

A :class:`Case` is a story and the whole verdict on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import get_args

from oncelog.history import MoveReason
from oncelog.history_events import EventType, MicroKind, Operation
from simulation.checkers.verdict import verdict
from simulation.checkers.violation import Holes, Rules
from simulation.history import Event, History, MicroOp

__all__ = ["Case", "assert_enough", "assert_found", "bad", "good", "story", "told_value"]

ROLES = {"p": "producer", "c": "consumer", "t": "both"}
ENDS: dict[str, EventType] = {"?": "info", "!": "fail"}


def told_value(name: str, topic: str = "x") -> bytes:
    """The value that a story calls ``name`` or ``topic.name``."""
    topic, name = name.split(".") if "." in name else (topic, name)
    return f"{topic}/0/{name}".encode()


def story(text: str) -> History:
    """The history that a story tells."""
    events: list[Event] = []
    for line in text.strip().splitlines():
        words = line.split()
        if words:
            events += _operation(len(events), words)
    return History.from_events(events)


def _operation(number: int, words: list[str]) -> list[Event]:
    process, verb, *rest = words
    role = ROLES[process[0]]
    end: EventType = ENDS[rest.pop()] if rest and rest[-1] in ENDS else "ok"
    time_s = number / 10

    def event(type: EventType, f: Operation, mops: tuple[MicroOp, ...], note: str = "") -> Event:
        return Event(time_s, process, role, number, type, f, mops, note)

    if verb == "crash":
        return [event("info", "crash", ())]
    if verb in get_args(MoveReason):
        offset = int(rest[1]) if rest[1:] else None
        return [event("ok", "assign", (MicroOp("assign", rest[0], 0, None, offset),), verb)]
    if verb == "txn":
        parts = [part.split() for part in " ".join(rest).split(";")]
        mops = tuple(mop for kind, topic, *items in parts for mop in _mops(kind, topic, items))
        f: Operation = "txn"
    else:
        f = "send" if verb == "send" else "poll"
        mops = tuple(_mops(verb, rest[0], rest[1:]))
    begun = tuple(mop._replace(offset=None) for mop in mops if mop.kind == "send")
    ended = mops if end == "ok" or any(mop.kind == "poll" for mop in mops) else ()
    return [event("invoke", f, begun), event(end, f, ended)]


def _mops(kind: str, topic: str, items: list[str]) -> list[MicroOp]:
    if kind == "assign":
        return [MicroOp("assign", topic, 0)]
    which: MicroKind = "send" if kind == "send" else "poll"
    found = []
    for item in items:
        name, _, offset = item.partition("@")
        place = int(offset) if offset else None
        found.append(MicroOp(which, topic, 0, told_value(name, topic), place))
    return found


@dataclass(frozen=True)
class Case:
    """A history and what is to be found in it."""

    anomaly: str
    name: str
    text: str
    found: tuple[str, ...] = ()
    """Every anomaly of the verdict; none: the history is good, though it looks like ``anomaly``."""
    rules: Rules = field(default_factory=Rules)
    holes: Holes | None = None


def bad(
    anomaly: str,
    name: str,
    text: str,
    *others: str,
    rules: Rules | None = None,
    holes: Holes | None = None,
) -> Case:
    """A history in which ``anomaly`` is to be found (and ``others``, where one implies another)."""
    return Case(anomaly, name, text, tuple(sorted({anomaly, *others})), rules or Rules(), holes)


def good(
    anomaly: str, name: str, text: str, rules: Rules | None = None, holes: Holes | None = None
) -> Case:
    """A history that is right, though it looks like ``anomaly``."""
    return Case(anomaly, name, text, (), rules or Rules(), holes)


def assert_found(case: Case) -> None:
    """The verdict on a story names the anomalies that it tells of, and no others."""
    history = story(case.text)
    found = verdict(history, case.rules, holes=case.holes)
    assert sorted({violation.anomaly for violation in found}) == list(case.found), found
    for violation in found:
        assert violation.partition is not None
        assert violation.ops
        assert {op.index for op in history.ops}.issuperset(violation.ops)


def assert_enough(cases: Iterable[Case], numbers: Iterable[int]) -> None:
    """At least two stories in which nothing but the anomaly is wrong, and two good ones, each."""
    told = Counter((case.anomaly, bool(case.found)) for case in cases if len(case.found) < 2)
    few = [(f"A{n}", kind) for n in numbers for kind in (True, False) if told[f"A{n}", kind] < 2]
    assert not few
