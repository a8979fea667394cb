"""A6: a transaction at read_committed does not poll a value that it itself sent."""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, shown
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Values in a transaction's polls and in its sends."""
    if not rules.read_committed:
        return []
    found: list[Violation] = []
    for op in history.sending:
        if op.f != "txn":
            continue
        own = {(m.topic, m.partition, m.value) for m in op.mops if m.kind == "send"}
        for mop in op.mops:
            if mop.kind == "poll" and (mop.topic, mop.partition, mop.value) in own:
                assert mop.offset is not None
                found.append(
                    Violation(
                        "A6",
                        "no_own_uncommitted_read",
                        f"{op} read its own {shown(mop.value)} before it was committed",
                        (mop.topic, mop.partition),
                        (mop.offset,),
                        (op.index,),
                    )
                )
    return found
