"""Leaders are asked where partitions begin and end, and which record is the first at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from oncelog.admin.calls import known
from oncelog.admin.results import ListedOffset
from oncelog.config import IsolationOption
from oncelog.core.offset_question import OffsetQuestion
from oncelog.core.router import Router
from oncelog.errors import ApiError, ConfigurationError
from oncelog_protocol.acls import DESCRIBE
from oncelog_protocol.messages.offsets import ListOffsetsPartitionResponse
from oncelog_protocol.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    IsolationLevel,
    TopicPartition,
)

OffsetSpec = Literal["earliest", "latest"] | int
"""A place in a partition is its first offset, its end, or a time in ms since 1970."""
NAMED = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


HIGH_WATERMARK: IsolationOption = "read_uncommitted"
"""The latest offsets are those of all records unless one asks otherwise, as with Kafka's Admin."""


async def list_offsets(
    router: Router,
    partitions: Iterable[TopicPartition],
    at: OffsetSpec,
    isolation_level: IsolationOption,
    deadline: float,
) -> list[ListedOffset]:
    """Ask the leaders for one offset of each partition, and return them in the order of asking.
    ``deadline`` is in the loop's time.

    :raises ConfigurationError: there is no such place or isolation level; nobody was asked.
    """
    if isolation_level not in get_args(IsolationOption):
        names = " or ".join(get_args(IsolationOption))
        raise ConfigurationError(f"isolation_level={isolation_level!r}: must be {names}")
    timestamp = NAMED.get(at) if isinstance(at, str) else at
    if type(timestamp) is not int or (timestamp < 0 and not isinstance(at, str)):
        raise ConfigurationError(f"at={at!r}: must be earliest, latest or ms since 1970")
    wanted = {TopicPartition(*tp): timestamp for tp in partitions}
    level = IsolationLevel[isolation_level.upper()]
    return await _Listing(router, wanted, level, deadline).ask()


class _Listing(OffsetQuestion[ListedOffset]):
    def outcome(
        self,
        tp: TopicPartition,
        error: ApiError | None,
        item: ListOffsetsPartitionResponse | None,
    ) -> ListedOffset:
        if error is not None:
            return ListedOffset(tp, self._router.explained(error, DESCRIBE, tp.topic))
        if item is None:
            return ListedOffset(tp)
        found = known(item.offset), known(item.timestamp), known(item.leader_epoch)
        return ListedOffset(tp, None, *found)
