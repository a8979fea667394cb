"""Leaders are asked for offsets: the first, the last, or the one at a timestamp.

Rules: one request a leader; partitions whose leader has moved are asked again after a metadata
refresh, until the deadline; an error that another attempt cannot heal is raised with its partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from oncelog.core.router import Failure, Router
from oncelog.errors import (
    DeadlineExceededError,
    LeaderNotAvailableError,
    error_about,
    error_for,
    is_retriable,
)
from oncelog_protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from oncelog_protocol.types import NO_LEADER, TopicPartition


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
    for topic in dict.fromkeys(tp.topic for tp in wanted):
        highest = max(tp.partition for tp in wanted if tp.topic == topic)
        await router.topic_with(topic, highest, deadline)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    left = dict(wanted)

    async def attempt() -> None:
        errors = await _ask_leaders(router, left, isolation_level, deadline, found)
        for tp in found:
            left.pop(tp, None)
        if errors:
            raise errors[0]

    try:
        await router.retry(attempt, deadline, "ListOffsets")
    except DeadlineExceededError as error:
        missing = ", ".join(str(tp) for tp in sorted(left)[:5])
        raise DeadlineExceededError(f"no offsets of {missing}: {error}") from error
    return {tp: found[tp] for tp in wanted}


async def _ask_leaders(
    router: Router,
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    deadline: float,
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> list[BaseException]:
    """Ask every leader once, all at the same time, and return the errors that may heal."""
    by_leader: dict[int, list[TopicPartition]] = {}
    errors: list[BaseException] = []
    for tp in wanted:
        leader = router.cluster.leader(tp)
        if leader == NO_LEADER:
            errors.append(LeaderNotAvailableError(f"{tp} has no leader at the moment"))
        else:
            by_leader.setdefault(leader, []).append(tp)

    async def ask_one(leader: int, partitions: list[TopicPartition]) -> list[BaseException]:
        request = _request(router, {tp: wanted[tp] for tp in partitions}, isolation_level)
        try:
            response = await router.call_broker(leader, request, deadline)
        except Failure as error:
            if not is_retriable(error):
                raise
            return [error]
        return _take(response, found)

    rounds = [ask_one(leader, partitions) for leader, partitions in by_leader.items()]
    for result in await asyncio.gather(*rounds):
        errors.extend(result)
    return errors


def _request(
    router: Router, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, timestamp in wanted.items():
        entry = topics.setdefault(tp.topic, ListOffsetsTopic(tp.topic, []))
        epoch = router.cluster.leader_epoch(tp)
        entry.partitions.append(ListOffsetsPartition(tp.partition, timestamp, epoch))
    return ListOffsetsRequest(isolation_level, list(topics.values()))


def _take(
    response: ListOffsetsResponse, found: dict[TopicPartition, OffsetAndTimestamp]
) -> list[BaseException]:
    if response.error_code:
        raise error_for(response.error_code)
    errors: list[BaseException] = []
    for topic in response.topics:
        for answer in topic.partitions:
            tp = TopicPartition(topic.topic, answer.partition)
            if answer.error_code:
                error = error_about(tp, answer.error_code)
                if not error.retriable:
                    raise error
                errors.append(error)
            else:
                found[tp] = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
    return errors
