"""A member runs its state machine against the coordinator and the application.

Rules
-----
* One task talks to the coordinator: it joins, syncs and beats, whichever the phase asks for, beside
  the application. Polls only ever wait for a handover, and only for their own.
* A handover is gone through in a task of its own that a poll begins and waits for; a poll that is
  cancelled (its time is up) leaves it running, and the next one waits for it first.
* Heartbeats follow ``heartbeat_interval_ms`` whatever the application does, until it has not come
  for ``max_poll_interval_ms``: a warning at four fifths, then the member leaves.
* Trouble with the coordinator is tried again with growing pauses, told once; only a member that
  could not join for ``max_block_ms`` tells the application.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from oncelog.config import GroupOptions
from oncelog.consumer.assignors.base import Assignor
from oncelog.consumer.assignors.choice import rebalance_protocol
from oncelog.consumer.group import membership as m
from oncelog.consumer.group.commits import CommitIdentity
from oncelog.consumer.group.coordinator import COMMITS, MEMBERSHIP, Coordinator
from oncelog.consumer.group.handover import HandingOver
from oncelog.consumer.group.topics import GroupTopics
from oncelog.consumer.offset_metadata import GroupMetadata
from oncelog.consumer.reading import RecordReader
from oncelog.core.router import Failure, Router
from oncelog.errors import (
    CommitFailedError,
    DeadlineExceededError,
    HandshakeError,
    MaxPollIntervalExceededError,
)
from oncelog_protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.errors import ApiError, InvalidRequestError, MemberIdRequiredError
from oncelog_protocol.messages.groups import (
    GroupProtocol,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

PARKED_SLACK_S = 5.0
"""An answer to a parked request is waited for so much longer than it may be parked."""

SETTLING_BEAT_S = 0.3
"""The pause between the heartbeats that follow an assignment, for as long as one usually takes:
partitions that somebody has just given up are shared out in a second round, which heartbeats tell
of."""

LEAVE_S = 2.0
"""How long a leaving member tries to say so; without it the session runs out."""

POLL_WARNING = 0.8
"""A warning is due at this part of ``max_poll_interval_ms``."""


class GroupMember(CommitIdentity):
    """A subscription has one member; ``start`` begins to join."""

    def __init__(
        self,
        router: Router,
        options: GroupOptions,
        assignors: Sequence[Assignor],
        topics: GroupTopics,
        coordinator: Coordinator,
        reader: RecordReader,
        handing_over: HandingOver,
        tasks: Tasks,
        *,
        wake: Callable[[], None],
    ) -> None:
        assert options.group_id is not None
        super().__init__(options.group_id, options.group_instance_id)
        self.state = m.Membership(cooperative=rebalance_protocol(assignors) == "cooperative")
        self.topics = topics
        self._router = router
        self._options = options
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._coordinator = coordinator
        self._reader = reader
        self._handing_over = handing_over
        self._tasks = tasks
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._handover: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        """Raised by the next poll."""
        self._pace = router.new_backoff("membership")
        self._joined = JoinGroupResponse()
        self._beat_at = self._settled_at = 0.0
        self._warned = False
        self._trouble_since: float | None = None

    def start(self) -> None:
        """Begin to join the group."""
        self._reader.came_back()
        self._reader.last_poll_at(self._loop.time())
        self._handle(m.Wanted("subscribed"))
        self._router.on_metadata.append(self._look_at_topics)
        self._tasks.spawn("membership", self._run())

    # ------------------------------------------------------------------------------ application

    def at_poll(self) -> Any:
        """Return what a poll has to wait for; None when there is nothing.

        :raises MaxPollIntervalExceededError: the member has left; the next poll joins anew.
        :raises ApiError: the coordinator refuses this member; the next poll tries again.
        """
        state = self.state
        if state.handover is None and self._handover is None and self._error is None:
            if state.phase is m.MemberPhase.OUT:
                self._handle(m.Wanted("polled again"))
            return None
        return self._go_through()

    async def _go_through(self) -> None:
        while self.state.handover is not None or self._handover is not None:
            if self._handover is None:
                assert self.state.handover is not None
                self._handle(m.HandoverBegan())
                work = self._hand_over(self.state.handover)
                self._handover = self._tasks.spawn("handover", work)
            under_way = self._handover
            try:
                await asyncio.shield(under_way)
            except asyncio.CancelledError:
                if under_way.cancelled() and self._tasks.closed:
                    return  # the consumer is being closed, nobody cancelled the poll
                raise
        error, self._error = self._error, None
        if error is not None:
            if self.state.phase is m.MemberPhase.FAILED:
                self._error = error  # for good
            raise error

    async def _hand_over(self, handover: m.Handover) -> None:
        try:
            error = await self._handing_over.go_through(handover, self.asking)
        finally:
            self._handover = None
        if error is not None and self._error is None:
            self._error = error
        self._handle(m.HandoverDone())
        self._look_at_topics()

    @property
    def settled(self) -> bool:
        """Return whether no rebalance is under way and the application knows the last one."""
        state = self.state
        return (
            state.phase is m.MemberPhase.STABLE
            and state.handover is None
            and self._handover is None
        )

    def want(self, reason: str) -> None:
        """Start a rebalance as soon as that is possible; ``reason`` is for the log."""
        self._handle(m.Wanted(reason))

    def subscribe(self, topics: GroupTopics) -> None:
        """Read other topics from now on."""
        self.topics = topics
        self._handle(m.Wanted("the subscription changed"))

    # ------------------------------------------------------------------------------ identity

    def asking(self) -> GroupMetadata:
        """Return the identity for questions: the member's, if it is one."""
        state = self.state
        who = (state.generation, state.member_id) if state.is_member else (-1, "")
        return GroupMetadata(self.group_id, *who, self.group_instance_id)

    def now(self, partitions: Sequence[TopicPartition]) -> GroupMetadata:
        """Return the identity of a member that has these partitions, or raise CommitFailedError."""
        if not self.state.is_member:
            raise CommitFailedError(
                f"group {self.group_id!r}: this consumer is not a member of it at the moment"
                f" ({self.state.phase.value}); what it read may be another's by now"
            )
        owned = frozenset(self.state.owned)
        if self.state.handing_over and self.state.handover is not None:
            owned |= frozenset(self.state.handover.added)
        for tp in partitions:
            if tp not in owned:
                raise CommitFailedError(f"{tp} is not assigned to this member of the group")
        return self.asking()

    def fenced(self, who: GroupMetadata, code: int) -> bool:
        """Return whether the generation is just changing; else the state machine hears of it."""
        if self.state.in_flux or who[:3] != self.asking()[:3]:
            return self.state.is_member
        self._handle(m.Refused(code))
        return False

    # ------------------------------------------------------------------------------ the machine

    def _handle(self, event: m.Event) -> None:
        before = self.state.phase
        who = self.asking()
        for effect in self.state.handle(event):
            match effect:
                case m.OfferHandover():
                    self._reader.drop_cursor()
                    self._wake()
                case m.StopReading(partitions):
                    logger.warning(
                        "group %s: lost %d partitions: %s",
                        self.group_id,
                        len(partitions),
                        self.state.reason,
                    )
                    self._handing_over.lost(partitions, who)
                case m.Tell(error):
                    self._error = error
                    self._reader.drop_cursor()
                    self._wake()
                case m.SendLeave(member_id, reason):
                    if self.group_instance_id is None:
                        self._tasks.spawn("leave", self._leave(member_id, reason))
        if self.state.phase is not before:
            logger.debug("group %s: %s -> %s", self.group_id, before.value, self.state.phase.value)
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            phase = self.state.phase
            try:
                if phase is m.MemberPhase.JOINING:
                    await self._join()
                elif phase is m.MemberPhase.SYNCING:
                    await self._sync()
                elif phase in m.BEATING:
                    await self._beat()
                else:
                    await self._changed.wait()
            except Failure as error:
                await self._trouble(error)

    async def _trouble(self, error: BaseException) -> None:
        now = self._loop.time()
        logger.debug("group %s: %s", self.group_id, error)
        if self._trouble_since is None:
            self._trouble_since = now
        patience_s = self._router.options.max_block_ms / 1000
        if isinstance(error, HandshakeError):
            self._error = error
            self._wake()
        elif now - self._trouble_since >= patience_s and not self.state.owned:
            self._trouble_since = now
            failure = DeadlineExceededError(
                f"group {self.group_id!r}: could not join for {patience_s:.0f} s: {error}"
            )
            failure.__cause__ = error
            self._error = failure
            self._wake()
        if isinstance(error, ApiError) and not error.retriable:
            self._handle(m.Refused(error.code, str(error)))
        else:
            self._handle(m.CoordinatorLost())
        await asyncio.sleep(self._pace.next_s())

    def _succeeded(self) -> None:
        """Note that the coordinator works. A join alone does not show that: it stores nothing."""
        self._pace.reset()
        self._trouble_since = None

    async def _refused(self, code: int, message: str | None) -> None:
        """Handle an error that the coordinator answered; pause before the same is asked again."""
        phase = self.state.phase
        self._handle(m.Refused(code, message or ""))
        if self.state.phase is phase or code in m.TRANSIENT:
            await asyncio.sleep(self._pace.next_s())

    # ------------------------------------------------------------------------------ join, sync

    async def _join(self) -> None:
        options, state = self._options, self.state
        request = JoinGroupRequest(
            self.group_id,
            options.session_timeout_ms,
            options.max_poll_interval_ms,
            state.member_id,
            self.group_instance_id,
            PROTOCOL_TYPE,
            [GroupProtocol(a.name, self._subscription_for(a)) for a in self._assignors.values()],
            state.reason,
        )
        self._handle(m.JoinSent())
        timeout_s = options.max_poll_interval_ms / 1000 + PARKED_SLACK_S
        response: JoinGroupResponse = await self._coordinator.call_parked(request, timeout_s)
        if state.phase is not m.MemberPhase.JOINING:
            return
        if response.error_code == MemberIdRequiredError.code:
            self._handle(m.MemberIdGiven(response.member_id))
        elif response.error_code:
            await self._refused(response.error_code, response.error_message)
        else:
            self._trouble_since = None
            self._joined = response
            is_leader = response.leader == response.member_id
            self._handle(m.Joined(response.member_id, response.generation_id, is_leader))

    def _subscription_for(self, assignor: Assignor) -> bytes:
        topics, state = self.topics.subscribed, self.state
        return encode_subscription(
            ConsumerSubscription(
                topics,
                state.owned,
                state.generation,
                None,
                assignor.subscription_user_data(topics, *state.previous),
            )
        )

    async def _sync(self) -> None:
        joined = self._joined
        request = SyncGroupRequest(
            self.group_id,
            joined.generation_id,
            joined.member_id,
            self.group_instance_id,
            PROTOCOL_TYPE,
            joined.protocol_name,
            await self._shares(joined),
        )
        timeout_s = self._options.max_poll_interval_ms / 1000 + PARKED_SLACK_S
        response: SyncGroupResponse = await self._coordinator.call_parked(request, timeout_s)
        state = self.state
        if state.phase is not m.MemberPhase.SYNCING or state.generation != joined.generation_id:
            return
        if response.error_code:
            await self._refused(response.error_code, response.error_message)
            return
        self._succeeded()
        partitions = decode_assignment(response.assignment).partitions
        wanted = frozenset(self.topics.subscribed)
        mine = tuple(tp for tp in partitions if tp.topic in wanted)
        self._settled_at = self._loop.time() + self._options.heartbeat_interval_ms / 1000
        self._beat_at = self._next_beat_at()
        self._router.counters.rebalanced()
        self._handle(m.Synced(mine))
        logger.info(
            "group %s: generation %d, %s of %d partitions as %s%s",
            self.group_id,
            joined.generation_id,
            "leader, reader" if state.is_leader else "reader",
            len(mine),
            joined.member_id,
            f" ({state.reason})" if state.reason else "",
        )
        if len(mine) < len(partitions):
            self._handle(m.Wanted("topics that are not subscribed any more"))
        self._look_at_topics()

    async def _shares(self, joined: JoinGroupResponse) -> list[MemberAssignment]:
        """Return the assignments that the leader hands in; another member hands in nothing."""
        if not self.state.is_leader:
            self.topics.led_by_another()
            return []
        members = {each.member_id: self._told(each.metadata) for each in joined.members}
        counts = await self.topics.partition_counts(members)
        if joined.skip_assignment:
            return []
        assignor = self._assignors[joined.protocol_name or ""]
        shares = assignor.assign(counts, members)
        return [
            MemberAssignment(member_id, encode_assignment(share))
            for member_id, share in shares.items()
        ]

    def _told(self, metadata: bytes) -> ConsumerSubscription:
        """Parse a member's subscription. One that cannot be read counts as empty."""
        try:
            return decode_subscription(metadata)
        except InvalidRequestError as error:
            logger.warning("group %s: a member's subscription: %s", self.group_id, error)
            return ConsumerSubscription(())

    # ------------------------------------------------------------------------------ heartbeats

    async def _beat(self) -> None:
        """Send one heartbeat when it is due, unless something changes before."""
        due = min(self._beat_at, self._check_polls())
        try:
            async with asyncio.timeout_at(due):
                await self._changed.wait()
            return
        except TimeoutError:
            pass
        now = self._loop.time()
        options, state = self._options, self.state
        if now < self._beat_at:
            return  # it was the polls that had to be looked at
        self._beat_at = self._next_beat_at()
        if state.phase not in m.BEATING or not state.is_member:
            return
        generation = state.generation
        request = HeartbeatRequest(
            self.group_id, generation, state.member_id, self.group_instance_id
        )
        # Several attempts must fit into a session.
        timeout_s = min(options.session_timeout_ms / 3, self._router.options.request_timeout_ms)
        try:
            response: HeartbeatResponse = await self._coordinator.call(
                request, MEMBERSHIP, timeout_s / 1000
            )
        except Failure:
            self._beat_at = now  # again, as soon as a coordinator is known
            raise
        if state.generation != generation:
            return
        if response.error_code:
            if response.error_code in m.TRANSIENT:
                self._beat_at = now
            await self._refused(response.error_code, response.error_message)
        else:
            self._succeeded()

    def _next_beat_at(self) -> float:
        now, interval_s = self._loop.time(), self._options.heartbeat_interval_ms / 1000
        if self.state.cooperative and now < self._settled_at:
            interval_s = min(interval_s, SETTLING_BEAT_S)
        return now + interval_s

    def _check_polls(self) -> float:
        """Warn, or leave, when the application does not poll; return when to look again."""
        now = self._loop.time()
        limit_s = self._options.max_poll_interval_ms / 1000
        since_s = now - self._reader.last_poll_at(now)
        if since_s < limit_s * POLL_WARNING or self.state.handing_over:
            self._warned = False
            left_s = limit_s * POLL_WARNING - since_s
            return now + (min(left_s, limit_s / 10) if left_s > 0.001 else limit_s / 10)
        if since_s >= limit_s:
            interval_ms = self._options.max_poll_interval_ms
            error = MaxPollIntervalExceededError(self.group_id, interval_ms)
            logger.error("%s", error)
            self._handle(m.PollOverdue(error))
        elif not self._warned:
            self._warned = True
            logger.warning(
                "group %s: no poll for %.1f s; after %.1f s this member will leave the group",
                self.group_id,
                since_s,
                limit_s,
            )
        return now + max(limit_s - since_s, 0.001)

    # ------------------------------------------------------------------------------ topics

    def _look_at_topics(self) -> None:
        """Match the pattern again; as the leader, look for changes in what was shared out."""
        for topic in self.topics.newly_missing():
            logger.warning(
                "group %s: topic %r does not exist; it is read from when it does",
                self.group_id,
                topic,
            )
        if self.topics.by_pattern and self.topics.look_again():
            self._handle(m.Wanted("the pattern matches other topics"))
        elif self.state.is_leader and self.state.phase in (
            m.MemberPhase.STABLE,
            m.MemberPhase.SETTLING,
        ):
            grown = self.topics.grown()
            if grown:
                self._handle(m.Wanted(f"partitions added: {', '.join(grown)[:200]}"))

    # ------------------------------------------------------------------------------ end

    async def _leave(self, member_id: str, reason: str) -> None:
        request = LeaveGroupRequest(self.group_id, [LeavingMember(member_id, None, reason)])
        try:
            async with asyncio.timeout(LEAVE_S):
                # Not behind a join that is parked.
                await self._coordinator.call(request, COMMITS, LEAVE_S)
        except Failure as error:
            logger.debug("group %s: leaving: %s", self.group_id, error)

    async def close(self, deadline: float) -> None:
        """Commit, tell the listener, and leave, by ``deadline`` (the loop's time)."""
        if self._look_at_topics in self._router.on_metadata:
            self._router.on_metadata.remove(self._look_at_topics)
        state = self.state
        partitions = [tp for tp in state.owned if state.generation >= 0]
        try:
            async with asyncio.timeout_at(deadline):
                if self._handover is not None:
                    await asyncio.shield(self._handover)
                    partitions = [tp for tp in state.owned if state.generation >= 0]
                if partitions:
                    await self._handing_over.give_up(partitions, self.asking)
        except TimeoutError:
            logger.warning("group %s: closing took too long; giving up at once", self.group_id)
        finally:
            await self._tasks.close()
        member_id = state.member_id
        state.handle(m.Left())
        if member_id and self.group_instance_id is None:
            await self._leave(member_id, "the consumer was closed or unsubscribed")
