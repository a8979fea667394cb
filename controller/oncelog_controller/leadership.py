"""Elections are applied to partitions over the whole cluster, and written. Pure.

Owns the moves of leadership: after brokers come and go, at suspicion and its end, for a controlled
shutdown, back to preferred replicas, and on request. Decisions come from ``election``; here they
become conditional writes, in batches, and orders once they are written. What may concern every
partition of the cluster goes in steps (see ``core``).

No state is written that breaks an invariant: the partition is left as it is, for good, with a
CRITICAL line in the log, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from oncelog_controller import election, znodes
from oncelog_controller.core import (
    STEP_PARTITIONS,
    WRITE_PARTITIONS_MAX,
    Core,
    Steps,
    at_once,
    chunks,
)
from oncelog_controller.election import Candidates, Decision
from oncelog_controller.eligibility import Members, admissions, untrusted
from oncelog_controller.preloading import Preloading
from oncelog_controller.state import (
    ClusterPartition,
    DataLoss,
    IllegalStateError,
    PartitionState,
    Placement,
    Topic,
    check_invariants,
)
from oncelog_controller.store import Create, Op, SetData
from oncelog_controller.transitions import ReplicaPhase
from oncelog_protocol.errors import (
    NO_ERROR,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    NotControllerError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from oncelog_protocol.types import NO_EPOCH, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

Change = tuple[ClusterPartition, Decision]
NewState = tuple[ClusterPartition, PartitionState]
Decide = Callable[[ClusterPartition, PartitionState, Candidates], Decision | None]
"""It says what becomes of a partition, None for nothing."""

NOBODY: frozenset[int] = frozenset()

NAMED_MAX = 5
"""Partitions that one line of the log names."""


class Leadership:
    """It owns elections and what follows from them."""

    def __init__(self, core: Core, preloading: Preloading) -> None:
        self._core = core
        self._preloading = preloading
        self.rebalance_at: float | None = None
        """When leaderships go back to preferred replicas (loop's clock); None: not planned."""

    # ---- reconsidering

    def reconsider(
        self,
        partitions: Iterable[ClusterPartition],
        restarted: Callable[[ClusterPartition], frozenset[int]] = lambda _: NOBODY,
    ) -> Steps[int]:
        """Bring partitions in line with who is there; returns how many are written."""
        loads = self._core.cluster.leader_counts()
        changes: list[Change] = []
        for number, partition in enumerate(partitions):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            decision = self._decide(partition, loads, restarted(partition))
            if decision is not None:
                _count(loads, partition, decision)
                changes.append((partition, decision))
        _tell_of_losses(changes)
        yield from self._changing(changes)
        return len(changes)

    def _decide(
        self, partition: ClusterPartition, loads: dict[int, int], restarted: frozenset[int]
    ) -> Decision | None:
        candidates = self.candidates(partition, loads, restarted)
        if partition.state is None:
            return election.elect_first(partition.replicas, candidates)
        decision = election.elect(
            partition.replicas,
            partition.state,
            candidates,
            min_isr=partition.min_isr,
            unclean=self._unclean_allowed(partition, candidates),
        )
        if decision is not None and decision.unclean:
            logger.warning(
                "unclean_election",
                partition=partition.topic_partition,
                leader=decision.leader,
                isr=list(partition.state.isr),
            )
        return decision

    def _unclean_allowed(self, partition: ClusterPartition, candidates: Candidates) -> bool:
        """Return whether the topic allows it; a lone replica that has lost no more than its
        unsynced tail may lead as well, since nobody else has the records that are missing. It is
        alone as well while the partition moves away from it, and then nobody else takes the
        chance."""
        if partition.topic.settings.unclean_leader_election_enable:
            return True
        first, *others = partition.placement.originals
        if others or not candidates.able(first):
            return False
        return self._core.cluster.brokers[first].data.loss is DataLoss.TAIL

    def candidates(
        self,
        partition: ClusterPartition,
        loads: dict[int, int] | None = None,
        restarted: frozenset[int] = NOBODY,
    ) -> Candidates:
        """Return the brokers of the partition as an election sees them."""
        cluster = self._core.cluster
        working = frozenset(
            broker_id
            for broker_id in partition.replicas
            if broker_id in cluster.brokers
            and partition.replica_phases.get(broker_id) is not ReplicaPhase.FAILED
        )
        return Candidates(
            registered=working,
            suspected=frozenset(cluster.suspected),
            shutting_down=frozenset(cluster.shutting_down),
            restarted=restarted,
            untrusted=self._untrusted(partition),
            loads={} if loads is None else loads,
            draining=frozenset(cluster.out_of_service),
        )

    def _untrusted(self, partition: ClusterPartition) -> frozenset[int]:
        core = self._core
        return core.safeguards.untrusted(untrusted(partition, core.cluster.brokers))

    # ---- writing

    def change(self, changes: Sequence[Change]) -> None:
        """Write new states, with the leader epoch grown by one each, and order them once
        written."""
        at_once(self._changing(changes))

    def _changing(self, changes: Sequence[Change]) -> Steps[None]:
        states: list[NewState] = []
        for number, (partition, decision) in enumerate(changes):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            state = self.successor(partition, decision)
            if state is not None:
                states.append((partition, state))
        for number, chunk in enumerate(chunks(states, WRITE_PARTITIONS_MAX)):
            if number > 1:
                yield
            self.write(chunk)

    def write(
        self,
        states: Sequence[NewState],
        *,
        head: Sequence[Op] = (),
        written: Callable[[], None] | None = None,
        install: Callable[[ClusterPartition, PartitionState], None] | None = None,
    ) -> None:
        """Write states in one multi, ``head`` before them. Then ``written`` is called, and
        ``install`` for each, by default the method of that name."""
        ops = list(head)
        for partition, state in states:
            ops += state_ops(partition, state)

        def applied() -> None:
            if written is not None:
                written()
            for partition, state in states:
                (install or self.install)(partition, state)

        self._core.write(ops, applied)

    def first_state(self, partition: ClusterPartition) -> PartitionState | None:
        """Return the first state of a new partition, None while none of its brokers is able."""
        decision = election.elect_first(partition.replicas, self.candidates(partition))
        return None if decision is None else self.successor(partition, decision)

    def successor(
        self,
        partition: ClusterPartition,
        decision: Decision,
        placement: Placement | None = None,
    ) -> PartitionState | None:
        """Return the state that follows from ``decision``; None when it may not exist.
        ``placement`` None: the replicas stay what they are."""
        before = partition.state
        epoch = 0 if before is None else before.leader_epoch + 1
        if placement is not None:
            epoch = self._core.safeguards.epoch_of_move(epoch)
        unclean_epoch = NO_EPOCH if before is None else before.unclean_epoch
        return self.checked(
            partition,
            decision.leader,
            epoch,
            decision.members,
            joining=decision.isr if decision.unclean or before is None else (),
            unclean_epoch=epoch if decision.unclean else unclean_epoch,
            placement=placement,
        )

    def checked(
        self,
        partition: ClusterPartition,
        leader: int,
        leader_epoch: int,
        members: Members,
        *,
        joining: Collection[int],
        unclean_epoch: int,
        placement: Placement | None = None,
    ) -> PartitionState | None:
        """A state to be written now, or None: it breaks an invariant, and the partition halts.
        ``joining`` are members that are complete only since their brokers' present lives."""
        core, before = self._core, partition.state
        if partition.halted:
            return None
        brokers = core.cluster.brokers
        state = PartitionState(
            leader=leader,
            leader_epoch=leader_epoch,
            isr=members.isr,
            controller_epoch=core.cluster.controller_epoch,
            version=0 if before is None else before.version + 1,
            elr=members.elr,
            last_known_elr=members.last_known_elr,
            admitted=admissions(partition, members, joining, brokers),
            unclean_epoch=unclean_epoch,
            placement=partition.placement if placement is None else placement,
        )
        try:
            check_invariants(partition, state, core.safeguards.witnesses(brokers))
        except IllegalStateError as error:
            partition.halt()
            core.stats.assertion_failed()
            logger.critical("partition_state_contradicts", error=error, before=before)
            return None
        return state

    def install(self, partition: ClusterPartition, state: PartitionState) -> None:
        """The state is in the store now: take it in and tell the brokers."""
        previous, before = partition.state, partition.leader
        is_new = previous is None
        if previous is not None and state.unclean_epoch != previous.unclean_epoch:
            self._core.stats.elected_uncleanly()
        partition.take(state)
        self._core.order_partition(partition, is_new=is_new)
        if not is_new and before != state.leader:
            self._core.stats.leader_changed()
            logger.info(
                "leader_changed",
                partition=partition.topic_partition,
                before=before,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
            )

    def end_elr(self, topic: Topic, min_insync_replicas: int) -> None:
        """Forget the ELR of partitions whose ISR has that many members, as it soon will need no
        more. Their leaders hear of it in a new leader epoch."""
        changes: list[Change] = []
        for partition in topic.partitions:
            state, enough = partition.state, partition.needed_of(min_insync_replicas)
            if state is None or len(state.isr) < enough:
                continue
            if state.elr or state.last_known_elr:
                changes.append((partition, Decision(state.leader, state.isr)))
        self.change(changes)

    # ---- preferred leaders

    def plan_rebalance(self) -> None:
        """Give leaderships back soon; a plan that is earlier stands."""
        config = self._core.config
        if not config.auto_leader_rebalance_enable:
            return
        soon = self._core.now + config.leader_rebalance_delay_ms / 1000
        if self.rebalance_at is None or self.rebalance_at > soon:
            self.rebalance_at = soon

    def stop_rebalancing(self) -> None:
        """Drop the plan: ``auto.leader.rebalance.enable`` is off now."""
        self.rebalance_at = None

    def _rebalance_now(self) -> None:
        if self.rebalance_at is not None:
            self.rebalance_at = self._core.now

    def rebalance(self) -> Steps[None]:
        """Give every preferred replica that is able and in sync its leadership back; that of a
        coordinator when it has read the partition."""
        config = self._core.config
        self.rebalance_at = self._core.now + config.leader_imbalance_check_interval_ms / 1000
        changes: list[Change] = []
        for number, partition in enumerate(list(self._core.cluster.partitions())):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            if partition.state is None:
                continue
            decision = election.elect_preferred(
                partition.replicas, partition.state, self.candidates(partition)
            )
            if decision is not None and self._preloading.may_lead(
                partition, decision.leader, self._rebalance_now
            ):
                changes.append((partition, decision))
        if changes:
            logger.info("leaders_preferred", partitions=len(changes))
        yield from self._changing(changes)

    # ---- requests

    def controlled_shutdown(self, request_id: int, request: ControlledShutdownRequest) -> None:
        """Move leaderships off a broker that is about to stop, then take it out of ISRs."""
        cluster, broker_id = self._core.cluster, request.broker_id
        broker = cluster.brokers.get(broker_id)
        if broker is not None and request.broker_epoch > broker.broker_epoch:
            # We have yet to hear of its new registration (KAFKA-9839); it may ask again.
            self._core.reply(request_id, ControlledShutdownResponse(NotControllerError.code))
            return
        stale = broker is not None and request.broker_epoch < broker.broker_epoch
        if broker is None or self._core.safeguards.is_of_earlier_life(stale):
            code = StaleBrokerEpochError.code
            self._core.reply(request_id, ControlledShutdownResponse(code))
            return
        cluster.shutting_down.add(broker_id)

        def decide(
            partition: ClusterPartition, state: PartitionState, candidates: Candidates
        ) -> Decision | None:
            needed = partition.min_isr
            return election.elect_for_shutdown(
                partition.replicas, state, candidates, broker_id, min_isr=needed
            )

        held = [p for p in cluster.partitions() if broker_id in p.replicas]
        changed = at_once(self._give_up(held, decide))
        logger.info("broker_shuts_down", broker_id=broker_id, partitions=changed)
        self._core.when_settled(
            lambda: self._core.reply(
                request_id, ControlledShutdownResponse(NO_ERROR, self._still_led(broker_id))
            )
        )

    def drain(self, most: int, again: Callable[[], None]) -> Steps[int]:
        """Take leaderships off brokers that are out of service, ``most`` of them at most; returns
        how many. The brokers stay in ISRs [M20]. ``again`` is called when there is more to take,
        since the next leader of a coordinator's partition has read it."""
        draining = self._core.cluster.out_of_service
        if not draining:
            return 0

        def decide(
            partition: ClusterPartition, state: PartitionState, candidates: Candidates
        ) -> Decision | None:
            decision = election.elect_for_drain(
                partition.replicas, state, candidates, partition.next_leader
            )
            if decision is None or not self._preloading.may_lead(partition, decision.leader, again):
                return None
            return decision

        led = [p for p in self._core.cluster.partitions() if p.leader in draining]
        changed = yield from self._give_up(led, decide, most)
        if changed:
            brokers = sorted(draining)
            logger.info("leaderships_given_up", brokers=brokers, partitions=changed)
        return changed

    def _give_up(
        self, partitions: Iterable[ClusterPartition], decide: Decide, most: int | None = None
    ) -> Steps[int]:
        """Write what ``decide`` makes of partitions whose brokers are to lead less, of ``most``
        at most; returns of how many."""
        loads = self._core.cluster.leader_counts()
        changes: list[Change] = []
        for number, partition in enumerate(partitions):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            if partition.state is None:
                continue
            decision = decide(partition, partition.state, self.candidates(partition, loads))
            if decision is not None:
                _count(loads, partition, decision)
                changes.append((partition, decision))
            if len(changes) == most:
                break
        yield from self._changing(changes)
        return len(changes)

    def _still_led(self, broker_id: int) -> int:
        return sum(
            1
            for partition in self._core.cluster.partitions()
            if partition.leader == broker_id and len(partition.replicas) > 1
        )

    def elect_leaders(self, request_id: int, request: admin.ElectLeadersRequest) -> None:
        """Hold preferred or unclean elections on request."""
        results: list[admin.ElectionResult] = []
        changes: list[Change] = []
        seen: set[TopicPartition] = set()
        loads = self._core.cluster.leader_counts()
        for partition, target in self._targets(request):
            result = admin.ElectionResult(target.topic, target.partition)
            if partition is None or partition.state is None:
                result.error_code = UnknownTopicOrPartitionError.code
                results.append(result)
                continue
            candidates = self.candidates(partition, loads)
            if request.unclean:
                decision = election.elect_unclean(
                    partition.replicas, partition.state, candidates, min_isr=partition.min_isr
                )
                needless = partition.leader >= 0
            else:
                decision = election.elect_preferred(partition.replicas, partition.state, candidates)
                needless = partition.leader == partition.replicas[0]
            if partition.topic_partition in seen:
                decision, needless = None, True
            seen.add(partition.topic_partition)
            if decision is not None:
                _count(loads, partition, decision)
                changes.append((partition, decision))
            elif needless:
                if request.partitions is None:
                    continue
                result.error_code = ElectionNotNeededError.code
            else:
                result.error_code = EligibleLeadersNotAvailableError.code
            results.append(result)
        self.change(changes)
        self._core.when_settled(
            lambda: self._core.reply(request_id, admin.ElectLeadersResponse(NO_ERROR, results))
        )

    def _targets(
        self, request: admin.ElectLeadersRequest
    ) -> list[tuple[ClusterPartition | None, admin.ElectionTarget]]:
        cluster = self._core.cluster
        if request.partitions is None:
            return [
                (partition, admin.ElectionTarget(*partition.topic_partition))
                for partition in cluster.partitions()
            ]
        return [
            (cluster.partition(target.topic, target.partition), target)
            for target in request.partitions
        ]


def state_ops(partition: ClusterPartition, state: PartitionState) -> list[Op]:
    """Return the operations that put ``state`` in the place of the partition's present one."""
    name, index = partition.topic.name, partition.index
    data = znodes.encode_state(state)
    if partition.state is None:
        made: list[Op] = [Create(znodes.state_path(name, index), data)]
        return made if partition.bare else [Create(znodes.partition_path(name, index), b""), *made]
    return [SetData(znodes.state_path(name, index), data, partition.state.version)]


def _count(loads: dict[int, int], partition: ClusterPartition, decision: Decision) -> None:
    for broker_id, step in ((partition.leader, -1), (decision.leader, 1)):
        if broker_id in loads:
            loads[broker_id] += step


def _tell_of_losses(changes: Sequence[Change]) -> None:
    """Log one line for all that members have lost, and one for what nobody is left to lead."""
    lost: list[str] = []
    orphans: list[str] = []
    for partition, decision in changes:
        state = partition.state
        if state is None:
            continue
        fallen = [b for b in decision.last_known_elr if b not in state.last_known_elr]
        name = f"{partition.topic_partition} ({', '.join(map(str, decision.last_known_elr))})"
        if fallen:
            lost.append(name)
        if not decision.isr and not decision.elr and fallen:
            orphans.append(name)
    if lost:
        logger.warning("members_lost_data", members=_some(lost))
    if orphans:
        logger.error("partitions_without_replica", partitions=_some(orphans))


def _some(names: Sequence[str]) -> str:
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
