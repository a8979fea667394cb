"""Partitions without a position get one from the group's commits, or by the policy.

Rules
-----
* One question to the group and one to the leaders are under way at most; what a seek overtook is
  ignored when it is answered.
* A group that is in the middle of a rebalance is asked again, and so is one whose offsets an open
  transaction may still change, as long as that takes: it has a time-out. Any other failure is told
  to the application at that partition, which may go on and so try again.
* What was committed of a topic that was deleted since counts as nothing. Everything in the topic
  that was made again is new to who was there before: then "latest" means its beginning.
* A partition of which the group has committed nothing goes by ``auto_offset_reset``. In
  transactions the place that was found is committed before anything is handed out: who begins at
  "latest" and dies would begin behind what came meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from oncelog.config import ConsumerOptions
from oncelog.consumer.offset_metadata import OffsetAndMetadata
from oncelog.consumer.offsets import list_offsets
from oncelog.consumer.subscription import Reset, Subscription, TopicPartitionState, reset_of
from oncelog.core.router import Router
from oncelog.errors import (
    CommitFailedError,
    NoOffsetForPartitionError,
    OncelogError,
    RebalanceInProgressError,
    TopicRecreatedError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.types import LATEST_TIMESTAMP, TopicPartition
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

Committed = Mapping[TopicPartition, OffsetAndMetadata | None]

AskGroup = Callable[[Sequence[TopicPartition]], Awaitable[Committed]]
CommitBegin = Callable[[Mapping[TopicPartition, int]], Awaitable[None]]

REBALANCING_PAUSE_S = 0.05
"""The pause before a group that is rebalancing is asked again."""


class Positions:
    """One subscription's missing positions are found here.

    :param moved: told of each partition that got a position, before anybody may look.
    :param changed: told after every attempt: positions or errors are there.
    """

    def __init__(
        self,
        router: Router,
        subscription: Subscription,
        options: ConsumerOptions,
        tasks: Tasks,
        now_ms: Callable[[], int],
        *,
        moved: Callable[[TopicPartitionState], None],
        changed: Callable[[], None],
    ) -> None:
        self.policy = reset_of(options.auto_offset_reset)
        self._committed: AskGroup | None = None
        self._commit_begin: CommitBegin | None = None
        self._router = router
        self._subscription = subscription
        self._isolation = int(options.isolation_code)
        self._tasks = tasks
        self._now_ms = now_ms
        self._moved = moved
        self._changed = changed
        self._history = router.history
        self._asking_group = False
        self._asking_leaders = False

    def join_group(self, committed: AskGroup, begin: CommitBegin) -> None:
        """Let the commits of a group go before the policy.

        :param committed: asks the group; leaves out what is not settled.
        :param begin: commits where the group begins.
        """
        self._committed, self._commit_begin = committed, begin

    def check_topics(self) -> list[TopicPartitionState]:
        """Return the partitions whose positions belong to topics that were deleted."""
        gone: list[TopicPartitionState] = []
        for state in self._subscription.states.values():
            if state.offset is None:
                continue
            topic_id = self._router.cluster.topic_id(state.tp.topic)
            if not state.topic_id:
                state.of_topic(topic_id)
            elif topic_id not in ("", state.topic_id):
                gone.append(state)
        return gone

    def made_again(self, state: TopicPartitionState) -> None:
        """Give up the position, as its topic was deleted and made again."""
        offset = state.offset
        assert offset is not None
        if state.by_hand:
            state.gone(TopicRecreatedError(state.tp, offset))
        else:
            logger.warning(
                "%s: the topic was deleted and made again: the position %d of the former one is"
                " given up",
                state.tp,
                offset,
            )
            state.made_again(Reset.COMMITTED if self._committed is not None else self._anew())
        self._history.moved(*state.tp, None, "reset")

    def _anew(self) -> Reset | None:
        return Reset.EARLIEST if self.policy is Reset.LATEST else self.policy

    def look(self) -> None:
        """Begin to find missing positions. A call costs next to nothing."""
        by_group = by_leaders = False
        for state in self._subscription.without_position():
            if state.error is not None:
                continue
            if state.reset is None:
                state.fail(_no_offset(state.tp))
                self._changed()
            elif state.reset is Reset.COMMITTED:
                by_group = True
            else:
                by_leaders = True
        if by_group and not self._asking_group:
            self._asking_group = True
            self._tasks.spawn("committed", self._ask_group())
        if by_leaders and not self._asking_leaders:
            self._asking_leaders = True
            self._tasks.spawn("positions", self._ask_leaders())

    def _missing(self, *, of_group: bool) -> list[tuple[TopicPartitionState, int]]:
        return [
            (state, state.version)
            for state in self._subscription.without_position()
            if state.reset is not None
            and state.error is None
            and (state.reset is Reset.COMMITTED) is of_group
        ]

    async def _ask_group(self) -> None:
        missing = self._missing(of_group=True)
        error: BaseException | None = None
        found: Committed = {}
        try:
            if self._committed is not None and missing:
                found = await self._committed([state.tp for state, _ in missing])
                origins = {s.tp: s.origin[0] for s, _ in missing if s.origin is not None}
                await self._begin(
                    {tp: at for tp, at in origins.items() if found.get(tp, 1) is None}
                )
        except (CommitFailedError, RebalanceInProgressError):
            await asyncio.sleep(REBALANCING_PAUSE_S)
            missing = []
        except (OncelogError, OSError, TimeoutError) as caught:
            if isinstance(caught.__cause__, UnstableOffsetCommitError):
                logger.warning("still waiting for offsets that are not settled: %s", caught)
                missing = []
            else:
                error = caught
        finally:
            self._asking_group = False
        for state, version in missing:
            if state.version != version or state.reset is not Reset.COMMITTED:
                continue
            if error is not None:
                state.fail(error)
                continue
            if state.tp not in found:
                continue  # not settled: asked for again
            item = found[state.tp]
            former = state.former or (item is not None and item.offset < 0)
            policy = self._anew() if former else self.policy
            if item is not None and item.offset >= 0:
                self._found(state, item.offset, item.leader_epoch, item.topic_id)
            elif state.origin is not None:
                self._found(state, *state.origin)
            elif policy is None:
                state.fail(_no_offset(state.tp))
            else:
                state.find_by(policy)
        self._changed()

    async def _ask_leaders(self) -> None:
        missing = self._missing(of_group=False)
        deadline = self._router.deadline()
        now_ms = self._now_ms()
        wanted = {state.tp: state.reset.timestamp(now_ms) for state, _ in missing if state.reset}
        topic_ids = {tp: self._router.cluster.topic_id(tp.topic) for tp in wanted}
        error: BaseException | None = None
        found = {}
        try:
            found = await list_offsets(self._router, wanted, self._isolation, deadline)
            beyond = [tp for tp, answer in found.items() if answer.offset < 0]
            if beyond:  # nothing is as young as the policy's duration
                ends = dict.fromkeys(beyond, LATEST_TIMESTAMP)
                found |= await list_offsets(self._router, ends, self._isolation, deadline)
            await self._begin({s.tp: found[s.tp].offset for s, v in missing if s.version == v})
        except (CommitFailedError, RebalanceInProgressError):
            await asyncio.sleep(REBALANCING_PAUSE_S)
            missing = []
        except (OncelogError, OSError, TimeoutError) as caught:
            error = caught
        finally:
            self._asking_leaders = False
        for state, version in missing:
            if state.version != version:
                continue
            if error is not None:
                state.fail(error)
            else:
                self._found(state, found[state.tp].offset, -1, topic_ids.get(state.tp, ""))
        self._changed()

    async def _begin(self, places: Mapping[TopicPartition, int]) -> None:
        if places and self._commit_begin is not None and self.policy is not Reset.EARLIEST:
            await self._commit_begin(places)

    def _found(
        self, state: TopicPartitionState, offset: int, epoch: int, topic_id: str = ""
    ) -> None:
        self._subscription.found(
            state, offset, epoch, topic_id or self._router.cluster.topic_id(state.tp.topic)
        )
        self._history.moved(*state.tp, offset, "found")
        self._moved(state)


def _no_offset(tp: TopicPartition) -> NoOffsetForPartitionError:
    return NoOffsetForPartitionError(
        f"{tp} has no position, and auto_offset_reset is 'none': seek first"
    )
