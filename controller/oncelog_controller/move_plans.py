"""Plans of moves are kept here as the store has them, and wishes that ended are taken out. Pure.

Rules
-----
* A plan is in the store before anybody hears that it was taken, and before anything of it begins;
  the next controller reads it there [M14].
* A partition has one wish: that of the later plan. An older one goes from the store before the
  later one is begun, so that it does not come back when the later one is over [M15].
* Wishes that ended go some at a time, so that a plan is not written anew for each of them. A plan
  goes with the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog_controller import move_nodes
from oncelog_controller.core import Core, Steps, chunks
from oncelog_controller.move_nodes import WISHES_OF_NODE_MAX, MoveWish, PlanHead, PlanRead
from oncelog_controller.store import Create, Delete, Op, SetData
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

FORGET_S = 1.0
"""So long a wish that ended may stay in the store, together with others."""


class WantedMove(NamedTuple):
    """A plan wants something of a partition."""

    plan: PlanHead
    wish: MoveWish


@dataclass(slots=True)
class _Piece:
    """It is one node of a plan."""

    number: int
    version: int
    wishes: dict[TopicPartition, MoveWish]
    """Those that are in the store."""
    ended: set[TopicPartition] = field(default_factory=set)

    def left(self) -> list[MoveWish]:
        """Return the wishes that have not ended."""
        return [wish for name, wish in self.wishes.items() if name not in self.ended]

    def written(self, gone: Iterable[TopicPartition]) -> None:
        """Note that the node was written without these wishes."""
        self.version += 1
        for name in gone:
            del self.wishes[name]
        self.ended.difference_update(gone)


@dataclass(slots=True)
class _Plan:
    head: PlanHead
    pieces: list[_Piece]
    """The first one is the plan's own node."""

    @property
    def is_over(self) -> bool:
        """Return whether all wishes have ended."""
        return all(len(piece.ended) == len(piece.wishes) for piece in self.pieces)

    def end(self, name: TopicPartition) -> None:
        """Note that the wish for a partition has ended."""
        for piece in self.pieces:
            if name in piece.wishes:
                piece.ended.add(name)


class MovePlans:
    """It keeps the plans of a cluster."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._plans: dict[str, _Plan] = {}
        self._wanted: dict[TopicPartition, WantedMove] = {}
        self._dirty: set[str] = set()
        """Plans with wishes that ended and are in the store."""
        self._count = 0
        """So many plans were taken in this term."""
        self.forget_at: float | None = None
        """Until then ended wishes are gathered, on the loop's clock; None: there are none."""

    @property
    def wanted(self) -> Mapping[TopicPartition, WantedMove]:
        """Return what is wanted of each partition."""
        return self._wanted

    @property
    def heads(self) -> list[PlanHead]:
        """Return all plans, in the order in which they were taken."""
        return sorted((plan.head for plan in self._plans.values()), key=lambda head: head.order)

    def loaded(self, plans: Iterable[PlanRead]) -> None:
        """The store was read: take in its plans. What a later one has made void goes."""
        self._plans.clear()
        self._wanted.clear()
        self._dirty.clear()
        self.forget_at = None
        for read in sorted(plans, key=lambda each: each.head.order):
            pieces = [
                _Piece(piece.number, piece.version, {wish.name: wish for wish in piece.wishes})
                for piece in sorted(read.pieces)
            ]
            plan = _Plan(read.head, pieces)
            self._plans[read.head.plan_id] = plan
            if plan.is_over:
                self._dirty.add(read.head.plan_id)
            for piece in pieces:
                for wish in piece.wishes.values():
                    self._want(read.head, wish)
        self.forget()

    def next_id(self) -> str:
        """Return an id for a new plan."""
        self._count += 1
        return move_nodes.plan_id(self._core.cluster.controller_epoch, self._count)

    def add(self, head: PlanHead, wishes: Sequence[MoveWish]) -> Steps[None]:
        """Order that a plan is written, a node at a time; it counts when it is."""
        assert wishes, "a plan wants something"
        plan = _Plan(head, [])
        for number, some in enumerate(chunks(wishes, WISHES_OF_NODE_MAX)):
            if number:
                yield
            self._add_piece(plan, number, some)
        for name in [wish.name for wish in wishes if wish.name in self._wanted]:
            self._end(name)
        self.forget()

    def _add_piece(self, plan: _Plan, number: int, wishes: Sequence[MoveWish]) -> None:
        head = plan.head
        data = move_nodes.encode_wishes(wishes)
        if number == 0:
            data = move_nodes.encode_plan(head, wishes)

        def applied() -> None:
            plan.pieces.append(_Piece(number, 0, {wish.name: wish for wish in wishes}))
            for wish in wishes:
                self._want(head, wish)
            if number == 0:
                self._plans[head.plan_id] = plan
                logger.info("move_plan_taken", plan_id=head.plan_id, reason=head.reason)

        self._core.write([Create(move_nodes.plan_path(head.plan_id, number), data)], applied)

    def _want(self, head: PlanHead, wish: MoveWish) -> None:
        if wish.name in self._wanted:
            self._end(wish.name)
        self._wanted[wish.name] = WantedMove(head, wish)

    # ---- what is over

    def end(self, name: TopicPartition) -> None:
        """Note that nothing more is wanted of a partition; the store hears of it soon."""
        self._end(name)
        if self.forget_at is None:
            self.forget_at = self._core.now + FORGET_S

    def _end(self, name: TopicPartition) -> None:
        plan_id = self._wanted.pop(name).plan.plan_id
        self._plans[plan_id].end(name)
        self._dirty.add(plan_id)

    def forget_if_due(self) -> None:
        """Take ended wishes out of the store when they were gathered for long enough, or when a
        plan is over."""
        over = any(self._plans[each].is_over for each in self._dirty)
        if over or (self.forget_at is not None and self.forget_at <= self._core.now):
            self.forget()

    def forget(self) -> None:
        """Take ended wishes out of the store."""
        for plan_id in sorted(self._dirty):
            plan = self._plans[plan_id]
            if plan.is_over:
                self._remove(plan)
                continue
            for piece in plan.pieces:
                if piece.ended:
                    self._rewrite(plan, piece)
        self._dirty.clear()
        self.forget_at = None

    def _remove(self, plan: _Plan) -> None:
        plan_id = plan.head.plan_id
        ops: list[Op] = [
            Delete(move_nodes.plan_path(plan_id, piece.number), piece.version)
            for piece in reversed(plan.pieces)
        ]

        def applied() -> None:
            del self._plans[plan_id]
            logger.info("move_plan_over", plan_id=plan_id)

        self._core.write(ops, applied)

    def _rewrite(self, plan: _Plan, piece: _Piece) -> None:
        left, gone = piece.left(), frozenset(piece.ended)
        path = move_nodes.plan_path(plan.head.plan_id, piece.number)
        if piece.number == 0:
            data = move_nodes.encode_plan(plan.head, left)
        elif left:
            data = move_nodes.encode_wishes(left)
        else:
            self._core.write([Delete(path, piece.version)], lambda: plan.pieces.remove(piece))
            return
        self._core.write([SetData(path, data, piece.version)], lambda: piece.written(gone))
