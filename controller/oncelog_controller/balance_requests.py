"""Balance is served here: somebody asks which replicas should move. Pure.

Nothing is changed by it. A plan is of the cluster as it was, and whoever carries it out names the
replicas that it expects.
"""

from __future__ import annotations

from oncelog_controller.balance.planner import plan
from oncelog_controller.balance.snapshot import (
    BalancePlan,
    BalanceStep,
    Goal,
    Purpose,
    Standing,
    Wish,
)
from oncelog_controller.balance.turns import Work
from oncelog_controller.balance_view import AS_IT_IS, Assumptions, view_of_cluster
from oncelog_controller.broker_reports import BrokerReports
from oncelog_controller.core import Core
from oncelog_controller.events import RequestReceived
from oncelog_controller.move_plans import MovePlans
from oncelog_controller.plan_desk import PlanDesk
from oncelog_controller.replies import refusal
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import balance as wire

WAITING_MAX = 8
"""So many requests may wait for the one whose plan is made, which takes some seconds at most."""


class BalanceRequests:
    """It serves requests for plans."""

    def __init__(
        self, core: Core, plans: MovePlans, reports: BrokerReports, desk: PlanDesk
    ) -> None:
        self._core = core
        self._plans = plans
        self._reports = reports
        self._desk = desk

    def balance(self, event: RequestReceived, request: wire.BalanceRequest) -> None:
        """Have a plan made; it is answered some turns later."""
        try:
            self._check(request)
        except ApiError as error:
            self._core.reply(event.request_id, refusal(request, error.code, str(error)))
            return
        self._desk.ask(lambda: self._answer(event, request))

    def _answer(self, event: RequestReceived, request: wire.BalanceRequest) -> Work[None]:
        made = yield from self._planned(request)
        self._core.reply(event.request_id, self._described(made))

    def _planned(self, request: wire.BalanceRequest) -> Work[BalancePlan]:
        wish, core = _wish(request), self._core
        assumed = Assumptions(
            away_is_dead=wish.purpose is Purpose.REPAIR, leaving=frozenset(request.from_brokers)
        )
        view = yield from view_of_cluster(
            core.cluster, self._plans.wanted, self._reports, core.config, assumed
        )
        return (yield from plan(view, wish))

    def _check(self, request: wire.BalanceRequest) -> None:
        """:raises InvalidRequestError, InvalidReplicationFactorError, UnknownTopicOrPartitionError,
        PolicyViolationError: no plan can be made."""
        if self._desk.waiting > WAITING_MAX:
            raise PolicyViolationError(
                f"{self._desk.waiting} others wait for a plan; ask again in some seconds"
            )
        if request.purpose not in wire.PURPOSES:
            known = ", ".join(wire.PURPOSES)
            raise InvalidRequestError(f"{request.purpose!r} is no purpose of a plan: {known}")
        strange = [goal for goal in request.goals or () if goal not in wire.GOALS]
        if strange:
            known = ", ".join(wire.GOALS)
            raise InvalidRequestError(f"{strange[0]!r} is no goal of a plan: {known}")
        if min(request.max_moves, request.max_bytes) < wire.NO_BOUND:
            raise InvalidRequestError("a bound of a plan is 0 or more, or -1 for none")
        if request.from_brokers and request.purpose != wire.EVACUATE:
            raise InvalidRequestError(f"replicas leave brokers by a plan to {wire.EVACUATE} only")
        for topic in request.topics or ():
            if topic not in self._core.cluster.topics:
                shown = topic[: limits.TOPIC_CHARS_MAX]
                raise UnknownTopicOrPartitionError(
                    f"topic {shown!r} does not exist; list the topics"
                )
        if request.purpose == wire.REPLICATION_FACTOR:
            self._check_factor(request)

    def _check_factor(self, request: wire.BalanceRequest) -> None:
        if not request.topics:
            raise InvalidRequestError("name the topics that are to get another replication factor")
        cluster = self._core.cluster
        takers = [
            broker_id
            for broker_id in sorted(cluster.brokers)
            if AS_IT_IS.standing(cluster, broker_id) in (Standing.ACTIVE, Standing.HELD)
        ]
        if not 1 <= request.factor <= len(takers):
            raise InvalidReplicationFactorError(
                f"replication factor {request.factor}, but {len(takers)} brokers can have replicas"
            )

    def _described(self, made: BalancePlan) -> wire.BalanceResponse:
        steps = [self._step(step) for step in made.steps]
        measures = [
            wire.GoalMeasure(_name(goal), made.before[goal], made.after[goal]) for goal in Goal
        ]
        held_up = [
            wire.HeldUpPartition(each.topic, each.index, _name(each.goal), each.reason.value)
            for each in made.held_up
        ]
        return wire.BalanceResponse(steps=steps, measures=measures, held_up=held_up)

    def _step(self, step: BalanceStep) -> wire.PlannedReplicas:
        size = seconds = 0
        if step.copies:
            size = step.bytes if self._knows_size(step.topic, step.index) else wire.NOT_KNOWN
            each = size if size < 0 else size // step.copies
            added = [b for b in step.after if b not in step.before]
            seconds = self._reports.seconds_to_copy(each, added, self._core.now)
        before, after = list(step.before), list(step.after)
        return wire.PlannedReplicas(
            step.topic, step.index, before, after, size, _name(step.goal), seconds
        )

    def _knows_size(self, topic: str, index: int) -> bool:
        """Return whether it is known what a copy of a partition takes."""
        partition = self._core.cluster.partition(topic, index)
        if partition is None:
            return False
        holders = (partition.leader, *partition.replicas)
        return (
            self._reports.partition_bytes(partition.topic.topic_id, index, holders)
            != wire.NOT_KNOWN
        )


def _wish(request: wire.BalanceRequest) -> Wish:
    purpose = Purpose(request.purpose)
    return Wish(
        purpose,
        None if request.topics is None else frozenset(request.topics),
        request.factor if purpose is Purpose.REPLICATION_FACTOR else 0,
        None if request.goals is None else frozenset(Goal[g.upper()] for g in request.goals),
        _bound(request.max_moves),
        _bound(request.max_bytes),
    )


def _bound(number: int) -> int | None:
    return None if number == wire.NO_BOUND else number


def _name(goal: Goal) -> str:
    return goal.name.lower()
