"""These tests check how an application is told of rebalances."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog import RebalanceListener, TopicPartition
from oncelog.consumer.group.listener import tell

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


async def test_methods_may_be_plain_async_or_missing() -> None:
    heard: list[tuple[str, Sequence[TopicPartition]]] = []

    class Listener(RebalanceListener):
        async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            heard.append(("assigned", partitions))

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            heard.append(("revoked", partitions))

    listener = Listener()
    for callback in (listener.on_assigned, listener.on_revoked, listener.on_lost):
        await tell(callback, PARTITIONS)
    assert [kind for kind, _ in heard] == ["assigned", "revoked", "revoked"], "lost is revoked"
    assert all(partitions == PARTITIONS for _, partitions in heard)
    assert all(partitions is not PARTITIONS for _, partitions in heard), "a list of its own"


async def test_nothing_has_to_be_told() -> None:
    listener = RebalanceListener()
    for callback in (listener.on_assigned, listener.on_revoked, listener.on_lost):
        await tell(callback, PARTITIONS)
