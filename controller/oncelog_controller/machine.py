"""The controller's state machine takes an event and the time, and returns effects. Pure.

Rules
-----
* ``handle`` is the only mutator. Events are facts; what follows is a function of them.
* Outside events come one at a time: while writes of one are pending, only their results are taken,
  anything else raises. So a decision is never made on a state that is about to change.
* Nothing is remembered that the store does not hold, but for what can be found out again: who is
  suspected, who shuts down, which replicas failed, which answers wait for leaders.
* What looks at many partitions goes in steps, so that no turn of the loop is long: while the
  machine is ``unfinished``, the shell lets others run, and then hands in GoOn.
* A controller that was just elected, or that has lost track, is given the whole store and brings
  every partition in line with who is there [Z15].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from oncelog_controller import request_checks
from oncelog_controller.acknowledgements import SecurityAcknowledgements
from oncelog_controller.acl_requests import AclRequests
from oncelog_controller.auto_balance import AutoBalance
from oncelog_controller.automatic_plans import AutomaticPlans
from oncelog_controller.balance_requests import BalanceRequests
from oncelog_controller.broker_reports import BrokerReports
from oncelog_controller.broker_settings import BrokerSettings, FixedSettings
from oncelog_controller.broker_states import BrokerStates
from oncelog_controller.config import ControllerConfig
from oncelog_controller.config_requests import ConfigRequests
from oncelog_controller.core import LOOKED_AT_ONCE, STEP_PARTITIONS, Core, Steps, at_once
from oncelog_controller.effects import ConnectBrokers, Effect
from oncelog_controller.election import Decision
from oncelog_controller.evacuation import Evacuation
from oncelog_controller.events import (
    BrokerCleared,
    BrokersRead,
    BrokerSuspected,
    ClusterLoaded,
    Event,
    GoOn,
    OrdersAnswered,
    RequestReceived,
    StorageFailed,
    TimeReached,
    TopicRead,
    WriteFailed,
    WriteSucceeded,
)
from oncelog_controller.isr_requests import IsrRequests
from oncelog_controller.leadership import Change, Leadership
from oncelog_controller.move_executor import MoveExecutor
from oncelog_controller.move_plans import MovePlans
from oncelog_controller.move_requests import MoveRequests
from oncelog_controller.moves import Moves
from oncelog_controller.plan_desk import PlanDesk
from oncelog_controller.preloading import Preloading
from oncelog_controller.producer_ids import allocate_producer_ids
from oncelog_controller.quota_requests import QuotaRequests
from oncelog_controller.replies import refusal
from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.state import (
    BrokerRegistration,
    ClusterPartition,
    ClusterState,
    Topic,
)
from oncelog_controller.stats import ControllerStats
from oncelog_controller.topic_deletion import TopicDeletion
from oncelog_controller.topic_requests import TopicRequests
from oncelog_controller.transitions import (
    PartitionCause,
    PartitionPhase,
    ReplicaCause,
    ReplicaPhase,
    next_partition_phase,
    next_replica_phase,
)
from oncelog_controller.user_requests import UserRequests
from oncelog_controller.wanted_features import WantedFeatures
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    FencedLeaderEpochError,
    RequestTimedOutError,
    StorageError,
    UnsupportedVersionError,
)
from oncelog_protocol.messages import (
    acls,
    admin,
    broker_reports,
    moves,
    quotas,
    replication,
    transactions,
    users,
)
from oncelog_protocol.messages.balance import BalanceRequest
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.broker_states import AlterBrokerStatesRequest
from oncelog_protocol.messages.security import UpdateSecurityRequest
from oncelog_protocol.types import NO_LEADER
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)


ORDER_AGAIN_S = 0.2
"""The delay before a request that a broker could not carry out for a partition is given again."""


class EventOutOfTurnError(RuntimeError):
    """An outside event came while writes were pending. A bug of the shell."""


class _Served(NamedTuple):
    """It is one row of the table of requests."""

    serve: Callable[[RequestReceived, Any], Steps[None] | None]
    """It is given the event and the request that is in it; what takes long returns its steps."""
    repeatable: bool = False
    """Whether the request does no harm when it is handled twice [Z9]."""


class ControllerMachine:
    """A machine serves one term of a controller."""

    def __init__(
        self,
        broker_id: int,
        config: ControllerConfig,
        safeguards: ControllerSafeguards = SAFE,
        stats: ControllerStats | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        """Make a machine; ``settings`` say what of brokers' settings may change while they run,
        None for nothing."""
        self._core = Core(broker_id, config, safeguards, stats)
        self._reports = BrokerReports()
        self._preloading = Preloading(self._core, self._reports)
        self._leadership = Leadership(self._core, self._preloading)
        self._isr = IsrRequests(self._core, self._leadership)
        self._topics = TopicRequests(self._core, self._leadership)
        self._configs = ConfigRequests(
            self._core, self._leadership, self._topics, settings or FixedSettings(config)
        )
        self._acknowledgements = SecurityAcknowledgements(self._core)
        self._acls = AclRequests(self._core, self._acknowledgements)
        self._users = UserRequests(self._core, self._acknowledgements)
        self._quotas = QuotaRequests(self._core, self._acknowledgements)
        self._deletion = TopicDeletion(self._core)
        self._moves = Moves(self._core, self._leadership, self._preloading)
        self._plans = MovePlans(self._core)
        self._executor = MoveExecutor(self._core, self._moves, self._plans, self._reports)
        self._move_requests = MoveRequests(
            self._core, self._moves, self._plans, self._executor, self._reports
        )
        self._features = WantedFeatures(self._core)
        self._desk = PlanDesk(self._core)
        making = AutomaticPlans(self._core, self._plans, self._executor, self._reports)
        self._evacuation = Evacuation(self._core, self._plans, self._executor, making, self._desk)
        self._auto_balance = AutoBalance(self._core, self._plans, self._moves, making, self._desk)
        self._states = BrokerStates(
            self._core,
            self._leadership,
            self._moves,
            self._executor,
            self._evacuation,
            self._desk,
        )
        self._balance = BalanceRequests(self._core, self._plans, self._reports, self._desk)
        self._requests = self._table()
        self._unheeded: set[tuple[str, int]] = set()
        self._order_again_at: float | None = None
        self._steps: Steps[None] | None = None
        self._partitions_read = 0

    @property
    def unfinished(self) -> bool:
        """Return whether the last event has more steps: only GoOn may come."""
        return self._steps is not None

    @property
    def cluster(self) -> ClusterState:
        """Return what is known; it is not to be changed."""
        return self._core.cluster

    @property
    def executor(self) -> MoveExecutor:
        """Return who begins moves; it is not to be changed."""
        return self._executor

    @property
    def reports(self) -> BrokerReports:
        """Return what brokers have told of their disks and replicas; it is not to be changed."""
        return self._reports

    @property
    def busy(self) -> bool:
        """Return whether writes are pending, so that no outside event may come."""
        return self._core.busy

    @property
    def wake_at(self) -> float | None:
        """Return when a TimeReached is wanted, on the loop's clock."""
        if self._core.telling:
            return self._core.now
        due = (
            self._topics.deadline,
            self._acknowledgements.deadline,
            self._leadership.rebalance_at,
            self._order_again_at,
            self._states.deadline,
            self._preloading.deadline,
            self._executor.due,
            self._evacuation.deadline,
            self._auto_balance.deadline,
            self._desk.deadline,
        )
        return min((at for at in due if at is not None), default=None)

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take in ``event`` at ``now`` (seconds of the loop's clock).

        :raises EventOutOfTurnError, IllegalTransitionError: bugs; the term is over.
        """
        core = self._core
        core.begin(now)
        if isinstance(event, WriteSucceeded):
            core.write_succeeded(event.write_id)
        elif isinstance(event, WriteFailed):
            core.write_failed(event.write_id, event.error)
        elif isinstance(event, GoOn):
            self._go_on()
        elif self._steps is not None:
            raise EventOutOfTurnError(f"{type(event).__name__} came between two steps")
        elif isinstance(event, ClusterLoaded):
            self._begin(self._loaded(event))
        elif core.busy or core.broken:
            raise EventOutOfTurnError(f"{type(event).__name__} came while writes are pending")
        else:
            self._outside(event)
        if self._steps is None:
            core.settle()
            self._acknowledgements.look()
            if not core.busy and not core.broken:
                self._preloading.look()
                self._moves.look()
            if not core.busy and not core.broken:
                self._executor.look()
        return core.take_effects()

    def _begin(self, steps: Steps[None]) -> None:
        self._steps = steps
        self._go_on()

    def _go_on(self) -> None:
        if self._steps is not None and next(self._steps, self) is self:
            self._steps = None

    def _outside(self, event: Event) -> None:
        if not isinstance(event, TimeReached):
            self._states.look_again()
        if isinstance(event, RequestReceived):
            self._request(event)
        elif isinstance(event, OrdersAnswered):
            self._answered(event)
        elif isinstance(event, BrokersRead):
            self._begin(self._brokers_read(event))
        elif isinstance(event, BrokerSuspected):
            self._begin(self._suspected(event))
        elif isinstance(event, BrokerCleared):
            self._begin(self._cleared(event))
        elif isinstance(event, StorageFailed):
            self._begin(self._storage_failed(event))
        elif isinstance(event, TimeReached):
            self._begin(self._time_reached())

    # ---- loading

    def _loaded(self, event: ClusterLoaded) -> Steps[None]:
        core, read, before = self._core, event.cluster, self._core.cluster
        cluster = ClusterState(
            core.broker_id,
            read.controller_epoch,
            read.epoch_version,
            brokers={broker.broker_id: broker for broker in read.brokers},
            stray_configs=dict(read.stray_configs),
            next_producer_id=read.next_producer_id,
            producer_ids_version=read.producer_ids_version,
            broker_configs=dict(read.broker_configs),
            security=read.security,
            features=read.features,
            features_version=read.features_version,
            out_of_service=dict(read.out_of_service),
        )
        interrupted = core.begin_again(cluster)
        self._reports.keep(cluster.brokers)
        self._preloading.loaded()
        self._configs.loaded()
        self._desk.loaded()
        self._evacuation.loaded()
        same = {b for b, r in cluster.brokers.items() if before.brokers.get(b) == r}
        named = {b for b, epoch in event.suspected if _epoch(cluster, b) == epoch}
        cluster.suspected = (before.suspected & same) | named
        cluster.shutting_down = before.shutting_down & same
        buried = {tombstone.topic_id for tombstone in read.tombstones}
        half_gone: list[Topic] = []
        for topic_read in read.topics:
            topic = yield from self._topic(topic_read)
            if topic.topic_id in buried:
                half_gone.append(topic)
            else:
                cluster.topics[topic.name] = topic
        for tombstone in read.tombstones:
            self._deletion.entomb(tombstone.topic, tombstone.topic_id, tombstone.assignment)
        core.tell_all()
        core.emit(ConnectBrokers(read.brokers))
        for topic in half_gone:
            self._deletion.remove(topic)
        self._plans.loaded(read.plans)
        yield from self._moves.loaded(head.plan_id for head in self._plans.heads if head.now)
        self._executor.loaded()
        everything = list(cluster.partitions())
        changed = yield from self._leadership.reconsider(everything, self._restarted)
        logger.info(
            "controller_loaded",
            controller_epoch=cluster.controller_epoch,
            brokers=len(cluster.brokers),
            topics=len(cluster.topics),
            partitions=changed,
        )
        self._leadership.plan_rebalance()
        self._states.loaded()
        core.when_settled(self._topics.forget_topics)
        self._features.look()
        if len(everything) >= STEP_PARTITIONS:
            yield
        if interrupted is not None:
            core.when_settled(lambda: self._again(interrupted))

    def _again(self, interrupted: RequestReceived) -> None:
        """Handle a request whose write was cut off. Those that may be repeated are; of the others
        nobody can say whether they had their effect, and that is the answer."""
        served = self._requests.get(type(interrupted.request))
        if served is not None and served.repeatable:
            self._request(interrupted)
            return
        code = RequestTimedOutError.code
        self._core.reply(interrupted.request_id, refusal(interrupted.request, code))

    def _topic(self, read: TopicRead) -> Steps[Topic]:
        defaults = self._core.config.defaults()
        settings = request_checks.settled(read.name, read.overrides, defaults)
        topic = Topic(
            read.name,
            read.topic_id,
            settings,
            dict(read.overrides),
            read.config_version or 0,
            version=read.version,
        )
        for index, assigned in enumerate(read.assignment):
            state = read.states[index]
            placed = None if state is None else state.placement
            replicas = tuple(assigned) if placed is None else placed.replicas
            phases = self._core.cluster.first_phases(replicas)
            partition = ClusterPartition(topic, index, replicas, state, replica_phases=phases)
            partition.bare = index in read.bare
            if partition.state is not None:
                cause = PartitionCause.LOADED_WITHOUT_LEADER
                if partition.state.leader >= 0:
                    cause = PartitionCause.LOADED_WITH_LEADER
                partition.phase = next_partition_phase(PartitionPhase.NEW, cause)
            topic.partitions.append(partition)
            if partition.state is not None:
                partition.leader_and_isr()  # some at a time: all are wanted soon
            self._partitions_read += 1
            if self._partitions_read % STEP_PARTITIONS == 0:
                yield
        return topic

    def _restarted(self, partition: ClusterPartition) -> frozenset[int]:
        """Return the ISR members that registered again since a state was last written that knew
        them: nobody has taken their restart into account yet."""
        state = partition.state
        if state is None:
            return frozenset()
        return frozenset(
            broker_id
            for broker_id in state.isr
            if _epoch(self._core.cluster, broker_id) > (state.admitted_at(broker_id) or -1)
        )

    # ---- brokers

    def _brokers_read(self, event: BrokersRead) -> Steps[None]:
        cluster = self._core.cluster
        now = {broker.broker_id: broker for broker in event.brokers}
        lost = {b for b in cluster.brokers if b not in now}
        new = {b for b in now if b not in cluster.brokers}
        restarted = {b for b in now if b in cluster.brokers and now[b] != cluster.brokers[b]}
        if not lost and not new and not restarted:
            return
        for label, group in (("lost", lost), ("joined", new), ("restarted", restarted)):
            if group:
                logger.info("brokers_changed", brokers=sorted(group), what=label)
        cluster.replace_brokers(now, lost | restarted)
        self._reports.keep(now)
        self._executor.brokers_changed(lost | new | restarted)
        self._features.look()
        gone, back = ReplicaCause.BROKER_LOST, ReplicaCause.BROKER_RETURNED
        moves = {broker_id: [gone] for broker_id in sorted(lost)}
        moves |= {broker_id: [gone, back] for broker_id in sorted(restarted)}
        moves |= {broker_id: [back] for broker_id in sorted(new)}
        yield from self._move_replicas(moves)
        self._core.tell(new | restarted)
        self._core.emit(ConnectBrokers(tuple(now[b] for b in sorted(now))))
        moved = lost | new | restarted
        again = frozenset(restarted)
        concerned = yield from self._on(moved)
        yield from self._leadership.reconsider(concerned, lambda _: again)
        self._core.order_live_brokers()
        if new or restarted:
            self._leadership.plan_rebalance()
            self._states.brokers_joined()

    def _move_replicas(self, moves: dict[int, list[ReplicaCause]]) -> Steps[None]:
        """Note what becomes of replicas on brokers that have come and gone, by broker."""
        for number, partition in enumerate(list(self._core.cluster.partitions())):
            if number % 1000 == 999:
                yield
            phases = partition.replica_phases
            for broker_id in phases:
                for cause in moves.get(broker_id, ()):
                    phases[broker_id] = next_replica_phase(phases[broker_id], cause)
        for broker_id, causes in moves.items():
            for cause in causes:
                self._deletion.broker_moved(broker_id, cause)

    def _on(self, brokers: set[int]) -> Steps[list[ClusterPartition]]:
        """Return the partitions with a replica on any of ``brokers``."""
        found: list[ClusterPartition] = []
        for number, partition in enumerate(self._core.cluster.partitions(), start=1):
            if number % LOOKED_AT_ONCE == 0:
                yield
            if not brokers.isdisjoint(partition.replicas):
                found.append(partition)
        return found

    def _suspected(self, event: BrokerSuspected) -> Steps[None]:
        cluster, broker_id = self._core.cluster, event.broker_id
        if _epoch(cluster, broker_id) != event.broker_epoch or broker_id in cluster.suspected:
            return
        cluster.suspected.add(broker_id)
        concerned = yield from self._on({broker_id})
        changed = yield from self._leadership.reconsider(concerned)
        self._executor.brokers_changed({broker_id})
        logger.warning("broker_suspected", broker_id=broker_id, partitions=changed)

    def _cleared(self, event: BrokerCleared) -> Steps[None]:
        cluster, broker_id = self._core.cluster, event.broker_id
        if _epoch(cluster, broker_id) != event.broker_epoch or broker_id not in cluster.suspected:
            return
        cluster.suspected.discard(broker_id)
        self._executor.brokers_changed({broker_id})
        logger.info("broker_cleared", broker_id=broker_id)
        concerned = yield from self._on({broker_id})
        yield from self._leadership.reconsider(concerned)
        self._leadership.plan_rebalance()

    def _storage_failed(self, event: StorageFailed) -> Steps[None]:
        """Told everything again, a broker answers for each replica that it cannot serve. One that
        could not may do so now, as when a full disk has room: where nobody leads, and it is
        complete, it is tried once more."""
        core, tried = self._core, list[ClusterPartition]()
        brokers = {b for b in event.broker_ids if b in core.cluster.brokers}
        core.tell(brokers)
        self._executor.brokers_changed(brokers)
        for partition in (yield from self._on(brokers)):
            state, phases = partition.state, partition.replica_phases
            if state is None or state.leader != NO_LEADER:
                continue
            for broker_id in (*state.isr, *state.elr):
                if broker_id in brokers and phases.get(broker_id) is ReplicaPhase.FAILED:
                    phases[broker_id] = next_replica_phase(
                        ReplicaPhase.FAILED, ReplicaCause.ASKS_AGAIN
                    )
                    tried.append(partition)
        yield from self._leadership.reconsider(tried)

    # ---- orders

    def _answered(self, event: OrdersAnswered) -> None:
        if _epoch(self._core.cluster, event.broker_id) != event.broker_epoch:
            return
        request = event.request
        if isinstance(request, UpdateSecurityRequest):
            self._acknowledgements.order_answered(
                event.broker_id, event.broker_epoch, event.response
            )
            return
        results = event.response.partitions
        if isinstance(request, replication.StopReplicaRequest):
            self._deletion.replicas_stopped(event.broker_id, request.partitions, results)
            self._moves.replicas_stopped(event.broker_id, request.partitions, results)
        elif isinstance(request, replication.LeaderAndIsrRequest):
            self._topics.order_taken(event.broker_id, request, results)
            self._replicas_failed(event.broker_id, request, results)
            self._replicas_follow_again(event.broker_id, request, results)
            self._order_again(results)

    def _replicas_failed(
        self,
        broker_id: int,
        request: replication.LeaderAndIsrRequest,
        results: list[replication.ReplicaResult],
    ) -> None:
        """Take failed replicas out of ISRs. One that its leader has taken out of the ISR since is
        asked again: it may have refused because the order named it there, and no other order would
        follow."""
        named = {(o.topic, o.partition) for o in request.partitions if broker_id in o.isr}
        failed: list[ClusterPartition] = []
        for result in results:
            if result.error_code != StorageError.code:
                continue
            partition = self._core.cluster.partition(result.topic, result.partition)
            phase = None if partition is None else partition.replica_phases.get(broker_id)
            if partition is None or phase is None or phase is ReplicaPhase.FAILED:
                continue
            partition.replica_phases[broker_id] = next_replica_phase(
                phase, ReplicaCause.STORAGE_FAILED
            )
            failed.append(partition)
        if failed:
            logger.warning("replicas_failed", broker_id=broker_id, replicas=len(failed))
            at_once(self._leadership.reconsider(failed))
        for partition in failed:
            state = partition.state
            if partition.topic_partition in named and state and broker_id not in state.isr:
                self._core.order_partition(partition)

    def _replicas_follow_again(
        self,
        broker_id: int,
        request: replication.LeaderAndIsrRequest,
        results: list[replication.ReplicaResult],
    ) -> None:
        """A replica that refused to lead, because its log is damaged, may follow: it is fetched
        again, and joins the ISR as any other. Only outside the ISR and under another leader, so
        that it is not elected and refuses again, round and round; and no longer in the ELR, since
        what it had is dropped now."""
        taken = {(r.topic, r.partition) for r in results if r.error_code == NO_ERROR}
        dropped: list[Change] = []
        for each in request.partitions:
            partition = self._core.cluster.partition(each.topic, each.partition)
            if partition is None or (each.topic, each.partition) not in taken:
                continue
            state, phase = partition.state, partition.replica_phases.get(broker_id)
            if (
                phase is ReplicaPhase.FAILED
                and state is not None
                and partition.topic.topic_id == each.topic_id
                and each.leader_epoch == state.leader_epoch
                and state.leader not in (NO_LEADER, broker_id)
                and broker_id not in state.isr
            ):
                partition.replica_phases[broker_id] = next_replica_phase(
                    phase, ReplicaCause.FOLLOWS_AGAIN
                )
                if broker_id in state.elr:
                    elr = tuple(member for member in state.elr if member != broker_id)
                    decision = Decision(state.leader, state.isr, elr, state.last_known_elr)
                    dropped.append((partition, decision))
        self._leadership.change(dropped)

    def _order_again(self, results: list[replication.ReplicaResult]) -> None:
        """Have orders repeated later that the broker could not carry out for single partitions, as
        while it clears away the replica of a deleted topic of the same name."""
        for result in results:
            if result.error_code in (NO_ERROR, StorageError.code, FencedLeaderEpochError.code):
                continue
            self._unheeded.add((result.topic, result.partition))
            self._order_again_at = self._core.now + ORDER_AGAIN_S

    # ---- requests and time

    def _request(self, event: RequestReceived) -> None:
        self._core.take_request(event)
        served = self._requests.get(type(event.request))
        if served is None:
            code = UnsupportedVersionError.code
            self._core.reply(event.request_id, refusal(event.request, code))
            return
        steps = served.serve(event, event.request)
        if steps is not None:
            self._begin(steps)

    def _table(self) -> dict[type[Request], _Served]:
        """Return who serves which request."""
        return {
            replication.AlterPartitionRequest: _Served(_by_id(self._isr.alter), True),
            replication.ControlledShutdownRequest: _Served(
                _by_id(self._leadership.controlled_shutdown), True
            ),
            transactions.AllocateProducerIdsRequest: _Served(
                _by_id(partial(allocate_producer_ids, self._core)), True
            ),
            broker_reports.BrokerReportRequest: _Served(self._reported, True),
            admin.CreateTopicsRequest: _Served(self._topics.create),
            admin.DeleteTopicsRequest: _Served(self._delete_topics),
            admin.CreatePartitionsRequest: _Served(self._topics.grow),
            admin.AlterConfigsRequest: _Served(self._configs.alter, True),
            admin.ElectLeadersRequest: _Served(_by_id(self._leadership.elect_leaders)),
            AlterBrokerStatesRequest: _Served(self._states.alter, True),
            BalanceRequest: _Served(self._balance.balance, True),
            acls.DescribeAclsRequest: _Served(self._acls.describe, True),
            acls.CreateAclsRequest: _Served(self._acls.create, True),
            acls.DeleteAclsRequest: _Served(self._acls.delete),
            users.DescribeUsersRequest: _Served(self._users.describe, True),
            users.AlterUsersRequest: _Served(self._users.alter),
            quotas.DescribeQuotasRequest: _Served(self._quotas.describe, True),
            quotas.AlterQuotasRequest: _Served(self._quotas.alter),
            moves.AlterPartitionReassignmentsRequest: _Served(self._move_requests.alter),
            moves.ListPartitionReassignmentsRequest: _Served(self._move_requests.describe, True),
        }

    def _reported(
        self, event: RequestReceived, request: broker_reports.BrokerReportRequest
    ) -> None:
        code = NO_ERROR
        try:
            self._reports.take(request, self._core.cluster.brokers, self._core.now)
        except ApiError as error:
            code = error.code
        self._core.reply(event.request_id, broker_reports.BrokerReportResponse(code))

    def _delete_topics(self, event: RequestReceived, request: admin.DeleteTopicsRequest) -> None:
        self._deletion.delete(event, request)
        self._executor.look_again()
        self._core.when_settled(self._topics.forget_topics)

    def _time_reached(self) -> Steps[None]:
        self._topics.expire()
        self._acknowledgements.expire()
        self._preloading.expire()
        yield from self._states.expire()
        yield from self._evacuation.expire()
        yield from self._auto_balance.expire()
        self._desk.go_on()
        if self._order_again_at is not None and self._order_again_at <= self._core.now:
            self._order_again_at = None
            for name, index in sorted(self._unheeded):
                partition = self._core.cluster.partition(name, index)
                if partition is not None and partition.state is not None:
                    self._core.order_partition(partition)
            self._unheeded.clear()
        due = self._leadership.rebalance_at
        if due is not None and due <= self._core.now:
            yield from self._leadership.rebalance()
        yield from self._core.describe()


def _by_id(serve: Callable[[int, Any], None]) -> Callable[[RequestReceived, Any], None]:
    """Return a server of requests for one that wants only the id to answer under."""
    return lambda event, request: serve(event.request_id, request)


def _epoch(cluster: ClusterState, broker_id: int) -> int:
    broker: BrokerRegistration | None = cluster.brokers.get(broker_id)
    return -1 if broker is None else broker.broker_epoch
