"""[A30]: at rest, all replicas hold the same bytes below the high watermark.

Of a log that compacts [A33] says what must be there. Replicas are compared from the offset at which
the last of them begins: retention is each broker's own.
"""

from __future__ import annotations

from simulation.checkers.replicas import AllReplicas, Entry
from simulation.checkers.violation import Rules, Violation
from simulation.history import Key


def check(replicas: AllReplicas, rules: Rules) -> list[Violation]:
    """Find the first batch at which a replica differs from the one with the lowest broker id."""
    found: list[Violation] = []
    for key, partition in sorted(replicas.items()):
        logs = partition.committed()
        if not logs or partition.compacts:
            continue
        start = max((log[0].offset for log in logs.values() if log), default=0)
        reference, *others = [
            (broker, [entry for entry in log if entry.offset >= start])
            for broker, log in logs.items()
        ]
        found += [
            _difference(key, reference, other) for other in others if reference[1] != other[1]
        ]
    return found


def _difference(
    key: Key, one: tuple[int, list[Entry]], other: tuple[int, list[Entry]]
) -> Violation:
    at = 0
    while at < min(len(one[1]), len(other[1])) and one[1][at] == other[1][at]:
        at += 1
    mine, theirs = (entries[at] if at < len(entries) else None for _, entries in (one, other))
    offset = min(entry.offset for entry in (mine, theirs) if entry is not None)
    text = (
        f"from offset {offset} on broker {one[0]} has {_told(mine)}, broker {other[0]}"
        f" {_told(theirs)}"
    )
    return Violation("A30", "replicas_agree", text, key, (offset,))


def _told(entry: Entry | None) -> str:
    if entry is None:
        return "nothing"
    return f"{entry.offset}..{entry.next_offset - 1} of epoch {entry.leader_epoch}"
