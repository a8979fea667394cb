"""Brokers are taken out of service here, and back. Pure.

Rules
-----
* What was made of a broker stands in the store, so that it holds for every controller, and whether
  the broker is there or not. No node: it is active [M21].
* Whoever is out of service gives its leaderships up at once, so many a second, and stays in the
  ISRs [M20]. What only it could lead meanwhile goes as soon as somebody else can.
* A controller that is to drain gives its office up as well, when an active broker is there.
* A broker is decommissioned when it is in no replicas, and nothing of it has to be deleted any
  more; nobody waits for a dead one to delete. To decommission it is refused, before anything has
  changed, when fewer brokers would remain than some topic has replicas, or the disks of those would
  be too full [M22]. Its replicas are moved by ``evacuation``.
* Records are given up only of a broker that is not there, and by name [M23].
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from oncelog_controller import features, znodes
from oncelog_controller.balance.snapshot import Reason
from oncelog_controller.balance.turns import Work
from oncelog_controller.core import STEP_PARTITIONS, Core, Steps, at_once
from oncelog_controller.effects import Resign
from oncelog_controller.election import Decision
from oncelog_controller.evacuation import Evacuation
from oncelog_controller.events import RequestReceived
from oncelog_controller.leadership import Leadership
from oncelog_controller.move_executor import MoveExecutor
from oncelog_controller.moves import Moves
from oncelog_controller.plan_desk import PlanDesk
from oncelog_controller.replies import refusal
from oncelog_controller.state import ClusterPartition, OutOfService, Placement
from oncelog_controller.store import Create, Delete, Op, SetData
from oncelog_protocol.errors import (
    ApiError,
    BrokerIdNotRegisteredError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    PolicyViolationError,
)
from oncelog_protocol.messages.broker_states import (
    DECOMMISSIONED,
    DECOMMISSIONING,
    DRAINING,
    NAMED_MAX,
    NOBODY_ELSE,
    WANTED,
    AlterBrokerStatesRequest,
    AlterBrokerStatesResponse,
    HeldPartition,
)
from oncelog_protocol.messages.metadata import ACTIVE
from oncelog_protocol.types import NO_LEADER, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

GIVEN_UP_MAX = 200
"""Leaderships that are given up at once. Each is a write, an order, and a moment without a leader
for the clients of a partition."""

PAUSE_S = 1.0
"""The pause before the next ones, and before it is looked again whether a broker has come to its
end."""

NAMES_MAX = 5
"""Topics, or partitions, that a refusal names."""


class BrokerStates:
    """It serves AlterBrokerStates, and sees to it that what it has made of brokers comes true."""

    def __init__(
        self,
        core: Core,
        leadership: Leadership,
        moves: Moves,
        executor: MoveExecutor,
        evacuation: Evacuation,
        desk: PlanDesk,
    ) -> None:
        self._core = core
        self._leadership = leadership
        self._moves = moves
        self._executor = executor
        self._evacuation = evacuation
        self._desk = desk
        self._due: float | None = None

    @property
    def deadline(self) -> float | None:
        """Return when something is to be done, on the loop's clock; None for nothing."""
        return self._due

    def loaded(self) -> None:
        """The store was read: look at once who has to give something up."""
        self._due = self._core.now if self._core.cluster.out_of_service else None

    def look_again(self) -> None:
        """Something has happened: look soon whether somebody has to give something up."""
        if self._core.cluster.out_of_service and self._due is None:
            self._due = self._core.now + PAUSE_S

    def brokers_joined(self) -> None:
        """Brokers have registered: one of them may be the better controller."""
        self._core.when_settled(self._stand_back)

    def expire(self) -> Steps[None]:
        """Do what is due."""
        if self._due is None or self._due > self._core.now:
            return
        self._due = None
        given_up = yield from self._leadership.drain(GIVEN_UP_MAX, self._drain_soon)
        retiring = self._in_state(DECOMMISSIONING)
        if given_up == GIVEN_UP_MAX or retiring:
            self._due = self._core.now + PAUSE_S
        for broker_id in retiring:
            held = yield from self._holds_something(broker_id)
            if not held:
                self._retire(broker_id)

    # ---- requests

    def alter(self, event: RequestReceived, request: AlterBrokerStatesRequest) -> None:
        """Change the state of a broker, or only tell what would have to happen."""
        lost = self._checked(event, request)
        if lost is None:
            return
        retires = self._core.cluster.retires(request.broker_id)
        if request.wanted == DECOMMISSIONING and not retires:
            self._desk.ask(lambda: self._alter_if_it_fits(event, request))
        else:
            self._alter(event, request, lost, {})

    def _alter_if_it_fits(
        self, event: RequestReceived, request: AlterBrokerStatesRequest
    ) -> Work[None]:
        """Take a broker out for good when the others have room for what it has."""
        stays = yield from self._evacuation.forecast(request.broker_id)
        self._core.take_request(event)
        lost = self._checked(event, request, stays)
        if lost is not None:
            self._alter(event, request, lost, stays)

    def _checked(
        self,
        event: RequestReceived,
        request: AlterBrokerStatesRequest,
        stays: Mapping[TopicPartition, Reason] | None = None,
    ) -> list[ClusterPartition] | None:
        """Return the partitions whose records are given up; None when the request was refused."""
        try:
            self._check(request.broker_id, request.wanted)
            self._check_room(request.broker_id, stays or {})
            return self._to_lose(request)
        except ApiError as error:
            self._core.reply(event.request_id, refusal(request, error.code, str(error)))
            return None

    def _alter(
        self,
        event: RequestReceived,
        request: AlterBrokerStatesRequest,
        lost: list[ClusterPartition],
        stays: Mapping[TopicPartition, Reason],
    ) -> None:
        broker_id, wanted = request.broker_id, request.wanted
        known = self._core.cluster.out_of_service.get(broker_id)
        done = wanted == DECOMMISSIONING and known is not None and known.state == DECOMMISSIONED
        if request.validate_only:
            state = DECOMMISSIONED if done else wanted
            self._core.reply(event.request_id, self._described(broker_id, state, stays))
            return
        if not done and wanted != self._core.cluster.service_of(broker_id):
            taken = OutOfService(wanted, event.now_ms, event.asker)
            self._write(broker_id, None if wanted == ACTIVE else taken)
            self._core.when_settled(self._drain_now)
        if lost:
            self._core.when_settled(lambda: self._lose(broker_id, lost))
        self._core.when_settled(
            lambda: self._core.reply(event.request_id, self._now(broker_id, stays))
        )
        if broker_id == self._core.broker_id:
            self._core.when_settled(self._stand_back)

    def _check(self, broker_id: int, wanted: str) -> None:
        """:raises ApiError: the broker cannot be made what is wanted."""
        cluster = self._core.cluster
        if wanted not in WANTED:
            raise InvalidRequestError(
                f"a broker cannot be made {wanted[:40]!r}, only one of {', '.join(WANTED)}"
            )
        known = broker_id in cluster.brokers or broker_id in cluster.out_of_service
        if not known and not any(self._held_by(broker_id)):
            raise BrokerIdNotRegisteredError(f"there is no broker {broker_id}, nor was there one")
        if wanted == DRAINING and cluster.service_of(broker_id) == DECOMMISSIONED:
            raise InvalidRequestError(
                f"broker {broker_id} is decommissioned: make it active before anything else"
            )
        if wanted == DECOMMISSIONING and not cluster.retires(broker_id):
            self._check_remaining(broker_id)

    def _check_remaining(self, broker_id: int) -> None:
        """:raises InvalidReplicationFactorError: too few brokers would remain."""
        cluster = self._core.cluster
        remain = [b for b in sorted(cluster.brokers) if b != broker_id and not cluster.retires(b)]
        factors = {
            name: max((len(p.placement.target or p.replicas) for p in topic.partitions), default=0)
            for name, topic in sorted(cluster.topics.items())
        }
        larger = [f"{name} ({factor})" for name, factor in factors.items() if factor > len(remain)]
        if larger or not remain:
            named = ", ".join(larger[:NAMES_MAX])
            more = len(larger) - NAMES_MAX
            raise InvalidReplicationFactorError(
                f"without broker {broker_id} {len(remain)} brokers would remain"
                + (f", and these topics have more replicas: {named}" if larger else "")
                + (f" and {more} more" if more > 0 else "")
            )

    def _check_room(self, broker_id: int, stays: Mapping[TopicPartition, Reason]) -> None:
        """:raises PolicyViolationError: no other broker has room for some replicas."""
        full = [str(name) for name, reason in stays.items() if reason is Reason.NO_ROOM]
        if full:
            more = f" and {len(full) - NAMES_MAX} more" if len(full) > NAMES_MAX else ""
            percent = self._core.config.balance_disk_high_percent
            raise PolicyViolationError(
                f"without broker {broker_id} no disk has room, below {percent} %, for "
                f"{', '.join(full[:NAMES_MAX])}{more}: add a broker, or raise "
                "balance_disk_high_percent"
            )

    def _to_lose(self, request: AlterBrokerStatesRequest) -> list[ClusterPartition]:
        """Return the partitions whose records are given up.

        :raises InvalidRequestError: nothing has to be lost of one of them.
        :raises UnsupportedVersionError: a broker does not know that replicas can become others.
        """
        cluster, broker_id = self._core.cluster, request.broker_id
        if not request.accept_loss:
            return []
        if request.wanted != DECOMMISSIONING:
            raise InvalidRequestError("only a broker that is decommissioned may take records along")
        if broker_id in cluster.brokers:
            raise InvalidRequestError(
                f"broker {broker_id} is there: what it has can be copied, and need not be lost"
            )
        features.require_moves(cluster)
        found = []
        for each in request.accept_loss:
            partition = cluster.partition(each.topic, each.partition)
            if partition is None or not _lost_without(broker_id, partition):
                raise InvalidRequestError(
                    f"nothing would be lost of {each.topic}-{each.partition} without broker "
                    f"{broker_id}"
                )
            found.append(partition)
        return found

    def _write(self, broker_id: int, wanted: OutOfService | None) -> None:
        cluster, path = self._core.cluster, znodes.broker_state_path(broker_id)
        before = cluster.out_of_service.get(broker_id)
        op: Op
        if before is None:
            assert wanted is not None, "an active broker is made active"
            op = Create(path, znodes.encode_broker_state(wanted))
        elif wanted is None:
            op = Delete(path, before.version)
        else:
            op = SetData(path, znodes.encode_broker_state(wanted), before.version)
            wanted = replace(wanted, version=before.version + 1)

        def applied() -> None:
            cluster.take_out_of_service(broker_id, wanted)
            logger.info(
                "broker_state_changed",
                broker_id=broker_id,
                state=cluster.service_of(broker_id),
                by="" if wanted is None else wanted.by,
            )
            self._core.order_live_brokers()
            self._executor.brokers_changed({broker_id})
            if wanted is None:
                self._leadership.plan_rebalance()

        self._core.write([op], applied)

    def _drain_soon(self) -> None:
        self._due = self._core.now

    def _drain_now(self) -> None:
        self._drain_soon()
        at_once(self.expire())

    def _stand_back(self) -> None:
        """Give the office up if this broker is out of service, and another one is not."""
        cluster, own = self._core.cluster, self._core.broker_id
        others = [b for b in cluster.brokers if b != own and b not in cluster.out_of_service]
        if own in cluster.out_of_service and any(cluster.may_join(b) for b in others):
            self._core.emit(Resign("this broker is out of service"))

    # ---- the end of a broker

    def _retire(self, broker_id: int) -> None:
        known = self._core.cluster.out_of_service[broker_id]
        self._write(broker_id, OutOfService(DECOMMISSIONED, known.since_ms, known.by))

    def _in_state(self, state: str) -> list[int]:
        known = self._core.cluster.out_of_service
        return [broker_id for broker_id, taken in known.items() if taken.state == state]

    def _held_by(self, broker_id: int) -> Iterator[ClusterPartition]:
        """Yield the partitions of which a broker may have data."""
        for partition in self._core.cluster.partitions():
            if broker_id in partition.placement.holders:
                yield partition

    def _holds_something(self, broker_id: int) -> Steps[bool]:
        """Return whether a broker has a replica, or is there and has data to delete. One that is
        not there deletes what it has when it comes back, whatever its state is then."""
        is_there = broker_id in self._core.cluster.brokers
        for number, partition in enumerate(list(self._core.cluster.partitions())):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            placement = partition.placement
            if broker_id in (placement.holders if is_there else placement.replicas):
                return True
        return False

    def _lose(self, broker_id: int, partitions: Collection[ClusterPartition]) -> None:
        """Have partitions begin anew without a broker: with what its other replicas have, else
        empty elsewhere."""
        changes = []
        for partition in partitions:
            began = self._without(broker_id, partition)
            if began is not None:
                changes.append((partition, *began))
        logger.warning("partitions_given_up", broker_id=broker_id, partitions=len(changes))
        self._moves.replace(changes)

    def _without(
        self, broker_id: int, partition: ClusterPartition
    ) -> tuple[Decision, Placement] | None:
        """Return how a partition begins anew, None while nobody can lead it."""
        cluster, placement = self._core.cluster, partition.placement
        candidates = self._leadership.candidates(partition)
        stay = [b for b in placement.replicas if b != broker_id]
        able = [b for b in stay if candidates.able(b)]
        loads = cluster.leader_counts()
        fresh = [b for b in cluster.places(1) if b not in placement.replicas]
        fresh.sort(key=lambda b: loads.get(b, 0))
        if len(stay) < len(placement.originals):
            stay += fresh[:1]
        leader = next((b for b in (*able, *fresh) if b in stay), NO_LEADER)
        if leader == NO_LEADER:
            return None
        leaving = tuple(b for b in (*placement.leaving, broker_id) if b not in stay)
        return Decision(leader, (leader,), unclean=True), Placement(tuple(stay), leaving=leaving)

    # ---- what is left

    def _now(
        self, broker_id: int, stays: Mapping[TopicPartition, Reason]
    ) -> AlterBrokerStatesResponse:
        return self._described(broker_id, self._core.cluster.service_of(broker_id), stays)

    def _described(
        self, broker_id: int, state: str, stays: Mapping[TopicPartition, Reason]
    ) -> AlterBrokerStatesResponse:
        """Return what has yet to happen to a broker that is to be ``state``."""
        cluster = self._core.cluster
        known = cluster.out_of_service.get(broker_id)
        answer = AlterBrokerStatesResponse(state=state)
        if known is not None:
            answer.since_ms, answer.by = known.since_ms, known.by
        if state == ACTIVE:
            return answer
        leaders, replicas, lost = _Named(), _Named(), _Named()
        for partition in self._held_by(broker_id):
            name = partition.topic_partition
            if partition.leader == broker_id:
                leaders.add(name, "" if self._others_lead(broker_id, partition) else NOBODY_ELSE)
            if state in (DECOMMISSIONING, DECOMMISSIONED):
                replicas.add(name, self._evacuation.why_there(broker_id, partition, stays))
            if broker_id in partition.replicas and _lost_without(broker_id, partition):
                lost.add(name, "")
        answer.leaders_left, answer.leaders_left_count = leaders.named, leaders.count
        answer.replicas_left, answer.replicas_left_count = replicas.named, replicas.count
        answer.lost_with_it, answer.lost_with_it_count = lost.named, lost.count
        return answer

    def _others_lead(self, broker_id: int, partition: ClusterPartition) -> bool:
        """Return whether somebody else of the ISR may lead, and is not out of service."""
        state, draining = partition.state, self._core.cluster.out_of_service
        candidates = self._leadership.candidates(partition)
        return state is not None and any(
            b != broker_id and b not in draining and candidates.able(b) for b in state.isr
        )


class _Named:
    """It counts partitions, and names the first ones."""

    def __init__(self) -> None:
        self.named: list[HeldPartition] = []
        self.count = 0

    def add(self, name: TopicPartition, reason: str) -> None:
        """Count one."""
        self.count += 1
        if self.count <= NAMED_MAX:
            self.named.append(HeldPartition(*name, reason))


def _lost_without(broker_id: int, partition: ClusterPartition) -> bool:
    """Return whether nobody but that broker has all that is committed."""
    state = partition.state
    return state is not None and not {*state.isr, *state.elr} - {broker_id}
