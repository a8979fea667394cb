"""The option ``partition_assignment_strategy`` is turned into assignors, the best first. Pure.

A member joins cooperatively only if all its assignors are cooperative: before the group has chosen
it cannot know whether it may keep what it has. So a group moves from an eager to a cooperative one
in two rolling restarts: first both are named, then the eager one is left out (KIP-429).
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.consumer.assignors.base import Assignor, RebalanceProtocol
from oncelog.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from oncelog.consumer.assignors.range import RangeAssignor
from oncelog.consumer.assignors.round_robin import RoundRobinAssignor
from oncelog.consumer.assignors.sticky import StickyAssignor
from oncelog.errors import ConfigurationError

AssignmentStrategy = str | Assignor | Sequence[str | Assignor]

ASSIGNORS: dict[str, type[Assignor]] = {
    "cooperative-sticky": CooperativeStickyAssignor,
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
}
_MEMBERS = ("name", "protocol", "subscription_user_data", "assign")


def make_assignors(strategy: AssignmentStrategy) -> tuple[Assignor, ...]:
    """Return the assignors that a strategy names, in its order.

    The group takes the first one that all its members have.

    :raises ConfigurationError: a name that is none, an object that is no assignor, a name twice,
        or nothing at all.
    """
    given = list(strategy) if isinstance(strategy, (list, tuple)) else [strategy]
    made = [_make(item) for item in given]
    names = [assignor.name for assignor in made]
    if not made or len(set(names)) < len(names):
        raise ConfigurationError(
            f"partition_assignment_strategy={names!r}: name at least one, and none twice"
        )
    return tuple(made)


def rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return "cooperative" if a member keeps what it owns while it joins, else "eager"."""
    cooperative = all(assignor.protocol == "cooperative" for assignor in assignors)
    return "cooperative" if cooperative else "eager"


def _make(item: object) -> Assignor:
    if isinstance(item, str):
        kind = ASSIGNORS.get(item)
        if kind is None:
            raise ConfigurationError(
                f"partition_assignment_strategy: {item!r} is not one of {', '.join(ASSIGNORS)},"
                " nor an assignor object"
            )
        return kind()
    if all(hasattr(item, name) for name in _MEMBERS) and not isinstance(item, type):
        assignor: Assignor = item  # type: ignore[assignment]
        if assignor.protocol in ("eager", "cooperative"):
            return assignor
    raise ConfigurationError(
        f"partition_assignment_strategy: {item!r:.200} is not an assignor: it needs"
        f" {', '.join(_MEMBERS)}, and protocol 'eager' or 'cooperative'"
    )
