"""The admin client takes brokers out of service and back, and says what holds them up.

A broker that is *draining* leads nothing that another broker in sync can lead, so that it can be
stopped without anybody's notice. One that is *decommissioning* is to lose its replicas as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls
from oncelog_protocol.messages import broker_states as wire
from oncelog_protocol.messages.broker_states import (
    DECOMMISSIONED,
    DECOMMISSIONING,
    DRAINING,
    NOBODY_ELSE,
    NOT_PLANNED,
    PASSES,
)
from oncelog_protocol.messages.metadata import ACTIVE
from oncelog_protocol.types import TopicPartition

__all__ = [
    "ACTIVE",
    "DECOMMISSIONED",
    "DECOMMISSIONING",
    "DRAINING",
    "NOBODY_ELSE",
    "NOT_PLANNED",
    "PASSES",
    "BrokerStateAdmin",
    "BrokerStateChange",
    "HeldBack",
]


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A partition keeps a broker from the end of its service."""

    partition: TopicPartition
    reason: str = ""
    """It says why, for people; "": nothing is in the way but time."""

    @property
    def passes(self) -> bool:
        """Return whether time alone mends it; otherwise somebody has to act."""
        return self.reason in PASSES


@dataclass(frozen=True, slots=True)
class BrokerStateChange:
    """It says what a broker is now, or would be, and what has yet to happen.

    The lists name the first partitions, and the counts are of all.
    """

    broker_id: int
    state: str
    since_ms: int
    """Somebody has wanted the state since then: wall clock, in ms since 1970; 0 while active."""
    by: str
    """The principal that has wanted it; "" while active."""
    leaders_left: Sequence[HeldBack]
    """The broker leads these."""
    leaders_left_count: int
    replicas_left: Sequence[HeldBack]
    """It has replicas of these, or data that is to be deleted; only while it is to lose them."""
    replicas_left_count: int
    lost_with_it: Sequence[HeldBack]
    """Nobody else has a whole copy of these."""
    lost_with_it_count: int


class BrokerStateAdmin(AdminCalls):
    """It is the admin client's part for the service of brokers."""

    async def alter_broker_states(
        self,
        broker_id: int,
        state: str,
        *,
        accept_loss: Iterable[TopicPartition] = (),
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> BrokerStateChange:
        """Make a broker draining, decommissioning or active; the cluster remembers it.

        It returns when that is in the store, and the first leaderships have moved; the others
        follow, so many a second. Ask again with ``validate_only`` to see how far it is.

        :param state: ``DRAINING``, ``DECOMMISSIONING`` or ``ACTIVE``.
        :param accept_loss: the records of these partitions may be lost. It is for a broker that is
            not there and is decommissioned, and for partitions of which nobody else has all.
        :param validate_only: change nothing, and say what would have to happen.
        :raises BrokerIdNotRegisteredError: there is no such broker, nor was there one.
        :raises InvalidReplicationFactorError: too few brokers would remain for some topics.
        :raises InvalidRequestError: there is no such state, or nothing would be lost.
        """
        lost = [wire.LostPartition(*TopicPartition(*tp)) for tp in accept_loss]
        request = wire.AlterBrokerStatesRequest(broker_id, state, lost, validate_only)
        response = await self._on_controller(request, timeout_ms)
        return BrokerStateChange(
            broker_id,
            response.state,
            response.since_ms,
            response.by,
            _held(response.leaders_left),
            response.leaders_left_count,
            _held(response.replicas_left),
            response.replicas_left_count,
            _held(response.lost_with_it),
            response.lost_with_it_count,
        )


def _held(partitions: Iterable[wire.HeldPartition]) -> tuple[HeldBack, ...]:
    return tuple(
        HeldBack(TopicPartition(each.topic, each.partition), each.reason) for each in partitions
    )
