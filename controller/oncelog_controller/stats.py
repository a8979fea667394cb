"""The controller of one broker process counts what it has done, over all its terms. Plain numbers.
Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ControllerStats:
    """Its numbers only grow."""

    terms: int = 0
    """Elections won."""
    leader_changes: int = 0
    """Partitions whose leader is another one, or gone."""
    unclean_elections: int = 0
    """Leaders elected from outside the ISR."""
    assertions_failed: int = 0
    """States that would have broken an invariant; they were not written."""

    def term_began(self) -> None:
        """Count an election that was won."""
        self.terms += 1

    def leader_changed(self) -> None:
        """Count a partition whose leader is another one, or gone."""
        self.leader_changes += 1

    def elected_uncleanly(self) -> None:
        """Count a leader from outside the ISR."""
        self.unclean_elections += 1

    def assertion_failed(self) -> None:
        """Count a state that was not written."""
        self.assertions_failed += 1
