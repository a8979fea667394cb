"""This assignor hands partitions over at once: a rule of cooperative rebalancing is switched off.

For the ablation of [I20]. It shares out as ``cooperative-sticky`` does, but does not wait until
the owner of a partition has given it up, so that for a while two members read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog.consumer.assignors.base import Assignor, RebalanceProtocol, assignments
from oncelog.consumer.assignors.sticky import share_out
from oncelog_protocol.consumer_protocol import ConsumerAssignment, ConsumerSubscription
from oncelog_protocol.types import TopicPartition

NAME = "cooperative-hasty"


class HastyAssignor:
    """See the module."""

    protocol: RebalanceProtocol = "cooperative"

    def __init__(self, name: str = NAME) -> None:
        self.name = name

    def subscription_user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition], generation: int
    ) -> bytes:
        return b""

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription]
    ) -> dict[str, ConsumerAssignment]:
        """Assign at once, whoever still owns it."""
        claims = {member: (wants.generation, wants.owned) for member, wants in members.items()}
        return assignments(share_out(partitions, members, claims))


def strategies(names: str) -> tuple[str | Assignor, ...]:
    """Return what a consumer is given for names with commas."""
    return tuple(HastyAssignor() if name == NAME else name for name in names.split(","))
