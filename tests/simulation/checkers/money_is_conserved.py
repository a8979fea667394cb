"""[A31]: transfers between accounts create no money and destroy none.

An account is a partition, a transfer a transaction that books an amount out of one and into others.
Values name their amount: see :func:`booking_of`. Rules: what is visible at the end, summed up over
all accounts, is nothing. Money that compaction or retention may have taken makes it unknown.
"""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, indexes, some
from simulation.history import History, Key, Op

PROMISE = "money_is_conserved"


def booking_of(value: bytes, amount: int) -> bytes:
    """Return a value that books an amount, in the smallest unit."""
    return value + f"/${amount}/".encode()


def amount_of(value: bytes) -> int | None:
    """Return the amount, if the value was made by :func:`booking_of`."""
    _, mark, rest = value.partition(b"/$")
    return int(rest.partition(b"/")[0]) if mark else None


def check(history: History, rules: Rules) -> list[Violation]:
    """Find a sum that is not nothing."""
    if not rules.read_committed or not rules.final_polls or rules.loss_permitted:
        return []
    total, last = 0, None
    balances: dict[Key, int] = {}
    unbalanced: dict[Op, int] = {}
    for key, values in history.seen.items():
        for value, places in values.items():
            amount = amount_of(value)
            if amount is None:
                continue
            if any(rules.may_be_gone(key, offset) for offset in places):
                return []
            total += amount * len(places)
            balances[key] = balances.get(key, 0) + amount * len(places)
            write = history.writes.get(key, {}).get(value)
            if write is not None:
                txn = write.op.txn or write.op
                unbalanced[txn] = unbalanced.get(txn, 0) + amount * len(places)
            last = key
    if total == 0 or last is None:
        return []
    wrong = [txn for txn, sum_ in unbalanced.items() if sum_]
    accounts = some(
        [
            f"{topic}-{partition} has {sum_}"
            for (topic, partition), sum_ in sorted(balances.items())
        ],
        10,
    )
    text = f"accounts sum up to {total}: {accounts}; of {some(wrong)} not all is there"
    return [Violation("A31", PROMISE, text, last, (), indexes(*wrong))]
