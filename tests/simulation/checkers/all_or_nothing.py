"""[A20]: readers see all or nothing of what a transaction sent, over all partitions.

Rules: one that was committed is to be seen whole (that is [A3] and [A4] too), one that was aborted
not at all [A5]. Of one whose end nobody knows a single record that is seen proves that it was
committed, and then the others must be seen wherever somebody has read that far.
"""

from __future__ import annotations

from simulation.checkers.in_transactions import Sent, sends_of
from simulation.checkers.violation import (
    Rules,
    Violation,
    indexes,
    name_of,
    shown,
    some,
)
from simulation.history import History

PROMISE = "all_or_nothing"


def check(history: History, rules: Rules) -> list[Violation]:
    """Transactions of which some records were seen and others were not, though they could be."""
    if not rules.read_committed or rules.loss_permitted:
        return []
    found: list[Violation] = []
    for txn in history.txns:
        if txn.fate == "fail":
            continue
        sends = sends_of(history, txn)
        seen = [sent for sent in sends if sent.seen is not None]
        if not seen:
            continue
        missing = [
            sent for sent in sends if sent.seen is None and _must_be_seen(history, rules, sent)
        ]
        if missing:
            proof, lost = seen[0], missing[0]
            listed = some([f"{shown(s.value)} of {name_of(s.key)}" for s in missing])
            text = (
                f"{txn} is torn: {shown(proof.value)} of {name_of(proof.key)} was read, but not"
                f" {listed}"
            )
            offsets = () if lost.offset is None else (lost.offset,)
            ops = indexes(txn, lost.op, proof.op, proof.seen)
            found.append(Violation("A20", PROMISE, text, lost.key, offsets, ops))
    return found


def _must_be_seen(history: History, rules: Rules, sent: Sent) -> bool:
    """Return whether somebody has read where it must be. A transaction is committed only when all
    that it sent is stored, so one whose offset nobody knows is missed at the end of a run."""
    if sent.offset is not None:
        if rules.may_be_gone(sent.key, sent.offset):
            return False
        return rules.final_polls or sent.offset <= history.ends.get(sent.key, -1)
    return rules.final_polls and not rules.superseded.get(sent.key)
