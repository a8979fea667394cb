"""[A28], the part of transactions: once everything is healed, every transaction is decided.

What is open in a log for longer than its time-out holds up all readers of the partition. So at the
end of a run, which is longer after its last transaction than that, leaders have nothing open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from simulation.checkers.violation import Rules, Violation, some
from simulation.history import Key

PROMISE = "transactions_are_decided"


class Open(NamedTuple):
    """It is a transaction without an end in one partition."""

    producer_id: int
    producer_epoch: int
    first_offset: int


def check(partitions: Mapping[Key, Sequence[Open]], rules: Rules) -> list[Violation]:
    """Find partitions in which something is open."""
    if rules.loss_permitted:
        return []
    found: list[Violation] = []
    for key, opened in sorted(partitions.items()):
        if opened:
            listed = some(
                [
                    f"producer {each.producer_id} epoch {each.producer_epoch} since offset"
                    f" {each.first_offset}"
                    for each in opened
                ]
            )
            offsets = tuple(each.first_offset for each in opened)
            text = f"transactions that nobody ends: {listed}"
            found.append(Violation("A28", PROMISE, text, key, offsets))
    return found
