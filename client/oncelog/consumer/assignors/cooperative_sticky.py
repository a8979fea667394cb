"""Cooperative sticky moves as few partitions as sticky; members keep reading those that stay. Pure.
The default.

Rules
-----
* Members keep what they own while they join. A partition that one owns and another shall have is
  given to nobody in this round: its owner sees that it is gone, gives it up and joins again; the
  next round hands it over (KIP-429). So no partition is ever with two.
* Whoever says that it owns a partition may be reading it, also with the claim of an older
  generation or to a topic that it no longer wants: a partition is given out only when nobody claims
  it, or to the one member whose claim is the newest.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.consumer.assignors.base import Assignor, RebalanceProtocol, assignments
from oncelog.consumer.assignors.sticky import Claims, share_out
from oncelog_protocol.consumer_protocol import ConsumerAssignment, ConsumerSubscription
from oncelog_protocol.types import TopicPartition


class CooperativeStickyAssignor(Assignor):
    """The assignor follows the rules of this module."""

    name = "cooperative-sticky"
    protocol: RebalanceProtocol = "cooperative"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, ConsumerSubscription]
    ) -> dict[str, ConsumerAssignment]:
        """Assign partitions by the rules of the module."""
        claims = {
            member: (subscription.generation, subscription.owned)
            for member, subscription in members.items()
        }
        sole = _sole_owners(claims)
        shares = share_out(partitions, members, claims)
        return assignments(
            {
                member: [tp for tp in share if sole.get(tp, member) == member]
                for member, share in shares.items()
            }
        )


def _sole_owners(claims: Claims) -> dict[TopicPartition, str | None]:
    """Return the member with the newest claim of each claimed partition; None if two have it."""
    newest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(claims):
        generation, claimed = claims[member]
        for tp in dict.fromkeys(claimed):
            held = newest.get(tp)
            if held is None or held[0] < generation:
                newest[tp] = (generation, member)
            elif held[0] == generation:
                newest[tp] = (generation, None)
    return {tp: member for tp, (_, member) in newest.items()}
