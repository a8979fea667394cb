"""A consumer with a ``group_id`` has this object for all that concerns its group.

Rules
-----
* Subscribed, the consumer is a member and the group assigns; without a subscription it may assign
  itself partitions and still commit, which the coordinator takes only while the group is empty.
* Auto commit takes what the application came back from, every ``auto_commit_interval_ms``, before
  partitions are given up, and at the end; a commit that fails is told and made up for by the next.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from oncelog.config import GroupOptions
from oncelog.consumer.assignors.base import Assignor
from oncelog.consumer.boundary import Boundary
from oncelog.consumer.fetcher import Fetcher
from oncelog.consumer.group.commits import CommitIdentity, Commits, Committed
from oncelog.consumer.group.coordinator import Coordinator
from oncelog.consumer.group.handover import HandingOver
from oncelog.consumer.group.listener import RebalanceListener
from oncelog.consumer.group.member import GroupMember
from oncelog.consumer.group.topics import GroupTopics
from oncelog.consumer.offset_metadata import OffsetAndMetadata, Offsets
from oncelog.consumer.reading import RecordReader
from oncelog.consumer.subscription import Subscription
from oncelog.core.router import Router
from oncelog.errors import CommitFailedError, OncelogError
from oncelog_protocol.messages.groups import NO_OFFSET
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

CLOSE_S = 10.0
"""How long ending a subscription may take: the last commit, the listener, leaving."""


class ConsumerGroup:
    """A running consumer takes part in its group; ``fail`` hears of a background task that died."""

    def __init__(
        self,
        options: GroupOptions,
        assignors: Sequence[Assignor],
        router: Router,
        subscription: Subscription,
        reader: RecordReader,
        fetcher: Fetcher,
        boundary: Boundary,
        *,
        fail: Callable[[str, BaseException], None],
    ) -> None:
        assert options.group_id is not None
        self._options = options
        self._assignors = assignors
        self._router = router
        self._reader = reader
        self._fetcher = fetcher
        self._fail = fail
        self._tasks = Tasks(f"{router.options.client_id}/group", fail)
        self._outside = CommitIdentity(options.group_id, options.group_instance_id)
        self._coordinator = Coordinator(router, options.group_id, self._tasks)
        self.commits = Commits(router, self._coordinator, self._outside)
        self._handing_over = HandingOver(
            subscription,
            reader,
            self.commits,
            boundary,
            auto_commit=options.enable_auto_commit,
            commit_within_s=options.max_poll_interval_ms / 2000,
            wake=self._fetcher.look_again,
            history=router.history,
        )
        self._member: GroupMember | None = None
        self._boundary = boundary
        fetcher.positions.join_group(self._positions, self._begin)
        if options.enable_auto_commit:
            self._tasks.spawn("auto commit", self._auto_commit())

    # ------------------------------------------------------------------------------ membership

    @property
    def subscribed(self) -> bool:
        """Return whether the group assigns partitions to this consumer."""
        return self._member is not None

    @property
    def settled(self) -> bool:
        """Return whether the application has all that the group assigns to it, if anything."""
        return self._member is None or self._member.settled

    def subscribe(
        self,
        topics: Iterable[str],
        pattern: str | re.Pattern[str] | None,
        listener: RebalanceListener | None,
    ) -> None:
        """Become a member that reads these topics. A member that exists reads them from now on."""
        wanted = GroupTopics(self._router, topics, pattern)
        self._handing_over.listen(listener)
        if self._member is not None:
            self._member.subscribe(wanted)
            return
        self._member = member = GroupMember(
            self._router,
            self._options,
            self._assignors,
            wanted,
            self._coordinator,
            self._reader,
            self._handing_over,
            Tasks(f"{self._router.options.client_id}/member", self._fail),
            wake=self._fetcher.look_again,
        )
        self.commits.act_as(member)
        self._reader.call_at_poll(member.at_poll)
        member.start()

    async def unsubscribe(self) -> None:
        """End the membership: commit, tell the listener, leave."""
        member, self._member = self._member, None
        if member is None:
            return
        self._reader.call_at_poll(None)
        await member.close(asyncio.get_running_loop().time() + CLOSE_S)
        self.commits.act_as(self._outside)
        self._router.want_all(False)

    def enforce_rebalance(self, reason: str) -> None:
        """Ask the group for a new assignment."""
        if self._member is not None:
            self._member.want(reason)

    # ------------------------------------------------------------------------------ commits

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        """Commit these offsets; without any, commit where each partition stands."""
        await self.commits.commit(self._given(offsets), deadline)

    def commit_async(self, offsets: Offsets | None, deadline: float) -> asyncio.Future[None]:
        """Commit these offsets beside the application; the future gets the result or the error."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.spawn("commit", self._commit_for(future, self._given(offsets), deadline))
        return future

    def _given(self, offsets: Offsets | None) -> Offsets:
        return self._handing_over.reached() if offsets is None else offsets

    async def _commit_for(
        self, future: asyncio.Future[None], offsets: Offsets, deadline: float
    ) -> None:
        try:
            await self.commits.commit(offsets, deadline)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(None)

    async def _positions(self, partitions: Sequence[TopicPartition]) -> Committed:
        """Return where to begin with partitions new to this member, as far as it is settled."""
        found = await self.commits.fetch_settled(partitions, self._router.deadline())
        if self._of_former_topics(found):
            await self._router.refresh()  # unless it is we who do not know the new topic yet
            for tp in self._of_former_topics(found):
                logger.warning(
                    "%s: what group %s has committed is of a topic that was deleted since",
                    tp,
                    self._options.group_id,
                )
                found[tp] = OffsetAndMetadata(NO_OFFSET)
        self.commits.remember(
            {tp: item if item is None or item.offset >= 0 else None for tp, item in found.items()}
        )
        return found

    def _of_former_topics(self, found: Committed) -> list[TopicPartition]:
        topic_id = self._router.cluster.topic_id
        return [
            tp
            for tp, item in found.items()
            if item is not None and item.topic_id and topic_id(tp.topic) not in ("", item.topic_id)
        ]

    async def _begin(self, places: Mapping[TopicPartition, int]) -> None:
        """Commit, in transactions only, where reading begins if nothing is committed."""
        if self._boundary.in_transactions:
            offsets = {tp: OffsetAndMetadata(offset) for tp, offset in places.items()}
            await self.commits.commit(offsets, self._router.deadline())

    async def _auto_commit(self) -> None:
        interval_s = self._options.auto_commit_interval_ms / 1000
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(interval_s)
            deadline = loop.time() + max(interval_s, 1.0)
            try:
                await self._handing_over.commit_finished(deadline)
            except CommitFailedError as error:
                logger.info("auto commit: %s", error)
            except (OncelogError, OSError, TimeoutError) as error:
                logger.warning("auto commit failed, the next one makes up for it: %s", error)

    # ------------------------------------------------------------------------------ end

    async def close(self) -> None:
        """End everything, in at most CLOSE_S seconds and the time that leaving takes."""
        loop = asyncio.get_running_loop()
        try:
            if self._member is not None:
                await self.unsubscribe()
            elif self._options.enable_auto_commit:
                await self._handing_over.commit_finished(loop.time() + CLOSE_S)
        except (OncelogError, OSError, TimeoutError) as error:
            logger.warning("the last commit failed: %s", error)
        finally:
            await self._tasks.close()
