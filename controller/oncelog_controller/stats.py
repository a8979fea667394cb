"""What the controller of one broker process has done, over all its terms. Plain numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ControllerStats:
    """Grows only."""

    terms: int = 0
    """Elections won."""
    leader_changes: int = 0
    """Partitions whose leader is another one, or gone."""
    unclean_elections: int = 0
    """Leaders elected from outside the ISR."""
    assertions_failed: int = 0
    """States that would have broken an invariant; they were not written."""
