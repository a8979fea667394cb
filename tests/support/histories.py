"""A history keeps everything, for tests of what clients record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oncelog.history import GroupOperation, MoveReason, OwnerChange
from oncelog_protocol.types import TopicPartition

__all__ = ["ListHistory"]


class ListHistory:
    """Its events are tuples, in order: (kind, operation number, and details)."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.marks: list[tuple[str, int, int, int, int]] = []
        """Watermarks, apart: (topic, partition, leader epoch, high watermark, end offset)."""
        self._count = 0

    def invoke(
        self,
        operation: str,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        txn: int = -1,
    ) -> int:
        self._count += 1
        event = ("invoke", self._count, operation, topic, partition, list(values))
        self.events.append(event if txn == -1 else (*event, txn))
        return self._count

    def begin_txn(self, transactional_id: str) -> int:
        self._count += 1
        self.events.append(("invoke", self._count, "txn", transactional_id))
        return self._count

    def ending_txn(self, txn: int, commit: bool, winners: Sequence[bytes] = ()) -> None:
        event = ("ending", txn, commit)
        self.events.append((*event, list(winners)) if winners else event)

    def ok(
        self,
        number: int,
        offsets: Sequence[int | None],
        values: Sequence[bytes | None] = (),
    ) -> None:
        self.events.append(("ok", number, list(offsets), list(values)))

    def fail(self, number: int, error: BaseException) -> None:
        self.events.append(("fail", number, error))

    def info(self, number: int, error: BaseException) -> None:
        self.events.append(("info", number, error))

    def moved(self, topic: str, partition: int, offset: int | None, reason: MoveReason) -> None:
        self.events.append(("moved", topic, partition, offset, reason))

    def watermark(
        self,
        topic: str,
        partition: int,
        leader_epoch: int,
        high_watermark: int,
        end_offset: int,
        last_stable_offset: int = -1,
    ) -> None:
        self.marks.append((topic, partition, leader_epoch, high_watermark, end_offset))

    def invoke_group(
        self,
        operation: GroupOperation,
        group: str,
        member: str,
        generation: int,
        offsets: Mapping[TopicPartition, int | None],
        txn: int = -1,
    ) -> int:
        self._count += 1
        whose = (group, member, generation)
        event = ("invoke", self._count, operation, *whose, dict(offsets))
        self.events.append(event if txn == -1 else (*event, txn))
        return self._count

    def owned(
        self,
        how: OwnerChange,
        group: str,
        member: str,
        generation: int,
        partitions: Sequence[TopicPartition],
    ) -> None:
        self.events.append((how, group, member, generation, list(partitions)))
