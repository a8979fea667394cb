"""What clients were told and have read is held against the replicas: [I7] and [I23].

A record that a client knows is committed, even when the leader that said so died before anybody
looked at it: then the canon is taken from whoever holds the record now.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_testing.memory.files import MemoryFiles
from simulation.compacted_canon import kept_in
from simulation.history import key_of
from simulation.log_view import Batch, LogView
from simulation.store_view import InvariantViolation, StoredPartition
from simulation.truth import Promise, Rules, Truth

__all__ = ["holds", "keep_promises"]


def keep_promises(
    stored: StoredPartition,
    truth: Truth,
    rules: Rules,
    disks: Mapping[int, MemoryFiles],
    *,
    count_copies: bool,
) -> None:
    """Check the promises that have come in since the last call.

    :param count_copies: with flush=interval a crash may have taken a copy since, which is
        permitted; so copies are not counted for a while after any broker went away.
    :raises InvariantViolation: [I7] or [I23].
    """
    promises, truth.promises = truth.promises, []
    if truth.lossy or not promises:
        return
    views = [view for _, view in truth.views(disks)]
    present = truth.replicas.get(stored.state.leader)
    if present is not None and present.view is not None:
        views.remove(present.view)
        views.insert(0, present.view)
    for promise in promises:
        if promise.offset >= truth.canon.end:
            _believe(truth, promise, views)
        _keep(truth, promise, views)
    acked = max([promise.offset for promise in promises if promise.acked], default=-1)
    if acked >= 0 and (count_copies or rules.flush == "commit"):
        _count_copies(stored, truth, rules, disks, acked)


def _believe(truth: Truth, promise: Promise, views: list[LogView]) -> None:
    """Take the canon up to the promise from a replica that goes on from it: of several, from the
    one whose batch is of the newest epoch. What a deposed leader took may hold the same record at
    the same offset, sent again to its successor, and is cut; had it been committed, no later leader
    would have another batch there."""
    found: list[tuple[Batch, LogView]] = []
    for view in views:
        truth.canon.match(view)
        batch = view.at(promise.offset)
        if batch is None or view.matched < truth.canon.end:
            continue
        try:
            value = dict(view.records_of(batch)).get(promise.offset)
        except LookupError:
            continue
        if value == promise.value:
            found.append((batch, view))
    if found:
        batch, view = max(found, key=lambda each: each[0].epoch)
        truth.canon.extend(view, batch.next)
        truth.high = max(truth.high, batch.next)
        return
    if truth.compacts and any(_superseded(view, promise) for view in views):
        return
    ends = [(view.matched, view.end) for view in views]
    raise InvariantViolation(
        promise.id,
        f"{truth.name}: {promise} is on no replica; they equal the canon up to, and end at, {ends}",
    )


def _superseded(view: LogView, promise: Promise) -> bool:
    """Return whether a log has a newer record of the same key than what was promised."""
    key = None if promise.value is None else key_of(promise.value)
    batches = (index for index, batch in enumerate(view.batches) if batch.next > promise.offset)
    try:
        return any(
            record.offset > promise.offset and (key is None or record.key == key)
            for index in batches
            for record in kept_in(view, index)
        )
    except LookupError:
        return False


def _keep(truth: Truth, promise: Promise, views: list[LogView]) -> None:
    batch = truth.canon.at(promise.offset)
    if batch is None:
        return  # below where everything begins by now
    for view in views:
        try:
            value = truth.value_at(batch, promise.offset, view)
        except LookupError:
            continue
        if value != promise.value:
            raise InvariantViolation(
                promise.id, f"{truth.name}: {promise}, the log holds {value!r} there"
            )
        return


def _count_copies(
    stored: StoredPartition,
    truth: Truth,
    rules: Rules,
    disks: Mapping[int, MemoryFiles],
    offset: int,
) -> None:
    """Check that acknowledged records are on min.insync.replicas replicas, and durable if
    promised."""
    batch = truth.canon.at(offset)
    if batch is None or truth.is_unseen(disks):
        return
    durable = rules.flush == "commit"
    needed = min(rules.min_insync_replicas, len(stored.state.origin or stored.replicas))
    holders = [
        replica.broker_id
        for replica, view in truth.views(disks)
        if replica.hurt or replica.knows or holds(view, batch.next, durable=durable)
    ]
    if len(holders) < needed:
        raise InvariantViolation(
            "I23",
            f"{truth.name}: offset {offset} was acknowledged; it must be on {needed} replicas"
            f"{', durably' if durable else ''}, it is on {holders}",
        )


def holds(view: LogView, end: int, *, durable: bool) -> bool:
    """Return whether a log equals the canon below ``end``, and on the disk if that is asked for."""
    return view.matched >= end and (not durable or view.durable_end() >= end)
