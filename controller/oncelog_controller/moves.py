"""Partitions are moved to other replicas here: begun, finished, and what is left swept away. Pure.

Decisions come from ``moving``; here they become conditional writes, and orders once they are
written. The states of the partitions say what moves and who has to go; all that is kept here is
which partitions these are.

Rules
-----
* A move begins in a new leader epoch with leader and members as they are. It is looked at again
  after each change of an ISR or of brokers, and as time passes. When its end would give a
  coordinator's partition another leader, it waits until that one is ready: see ``preloading``.
* Who is no replica any more is ordered to delete when that is in the store, never before [M7]. Who
  has confirmed is taken out of the state, without a new epoch [M8]. An answer to an order from
  before the broker left counts for nothing: it may have become a replica and left again since.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from oncelog_controller import features, moving
from oncelog_controller.core import LOOKED_AT_ONCE, WRITE_PARTITIONS_MAX, Core, Steps, chunks
from oncelog_controller.election import Decision
from oncelog_controller.eligibility import Members
from oncelog_controller.leadership import Leadership, NewState
from oncelog_controller.moving import Obstacle
from oncelog_controller.preloading import Preloading
from oncelog_controller.state import ClusterPartition, PartitionState, Placement
from oncelog_controller.store import Op
from oncelog_controller.transitions import ReplicaPhase
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.replication import ReplicaResult, StopPartition
from oncelog_protocol.types import NO_LEADER, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)


class Moves:
    """It moves partitions between brokers."""

    def __init__(self, core: Core, leadership: Leadership, preloading: Preloading) -> None:
        self._core = core
        self._leadership = leadership
        self._preloading = preloading
        self._open: dict[TopicPartition, ClusterPartition] = {}
        """The partitions that move."""
        self._finished: list[ClusterPartition] = []
        """Those whose moves have ended since somebody asked."""
        self._hasty: set[str] = set()
        """Plans that give up, for moves that are cancelled, what only added replicas hold."""
        self._using = False
        """A move was begun since the store was read, so that the feature is in use."""

    @property
    def open(self) -> Mapping[TopicPartition, ClusterPartition]:
        """Return the partitions that move."""
        return self._open

    def take_finished(self) -> list[ClusterPartition]:
        """Return the partitions whose moves have ended since this was asked last."""
        finished, self._finished = self._finished, []
        return finished

    def loaded(self, hasty: Iterable[str] = ()) -> Steps[None]:
        """The store was read: find out what moves. ``hasty`` are the plans that were begun with
        ``now``."""
        self._finished.clear()
        self._hasty = set(hasty)
        self._using = False
        self._open.clear()
        left: list[ClusterPartition] = []
        for number, partition in enumerate(self._core.cluster.partitions(), start=1):
            if number % LOOKED_AT_ONCE == 0:
                yield
            placement = partition.placement
            if placement.origin:
                self._open[partition.topic_partition] = partition
            if placement.leaving:
                left.append(partition)
        self._core.leavers.read(left)

    def begin(
        self,
        targets: Iterable[tuple[ClusterPartition, tuple[int, ...]]],
        move: str,
        *,
        now: bool = False,
    ) -> None:
        """Begin to move partitions, or give open moves another end. The targets were checked; a
        partition without a leader is left out.

        :param move: the plan that wants it.
        :param now: what only added replicas hold is given up, where a move is cancelled [M9].
        """
        if now:
            self._hasty.add(move)
        states: list[NewState] = []
        for partition, target in targets:
            state = partition.state
            if state is None or state.leader == NO_LEADER:
                continue
            members = Members(state.isr, state.elr, state.last_known_elr)
            placement = moving.begin(partition.placement, members, target, move)
            decision = Decision(state.leader, state.isr, state.elr, state.last_known_elr)
            begun = self._leadership.successor(partition, decision, placement)
            if begun is not None:
                states.append((partition, begun))
        first: Sequence[Op] = ()
        if states and not self._using:
            first = features.begin_use(self._core.cluster, features.MOVES)
            self._using = True
        self._write(states, first)

    def obstacle(self, partition: ClusterPartition) -> Obstacle | None:
        """Return what keeps the open move of a partition from its end, None if nothing does."""
        return self._obstacle(partition, self.sound(partition))

    def warms(self, partition: ClusterPartition) -> bool:
        """Return whether nothing keeps the open move of a partition from its end but the next
        leader's reading of it."""
        return self.obstacle(partition) is None and self._preloading.is_awaited(partition)

    def sound(self, partition: ClusterPartition) -> frozenset[int]:
        """Return the members of a partition's ISR that may be counted on."""
        if partition.state is None:
            return frozenset()
        candidates = self._leadership.candidates(partition)
        return moving.sound(partition.state, candidates, self._core.cluster.brokers)

    def _obstacle(self, partition: ClusterPartition, sound: frozenset[int]) -> Obstacle | None:
        wanted, now = partition.topic.settings.min_insync_replicas, self.is_hasty(partition)
        ignoring = self._core.safeguards.ignored()
        return moving.obstacle(partition.placement, sound, wanted, now=now, ignoring=ignoring)

    def is_hasty(self, partition: ClusterPartition) -> bool:
        """Return whether the plan that moves a partition gives up what added replicas hold."""
        return partition.placement.move in self._hasty

    def look(self) -> None:
        """Finish what may be finished. Call it when no write is pending."""
        loads: dict[int, int] | None = None
        states: list[NewState] = []
        for name, partition in sorted(self._open.items()):
            state, placement = partition.state, partition.placement
            if self._core.cluster.partition(*name) is not partition or state is None:
                del self._open[name]  # its topic is deleted
                continue
            candidates = self._leadership.candidates(partition)
            sound = moving.sound(state, candidates, self._core.cluster.brokers)
            sound = self._core.safeguards.counted(partition, sound)
            draining, named = candidates.draining, partition.next_leader
            if self._obstacle(partition, sound) is not None:
                heir = moving.heir(placement, state, draining, named)
                self._preloading.prepare(partition, heir)
                continue
            if loads is None and not moving.leader_known(placement, state, sound, draining, named):
                loads = self._core.cluster.leader_counts()  # goes over all partitions
            end = moving.finish(placement, state, sound, loads or {}, draining, named)
            if not self._preloading.may_lead(partition, end.decision.leader):
                continue
            leaving = self._core.safeguards.remembered(end.placement.leaving)
            decision = self._core.safeguards.ended(end.decision, end.placement)
            finished = self._leadership.successor(
                partition, decision, dataclasses.replace(end.placement, leaving=leaving)
            )
            if finished is not None:
                if self._core.safeguards.stops(written=False):
                    self._core.order_leavers(partition, leaving)
                if loads is not None:
                    loads[finished.leader] = loads.get(finished.leader, 0) + 1
                states.append((partition, finished))
        self._write(states)

    def replace(self, changes: Iterable[tuple[ClusterPartition, Decision, Placement]]) -> None:
        """Give partitions other replicas and members in one write each, whatever is lost by it."""
        states: list[NewState] = []
        for partition, decision, placement in changes:
            state = self._leadership.successor(partition, decision, placement)
            if state is not None:
                states.append((partition, state))
        self._write(states, first=features.begin_use(self._core.cluster, features.MOVES))

    def replicas_stopped(
        self, broker_id: int, stops: Sequence[StopPartition], results: Sequence[ReplicaResult]
    ) -> None:
        """Note that a broker has deleted replicas that are no more; results are in the order of the
        request."""
        states: list[NewState] = []
        for stop, result in zip(stops, results, strict=False):
            partition = self._core.cluster.partition(stop.topic, stop.partition)
            if partition is None or result.error_code != NO_ERROR or not stop.delete:
                continue
            if partition.topic.topic_id != stop.topic_id:
                continue
            since = self._core.leavers.since(partition.topic_partition, broker_id)
            if since is not None and stop.leader_epoch >= since:
                swept = self._swept(partition, broker_id)
                if swept is not None:
                    states.append((partition, swept))
        for chunk in chunks(states, WRITE_PARTITIONS_MAX):
            self._leadership.write(chunk, install=self._sweep)

    def _swept(self, partition: ClusterPartition, broker_id: int) -> PartitionState | None:
        state = partition.state
        assert state is not None
        return self._leadership.checked(
            partition,
            state.leader,
            state.leader_epoch,
            Members(state.isr, state.elr, state.last_known_elr),
            joining=(),
            unclean_epoch=state.unclean_epoch,
            placement=moving.sweep(partition.placement, {broker_id}),
        )

    def _sweep(self, partition: ClusterPartition, state: PartitionState) -> None:
        partition.take(state)
        self._core.leavers.note(partition)

    def _write(self, states: Sequence[NewState], first: Sequence[Op] = ()) -> None:
        """Write states; ``first`` says in the same multi as the first of them that partitions move:
        from then on no release may run that does not know it."""
        for number, chunk in enumerate(chunks(states, WRITE_PARTITIONS_MAX)):
            head, written = (first, self._used) if first and number == 0 else ((), None)
            self._leadership.write(chunk, head=head, written=written, install=self._install)

    def _used(self) -> None:
        self._core.cluster.use_feature(features.MOVES)
        logger.info("feature_in_use", feature=features.MOVES)

    def _install(self, partition: ClusterPartition, state: PartitionState) -> None:
        core, before, left = self._core, partition.replicas, partition.placement.leaving
        partition.take(state)
        core.leavers.note(partition)
        if not partition.placement.origin:
            self._preloading.over(partition)
        joining = [b for b in partition.replicas if b not in before]
        phases: dict[int, ReplicaPhase] = partition.replica_phases
        phases.update(core.cluster.first_phases(joining))
        for broker_id in before:
            if broker_id not in partition.replicas:
                phases.pop(broker_id, None)
        if partition.placement.origin:
            self._open[partition.topic_partition] = partition
        else:
            self._open.pop(partition.topic_partition, None)
            self._finished.append(partition)
        back = [b for b in joining if b in left]
        core.order_partition(partition, added=[b for b in joining if b not in left], back=back)
        if core.safeguards.stops(written=True):
            core.order_leavers(partition, partition.placement.leaving)
        name, placement = partition.topic_partition, partition.placement
        if placement.origin:
            origin, target = list(placement.origin), list(placement.target)
            logger.info("partition_moves", partition=name, replicas=origin, target=target)
        else:
            logger.info("partition_moved", partition=name, replicas=list(placement.replicas))
