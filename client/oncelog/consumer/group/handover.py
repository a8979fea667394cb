"""A rebalance hands over partitions while the application is inside of a poll.

Rules
-----
* First what goes: nothing of it is handed out any more; what the application came back from is
  committed (auto commit); the listener is awaited; only then is it given up, and the coordinator
  hears of that by the next join. Then what comes: the listener is awaited before the first record.
* What was *lost* is not committed and not asked about: others may own it. It is withheld from the
  moment at which that was known.
* Commits and callbacks may fail; the handover goes through all the same, or the group would wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from oncelog.consumer.boundary import Boundary
from oncelog.consumer.group.commits import Commits
from oncelog.consumer.group.listener import RebalanceListener, tell
from oncelog.consumer.group.membership import Handover
from oncelog.consumer.offset_metadata import GroupMetadata, OffsetAndMetadata
from oncelog.consumer.reading import RecordReader
from oncelog.consumer.subscription import Reset, Subscription
from oncelog.errors import OncelogError
from oncelog.history import UNRECORDED, History, OwnerChange
from oncelog_protocol.types import TopicPartition

logger = logging.getLogger(__name__)

REVOKE_COMMIT_S = 10.0
"""How long the commit before giving up may take: the group waits for it, and so do the partitions
that stay. Without it, what was read since the last commit is read again by the next owner."""


class HandingOver:
    """A consumer gives up and takes over partitions by these steps."""

    def __init__(
        self,
        subscription: Subscription,
        reader: RecordReader,
        commits: Commits,
        boundary: Boundary,
        *,
        auto_commit: bool,
        commit_within_s: float,
        wake: Callable[[], None],
        history: History = UNRECORDED,
    ) -> None:
        self._listener: RebalanceListener | None = None
        self._subscription = subscription
        self._reader = reader
        self._commits = commits
        self._boundary = boundary
        self._auto_commit = auto_commit
        self._commit_within_s = min(commit_within_s, REVOKE_COMMIT_S)
        self._wake = wake
        self._history = history
        self._lost: dict[TopicPartition, None] = {}

    def listen(self, listener: RebalanceListener | None) -> None:
        """Tell this listener, and no other one, which partitions come and go."""
        self._listener = listener

    # ------------------------------------------------------------------------------ commits

    def reached(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return how far the application has come, or while ``run`` works, how far that is done."""
        work = self._boundary.work
        return self._reader.positions(safe=False) if work is None else dict(work.done_offsets())

    def finished(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return how far the application is done, as far as that is not committed yet.

        An offset that the application committed itself, with a record still in hand, is not taken
        back. A seek to before it is. Where reading would begin counts when the application asks
        for records, as in Kafka, whose consumer does not look for it before.
        """
        if self._boundary.in_transactions:
            return {}
        work = self._boundary.work
        done = self._reader.positions(safe=True) if work is None else dict(work.done_offsets())
        positions = self._reader.positions(safe=False)
        states = self._subscription.states
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, item in done.items():
            if tp not in states or tp in self._lost or not self._reader.asked_for(states[tp]):
                continue
            known = self._commits.known.get(tp)
            position = positions[tp].offset if tp in positions else -1
            if known is None or not item.offset <= known.offset <= max(position, item.offset):
                found[tp] = item
        return found

    async def commit_finished(self, deadline: float) -> None:
        """Commit what the application is done with (auto commit), if there is anything."""
        await self._commits.commit(self.finished, deadline)

    # ------------------------------------------------------------------------------ going through

    def withhold(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop handing out records of these partitions."""
        for tp in partitions:
            state = self._subscription.states.get(tp)
            if state is not None:
                state.withhold()
                self._reader.let_go(state)

    def lost(self, partitions: Sequence[TopicPartition], who: GroupMetadata) -> None:
        """Stop at once, whatever the application is doing: others may own these partitions."""
        states = self._subscription.states
        fresh = [tp for tp in partitions if tp in states and tp not in self._lost]
        self._lost |= dict.fromkeys(fresh)
        self.withhold(fresh)
        if fresh:
            self._note("lost", who, fresh)

    async def go_through(
        self, handover: Handover, who: Callable[[], GroupMetadata]
    ) -> Exception | None:
        """Go through a handover; return the error that a callback raised, if one did."""
        error: Exception | None = None
        states = self._subscription.states
        gone = [tp for tp in handover.revoked if tp in states]
        if handover.lost:
            if self._listener is not None and gone:
                error = await self._tell(self._listener.on_lost, gone)
            self._drop(gone)
        elif gone:
            error = await self.give_up(gone, who)
        if handover.added and who().generation_id >= 0:  # else: the group went on without it
            error = await self._take_on(handover.added, who()) or error
        return error

    async def give_up(
        self, partitions: Sequence[TopicPartition], who: Callable[[], GroupMetadata]
    ) -> Exception | None:
        """Commit, tell the listener and give the partitions up; return the listener's error."""
        loop = asyncio.get_running_loop()
        self.withhold(partitions)
        if self._boundary.work is not None:
            await self._boundary.work.taking_away(list(partitions))
        if self._auto_commit:
            try:
                await self.commit_finished(loop.time() + self._commit_within_s)
            except (OncelogError, OSError, TimeoutError) as failure:
                logger.warning(
                    "group %s: what was read of %s since the last commit will be read again: %s",
                    who().group_id,
                    _listed(partitions),
                    failure,
                )
        error = None
        if self._listener is not None:
            error = await self._tell(self._listener.on_revoked, partitions)
        kept = [tp for tp in partitions if tp not in self._lost]  # others were lost meanwhile
        self._note("revoked", who(), kept)
        self._drop(partitions)
        return error

    async def _take_on(
        self, partitions: Sequence[TopicPartition], who: GroupMetadata
    ) -> Exception | None:
        error = None
        for tp in partitions:
            self._lost.pop(tp, None)
            self._subscription.add(tp, Reset.COMMITTED)
            self._subscription.states[tp].withhold()
            self._history.moved(*tp, None, "subscribe")
        self._note("assigned", who, partitions)
        self._wake()
        if self._listener is not None:
            error = await self._tell(self._listener.on_assigned, partitions)
        for tp in partitions:
            state = self._subscription.states.get(tp)
            if state is not None and tp not in self._lost:
                state.release()
        self._wake()
        return error

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        for tp in partitions:
            self._commits.forget(tp)
            self._lost.pop(tp, None)
        self._reader.forget(partitions)
        self._subscription.remove(partitions)
        self._wake()

    async def _tell(
        self,
        callback: Callable[[Sequence[TopicPartition]], object],
        partitions: Sequence[TopicPartition],
    ) -> Exception | None:
        try:
            await tell(callback, partitions)
        except Exception as error:
            logger.warning("a rebalance listener failed: %r", error)
            return error
        return None

    def _note(
        self, how: OwnerChange, who: GroupMetadata, partitions: Sequence[TopicPartition]
    ) -> None:
        if partitions:
            self._history.owned(how, who.group_id, who.member_id, who.generation_id, partitions)


def _listed(partitions: Sequence[TopicPartition]) -> str:
    shown = ", ".join(str(tp) for tp in partitions[:5])
    return shown + (f" and {len(partitions) - 5} more" if len(partitions) > 5 else "")
