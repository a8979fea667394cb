"""Moves of partitions obey their rules in what the store was told, and leave nothing behind.

One write is held against the one before it, as it is taken in (``state_changed``):

- [M3] a move puts nobody into an ISR, and its beginning changes neither leader nor members;
- [M5] it finishes when all replicas that were added are in the ISR, and enough for
  min.insync.replicas of those that stay. That they were *sound* besides, the store cannot tell:
  ``SoundMembers`` knows what the controller took them for. Of these there are as many after the end
  as the original replicas have, and one of them leads;
- [M6] its end is one write: the replicas are the target, the ISR is the part of the former one that
  stays, there is no ELR, and all others are to delete what they have;
- [M9] a move that turns back ends when the original replicas have as many sound members as there
  are in all, unless its plan gives up what the added ones hold;
- [M10] another end keeps the beginning, and drops no member.

What begins anew with one member, by an unclean election, as somebody accepted the loss, is no
move.

At any moment (``check``): a broker that was taken out of ``leaving`` has no log any more [M8], and
nobody deletes a log whom the store has not named in ``leaving`` [M7]. A leader counts as many
replicas for min.insync.replicas as the store does (``check_originals``) [M4], and when replicas are
dropped, somebody stays who is known to hold what is committed (``check_known``) [M11]. At rest
(``unrest``): nothing moves, no wish is left, and no broker has a log that no node names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from oncelog_broker.app import Broker
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_protocol.errors import NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from oncelog_protocol.types import TopicPartition
from simulation.sound_members import Counted
from simulation.store_view import (
    InvariantViolation,
    Rules,
    StateChange,
    StoredPartition,
    StoreState,
)

Stored = Mapping[TopicPartition, StoredPartition]
Known = Callable[[TopicPartition, StoreState, StoreState], Counted | None]
"""It tells what the controller knew that wrote a state after another one, None when it never
looked."""


def _nothing_known(name: TopicPartition, before: StoreState, after: StoreState) -> None:
    """Return nothing: only the store is looked at."""


class _Swept(NamedTuple):
    """A broker has said that it has nothing of a partition any more."""

    name: TopicPartition
    broker_id: int


class _SeenLog(NamedTuple):
    """A broker had this log at the last check."""

    broker: Broker
    log: PartitionLog


class MoveInvariants:
    """It watches the moves of one cluster."""

    def __init__(self, rules: Rules, known: Known = _nothing_known) -> None:
        self._rules = rules
        self._known = known
        self._swept: dict[_Swept, None] = {}
        self._left: dict[_Swept, int] = {}
        """Who has stood in ``leaving`` since the last check, or before it and has taken no role
        since: an order of that time may reach a broker late that was paused. With the last leader
        epoch in which it stood there."""
        self._logs: dict[_Swept, _SeenLog] = {}

    def state_changed(self, change: StateChange) -> None:
        """Serve as ``StoreView.on_change``. :raises InvariantViolation:"""
        before, after = change.before, change.after
        if before is None or not before.replicas:
            return
        for state in (before, after):
            for b in state.leaving:
                self._left[_Swept(change.name, b)] = state.leader_epoch
        gone = set(before.leaving).difference(after.leaving, after.replicas)
        self._swept.update(dict.fromkeys(_Swept(change.name, b) for b in sorted(gone)))
        was = (before.replicas, before.origin, before.target)
        if was == (after.replicas, after.origin, after.target):
            return
        if begins_anew(after):
            return
        id, problem = self._fault(change.name, before, after)
        if problem:
            raise InvariantViolation(id, f"{change.name}: {problem}: {before} -> {after}")

    def _fault(
        self, name: TopicPartition, before: StoreState, after: StoreState
    ) -> tuple[str, str]:
        if not set(after.isr) <= set(before.isr):
            return "M3", "a move put somebody into the ISR"
        if after.origin:
            return _fault_of_beginning(before, after)
        id, problem = self._fault_of_end(before, after)
        counted = self._known(name, before, after)
        if problem or counted is None:
            return id, problem
        return _fault_of_counting(before, after, counted)

    def _fault_of_end(self, before: StoreState, after: StoreState) -> tuple[str, str]:
        target = before.target
        if not set(target).difference(before.origin) <= set(before.isr):
            return "M5", "finished before a replica that was added was in sync"
        if len(after.isr) < min(self._rules.min_insync_replicas, len(target)):
            return "M5", "writes are refused"
        if after.replicas != target:
            return "M6", f"the end is not the target {target}"
        if after.isr != tuple(b for b in target if b in before.isr):
            return "M6", "the ISR is not the part that stays"
        if after.elr or after.last_known_elr:
            return "M6", "there is an ELR"
        if not {*before.replicas, *before.leaving}.difference(target) <= set(after.leaving):
            return "M6", "somebody is forgotten who has data"
        return "", ""

    def check(self, stored: Stored, brokers: Mapping[int, Broker]) -> None:
        """Check who was taken out of ``leaving`` since the last call, and whose logs are gone.

        :raises InvariantViolation: [M8], a log is still there; [M7], one should be.
        """
        self._check_deletions(stored, brokers)
        swept, self._swept = self._swept, {}
        for name, broker_id in swept:
            partition, broker = stored.get(name), brokers.get(broker_id)
            if partition is None or broker is None or broker_id in _named(partition):
                continue
            log = broker.logs.get(name)
            if log is not None and log.topic_id == partition.topic_id:
                raise InvariantViolation(
                    "M8", f"{name}: broker {broker_id} has a log and is forgotten"
                )

    def _check_deletions(self, stored: Stored, brokers: Mapping[int, Broker]) -> None:
        """Check [M7]: whose log is gone, while its broker and its directory are as they were, has
        stood in ``leaving``, or its topic was deleted."""
        before, self._logs = self._logs, {}
        for broker_id, broker in brokers.items():
            for log in broker.logs.all():
                seen = _SeenLog(broker, log)
                self._logs[_Swept(log.topic_partition, broker_id)] = seen
        for key, seen in before.items():
            if key in self._logs or key in self._left or brokers.get(key.broker_id) != seen.broker:
                continue
            partition = stored.get(key.name)
            if partition is None or partition.topic_id != seen.log.topic_id:
                continue
            if seen.log.log_dir.online:
                raise InvariantViolation(
                    "M7",
                    f"{key.name}: broker {key.broker_id} has deleted its log: {partition.state}",
                )
        self._left = {key: epoch for key, epoch in self._left.items() if self._is_late(key, epoch)}
        for name, each in stored.items():
            for b in each.state.leaving:
                self._left[_Swept(name, b)] = each.state.leader_epoch

    def _is_late(self, key: _Swept, epoch: int) -> bool:
        """Return whether a broker has the log that it was to delete, in no later role."""
        seen = self._logs.get(key)
        if seen is None:
            return False
        try:
            return seen.broker.replicas.partition(key.name).leader_epoch <= epoch
        except (NotLeaderOrFollowerError, UnknownTopicOrPartitionError):
            return True


def begins_anew(after: StoreState) -> bool:
    """Return whether somebody has accepted a loss: one member is left, by an unclean election."""
    unclean = after.unclean_epoch == after.leader_epoch
    return unclean and not after.origin and after.isr == (after.leader,)


def _fault_of_counting(before: StoreState, after: StoreState, counted: Counted) -> tuple[str, str]:
    """Return which line of [M5] or [M9] an end breaks, by what the controller knew."""
    origin, target, sound = set(before.origin), set(before.target), counted.sound
    had, has = len(sound & origin), len(sound & target)
    if not target - origin <= sound:
        return "M5", f"finished before a replica that was added was sound, {sorted(sound)} were"
    if has < min(len(target), had):
        return "M5", f"finished with {has} sound members, and the originals had {had}"
    if has < min(len(target), counted.min_insync_replicas):
        return "M5", f"finished with {has} sound members: writes are refused"
    if after.leader not in sound:
        return "M5", f"is led by nobody who is sound, {sorted(sound)} were"
    turned_back = before.origin == before.target
    if turned_back and not counted.hasty and had < min(len(origin), len(sound)):
        return "M9", f"turned back with {had} sound members of {len(sound)}"
    return "", ""


def check_originals(stored: StoredPartition, role: LeaderRole, min_isr: int) -> None:
    """Check that a leader counts the replicas that the store counts in the leader's epoch.

    :raises InvariantViolation: [M4], it refuses writes that would be taken, or takes others.
    """
    state = stored.state
    if role.leader_epoch != state.leader_epoch:
        return
    needed = min(min_isr, len(state.origin or stored.replicas))
    enough = not role.state.elr and len(role.isr) >= needed
    if role.has_min_isr(min_isr) != enough:
        raise InvariantViolation(
            "M4",
            f"{stored.name}: with the ISR {role.isr} leader {role.broker_id}"
            f" {'refuses' if enough else 'takes'} writes, {needed} are needed: {state}",
        )


def check_known(
    stored: StoredPartition, before: StoreState | None, complete: Collection[int]
) -> None:
    """Check that somebody who is complete is known to the store when replicas were dropped, if
    there was one before.

    :param before: the state when the partition was looked at last.
    :param complete: the replicas that hold all that is committed.
    :raises InvariantViolation: [M11]
    """
    after = stored.state
    if before is None or before.replicas == after.replicas or begins_anew(after):
        return
    if set(before.vouched).intersection(complete) and not set(after.vouched) & set(complete):
        raise InvariantViolation(
            "M11", f"{stored.name}: {sorted(complete)} are complete: {before} -> {after}"
        )


def _fault_of_beginning(before: StoreState, after: StoreState) -> tuple[str, str]:
    origin = before.origin or before.replicas
    members = (*before.isr, *before.elr, *before.last_known_elr)
    dropped = set(before.replicas).difference(after.replicas)
    if (after.leader, after.isr, after.elr) != (before.leader, before.isr, before.elr):
        return "M3", "a move began with other members"
    if after.origin != origin or after.replicas[: len(origin)] != origin:
        return "M10", f"it did not begin with {origin}"
    if dropped.intersection(members):
        return "M10", "a member was dropped before the end"
    if not {*dropped, *before.leaving}.difference(after.replicas) <= set(after.leaving):
        return "M10", "somebody is forgotten who has data"
    return "", ""


def _named(partition: StoredPartition) -> tuple[int, ...]:
    return (*partition.replicas, *partition.state.leaving)


def unrest(stored: Stored, brokers: Mapping[int, Broker], plans: Collection[str] = ()) -> str:
    """Return what of moves is not at its end; "" if nothing. ``plans`` are those in the store."""
    if plans:
        return f"wishes are left: {', '.join(sorted(plans))}"
    for name, partition in stored.items():
        state = partition.state
        if state.origin or state.leaving:
            return f"{name} moves: {state}"
    for broker_id, broker in brokers.items():
        for log in broker.logs.all():
            known = stored.get(log.topic_partition)
            if known is None or known.topic_id != log.topic_id:
                continue  # of a deleted topic
            if broker_id not in _named(known):
                return f"broker {broker_id} has a stray log of {log.topic_partition}"
    return ""
