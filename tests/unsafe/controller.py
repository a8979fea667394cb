"""The controller lacks one of its rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from oncelog_controller.election import Decision
from oncelog_controller.life import AskLife, Life
from oncelog_controller.moving import Obstacle
from oncelog_controller.safeguards import ControllerSafeguards
from oncelog_controller.state import BrokerRegistration, ClusterPartition, Placement
from oncelog_controller.store import Op
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.metadata import ListenerAddress


class IncompleteTrusted(ControllerSafeguards):
    """A replica stays a member with what it has, and leads with that."""

    def untrusted(self, incomplete: frozenset[int]) -> frozenset[int]:
        """Return nobody."""
        return frozenset()

    def witnesses(
        self, brokers: Mapping[int, BrokerRegistration]
    ) -> Mapping[int, BrokerRegistration]:
        """Return none."""
        return {}


class LivesMixed(ControllerSafeguards):
    """What was true of a broker's earlier life lets its next one into the ISR."""

    def is_of_earlier_life(self, other: bool) -> bool:
        """Take it for the same."""
        return False


class AnybodyOrdered(ControllerSafeguards):
    """Orders go to whoever listens at the registered address."""

    def cluster(self, cluster_id: str) -> str:
        """Return no cluster."""
        return ""


async def _nobody(address: ListenerAddress, broker: Identity, broker_epoch: int) -> Life:
    return Life.GONE


class RegistrationsTakenOver(ControllerSafeguards):
    """A copy of a directory takes the original's place."""

    def asking(self, ask: AskLife) -> AskLife:
        """Ask nobody."""
        return _nobody


class Unfenced(ControllerSafeguards):
    """A controller that was paused goes on writing beside its successor."""

    def fence(self, check: Op) -> tuple[Op, ...]:
        """Check nothing."""
        return ()


class RefusalsProve(ControllerSafeguards):
    """Every refused connection counts at once."""

    def hears(self, accused: bool) -> bool:
        """Hear nobody."""
        return False


class NewcomersNotAwaited(ControllerSafeguards):
    """A move ends before the replicas that were added are in sync."""

    def ignored(self) -> Collection[Obstacle]:
        """Return that."""
        return (Obstacle.COPYING,)


class RedundancyNotKept(ControllerSafeguards):
    """A move ends with fewer members in sync than the partition had without it."""

    def ignored(self) -> Collection[Obstacle]:
        """Return that."""
        return (Obstacle.FEWER,)


class EverybodyCounted(ControllerSafeguards):
    """It counts members that are dead, or believed to be, when a move may end."""

    def counted(self, partition: ClusterPartition, sound: frozenset[int]) -> frozenset[int]:
        """Return all members."""
        assert partition.state is not None
        return frozenset(partition.state.isr)


class WantedInSync(ControllerSafeguards):
    """It takes who is wanted after a move for complete, as after an unclean election."""

    def ended(self, decision: Decision, placement: Placement) -> Decision:
        """Put all of them into the ISR."""
        return replace(decision, isr=placement.replicas, unclean=True)


class EpochKept(ControllerSafeguards):
    """A move begins and ends in the leader epoch that was there before."""

    def epoch_of_move(self, grown: int) -> int:
        """Return that."""
        return grown - 1


class DeletedAtOnce(ControllerSafeguards):
    """Replicas are deleted before the store says that they are none any more."""

    def stops(self, written: bool) -> bool:
        """Do it always."""
        return True


class LeaversForgotten(ControllerSafeguards):
    """Nobody knows who may still have data."""

    def remembered(self, leaving: tuple[int, ...]) -> tuple[int, ...]:
        """Return nobody."""
        return ()


UNSAFE: dict[str, ControllerSafeguards] = {
    "trust_only_complete_replicas": IncompleteTrusted(),
    "check_broker_epochs": LivesMixed(),
    "check_identity": AnybodyOrdered(),
    "ask_registered_life": RegistrationsTakenOver(),
    "check_controller_epoch": Unfenced(),
    "hear_the_accused": RefusalsProve(),
    "finish_needs_added": NewcomersNotAwaited(),
    "finish_keeps_redundancy": RedundancyNotKept(),
    "finish_counts_sound": EverybodyCounted(),
    "finish_keeps_isr": WantedInSync(),
    "moves_bump_epoch": EpochKept(),
    "delete_after_write": DeletedAtOnce(),
    "remember_leaving": LeaversForgotten(),
}
"""Rules by the switch that turns them off."""


def without(switch: str) -> ControllerSafeguards:
    """Return the safeguards without one of them."""
    return UNSAFE[switch]
