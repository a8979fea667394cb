"""Brokers that are being decommissioned lose their replicas here, without another command. Pure.

Rules
-----
* Whatever has a replica on such a broker is planned for by the planner, whoever is controller, and
  again whenever brokers have changed, or a replica was left over: every some seconds at first, less
  often when nothing comes of it [M24].
* A wish to place a replica on such a broker gets another target, whoever had it.
* When a broker is back in service, what was to leave it by such a plan turns back [M9]. A plan
  names the brokers that it is for, so that every controller knows.
* Each replica that stays has a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog_controller.automatic_plans import AutomaticPlans
from oncelog_controller.balance.snapshot import BalancePlan, Purpose, Reason, Wish
from oncelog_controller.balance.turns import Work
from oncelog_controller.balance_view import Assumptions, placed
from oncelog_controller.core import LOOKED_AT_ONCE, Core, Steps
from oncelog_controller.move_executor import NEXT, MoveExecutor
from oncelog_controller.move_nodes import MoveWish, Priority
from oncelog_controller.move_plans import MovePlans
from oncelog_controller.plan_desk import PlanDesk
from oncelog_controller.state import BrokerRegistration, ClusterPartition, OutOfService
from oncelog_protocol.messages.broker_states import (
    DECOMMISSIONING,
    HAS_DATA,
    MOVES,
    NOT_PLANNED,
    QUEUED,
)
from oncelog_protocol.types import NO_LEADER, TopicPartition

AGAIN_S = 10.0
"""How soon it is looked again for replicas that have to go."""
AGAIN_MAX_S = 300.0
"""How soon at least, when nothing came of the last looks."""

OVERRULING = Assumptions(overruling=True)


class Evacuation:
    """It plans the moves of replicas that have to leave their brokers."""

    def __init__(
        self,
        core: Core,
        plans: MovePlans,
        executor: MoveExecutor,
        making: AutomaticPlans,
        desk: PlanDesk,
    ) -> None:
        self._core = core
        self._plans = plans
        self._executor = executor
        self._making = making
        self._desk = desk
        self._brokers: Mapping[int, BrokerRegistration] | None = None
        """Those that were registered when it was looked last; None: look at everything."""
        self._services: dict[int, OutOfService] = {}
        """Those that were out of service then."""
        self._planning = False
        """A plan of this is on the desk."""
        self._due: float | None = None
        self._pause = AGAIN_S
        self._stays: dict[TopicPartition, Reason] = {}
        """What the last plan could not place elsewhere."""

    @property
    def deadline(self) -> float | None:
        """Return when something is to be done, on the loop's clock; None for nothing."""
        if self._planning:
            return None
        return self._core.now if self._changed() else self._due

    def loaded(self) -> None:
        """The store was read: look at everything."""
        self._brokers = None
        self._stays = {}

    def expire(self) -> Steps[None]:
        """Do what is due."""
        if self._planning:
            return
        core, cluster = self._core, self._core.cluster
        if self._changed():
            self._brokers, self._services = cluster.brokers, dict(cluster.out_of_service)
            self._pause, self._due = AGAIN_S, core.now
            yield from self._turn_back()
        if self._due is None or self._due > core.now:
            return
        self._due = None
        if not any(taken.state == DECOMMISSIONING for taken in self._services.values()):
            self._stays = {}
            return
        if (yield from self._something_is_left()):
            self._planning = True
            self._desk.ask(self._evacuate)
        else:
            self._due = core.now + AGAIN_S

    def _changed(self) -> bool:
        cluster = self._core.cluster
        return self._brokers is not cluster.brokers or self._services != cluster.out_of_service

    def _something_is_left(self) -> Steps[bool]:
        """Return whether a partition has a replica that has to go, and no plan for it."""
        cluster = self._core.cluster
        retiring = {b for b, taken in self._services.items() if taken.retires}
        for number, partition in enumerate(list(cluster.partitions()), start=1):
            if number % LOOKED_AT_ONCE == 0:
                yield
            wanted = self._plans.wanted.get(partition.topic_partition)
            replicas, target = placed(cluster, partition, wanted, OVERRULING)
            if not retiring.isdisjoint(target or replicas) and partition.leader != NO_LEADER:
                return True
        return False

    def _evacuate(self) -> Work[None]:
        """Plan for all that is left, and have the plan kept."""
        core, cluster = self._core, self._core.cluster
        made = yield from self._making.made(OVERRULING, Wish(Purpose.EVACUATE))
        self._stays = _held_up(made)
        wishes = self._making.wishes(made, OVERRULING)
        self._pause = AGAIN_S if wishes else min(2 * self._pause, AGAIN_MAX_S)
        self._due = core.now + self._pause
        self._planning = False
        retiring = tuple(b for b in sorted(cluster.out_of_service) if cluster.retires(b))
        reason = f"to be decommissioned: {_names(retiring)}"
        yield from self._making.keep(wishes, reason, Priority.EVACUATE, retiring)

    # ---- back in service

    def _turn_back(self) -> Steps[None]:
        """Cancel what was to leave brokers that stay."""
        cluster, back = self._core.cluster, set[int]()
        wishes: list[MoveWish] = []
        for number, (name, wanted) in enumerate(list(self._plans.wanted.items()), start=1):
            if number % LOOKED_AT_ONCE == 0:
                yield
            partition = cluster.partition(*name)
            if not wanted.plan.evacuates or partition is None:
                continue
            originals, target = partition.placement.originals, wanted.wish.target
            stays = {
                b
                for b in wanted.plan.evacuates
                if b in originals and b not in target and not cluster.retires(b)
            }
            if stays and partition.topic.topic_id == wanted.wish.topic_id:
                back |= stays
                wishes.append(wanted.wish._replace(target=originals))
        reason = f"back in service: {_names(sorted(back))}"
        yield from self._making.keep(wishes, reason, Priority.EVACUATE)

    # ---- what stays

    def forecast(self, broker_id: int) -> Work[Mapping[TopicPartition, Reason]]:
        """Return what could not be placed elsewhere if a broker left now, and why."""
        assumed = Assumptions(leaving=frozenset({broker_id}), overruling=True)
        made = yield from self._making.made(assumed, Wish(Purpose.EVACUATE))
        return {
            name: reason
            for name, reason in _held_up(made).items()
            if (partition := self._core.cluster.partition(*name)) is not None
            and broker_id in partition.replicas
        }

    def why_there(
        self, broker_id: int, partition: ClusterPartition, stays: Mapping[TopicPartition, Reason]
    ) -> str:
        """Return why a broker that leaves has data of a partition; one of ``PASSES`` when time
        alone is in the way.

        :param stays: what no plan can place elsewhere, beyond what the last one has found.
        """
        name, placement = partition.topic_partition, partition.placement
        if broker_id in placement.leaving:
            return HAS_DATA
        if placement.target and broker_id not in placement.target:
            if self._executor.is_stalled(name):
                return f"its move is held up: {self._executor.hindrance(partition)}"
            return MOVES
        wanted = self._plans.wanted.get(name)
        if wanted is not None and broker_id not in wanted.wish.target:
            reason = self._executor.waits_for(name)
            return QUEUED if reason == NEXT else f"its move cannot begin: {reason}"
        if partition.leader == NO_LEADER:
            return Reason.NO_LEADER.value
        stuck = stays.get(name) or self._stays.get(name)
        return NOT_PLANNED if stuck is None else stuck.value


def _held_up(made: BalancePlan) -> dict[TopicPartition, Reason]:
    """Return what a plan leaves where it is, but for what moves by another one."""
    return {
        TopicPartition(each.topic, each.index): each.reason
        for each in made.held_up
        if each.reason is not Reason.MOVING
    }


def _names(brokers: Iterable[int]) -> str:
    return ", ".join(f"broker {broker_id}" for broker_id in brokers)
