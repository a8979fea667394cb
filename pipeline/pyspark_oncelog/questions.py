"""The driver asks the cluster for topics, partitions and offsets.

Rules
-----
* Topics and their ids are asked for anew each time: a topic that was made again must not be taken
  for the one that it replaces.
* ``latest`` is the end of what may be read: with ``read_committed`` the last stable offset
  (KIP-98), else the high watermark.
* Coroutines here run on the process's loop (see ``connections``); all use one consumer and one
  admin client, which are kept.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from oncelog import Consumer, TopicPartition
from oncelog.errors import ApiError, ClientError, UnknownTopicOrPartitionError
from pyspark_oncelog import connections
from pyspark_oncelog.offsets import SourcePartition
from pyspark_oncelog.option_values import EARLIEST, LATEST, OffsetPoint, OptionError
from pyspark_oncelog.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Topics:
    """These topics are read, as they are now."""

    ids: Mapping[str, str]
    partitions: tuple[SourcePartition, ...]


async def _consumer(options: SourceOptions) -> Consumer:
    async def make() -> Consumer:
        consumer = Consumer(
            bootstrap_servers=options.bootstrap_servers,
            client_id="oncelog-spark",
            isolation_level=options.isolation_level,  # type: ignore[arg-type]
            max_block_ms=options.driver_timeout_ms,
            security=connections.security_of(options),
        )
        await consumer.start()
        return consumer

    key = ("questions", options.bootstrap_servers, options.security, options.isolation_level)
    return await connections.keep((*key, options.driver_timeout_ms), make)


async def find_topics(options: SourceOptions, missing_ok: bool = False) -> Topics:
    """Return the topics that ``options`` name, with their partitions.

    :param missing_ok: leave out what does not exist, instead of raising.
    :raises UnknownTopicOrPartitionError: a named topic, or a partition of it, does not exist.
    """
    admin = await connections.started_admin(options)
    wanted: list[str] | None = None
    if not options.subscribe_pattern:
        wanted = list(options.subscribe or options.assign)
    described = await admin.describe_topics(wanted, timeout_ms=options.driver_timeout_ms)
    ids: dict[str, str] = {}
    partitions: list[SourcePartition] = []
    pattern = re.compile(options.subscribe_pattern)
    for topic in sorted(described, key=lambda item: item.topic):
        if wanted is None and (topic.internal or not pattern.fullmatch(topic.topic)):
            continue
        if topic.error is not None:
            if isinstance(topic.error, UnknownTopicOrPartitionError) and missing_ok:
                continue
            raise type(topic.error)(f"topic {topic.topic!r}: {topic.error}")
        ids[topic.topic] = topic.topic_id
        numbers = [item.partition for item in topic.partitions]
        chosen = options.assign.get(topic.topic, numbers)
        if beyond := sorted(set(chosen) - set(numbers)):
            raise UnknownTopicOrPartitionError(
                f"assign: {topic.topic!r} has {len(numbers)} partitions, there is no {beyond[0]}"
            )
        partitions += [SourcePartition(topic.topic, number) for number in sorted(chosen)]
    return Topics(ids, tuple(partitions))


async def earliest(
    options: SourceOptions, partitions: Iterable[SourcePartition]
) -> dict[SourcePartition, int]:
    """Return where each log begins."""
    return await _ask(options, partitions, Consumer.beginning_offsets)


async def latest(
    options: SourceOptions, partitions: Iterable[SourcePartition]
) -> dict[SourcePartition, int]:
    """Return where the readable part of each log ends."""
    return await _ask(options, partitions, Consumer.end_offsets)


async def _ask(
    options: SourceOptions,
    partitions: Iterable[SourcePartition],
    question: Callable[[Consumer, list[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]],
) -> dict[SourcePartition, int]:
    wanted = [TopicPartition(*tp) for tp in partitions]
    found = await question(await _consumer(options), wanted) if wanted else {}
    return {SourcePartition(*tp): offset for tp, offset in found.items()}


async def wait_for_records(
    options: SourceOptions, offsets: Mapping[SourcePartition, int], timeout_s: float
) -> None:
    """Wait until there may be something behind one of ``offsets``, or the time is up."""
    if not offsets:
        await asyncio.sleep(timeout_s)
        return
    consumer = await _consumer(options)
    wanted = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
    await consumer.wait_for_records(wanted, timeout_ms=max(round(timeout_s * 1000), 1))


async def resolve(
    options: SourceOptions,
    point: OffsetPoint,
    partitions: tuple[SourcePartition, ...],
    *,
    begin: bool,
) -> dict[SourcePartition, int]:
    """Return the offsets that ``point`` stands for.

    :param begin: whether reading begins there, rather than ends.
    :raises OptionError: the option names partitions that are not read, not all that are, or a time
        after the last record of a partition in which reading is to begin.
    """
    if point.kind == "earliest":
        return await earliest(options, partitions)
    if point.kind == "latest":
        return await latest(options, partitions)
    if point.kind == "timestamp":
        times = dict.fromkeys(partitions, point.timestamp_ms)
        return await _at_times(options, times, begin)
    given = {
        SourcePartition(topic, number): value
        for topic, numbers in point.offsets.items()
        for number, value in numbers.items()
    }
    name = "starting" if begin else "ending"
    if unread := [tp for tp in given if tp not in partitions]:
        raise OptionError(f"the {name} offsets name {unread[0]}, which is not read or not there")
    if unnamed := [tp for tp in partitions if tp not in given]:
        raise OptionError(
            f"the {name} offsets do not name {unnamed[0]}: give all partitions, -2 stands for the"
            " earliest and -1 for the latest offset"
        )
    if point.kind == "timestamps":
        return await _at_times(options, {tp: given[tp] for tp in partitions}, begin)
    asked = await earliest(options, [tp for tp in partitions if given[tp] == EARLIEST])
    asked |= await latest(options, [tp for tp in partitions if given[tp] == LATEST])
    return {tp: asked.get(tp, given[tp]) for tp in partitions}


async def _at_times(
    options: SourceOptions, times: Mapping[SourcePartition, int], begin: bool
) -> dict[SourcePartition, int]:
    if not times:
        return {}
    consumer = await _consumer(options)
    found = await consumer.offsets_for_times({TopicPartition(*tp): t for tp, t in times.items()})
    answers = {tp: found[TopicPartition(*tp)] for tp in times}
    beyond = [tp for tp in times if answers[tp] is None]
    if beyond and begin and options.by_timestamp_strategy == "error":
        raise OptionError(
            f"{beyond[0]} has no record at or after {times[beyond[0]]};"
            " startingOffsetsByTimestampStrategy=latest would begin at its end"
        )
    last = await latest(options, beyond)
    return {tp: last[tp] if answer is None else answer.offset for tp, answer in answers.items()}


async def publish(
    options: SourceOptions, offsets: Mapping[SourcePartition, int], timeout_ms: int
) -> None:
    """Commit ``offsets`` for the group that shows the query's progress.

    :raises ApiError: a partition does not exist any more; the group has members of its own.
    """
    admin = await connections.started_admin(options)
    wanted = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
    outcome = await admin.alter_group_offsets(options.group_id, wanted, timeout_ms=timeout_ms)
    outcome.raise_for_errors()


async def published(options: SourceOptions, timeout_ms: int) -> dict[SourcePartition, int]:
    """Return the offsets of the group that shows the query's progress."""
    admin = await connections.started_admin(options)
    found = await admin.list_group_offsets(options.group_id, timeout_ms=timeout_ms)
    return {SourcePartition(*tp): item.offset for tp, item in found.items() if item is not None}


Trouble = (ApiError, ClientError, OSError, TimeoutError)
"""A question may end with these errors."""
