"""An application's listener hears of rebalances.

Rules: callbacks run inside of a poll, one after the other, and are awaited where there is something
to await; nothing is handed out meanwhile. A callback that fails does not keep the group waiting:
the change goes through, and the poll raises what the callback raised.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from oncelog_protocol.types import TopicPartition


class RebalanceListener:
    """Subclass what you need; every method may be plain or ``async``."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are the consumer's from now on; ``seek`` works here. Only the new ones."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These will be another's: the last moment to commit what was done with them."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These may be another's already: committing is too late. Default: ``on_revoked``."""
        return self.on_revoked(partitions)


async def tell(
    callback: Callable[[Sequence[TopicPartition]], Any], partitions: Sequence[TopicPartition]
) -> None:
    """Call it, and wait for what it returns if that can be waited for."""
    result = callback(list(partitions))
    if inspect.isawaitable(result):
        await result
