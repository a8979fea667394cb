"""The driver settles where a stream's micro-batches begin and end; all this is coroutines.

Rules
-----
* Partitions that were not there before are read from offset 0: what was written before the query
  noticed them is new to it all the same. If retention has passed that, it is a loss like any other.
* A log that seems to end before the query's position is asked again for a while: a leader that was
  just elected may not know yet how far its log is committed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pyspark_oncelog import questions
from pyspark_oncelog.offsets import LogOffsets, SourcePartition, make_offsets
from pyspark_oncelog.option_values import OffsetPoint
from pyspark_oncelog.planning import (
    Cause,
    LostOffsets,
    OffsetSpan,
    enough,
    limited,
    report,
    retention_losses,
    split,
    tail_losses,
)

if TYPE_CHECKING:
    from pyspark_oncelog.options import SourceOptions

T = TypeVar("T")

SETTLE_S = 30.0
"""How long a log may end before the query's position until that is believed. A new leader knows how
far its log is committed when its followers have asked, or have left the ISR: which they do after
``replica_lag_time_max_ms``, 10 s by default. Three times that."""
GONE_S = 5.0
"""How long a topic may be gone, or be another one, until that is believed: brokers hear of topics
one after the other."""
SETTLE_POLL_S = 0.2
POLL_S = 0.02
"""How often it is looked for more when there is less than ``minOffsetsPerTrigger``."""


class StreamPlan:
    """The driver knows this of one query's run."""

    def __init__(self, options: SourceOptions) -> None:
        self.latest: LogOffsets | None = None
        """The ends of the logs, as of the last question."""
        self._options = options
        self._settled: LogOffsets | None = None
        """Where a run ends that takes what is available now."""
        self._planned_at: float | None = None

    async def initial(self) -> LogOffsets:
        """Return where a new query begins."""
        topics = await questions.find_topics(self._options)
        point = self._options.starting or OffsetPoint("latest")
        found = await questions.resolve(self._options, point, topics.partitions, begin=True)
        return make_offsets(topics.ids, found)

    async def settle(self) -> None:
        """From now on nothing counts that comes later."""
        topics = await questions.find_topics(self._options, missing_ok=True)
        found = await questions.latest(self._options, topics.partitions)
        self._settled = make_offsets(topics.ids, found)

    async def next_end(
        self, start: LogOffsets, most: int | None, deadline: float
    ) -> LogOffsets | None:
        """Return the end of a micro-batch that begins at ``start``, or None for none."""
        while True:
            latest = await self._look(start)
            self.latest = latest
            begin = {tp: _begin(start, latest, tp) for tp, _ in latest}
            ends = dict(latest)
            least = None if self._settled is not None else self._options.min_offsets_per_trigger
            if not _gone(start, latest) and not enough(
                begin, ends, least, self._waited_ms(), self._options.max_trigger_delay_ms
            ):
                left = deadline - time.monotonic()
                if self._settled is not None or left <= 0:
                    return None
                await self._wait(begin, ends, left)
                continue
            if most is not None:
                ends = limited(begin, ends, most)
            self._planned_at = time.monotonic()
            ids = {topic: latest.topic_id(topic) for topic in latest.topics}
            return make_offsets(ids, ends)

    async def _wait(
        self,
        begin: Mapping[SourcePartition, int],
        ends: Mapping[SourcePartition, int],
        left_s: float,
    ) -> None:
        if any(ends[tp] > begin[tp] for tp in ends):
            # There is something, but too little: more of it comes in its own time.
            await asyncio.sleep(min(POLL_S, left_s))
        else:
            await questions.wait_for_records(self._options, ends, left_s)

    def _waited_ms(self) -> float:
        if self._planned_at is None:
            return float("inf")
        return (time.monotonic() - self._planned_at) * 1000

    async def _look(self, start: LogOffsets) -> LogOffsets:
        """Return the ends of all logs that are read, or those that were settled."""
        if self._settled is None:
            topics = await self._find_topics(start)
            ids, found = topics.ids, await questions.latest(self._options, topics.partitions)
        else:
            ids = {name: topic.topic_id for name, topic in self._settled.topics.items()}
            found = dict(self._settled)
        self._report(_topic_losses(start, ids))
        if _behind(start, ids, found):
            found = await self._insist(start, ids, tuple(found))
        return make_offsets(ids, found)

    async def _find_topics(self, start: LogOffsets) -> questions.Topics:
        """Return the topics that are read.

        A broker that lags behind may not know a topic yet, or know the one that it replaced. So a
        topic that is gone is asked for again before that is believed.
        """
        return await self._ask_again(
            lambda: questions.find_topics(self._options, missing_ok=bool(start.topics)),
            lambda topics: not _topic_losses(start, topics.ids),
            GONE_S,
        )

    async def _insist(
        self, start: LogOffsets, ids: Mapping[str, str], partitions: tuple[SourcePartition, ...]
    ) -> dict[SourcePartition, int]:
        """Ask again until no log ends before ``start``, or that must be believed."""
        found = await self._ask_again(
            lambda: questions.latest(self._options, partitions),
            lambda ends: not _behind(start, ids, ends),
            SETTLE_S,
        )
        losses = []
        for tp in _behind(start, ids, found):
            note = f"the log ends at offset {found[tp]} now"
            losses.append(LostOffsets(tp, Cause.TRUNCATED, found[tp], start.get(tp) or 0, note))
        self._report(losses)
        return found

    async def _ask_again(
        self, ask: Callable[[], Awaitable[T]], is_sound: Callable[[T], bool], within_s: float
    ) -> T:
        """Return the first answer that is sound, or the one that must be believed."""
        believed_at = time.monotonic() + min(within_s, self._options.driver_timeout_ms / 2000)
        while True:
            found = await ask()
            if is_sound(found) or time.monotonic() >= believed_at:
                return found
            await asyncio.sleep(SETTLE_POLL_S)

    async def spans(self, start: LogOffsets, end: LogOffsets) -> list[OffsetSpan]:
        """Return the pieces of a micro-batch.

        :raises DataLossError: some of it is not in the log any more.
        """
        spans = [
            OffsetSpan(
                tp.topic, end.topic_id(tp.topic), tp.partition, _begin(start, end, tp), offset
            )
            for tp, offset in end
        ]
        spans = [span for span in spans if span.size > 0]
        partitions = [span.tp for span in spans]
        spans, lost = retention_losses(spans, await questions.earliest(self._options, partitions))
        known = self.latest
        if known is None or any((known.get(span.tp) or 0) < span.end for span in spans):
            # A micro-batch from before a restart: nobody has looked at the ends in this run.
            last = await questions.latest(self._options, partitions)
            spans, cut = tail_losses(spans, last)
            lost += cut
        self._report(lost)
        options = self._options
        return split(spans, options.min_partitions, options.max_records_per_partition)

    def _report(self, losses: list[LostOffsets]) -> None:
        report(losses, fail=self._options.fail_on_data_loss)


