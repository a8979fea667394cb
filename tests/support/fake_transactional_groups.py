"""Groups and transactions of a fake cluster know of each other: offsets of a transaction become the
group's when it commits, and are not told before that."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.errors import UnstableOffsetCommitError
from oncelog_protocol.messages import groups as wire
from oncelog_protocol.messages.transactions import TxnOffsetCommitRequest
from oncelog_protocol.types import TopicPartition
from support.fake_members import FakeCoordinator, GroupCluster

__all__ = ["TransactionalGroups"]


class TransactionalGroups(GroupCluster):
    """Both kinds of coordinators are broker 1."""

    def __init__(self, broker_count: int = 1) -> None:
        super().__init__(broker_count)
        self.coordinator = self._both = _Coordinator(self)
        for broker in self.brokers.values():
            handlers: Any = broker._handlers
            handlers._groups = self.coordinator
        self.transactions.fence = self._fence

    async def __aenter__(self) -> TransactionalGroups:
        await super().__aenter__()
        return self

    def committed(self, group_id: str = "g") -> dict[TopicPartition, int]:
        """Return what the group has committed, by whatever way."""
        self._both.take_over(group_id)
        return {tp: item.offset for tp, item in self.group(group_id).offsets.items()}

    def _fence(self, request: TxnOffsetCommitRequest) -> int:
        group = self.group(request.group_id)
        if request.generation_id < 0 and not group.members:
            return 0
        return self.coordinator._fence(1, group, request)


class _Coordinator(FakeCoordinator):
    def __init__(self, cluster: TransactionalGroups) -> None:
        super().__init__(next(iter(cluster.brokers)))
        self._cluster = cluster

    def take_over(self, group_id: str) -> None:
        """Take over what transactions have committed for the group meanwhile."""
        transactions = self._cluster.transactions
        for key in list(transactions.committed):
            if key[0] == group_id:
                item = transactions.committed.pop(key)
                self.group(group_id).offsets[key[1]] = wire.OffsetCommitPartition(
                    item.partition, item.offset, item.leader_epoch, item.metadata
                )

    def fetch(self, broker: int, request: wire.OffsetFetchRequest) -> Any:
        self.take_over(request.group_id)
        response = super().fetch(broker, request)
        if request.require_stable:
            pending = [
                key for txn in self._cluster.transactions.ids.values() for key in txn.offsets
            ]
            for topic in response.topics:
                for item in topic.partitions:
                    key = (request.group_id, TopicPartition(topic.topic, item.partition))
                    if key in pending:
                        item.error_code, item.offset = UnstableOffsetCommitError.code, -1
        return response
