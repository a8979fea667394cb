"""[A26]: readers see every record and only records: holes in the offsets have a reason.

Rules: ``holes`` are the offsets that hold nothing for readers: control records, aborted and
compacted ones. A step over an offset that is neither a hole nor a record anybody ever saw hides
something; a record at a hole is something else than a record. Steps over records that somebody saw
are [A13]'s and [A15]'s; aborted records that are read are [A5]'s.
"""

from __future__ import annotations

from itertools import islice

from simulation.checkers.steps import steps
from simulation.checkers.violation import Holes, Rules, Violation, indexes, shown, some
from simulation.history import History

GAP_MAX = 100
"""Offsets that are named at most, of one gap."""


def check(history: History, rules: Rules, holes: Holes | None = None) -> list[Violation]:
    """Find gaps that nothing explains, and records where none can be."""
    explained = {} if holes is None else holes
    return [*_gaps(history, rules, explained), *_leaks(history, explained)]


def _gaps(history: History, rules: Rules, holes: Holes) -> list[Violation]:
    found: list[Violation] = []
    for step in steps(history, rules):
        if step.after <= step.before:
            continue
        values = history.order(step.key, acks=rules.acks_count).values
        known = holes.get(step.key, ())
        unexplained = (
            offset
            for offset in range(step.before + 1, step.after)
            if offset not in known
            and offset not in values
            and not rules.may_be_gone(step.key, offset)
        )
        gap = tuple(islice(unexplained, GAP_MAX))
        if gap:
            text = f"{step.op} went from {step.before} to {step.after}; {some(gap)} unexplained"
            ops = indexes(step.op, step.previous)
            found.append(Violation("A26", "no_unexplained_hole", text, step.key, gap, ops))
    return found


def _leaks(history: History, holes: Holes) -> list[Violation]:
    found: list[Violation] = []
    for key, known in holes.items():
        writes = history.writes.get(key, {})
        for op, offset, value in history.reads.get(key, ()):
            if offset in known and (value is None or value not in writes):
                text = f"{op} was handed {shown(value)} at {offset}, which holds no record"
                found.append(
                    Violation("A26", "no_unexplained_hole", text, key, (offset,), (op.index,))
                )
    return found
