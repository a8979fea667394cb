"""[A21]: who was followed by another instance of its transactional id commits nothing more.

An instance is fenced when another has got a newer epoch. From outside that shows by what succeeds:
of two instances one is the newer, and all that the older one has committed is older too. So if one
has certainly committed before the other did, it must not certainly commit after that.

Rules: a transaction was committed between its commit being asked for and the answer, or the first
poll that showed a record of it. What neither sent records nor committed offsets never reached the
coordinator and is not looked at, nor are shared transactions: they have ordinals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from simulation.checkers.in_transactions import sends_of
from simulation.checkers.violation import Rules, Violation, indexes
from simulation.history import History, Key, Op

PROMISE = "no_zombie_commit"


class _Commit(NamedTuple):
    txn: Op
    key: Key
    after: int
    before: int


def check(history: History, rules: Rules) -> list[Violation]:
    """Find commits of an instance on both sides of another's."""
    found: list[Violation] = []
    by_id: dict[str, list[_Commit]] = {}
    for txn in history.txns:
        commit = None if txn.winners else _commit_of(history, txn)
        if commit is not None:
            by_id.setdefault(txn.invoke.transactional_id, []).append(commit)
    for transactional_id, commits in by_id.items():
        if transactional_id:
            found += _judged(transactional_id, commits)
    return found


def _commit_of(history: History, txn: Op) -> _Commit | None:
    """Return when it was committed, if it certainly was."""
    if txn.fate == "fail":
        return None
    sends = sends_of(history, txn)
    keys = [sent.key for sent in sends]
    keys += [(mop.topic, mop.partition) for part in txn.parts for mop in part.mops]
    shown = [sent.seen.ended or sent.seen.index for sent in sends if sent.seen is not None]
    if txn.fate == "ok" and txn.ended is not None:
        shown.append(txn.ended)
    if not keys or not shown:
        return None
    asked = txn.asked
    if asked is None:
        asked = max((part.index for part in txn.parts), default=txn.index)
    return _Commit(txn, keys[0], asked, min(shown))


def _judged(transactional_id: str, commits: Iterable[_Commit]) -> list[Violation]:
    found: list[Violation] = []
    ordered = sorted(commits, key=lambda commit: commit.before)
    first: dict[tuple[str, str], _Commit] = {}
    """By instance, its earliest commit."""
    for last in ordered:
        own = first.setdefault(last.txn.client, last)
        if own is last:
            continue
        for other in ordered:
            if other.txn.client == last.txn.client:
                continue
            if own.before < other.after and other.before < last.after:
                who, whom = "/".join(last.txn.client), "/".join(other.txn.client)
                text = (
                    f"{who} committed {last.txn} of {transactional_id} after {whom} had committed"
                    f" {other.txn}, though before that {who} had committed {own.txn}"
                )
                ops = indexes(own.txn, other.txn, last.txn)
                found.append(Violation("A21", PROMISE, text, last.key, (), ops))
                break
    return found