def _begin(start: LogOffsets, latest: LogOffsets, tp: SourcePartition) -> int:
    """Return where reading goes on in ``tp``; 0 in a partition, or a topic, that is new."""
    if start.topic_id(tp.topic) != latest.topic_id(tp.topic):
        return 0
    return start.get(tp) or 0


def _topic_losses(start: LogOffsets, ids: Mapping[str, str]) -> list[LostOffsets]:
    """Return the partitions of ``start`` whose topic is gone, or another one."""
    return [
        LostOffsets(tp, Cause.RECREATED if tp.topic in ids else Cause.DELETED, offset, offset)
        for tp, offset in start
        if ids.get(tp.topic, "") != start.topic_id(tp.topic)
    ]


def _behind(
    start: LogOffsets, ids: Mapping[str, str], found: Mapping[SourcePartition, int]
) -> list[SourcePartition]:
    """Return the partitions whose log ends before ``start``."""
    return [
        tp
        for tp, offset in start
        if ids.get(tp.topic) == start.topic_id(tp.topic) and found.get(tp, offset) < offset
    ]


def _gone(start: LogOffsets, latest: LogOffsets) -> bool:
    """Return whether a place moves without new records.

    A topic is another one then, or a log has shrunk.
    """
    return any(
        latest.topic_id(tp.topic) != start.topic_id(tp.topic) or (latest.get(tp) or 0) < offset
        for tp, offset in start
    )
