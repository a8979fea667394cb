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
    """An application overrides the methods that it needs; each may be plain or ``async``."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Take over these partitions, which are new; ``seek`` works here."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Let go of these partitions: this is the last moment to commit what was done with them."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Let go of partitions that others may read already: it is too late to commit.

        By default this calls ``on_revoked``.
        """
        return self.on_revoked(partitions)


async def tell(
    callback: Callable[[Sequence[TopicPartition]], Any], partitions: Sequence[TopicPartition]
) -> None:
    """Call the callback, and await its result if that can be awaited."""
    result = callback(list(partitions))
    if inspect.isawaitable(result):
        await result
