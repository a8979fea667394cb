"""A producer's rules can be switched off here, so that tests can prove that they are needed.

Production code never changes one: the default is the only safe value. Each switch names the rule of
which it deprives the producer; a test that turns it must see records lost, doubled or torn.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerSafeguards:
    """Every field at its default is Oncelog as it is meant to run."""

    indefinite_stays_indefinite: bool = True
    """A batch of which one attempt may have been written is never reported as certainly not
    written, nor numbered anew, whatever its last attempt was answered [N22]. Off: the last
    answer is all that counts."""

    reinit_after_indefinite: bool = True
    """When nobody knows how a transaction ended, the next one begins only after the coordinator has
    settled it and given a new epoch (KIP-360, KIP-890) [N26]. Off: the next one goes on
    under the epoch of the last."""


SAFE = ProducerSafeguards()
"""A producer is meant to run with these."""
