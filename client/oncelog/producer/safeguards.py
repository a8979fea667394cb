"""The producer's rules without which records are lost, doubled or torn are methods here.

Each is the safe decision, and the only one that the product has. Tests hand in others, to see that
the loss is noticed: ``tests/unsafe`` has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oncelog.producer.partition_queue import Batch


class ProducerSafeguards:
    """It decides for a producer."""

    __slots__ = ()

    def attempt_failed(self, batch: Batch, error: BaseException) -> None:
        """Keep what an attempt's end says of a batch. A batch of which one attempt may have been
        written is never reported as certainly not written, nor numbered anew, whatever its last
        attempt was answered [N22]."""
        batch.attempt_failed(error)

    async def settle(self, init: Callable[[], Awaitable[None]]) -> None:
        """Return when the next transaction may begin after one whose end nobody knows: when the
        coordinator has settled it and given a new epoch (KIP-360, KIP-890) [N26]."""
        await init()


SAFE = ProducerSafeguards()
"""A producer is meant to run with these."""
