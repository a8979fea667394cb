"""[A32]: leader epochs grow along a log, and all replicas know the same beginning of each.

Beginnings are compared below the high watermark only, and from the offset at which the last replica
begins. What a broker remembers of epochs is held against its own log.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from simulation.checkers.replicas import AllReplicas, Entry, Replicas
from simulation.checkers.violation import Rules, Violation
from simulation.history import Key

PROMISE = "leader_epochs_agree"


def check(replicas: AllReplicas, rules: Rules) -> list[Violation]:
    """Find epochs that go back, and beginnings that differ."""
    found: list[Violation] = []
    for key, partition in sorted(replicas.items()):
        for broker, log in sorted(partition.logs.items()):
            found += _order(key, broker, log)
        if not partition.compacts:  # the first record of an epoch may be gone
            found += _beginnings(key, partition)
            found += _memories(key, partition)
    return found


def _order(key: Key, broker: int, log: Sequence[Entry]) -> list[Violation]:
    found = []
    for before, after in pairwise(log):
        if after.leader_epoch < before.leader_epoch:
            text = (
                f"broker {broker}: epoch {after.leader_epoch} at {after.offset} comes after epoch"
                f" {before.leader_epoch}"
            )
            found.append(Violation("A32", PROMISE, text, key, (after.offset,)))
    return found


def starts_of(log: Sequence[Entry]) -> dict[int, int]:
    """Return the first offset of each epoch in a log."""
    starts: dict[int, int] = {}
    for entry in log:
        starts.setdefault(entry.leader_epoch, entry.offset)
    return starts


def _beginnings(key: Key, partition: Replicas) -> list[Violation]:
    logs = {broker: log for broker, log in partition.committed().items() if log}
    begin = max((log[0].offset for log in logs.values()), default=0)
    known: dict[int, tuple[int, int]] = {}
    found = []
    for broker, log in logs.items():
        for epoch, start in starts_of(log).items():
            if start <= begin:
                continue  # cut off, here or elsewhere
            other, expected = known.setdefault(epoch, (broker, start))
            if start != expected:
                text = (
                    f"epoch {epoch} begins at {expected} on broker {other}, at {start} on {broker}"
                )
                found.append(Violation("A32", PROMISE, text, key, (expected, start)))
    return found


def _memories(key: Key, partition: Replicas) -> list[Violation]:
    found = []
    for broker, remembered in sorted(partition.epoch_starts.items()):
        log = partition.logs.get(broker, ())
        if not log:
            continue
        memory = dict(remembered)
        for epoch, start in starts_of(log).items():
            believed = memory.get(epoch)
            first = start == log[0].offset  # retention may have cut the epoch's beginning off
            if believed is None or (believed > start if first else believed != start):
                text = (
                    f"broker {broker} remembers epoch {epoch} from {believed}, its log has it from"
                    f" {start}"
                )
                found.append(Violation("A32", PROMISE, text, key, (start,)))
    return found
