"""A consumer consists of these parts, which are used together here.

Rules
-----
* The public ``Consumer`` is a face of this; runs, transactions and iterations work on it.
* A position moves by handing out, by a seek, or by being lost; each is said to the reader, to the
  fetcher and to the history, here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oncelog.config import ConsumerOptions, GroupOptions
from oncelog.consumer.assignors.base import Assignor
from oncelog.consumer.boundary import Boundary
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.cursor import Cursor
from oncelog.consumer.fetcher import Fetcher
from oncelog.consumer.group.group import ConsumerGroup
from oncelog.consumer.offset_metadata import GivenOffsets, Offsets, checked_offsets
from oncelog.consumer.reading import RecordReader
from oncelog.consumer.subscription import Reset, Subscription, TopicPartitionState
from oncelog.core.closing import Closing
from oncelog.core.router import Router
from oncelog.errors import ClientError, ClosedError
from oncelog_protocol.types import NO_EPOCH, TopicPartition
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy

Place = tuple[int, int]
"""An offset, and the leader epoch before it."""


class ConsumerCore:
    """The core is one consumer without its public class. It is started once, and closed once."""

    def __init__(
        self,
        topics: Sequence[str],
        options: ConsumerOptions,
        group_options: GroupOptions,
        assignors: Sequence[Assignor],
        router: Router,
        *,
        clock: WallClock,
        entropy: Entropy,
    ) -> None:
        self.options = options
        self.group_options = group_options
        self.router = router
        self.clock = clock
        self.entropy = entropy
        self.subscription = Subscription()
        self.reader = RecordReader(
            self.subscription, options, self.running, router.counters, router.history
        )
        self.boundary = Boundary()
        self.closing = Closing(router.options.client_id)
        self.fetcher: Fetcher | None = None
        """It fetches from the start on."""
        self.group: ConsumerGroup | None = None
        """It exists from the start on, if there is a ``group_id``."""
        self.closed = False
        """Whether somebody has asked for the end."""
        self.ended = False
        """Whether the end is there; in between a listener may still commit."""
        self._topics = topics
        self._assignors = assignors

    # ------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Connect and start fetching; see ``Consumer.start``."""
        if self.closed or self.fetcher is not None:
            raise ClosedError("a consumer is started once")
        await self.router.start()
        try:
            if self.closed:
                raise ClosedError("the consumer was closed while it started")
            for topic in self._topics:
                await self.router.topic(topic, self.router.deadline())
        except BaseException:
            await self.router.close()
            raise
        self.fetcher = fetcher = Fetcher(
            self.router,
            self.subscription,
            self.options,
            now_ms=self.clock.now_ms,
            let_go=self.reader.let_go,
            left_behind=self._left_behind,
        )
        if self.group_options.group_id is not None:
            self.group = ConsumerGroup(
                self.group_options,
                self._assignors,
                self.router,
                self.subscription,
                self.reader,
                fetcher,
                self.boundary,
                fail=fetcher.fail,
            )
            if self._topics:
                self.group.subscribe(self._topics, None, None)
        elif self._topics:
            self.assign(self._partitions_of_topics())
            self.router.on_metadata.append(self._adopt_new_partitions)

    def _left_behind(self, state: TopicPartitionState) -> None:
        self.reader.moved(state)
        if self.group is not None:
            self.group.commits.drop_known(state.tp)

    async def close(self) -> None:
        """End all iterations, then everything else; wait for a call that does so already."""
        if not self.closed:
            self.closed = True
            self.reader.close()
            if self.fetcher is not None:
                self.fetcher.notify()
        await self.closing.once(self._end)

    async def _end(self) -> None:
        try:
            if self.boundary.work is not None:
                await self.boundary.work.taking_away(list(self.subscription.states))
            if self.group is not None:
                await self.group.close()
        finally:
            self.ended = True
            if self.fetcher is not None:
                await self.fetcher.close()
            await self.router.close()

    def running(self) -> Fetcher:
        """Return the fetcher of a consumer that is at work.

        :raises ClosedError: it is not started, closed, or has failed in the background.
        """
        if self.ended:
            raise ClosedError("the consumer is closed")
        if self.fetcher is None:
            raise ClosedError("the consumer was not started: use async with, or start()")
        self.fetcher.raise_if_failed()
        return self.fetcher

    def in_group(self) -> ConsumerGroup:
        """Return the group of a consumer that is at work; raise ClientError when it has none."""
        self.running()
        if self.group is None:
            raise ClientError("this consumer has no group: give it a group_id")
        return self.group

    # ------------------------------------------------------------------------------ assignment

    def assign_by_hand(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign what the application chose; see ``Consumer.assign``."""
        self.running()
        if self._topics and self.group is None:
            raise ClientError("this consumer was made with topics; assign() is for one without")
        if self.group is not None and self.group.subscribed:
            raise ClientError("this consumer is subscribed, its group assigns: unsubscribe first")
        self.assign(partitions, by_hand=True)

    def assign(self, partitions: Iterable[TopicPartition], *, by_hand: bool = False) -> None:
        """Replace the assignment by these partitions."""
        self.reader.drop_cursor()
        wanted = [TopicPartition(*tp) for tp in partitions]
        for tp in wanted:
            self.router.want(tp.topic)
        before = self.subscription.states
        policy = self.running().positions.policy if self.group is None else Reset.COMMITTED
        self.subscription.assign(wanted, policy, by_hand=by_hand)
        for tp in self.subscription.states:
            if tp not in before:
                self.router.history.moved(*tp, None, "assign")
        self.running().wake()

    def _partitions_of_topics(self) -> list[TopicPartition]:
        cluster = self.router.cluster
        return [tp for topic in self._topics for tp in cluster.topic_partitions(topic)]

    def _adopt_new_partitions(self) -> None:
        """Read partitions that were added from their beginning, however late they are noticed."""
        for tp in self._partitions_of_topics():
            if tp not in self.subscription.states:
                self.subscription.add(tp, Reset.EARLIEST)
                self.router.history.moved(*tp, None, "assign")

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these partitions; see ``Consumer.pause``."""
        for tp in partitions:
            state = self.subscription.state(tp)
            self.reader.let_go(state)
            state.pause()
        if self.fetcher is not None and self.fetcher.held_back:
            self.fetcher.wake()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume paused partitions; see ``Consumer.resume``."""
        fetcher = self.running()
        for tp in partitions:
            state = self.subscription.state(tp)
            if state.paused:
                state.resume()
                if not state.chunks:
                    fetcher.expedite(state)
        fetcher.notify()

    # ------------------------------------------------------------------------------ positions

    def seek(self, state: TopicPartitionState, offset: int, epoch: int = NO_EPOCH) -> None:
        """Set the position to ``offset`` at once."""
        fetcher = self.running()
        self.reader.moved(state)
        state.seek(offset, epoch, self.router.cluster.topic_id(state.tp.topic))
        self.router.history.moved(*state.tp, offset, "seek")
        fetcher.expedite(state)

    def read_on_from_committed(self, places: Mapping[TopicPartitionState, Place | None]) -> None:
        """Forget the positions of these partitions, and ask the group for its committed offsets.

        The group answers when no open transaction may change them. Where it has committed nothing,
        reading goes on at the place given.
        """
        for state, place in places.items():
            if place is None or state.offset is None:
                continue
            self.reader.moved(state)
            state.lose(Reset.COMMITTED, origin=place)
            self.router.history.moved(*state.tp, None, "seek")
        if self.fetcher is not None:
            self.fetcher.wake()

    def to_commit(self, offsets: GivenOffsets | None) -> Offsets | None:
        """Return what a commit of these offsets commits; None stands for the positions.

        :raises ClientError: the positions, which are for transactions to commit.
        """
        if offsets is not None:
            return checked_offsets(offsets)
        if self.boundary.in_transactions:
            raise ClientError("this consumer's positions are committed by transactions")
        return None

    # ------------------------------------------------------------------------------ reading

    async def next_cursor(self) -> Cursor | None:
        """Return a cursor with at least one record; None when the consumer is closed."""
        self.router.home.check()
        return await self.reader.next_cursor()

    async def next_batch(self) -> ColumnBatch | None:
        """Return the next batch as columns; None when the consumer is closed."""
        self.router.home.check()
        return await self.reader.next_batch()
