"""Replicas are looked at when nothing happens any more: checkers get them, and they converge."""

from __future__ import annotations

from collections.abc import Iterable

from simulation.checkers.newest_values_kept import Compacted
from simulation.checkers.replicas import Entry, Replicas
from simulation.compacted_canon import CompactedCanon
from simulation.store_view import InvariantViolation, StoredPartition
from simulation.truth import Truth

Pairs = Iterable[tuple[StoredPartition, Truth]]


def replicas(pairs: Pairs) -> dict[tuple[str, int], Replicas]:
    """Return the logs of the running members of each ISR."""
    found: dict[tuple[str, int], Replicas] = {}
    for stored, truth in pairs:
        logs: dict[int, list[Entry]] = {}
        epochs: dict[int, list[tuple[int, int]]] = {}
        known: list[int] = []
        for broker_id in stored.state.isr:
            replica = truth.replicas[broker_id]
            if replica.view is None or replica.partition is None or replica.exempt:
                continue
            known.append(replica.high_watermark)
            start = replica.view.log.log_start_offset
            logs[broker_id] = [
                Entry(batch.base, batch.next, batch.epoch, replica.view.bytes_on_disk(index))
                for index, batch in enumerate(replica.view.batches)
                if batch.next > start
            ]
            epochs[broker_id] = replica.view.log.epochs.entries()
        found[stored.name.topic, stored.name.partition] = Replicas(
            min(known, default=0), logs, epochs, truth.compacts
        )
    return found


def compacted(pairs: Pairs) -> dict[tuple[str, int], Compacted]:
    """Return partitions that compact: what was committed, and what the running members of each ISR
    have of it. Not those that have lost records where that is permitted."""
    found: dict[tuple[str, int], Compacted] = {}
    for stored, truth in pairs:
        if not isinstance(truth.canon, CompactedCanon) or truth.lossy:
            continue
        views = {
            broker_id: (replica.view, replica.high_watermark)
            for broker_id, replica in truth.replicas.items()
            if broker_id in stored.state.isr
            and replica.view is not None
            and not (replica.exempt or replica.view.fault)
        }
        start = max([view.log.log_start_offset for view, _ in views.values()], default=0)
        found[stored.name.topic, stored.name.partition] = truth.canon.compacted(views, start)
    return found


def check_converged(stored: StoredPartition, truth: Truth) -> None:
    """Everybody is in sync and at the end. :raises InvariantViolation: somebody is not."""
    problem = ""
    if set(stored.state.isr) != set(stored.replicas):
        problem = f"ISR {stored.state.isr} of replicas {stored.replicas}"
    elif truth.leader_of(stored) is None:
        problem = f"broker {stored.state.leader} does not lead"
    for broker_id, replica in truth.replicas.items():
        if replica.view is None or replica.partition is None:
            problem = problem or f"broker {broker_id} has no replica"
        elif replica.partition.high_watermark != replica.view.log.log_end_offset:
            problem = problem or (
                f"broker {broker_id} has high watermark {replica.partition.high_watermark},"
                f" log end {replica.view.log.log_end_offset}"
            )
    ends = {r.broker_id: r.view.end for r in truth.replicas.values() if r.view is not None}
    if not problem and len(set(ends.values())) > 1:
        problem = f"logs end at {ends}"
    if problem:
        raise InvariantViolation("converged", f"{stored.name}: {problem}")
