"""Finding positions: for partitions that have none, from the group's commits or by the policy.

Rules
-----
* One question to the group and one to the leaders are under way at most; what a seek overtook is
  ignored when it is answered.
* A group that is in the middle of a rebalance is asked again, and so is one whose offsets an open
  transaction may still change, as long as that takes: it has a time-out. Any other failure is told
  to the application at that partition, which may go on and so try again.
* A partition of which the group has committed nothing goes by ``auto_offset_reset``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from oncelog.config import ConsumerOptions
from oncelog.consumer.offset_metadata import OffsetAndMetadata
from oncelog.consumer.offsets import list_offsets
from oncelog.consumer.subscription import PartitionState, Reset, Subscription, reset_of
from oncelog.errors import (
    CommitFailedError,
    NoOffsetForPartitionError,
    OncelogError,
    RebalanceInProgressError,
    UnstableOffsetCommitError,
)
from oncelog.history import History
from oncelog.router import Router
from oncelog_protocol.types import LATEST_TIMESTAMP, TopicPartition
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

Committed = Mapping[TopicPartition, OffsetAndMetadata | None]

REBALANCING_PAUSE_S = 0.05
"""Before a group that is rebalancing is asked again."""


class Positions:
    """Finds them for one subscription.

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
        moved: Callable[[PartitionState], None],
        changed: Callable[[], None],
        history: History | None = None,
    ) -> None:
        self.policy = reset_of(options.auto_offset_reset)
        self.committed: Callable[[Sequence[TopicPartition]], Awaitable[Committed]] | None = None
        """Asks the group; set while there is one. Leaves out what is not settled."""
        self._router = router
        self._subscription = subscription
        self._isolation = int(options.isolation_code)
        self._tasks = tasks
        self._now_ms = now_ms
        self._moved = moved
        self._changed = changed
        self._history = history
        self._asking_group = False
        self._asking_leaders = False

    def look(self) -> None:
        """Begin to find what is missing. Free to call."""
        by_group = by_leaders = False
        for state in self._subscription.without_position():
            if state.error is not None:
                continue
            if state.reset is None:
                state.error = _no_offset(state.tp)
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

    def _missing(self, *, of_group: bool) -> list[tuple[PartitionState, int]]:
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
            if self.committed is not None and missing:
                found = await self.committed([state.tp for state, _ in missing])
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
                state.error = error
                continue
            if state.tp not in found:
                continue  # not settled: asked for again
            item = found[state.tp]
            if item is not None:
                self._found(state, item.offset, item.leader_epoch)
            elif state.origin is not None:
                self._found(state, *state.origin)
            elif self.policy is None:
                state.error = _no_offset(state.tp)
            else:
                state.reset = self.policy
        self._changed()

    async def _ask_leaders(self) -> None:
        missing = self._missing(of_group=False)
        deadline = asyncio.get_running_loop().time() + self._router.options.max_block_ms / 1000
        now_ms = self._now_ms()
        wanted = {state.tp: state.reset.timestamp(now_ms) for state, _ in missing if state.reset}
        error: BaseException | None = None
        found = {}
        try:
            found = await list_offsets(self._router, wanted, self._isolation, deadline)
            beyond = [tp for tp, answer in found.items() if answer.offset < 0]
            if beyond:  # nothing is as young as the policy's duration
                ends = dict.fromkeys(beyond, LATEST_TIMESTAMP)
                found |= await list_offsets(self._router, ends, self._isolation, deadline)
        except (OncelogError, OSError, TimeoutError) as caught:
            error = caught
        finally:
            self._asking_leaders = False
        for state, version in missing:
            if state.version != version:
                continue
            if error is not None:
                state.error = error
            else:
                self._found(state, found[state.tp].offset, -1)
        self._changed()

    def _found(self, state: PartitionState, offset: int, epoch: int) -> None:
        state.seek(offset, epoch)
        state.origin = (offset, epoch)
        if self._history is not None:
            self._history.moved(*state.tp, offset, "found")
        self._moved(state)


def _no_offset(tp: TopicPartition) -> NoOffsetForPartitionError:
    return NoOffsetForPartitionError(
        f"{tp} has no position, and auto_offset_reset is 'none': seek first"
    )
