"""[A34]: nothing succeeds when the right to do it was taken, and a second is over since that was
acknowledged.

A broker that was cut off may serve longer, until it stops by itself: see ``rights``. What counts is
when a broker must have decided. An answer was asked for within the client's patience. A record that
was read was answered after its writer began to send it; a record that is there was taken before
somebody read it.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_protocol.acls import READ, WRITE
from simulation.checkers.violation import Rules, Violation, indexes, shown
from simulation.history import History, Key, Op
from simulation.rights import Rights, user_of


def check(history: History, rules: Rules, rights: Rights) -> list[Violation]:
    """Find what users were let do without the right."""
    users = rights.users()
    found = [*_answers(history, rights, users)]
    for key, values in history.writes.items():
        seen = history.seen.get(key, {})
        for value, write in values.items():
            readers = list(seen.get(value, {}).values())
            if readers and user_of(write.op.invoke.process) in users:
                found += _taken(rights, key, value, write.op, readers[0])
    for key, reads in history.reads.items():
        written = history.writes.get(key, {})
        for op, _, polled in reads:
            writer = None if polled is None else written.get(polled)
            if writer is not None and user_of(op.invoke.process) in users:
                found += _read(rights, key, polled, writer.op, op)
    return found


def _answers(history: History, rights: Rights, users: frozenset[str]) -> Iterator[Violation]:
    """Yield answers that were asked for without the right: to sends, and to fetches."""
    for op in history.ops:
        process, end = op.invoke.process, op.end
        if op.f not in ("send", "watermark") or end is None or user_of(process) not in users:
            continue
        if op.outcome != "ok":
            continue
        sends = op.f == "send"
        patience_s = rights.patience_s if sends else rights.fetch_patience_s
        since_s = end.time_s - patience_s
        if sends:
            since_s = max(since_s, op.invoke.time_s)
        taken = rights.revocation(process, WRITE if sends else READ, since_s, end.time_s)
        if taken is not None:
            key = (op.mops[0].topic, op.mops[0].partition)
            text = f"{op} was served at {end.time_s:.3f} s, but {taken}"
            yield _violation(text, key, op)


def _taken(rights: Rights, key: Key, value: bytes, op: Op, reader: Op) -> Iterator[Violation]:
    """Yield a record that a broker took of who might not write."""
    process, until_s = op.invoke.process, reader.invoke.time_s
    taken = rights.revocation(process, WRITE, op.invoke.time_s, until_s)
    if taken is not None and op.outcome != "ok":  # what was acknowledged is told already
        text = f"{op} wrote {shown(value)} from {op.invoke.time_s:.3f} s on, but {taken}"
        yield _violation(text, key, op, reader)


def _read(rights: Rights, key: Key, value: bytes | None, writer: Op, op: Op) -> Iterator[Violation]:
    """Yield a record that was given to who might not read."""
    process, until_s = op.invoke.process, op.invoke.time_s
    taken = rights.revocation(process, READ, writer.invoke.time_s, until_s)
    if taken is not None:
        text = f"{op} read {shown(value)} of {writer.invoke.time_s:.3f} s, but {taken}"
        yield _violation(text, key, op, writer)


def _violation(text: str, key: Key, *ops: Op) -> Violation:
    return Violation("A34", "revoked_rights_are_gone", text, key, (), indexes(*ops))
