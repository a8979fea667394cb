"""[A4]: when the final polls end every acknowledged value has been read, the log's tail too."""

from __future__ import annotations

from simulation.checkers.violation import Holes, Rules, Violation, shown, some
from simulation.history import History


def check(history: History, rules: Rules, holes: Holes | None = None) -> list[Violation]:
    """Find acknowledged values behind everything that was read (those before it are [A3])."""
    if not rules.acks_count or not rules.final_polls:
        return []
    found: list[Violation] = []
    for key, writes in history.writes.items():
        seen = history.seen.get(key, {})
        behind = history.ends.get(key, -1) + 1
        known = () if holes is None else holes.get(key, ())
        unseen = sorted(
            (write.offset, value, write.op.index)
            for value, write in writes.items()
            if write.offset is not None
            and write.op.fate == "ok"
            and write.offset >= behind
            and value not in seen
            and write.offset not in known
            and not rules.may_be_gone(key, write.offset)
        )
        if unseen:
            listed = some([f"{shown(value)} at {offset}" for offset, value, _ in unseen])
            text = f"{len(unseen)} acknowledged values unseen behind {behind - 1}: {listed}"
            offsets = tuple(offset for offset, _, _ in unseen)
            ops = tuple(sorted({index for _, _, index in unseen}))
            found.append(Violation("A4", "every_acked_write_seen", text, key, offsets, ops))
    return found
