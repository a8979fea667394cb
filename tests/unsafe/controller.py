"""The controller lacks one of its rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_controller.life import AskLife, Life
from oncelog_controller.safeguards import ControllerSafeguards
from oncelog_controller.state import BrokerRegistration
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


UNSAFE: dict[str, ControllerSafeguards] = {
    "trust_only_complete_replicas": IncompleteTrusted(),
    "check_broker_epochs": LivesMixed(),
    "check_identity": AnybodyOrdered(),
    "ask_registered_life": RegistrationsTakenOver(),
    "check_controller_epoch": Unfenced(),
    "hear_the_accused": RefusalsProve(),
}
"""Rules by the switch that turns them off."""


def without(switch: str) -> ControllerSafeguards:
    """Return the safeguards without one of them."""
    return UNSAFE[switch]
