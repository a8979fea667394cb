"""[A29]: an acknowledgement tells the offset at which the record is; of a repeat, the first one."""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, indexes, shown, some
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find acknowledged values that were polled, but not at the offset of the acknowledgement, or
    of which it told none.

    Without final polls, only where somebody has read that far.
    """
    if not rules.acks_count:
        return []
    found = _untold(history) if rules.offsets_told else []
    for key, writes in history.writes.items():
        seen = history.seen.get(key, {})
        end = history.ends.get(key, -1)
        for value, write in writes.items():
            places = seen.get(value)
            if write.offset is None or places is None or write.offset in places:
                continue
            if write.offset > end and not rules.final_polls:
                continue
            if rules.may_be_gone(key, write.offset):
                continue
            at = sorted(places)
            text = f"{write.op} was told {write.offset} for {shown(value)}, which is at {some(at)}"
            ops = indexes(write.op, *places.values())
            promise = "acked_offsets_are_true"
            found.append(Violation("A29", promise, text, key, (write.offset, *at), ops))
    return found


def _untold(history: History) -> list[Violation]:
    return [
        Violation(
            "A29",
            "acked_offsets_are_true",
            f"{op} was told no offset for {shown(mop.value)}",
            (mop.topic, mop.partition),
            (),
            indexes(op),
        )
        for op in history.sending
        if op.outcome == "ok"
        for mop in op.mops
        if mop.kind == "send" and mop.offset is None
    ]
