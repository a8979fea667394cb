"""Plans that nobody has asked for are made here, and kept as those that somebody has. Pure."""

from __future__ import annotations

from oncelog_controller.balance.planner import plan
from oncelog_controller.balance.snapshot import BalancePlan, BalanceSnapshot, BalanceStep, Wish
from oncelog_controller.balance.turns import Work
from oncelog_controller.balance_view import Assumptions, placed, view_of_cluster
from oncelog_controller.broker_reports import BrokerReports
from oncelog_controller.core import Core, Steps
from oncelog_controller.move_executor import MoveExecutor
from oncelog_controller.move_nodes import MoveWish, PlanHead, Priority
from oncelog_controller.move_plans import MovePlans


class AutomaticPlans:
    """It asks the planner for the controller itself."""

    def __init__(
        self, core: Core, plans: MovePlans, executor: MoveExecutor, reports: BrokerReports
    ) -> None:
        self._core = core
        self._plans = plans
        self._executor = executor
        self._reports = reports

    def seen(self, assumed: Assumptions) -> Work[BalanceSnapshot]:
        """Return what the planner sees."""
        core = self._core
        return (
            yield from view_of_cluster(
                core.cluster, self._plans.wanted, self._reports, core.config, assumed
            )
        )

    def made(self, assumed: Assumptions, wish: Wish) -> Work[BalancePlan]:
        """Return a plan for the cluster as it is."""
        view = yield from self.seen(assumed)
        return (yield from plan(view, wish))

    def wishes(self, made: BalancePlan, assumed: Assumptions) -> list[MoveWish]:
        """Return what a plan wants, but for partitions that are not what the planner has seen."""
        found = (self._wish(step, assumed) for step in made.steps)
        return [wish for wish in found if wish is not None]

    def _wish(self, step: BalanceStep, assumed: Assumptions) -> MoveWish | None:
        cluster = self._core.cluster
        partition = cluster.partition(step.topic, step.index)
        if partition is None:
            return None
        wanted = self._plans.wanted.get(partition.topic_partition)
        if placed(cluster, partition, wanted, assumed) != (step.before, ()):
            return None
        return MoveWish(step.topic, partition.topic.topic_id, step.index, step.after)

    def keep(
        self,
        wishes: list[MoveWish],
        reason: str,
        priority: Priority,
        evacuates: tuple[int, ...] = (),
    ) -> Steps[None]:
        """Have wishes kept as a plan; without any there is none.

        :param evacuates: see :attr:`PlanHead.evacuates`.
        """
        if not wishes:
            return
        head = PlanHead(
            self._plans.next_id(),
            "",
            reason,
            self._core.wall_ms,
            keep_replication_factor=False,
            priority=priority,
            evacuates=evacuates,
        )
        yield from self._plans.add(head, wishes)
        self._executor.look_again()
