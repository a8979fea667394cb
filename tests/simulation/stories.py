"""Hand-made histories have one operation a line.

::

    p1 send x a@0 b@1        a batch of two, acknowledged at these offsets of partition 0 of topic x
    p1 send x c ?            nobody knows what became of it
    p1 send x d !            it failed for certain
    c1 poll x a@0 y.e@1      what a consumer was handed; "y.e" is the value e of topic y
    c1 seek x 5              also: found, assign, reset, truncated; with an offset or without
    c1 crash
    c1 subscribe x           a rebalance brought it; found says where the group has come to
    c1 assigned g/m1@3 x y   member m1 of group g owns these in generation 3; also: revoked, lost
    c1 commit g/m1@3 x@5     also with ? and !; g alone is somebody from outside
    c1 committed g/m1@3 x@5 y@-   what the group was told to have committed; "-" is nothing
    t1 txn send x a@0 ; poll y b@3 ; assign y   one operation of several, also with ? and !
    t1 begin bank:1          the first transaction of the id "bank"; its parts name it:
    t1 send x a@0 in bank:1
    t1 commit g/m1@3 x@5 in bank:1
    t1 asks bank:1           its commit is about to be asked for
    t1 committed bank:1      and answered; also aborted, and with ?
    t1 commits bank:1        both at once, also with ? and !
    t1 begin all             a shared one; t2 begin all/7 is the part of its writer 7, and
    t1 commits all all/7     names the winners
    c1.1.1 fetched x@5       an answer to a fetch came, with this high watermark
    warden takes c1 READ     a right of user c1 is taken, and acknowledged at once: it is in force a
                             second later; "c1.1 PASSWORD" is one of user c1 with its first password
    warden gives c1 READ by 9    it is in force only after 9 s: a broker was cut off
    warden takes c1 READ ?   nobody acknowledges it
    c1.1.1 refused READ      a process of c1, with its first password, is refused
    wait 2.5                 seconds go by; each other line takes a tenth of one

A process whose name begins with p is a producer, with c a consumer, with t both at once, with s a
static member of a group, with u a consumer that reads what is not committed.

A :class:`Case` is a story and the whole verdict on it. Files of ``checkers/stories`` have many::

    bad [A16]: an acknowledged commit is repeated       good: it only looks like that anomaly
    also [A17]                                        other anomalies of the verdict
    rules idempotent=True, groups={'g': [('x', 0)]}   fields of Rules
    holes {('x', 0): [1]}                             offsets that hold no record for readers
        c1 poll x a@0
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from oncelog.history import GroupOperation, MoveReason, OwnerChange
from oncelog.history_events import EventType, MicroKind, Operation
from simulation.checkers.copies_match_inputs import copy_of
from simulation.checkers.money_is_conserved import booking_of
from simulation.checkers.verdict import verdict
from simulation.checkers.violation import REPORT_ONLY, Holes, Rules, Violation
from simulation.history import History, HistoryEvent, MicroOp
from simulation.rights import GRACE_S, Change, Refusal, Rights

__all__ = ["Case", "assert_enough", "assert_found", "read_cases", "story", "told_value"]

LINE_S = 0.1
PATIENCE_S = 0.5
"""In stories an answer that is heard was asked for no longer ago."""

ROLES = {"p": "producer", "c": "consumer", "t": "both", "s": "static", "u": "uncommitted"}
OWNED: dict[str, OwnerChange] = {change: change for change in get_args(OwnerChange)}
COMMITS: dict[str, GroupOperation] = {each: each for each in get_args(GroupOperation)}
ENDS: dict[str, EventType] = {"?": "info", "!": "fail"}
OF_TXNS = ("begin", "asks", "commits", "committed", "aborted")


def told_value(name: str, topic: str = "x") -> bytes:
    """Return the value that a story calls ``name`` or ``topic.name``; "a=5" books an amount,
    "a<g:y:3" is the copy of offset 3 of y by group g."""
    topic, name = name.split(".") if "." in name else (topic, name)
    name, _, amount = name.partition("=")
    name, _, source = name.partition("<")
    value = f"{topic}/0/{name}".encode()
    if amount:
        return booking_of(value, int(amount))
    if source:
        group, of, offset = source.split(":")
        return copy_of(value, group, (of, 0), int(offset))
    return value


def story(text: str) -> History:
    """Return the history that a story tells."""
    return _told(text)[0]


def _told(text: str) -> tuple[History, Rights]:
    events: list[HistoryEvent] = []
    rights = Rights(patience_s=PATIENCE_S, fetch_patience_s=PATIENCE_S)
    txns: dict[str, int] = {}
    now_s = 0.0
    for words in map(str.split, text.strip().splitlines()):
        told: list[HistoryEvent] = []
        if words[:1] == ["wait"]:
            now_s += float(words[1])
        elif words[:1] == ["warden"]:
            rights.add(_change(now_s, words))
        elif words[1:2] == ["refused"]:
            error = "AuthorizationFailedError"
            rights.refusals.append(Refusal(words[0], words[2], now_s, now_s, error))
        elif len(words) > 1 and words[1] in OF_TXNS and not _asks_a_group(words):
            told = _transaction(len(events), words, txns)
        elif words:
            told = _operation(len(events), words, txns)
        events += [event._replace(time_s=now_s) for event in told]
        now_s += LINE_S
    return History.from_events(events), rights


def _change(now_s: float, words: list[str]) -> Change:
    _, verb, who, right, *rest = words
    change = Change(who, right, verb == "gives", now_s)
    if rest[:1] != ["?"]:
        change.acked_s = now_s
        change.force_by_s = now_s + (float(rest[1]) if rest else GRACE_S)
    return change


def _asks_a_group(words: list[str]) -> bool:
    return words[1] == "committed" and any("@" in word for word in words)


def _transaction(count: int, words: list[str], txns: dict[str, int]) -> list[HistoryEvent]:
    process, verb, name, *winners = words
    end: EventType = ENDS[winners.pop()] if winners and winners[-1] in ENDS else "ok"
    number = txns.setdefault(name, count)
    base = HistoryEvent(0.0, process, ROLES[process[0]], number, "invoke", "txn")
    base = base._replace(transactional_id=name.partition(":")[0])
    if verb == "begin":
        return [base]
    mops = tuple(MicroOp("winner", "", -1, winner.encode()) for winner in winners)
    asks = HistoryEvent(*base[:3], count, "ok", "ending", mops, "commit", txn=number)
    ended = base._replace(type="fail" if verb == "aborted" else end)
    return {"asks": [asks], "commits": [asks, ended]}.get(verb, [ended])


def _operation(number: int, words: list[str], txns: dict[str, int]) -> list[HistoryEvent]:
    process, verb, *rest = words
    role = ROLES[process[0]]
    txn = -1
    if rest[-2:-1] == ["in"]:
        txn = txns[rest[-1]]
        del rest[-2:]
    end: EventType = ENDS[rest.pop()] if rest and rest[-1] in ENDS else "ok"
    group, member, generation = "", "", -1

    def event(
        type: EventType, f: Operation, mops: tuple[MicroOp, ...], note: str = ""
    ) -> HistoryEvent:
        whose = (group, member, generation)
        return HistoryEvent(0.0, process, role, number, type, f, mops, note, *whose, txn)

    if verb == "crash":
        return [event("info", "crash", ())]
    if verb == "fetched":
        topic, _, high_watermark = rest[0].partition("@")
        mop = MicroOp("watermark", topic, 0, None, int(high_watermark), 0)
        return [event("ok", "watermark", (mop,))]
    if verb in OWNED:
        group, member, generation = _member(rest[0])
        return [event("ok", OWNED[verb], tuple(_group_mop("own", item) for item in rest[1:]))]
    if verb in COMMITS:
        group, member, generation = _member(rest[0])
        kind = COMMITS[verb]
        mops = tuple(_group_mop(kind, item) for item in rest[1:])
        asked = tuple(mop._replace(offset=None) for mop in mops) if verb == "committed" else mops
        return [event("invoke", kind, asked), event(end, kind, mops if end == "ok" else ())]
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


def _member(text: str) -> tuple[str, str, int]:
    """Read "g/m1@3": group, member and generation; "g" is somebody from outside."""
    group, _, rest = text.partition("/")
    member, _, generation = rest.partition("@")
    return group, member, int(generation or -1)


def _group_mop(kind: MicroKind, item: str) -> MicroOp:
    topic, _, offset = item.partition("@")
    return MicroOp(kind, topic, 0, None, None if offset in ("", "-") else int(offset))


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
    """It is a history and what is to be found in it."""

    anomaly: str
    name: str
    text: str
    found: tuple[str, ...] = ()
    """Every anomaly of the verdict; without ``anomaly``: it is good, though it looks like it."""
    rules: Rules = field(default_factory=Rules)
    holes: Holes | None = None

    def verdict(self) -> tuple[History, list[Violation]]:
        """Return the history, and what is found in it."""
        history, rights = _told(self.text)
        return history, verdict(history, self.rules, holes=self.holes, rights=rights)


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file, in the form that the module's text shows."""
    cases: list[Case] = []
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        head, *lines = paragraph.splitlines()
        if head.startswith("#"):
            continue
        matched = re.fullmatch(r"(bad|good) \[(A\d+)\]: (.+)", head)
        assert matched, f"{path.name}: {head}"
        kind, anomaly, name = matched.groups()
        told = "\n".join(line for line in lines if line.startswith(" "))
        said = dict(line.split(" ", 1) for line in lines if not line.startswith(" "))
        found = {*re.findall(r"A\d+", said.pop("also", "")), *([anomaly] if kind == "bad" else [])}
        rules, holes = _literals(said.pop("rules", "")), said.pop("holes", None)
        assert not said, f"{path.name}, {name}: {said}"
        cases.append(
            Case(
                anomaly,
                name,
                told,
                tuple(sorted(found)),
                Rules(**rules),
                None if holes is None else ast.literal_eval(holes),
            )
        )
    return cases


def _literals(text: str) -> dict[str, Any]:
    """Read ``a=1, b=True`` as the arguments of a call."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


def assert_found(case: Case) -> None:
    """The verdict on a story names the anomalies that it tells of, and no others."""
    history, found = case.verdict()
    assert sorted({violation.anomaly for violation in found}) == list(case.found), found
    for violation in found:
        if violation.anomaly == "A35":
            continue  # who is refused has done nothing
        assert violation.partition is not None
        assert violation.ops
        assert {op.index for op in history.ops}.issuperset(violation.ops)


def assert_enough(cases: Iterable[Case], numbers: Iterable[int]) -> None:
    """Check that each has two stories with nothing but the anomaly wrong, and two good ones."""
    told = Counter(
        (case.anomaly, case.anomaly in case.found)
        for case in cases
        if len(set(case.found) - REPORT_ONLY - {case.anomaly}) == 0
    )
    few = [(f"A{n}", kind) for n in numbers for kind in (True, False) if told[f"A{n}", kind] < 2]
    assert not few
