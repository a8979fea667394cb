"""A consumer asks leaders for offsets, of all partitions or of none.

An error that another attempt cannot heal is raised with its partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from oncelog.core.offset_question import OffsetQuestion
from oncelog.core.router import Router
from oncelog.errors import ApiError, DeadlineExceededError
from oncelog_protocol.types import TopicPartition


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time is here; ``offset`` is -1 when there is none."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


async def list_offsets(
    router: Router,
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    deadline: float,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return each partition's offset at its timestamp (ms since 1970; -2 earliest, -1 latest).

    :raises UnknownTopicOrPartitionError: a topic or partition does not exist.
    :raises DeadlineExceededError: a leader did not answer in time, or there is none.
    """
    found = await _AllOrNone(router, wanted, isolation_level, deadline).ask()
    return dict(zip(wanted, found, strict=True))


class _AllOrNone(OffsetQuestion[OffsetAndTimestamp]):
    def outcome(self, tp: TopicPartition, error: ApiError | None, item: Any) -> OffsetAndTimestamp:
        if error is not None:
            raise error
        return OffsetAndTimestamp(item.offset, item.timestamp, item.leader_epoch)

    def failed(self, tp: TopicPartition, error: BaseException) -> OffsetAndTimestamp:
        raise error

    def late(self, error: DeadlineExceededError, missing: list[TopicPartition]) -> None:
        named = ", ".join(str(tp) for tp in sorted(missing)[:5])
        raise DeadlineExceededError(f"no offsets of {named}: {error}") from error
