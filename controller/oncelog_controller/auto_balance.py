"""The controller makes brokers alike by itself here, when ``balance_watch`` says so. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_controller.automatic_plans import AutomaticPlans
from oncelog_controller.balance.planner import distances
from oncelog_controller.balance.snapshot import Goal, Purpose, Standing, Wish
from oncelog_controller.balance.turns import Work
from oncelog_controller.balance_view import AS_IT_IS, Assumptions, internal_factors, placed
from oncelog_controller.balance_watch import BalanceWatch, ClusterLook, Occasion
from oncelog_controller.core import LOOKED_AT_ONCE, Core, Steps
from oncelog_controller.move_nodes import Priority
from oncelog_controller.move_plans import MovePlans
from oncelog_controller.moves import Moves
from oncelog_controller.plan_desk import PlanDesk
from oncelog_controller.state import BrokerRegistration, OutOfService
from oncelog_protocol.types import NO_LEADER
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

JOINED_GOALS = frozenset(Goal) - {Goal.BYTES, Goal.WRITES}
"""A broker that was added gets replicas for these."""


class AutoBalance:
    """It makes plans that nobody has asked for."""

    def __init__(
        self, core: Core, plans: MovePlans, moves: Moves, making: AutomaticPlans, desk: PlanDesk
    ) -> None:
        self._core = core
        self._plans = plans
        self._moves = moves
        self._making = making
        self._desk = desk
        self._watch = BalanceWatch()
        self._brokers: Mapping[int, BrokerRegistration] | None = None
        self._services: dict[int, OutOfService] = {}
        self._planning = False

    @property
    def deadline(self) -> float | None:
        """Return when something is to be done, on the loop's clock; None for nothing."""
        if self._planning:
            return None
        return self._core.now if self._changed() else self._watch.due(self._core.config)

    def expire(self) -> Steps[None]:
        """Do what is due."""
        if self._planning:
            return
        core = self._core
        self._note_brokers()
        due = self._watch.due(core.config)
        if due is None or due > core.now:
            return
        look = yield from self._look()
        occasion = self._watch.decide(look, core.config, core.now)
        if occasion is not None:
            self._planning = True
            self._desk.ask(lambda: self._plan(occasion))

    def _changed(self) -> bool:
        cluster = self._core.cluster
        return self._brokers is not cluster.brokers or self._services != cluster.out_of_service

    def _note_brokers(self) -> None:
        cluster = self._core.cluster
        if self._changed():
            self._brokers, self._services = cluster.brokers, dict(cluster.out_of_service)
            lives = {b: registered.broker_epoch for b, registered in cluster.brokers.items()}
            serving = [b for b in lives if b not in cluster.out_of_service]
            self._watch.brokers_changed(lives, serving, self._core.now)

    def _look(self) -> Steps[ClusterLook]:
        """Go over all partitions once."""
        core, cluster = self._core, self._core.cluster
        factors = internal_factors(cluster, core.config)
        counts: dict[int, int] = {}
        leaderless = short = False
        for number, partition in enumerate(list(cluster.partitions()), start=1):
            if number % LOOKED_AT_ONCE == 0:
                yield
            wanted = self._plans.wanted.get(partition.topic_partition)
            replicas, target = placed(cluster, partition, wanted, AS_IT_IS)
            settled = target or replicas
            for broker_id in settled:
                counts[broker_id] = counts.get(broker_id, 0) + 1
            leaderless |= partition.leader == NO_LEADER
            short |= len(settled) < factors.get(partition.topic.name, 0)
        active = [b for b in cluster.brokers if AS_IT_IS.standing(cluster, b) is Standing.ACTIVE]
        return ClusterLook(
            {b: counts.get(b, 0) for b in active},
            frozenset(counts.keys() - cluster.brokers.keys()),
            leaderless,
            bool(self._plans.heads or self._moves.open),
            short,
        )

    def _plan(self, occasion: Occasion) -> Work[None]:
        """Plan for an occasion, and have the plan kept."""
        core = self._core
        assumed = Assumptions(dead=self._watch.dead(core.config, core.now))
        wish = Wish(Purpose.BALANCE, goals=JOINED_GOALS)
        if occasion is Occasion.REPAIR:
            wish = Wish(Purpose.REPAIR)
        elif occasion is Occasion.LOOK:
            wish = Wish(Purpose.BALANCE)
            if not (yield from self._is_off(assumed, wish)):
                self._planning = False
                return
        made = yield from self._making.made(assumed, wish)
        wishes = self._making.wishes(made, assumed)
        self._planning = False
        if wishes:
            logger.info("cluster_balanced", occasion=occasion.value, partitions=len(wishes))
        priority = Priority.REPAIR if occasion is Occasion.REPAIR else Priority.BALANCE
        reason = "brokers are not alike" if occasion is Occasion.LOOK else occasion.value
        yield from self._making.keep(wishes, reason, priority)

    def _is_off(self, assumed: Assumptions, wish: Wish) -> Work[bool]:
        """Return whether the cluster was off twice in a row."""
        view = yield from self._making.seen(assumed)
        found = yield from distances(view, wish)
        replicas = sum(len(partition.settled) for partition in view.partitions)
        tolerance = self._core.config.balance_tolerance_percent
        return self._watch.measured(found, len(view.partitions), replicas, tolerance)
