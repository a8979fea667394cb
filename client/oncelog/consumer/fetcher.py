"""The fetcher keeps one fetch under way at each leader, ahead of the application.

Rules
-----
* Raw bytes are kept, not records: decoding happens when the application asks, so what is held in
  advance is bounded in bytes (twice ``fetch_max_bytes``) and dropped for nothing at a seek.
* A fetch that waits at the leader is cut short (its connection closed) when the application wants
  something else from that leader at once: after a seek, a resume, an assignment.
* Errors of one partition pause that partition; errors of a connection pause its partitions. When
  every partition has been in trouble for ``max_block_ms`` the application hears so.
* Steps run as callbacks of the loop; whatever fails in them unexpectedly fails the consumer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from oncelog.config import ConsumerOptions
from oncelog.consumer.fetch_plan import (
    SHORT_WAIT_MS,
    FetchVerdict,
    LeaderPlan,
    RequestedPartition,
    make_request,
    plan_fetches,
    rotate,
    take_answer,
)
from oncelog.consumer.positions import Positions
from oncelog.consumer.subscription import Subscription, TopicPartitionState
from oncelog.core.connection import DATA
from oncelog.core.router import Router
from oncelog.errors import (
    ApiError,
    BrokerUnreachableError,
    ClosedError,
    CorruptMessageError,
    CorruptRecordError,
    DeadlineExceededError,
    HandshakeError,
    LogTruncationError,
    OffsetOutOfRangeError,
)
from oncelog.history import UNRECORDED, History
from oncelog_protocol.acls import READ
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.fetch import FetchPartitionResponse, FetchResponse
from oncelog_protocol.types import NO_EPOCH, NO_LEADER, IsolationLevel
from oncelog_runtime.channel import NotSentError, RequestChannel
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

SILENCE_S = 1.0
"""An answer that is later than its long poll by so much is a reason to ask who leads."""

WATCH_S = 0.5
"""How often unanswered fetches are looked at."""


@dataclass(slots=True, eq=False)
class _Poll:
    """A poll is one fetch under way, or a connection that is being opened for one."""

    asked: list[RequestedPartition]
    wait_ms: int
    due_at: float
    """When the broker should have answered, in the loop's time."""
    channel: RequestChannel | None = None
    cut_short: bool = False


class Fetcher:
    """The fetcher keeps the subscription's partitions supplied with records.

    :param let_go: called before a position moves by itself: what is being handed out is settled.
    :param left_behind: called before a position is given up because its topic is no more.
    """

    def __init__(
        self,
        router: Router,
        subscription: Subscription,
        options: ConsumerOptions,
        *,
        now_ms: Callable[[], int],
        let_go: Callable[[TopicPartitionState], None],
        left_behind: Callable[[TopicPartitionState], None],
    ) -> None:
        self.failure: BaseException | None = None
        self.held_back = False
        """Whether nothing is fetched because too much is held in advance already."""
        self._router = router
        self._let_go = let_go
        self._left_behind = left_behind
        self._subscription = subscription
        self._options = options
        self._history = router.history
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks(f"{router.options.client_id}/fetcher", self.fail)
        self._polls: dict[int, _Poll] = {}
        self._backoff = router.new_backoff("fetch")
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turn = 0
        self._woken = False
        self._closed = False
        self._retry_timer: asyncio.TimerHandle | None = None
        self._retry_at = 0.0
        self._watch_timer: asyncio.TimerHandle | None = None
        self.positions = Positions(
            router,
            subscription,
            options,
            self._tasks,
            now_ms,
            moved=self.expedite,
            changed=self.look_again,
        )
        router.on_metadata.append(self.wake)

    # ------------------------------------------------------------------------------ wake-ups

    def wake(self) -> None:
        """Look for something to fetch in the loop's next round. A call costs next to nothing."""
        if not self._woken and not self._closed:
            self._woken = True
            self._loop.call_soon(self._guarded, self._schedule)

    async def wait_for_data(self) -> None:
        """Wait until there may be something to hand out; an error counts."""
        self.wake()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        await future

    def notify(self) -> None:
        """Wake all waiting calls, so that they look again."""
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def look_again(self) -> None:
        """Let waiting calls look for records, positions or errors, and fetch what may be."""
        self.notify()
        self.wake()

    def expedite(self, state: TopicPartitionState) -> None:
        """Fetch this partition now, as the application wants it: end a long poll that delays it."""
        leader = self._router.cluster.leader(state.tp)
        poll = self._polls.get(leader)
        if poll is not None and poll.channel is not None and poll.wait_ms > SHORT_WAIT_MS:
            serves = any(a.state is state and a.version == state.version for a in poll.asked)
            if not serves:
                poll.cut_short = True
                self._router.connections.drop_channel(
                    leader, DATA, "the fetch was overtaken by a seek"
                )
        self.wake()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            self.fail("step", error)

    def fail(self, name: str, error: BaseException) -> None:
        """Note that a background part of the consumer died: every poll raises from now on."""
        if self.failure is None:
            self.failure = error
        self.notify()

    # ------------------------------------------------------------------------------ fetching

    def _schedule(self) -> None:
        self._woken = False
        if self._closed or self.failure is not None:
            return
        states = self._subscription.states
        for state in self.positions.check_topics():
            self._left_behind(state)
            self.positions.made_again(state)
            self.notify()
        if any(s.offset is None and s.error is None for s in states.values()):
            self.positions.look()
        now = self._loop.time()
        self._turn += 1
        buffered = self._subscription.buffered
        buffer_bytes = 2 * self._options.fetch_max_bytes
        if buffered >= buffer_bytes and self._forget_paused():
            buffered = self._subscription.buffered
        self.held_back = buffered >= buffer_bytes
        plans, needs_metadata, wake_at = plan_fetches(
            rotate(list(states.values()), self._turn),
            self._router.cluster,
            now=now,
            busy=self._polls,
            wait_ms=self._options.fetch_max_wait_ms,
            partition_bytes=self._options.max_partition_fetch_bytes,
            buffer_bytes=buffer_bytes,
            buffered=buffered,
        )
        if needs_metadata:
            self._note_leaderless(now)
            self._router.refresh_soon()
        if wake_at is not None:
            self._wake_at(wake_at)
        for plan in plans:
            channel = self._router.connections.channel_now(plan.leader, DATA)
            if channel is None or channel.held:
                poll = _Poll(
                    [RequestedPartition(s, s.version, s.fetch_offset) for s in plan.partitions],
                    0,
                    now,
                )
                self._polls[plan.leader] = poll
                self._tasks.spawn(f"connect {plan.leader}", self._connect(plan.leader, poll))
            else:
                self._fetch(plan, channel, now)

    def _forget_paused(self) -> bool:
        """Drop what paused partitions hold: nobody may ever take it, and others need the room."""
        idle = [s for s in self._subscription.states.values() if s.paused and s.chunks]
        for state in idle:
            state.drop_fetched()
        return bool(idle)

    def _fetch(self, plan: LeaderPlan, channel: RequestChannel, now: float) -> None:
        options = self._options
        request, asked = make_request(
            plan,
            self._router.cluster,
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            partition_bytes=options.max_partition_fetch_bytes,
            isolation_level=int(options.isolation_code),
        )
        poll = _Poll(asked, plan.wait_ms, now + plan.wait_ms / 1000, channel)
        channel.send(request, callback=partial(self._answered, plan.leader, poll))
        self._polls[plan.leader] = poll
        if self._watch_timer is None:
            self._watch_timer = self._loop.call_later(WATCH_S, self._guarded, self._check_time)

    async def _connect(self, leader: int, poll: _Poll) -> None:
        try:
            channel = await self._router.connections.channel(leader, DATA)
            await channel.drain()
        except (BrokerUnreachableError, NotSentError) as error:
            self._trouble_all(poll, error)
        except HandshakeError as error:
            self._trouble_all(poll, error)
            self._refused(poll, error)
        finally:
            self._polls.pop(leader, None)
        self.wake()

    def _answered(self, leader: int, poll: _Poll, reply: Any, error: BaseException | None) -> None:
        try:
            if self._polls.get(leader) is poll:
                del self._polls[leader]
            self._count(poll, reply, error)
            if self._closed:
                return
            if error is not None:
                self._trouble_all(poll, error)
            else:
                self._take_response(poll, reply.message, reply.payload)
            self.wake()
        except Exception as failure:
            logger.exception("the fetcher failed")
            self.fail("answer", failure)

    def _count(self, poll: _Poll, reply: Any, error: BaseException | None) -> None:
        counters = self._router.counters
        if error is not None or reply.message.error_code:
            if not poll.cut_short:
                counters.fetch_failed()
            return
        asked_at = poll.due_at - poll.wait_ms / 1000
        counters.fetched(len(reply.payload), self._loop.time() - asked_at)

    def _take_response(self, poll: _Poll, response: FetchResponse, payload: memoryview) -> None:
        if response.error_code:
            self._trouble_all(poll, error_for(response.error_code))
            return
        answers: dict[tuple[str, int], FetchPartitionResponse] = {
            (topic.topic, answer.partition): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        ready = False
        for asked in poll.asked:
            answer = answers.get(asked.state.tp)
            if answer is None:
                continue  # the answer was full before it came to this partition
            verdict, error = take_answer(asked, answer, payload)
            if verdict is FetchVerdict.RAISE and error is not None:
                error = self._router.explained(error, READ, asked.state.tp.topic)
            if self._history is not UNRECORDED:
                committed = self._options.isolation_code is IsolationLevel.READ_COMMITTED
                _note_watermark(self._history, asked, answer, verdict, committed)
            if verdict is not FetchVerdict.OK and verdict is not FetchVerdict.STALE:
                self._handle(verdict, asked.state, answer, error)
            ready = ready or asked.state.has_data
        if ready:
            self._backoff.reset()
            self.notify()

    def _handle(
        self,
        verdict: FetchVerdict,
        state: TopicPartitionState,
        answer: FetchPartitionResponse,
        error: ApiError | None,
    ) -> None:
        """Act on an answer that brought no records."""
        if verdict is FetchVerdict.REFRESH:
            assert error is not None
            self._trouble(state, error)
            self._router.refresh_soon()
        elif verdict is FetchVerdict.TRUNCATED:
            assert answer.diverging is not None
            self._truncated(state, answer.diverging.end_offset, answer.diverging.leader_epoch)
        elif verdict is FetchVerdict.RESET:
            self._out_of_range(state)
        elif isinstance(error, CorruptMessageError):
            state.fail(CorruptRecordError(*state.tp, state.fetch_offset, str(error)))
        else:
            assert error is not None
            state.fail(type(error)(f"{state.tp}: {error}"))

    def _truncated(self, state: TopicPartitionState, end_offset: int, epoch: int) -> None:
        """Act on a log that no longer holds what was fetched (KIP-320): never skip, always say so.

        What was fetched in advance is fetched again; the application hears only when records that
        it was handed are gone.
        """
        self._let_go(state)
        position = state.offset
        assert position is not None
        resume = min(position, max(end_offset, 0))
        logger.warning(
            "%s: the log was truncated to %d, below %d", state.tp, end_offset, state.fetch_offset
        )
        if resume == position:
            state.seek(position, state.epoch)
        else:
            state.seek(resume, epoch)
            self._history.moved(*state.tp, resume, "truncated")
            state.fail(LogTruncationError(state.tp, position, resume))
        self.notify()

    def _out_of_range(self, state: TopicPartitionState) -> None:
        if state.chunks:
            # What came before is still to be handed out; then the position is asked about again.
            state.retry_after(self._loop.time() + 0.1)
            return
        offset = state.fetch_offset
        policy = self.positions.policy
        if policy is None:
            state.fail(
                OffsetOutOfRangeError(
                    f"{state.tp}: offset {offset} is out of range, and auto_offset_reset is 'none'"
                )
            )
            self.notify()
            return
        logger.warning("%s: offset %d is out of range, reset to %s", state.tp, offset, policy.kind)
        state.lose(policy)
        self._history.moved(*state.tp, None, "reset")

    # ------------------------------------------------------------------------------ trouble

    def _trouble(self, state: TopicPartitionState, error: BaseException) -> None:
        now = self._loop.time()
        state.retry_after(now + self._backoff.next_s())
        state.in_trouble(now)
        self._speak_up(now, error)

    def _trouble_all(self, poll: _Poll, error: BaseException) -> None:
        if poll.cut_short:
            return  # by ourselves: nothing is wrong
        logger.debug("fetch: %s", error)
        now = self._loop.time()
        pause_s = self._backoff.next_s()
        for asked in poll.asked:
            if asked.version == asked.state.version:
                asked.state.retry_after(now + pause_s)
                asked.state.in_trouble(now)
        self._router.refresh_soon()
        self._speak_up(now, error)

    def _refused(self, poll: _Poll, error: HandshakeError) -> None:
        """Tell the application at once: waiting does not help."""
        for asked in poll.asked:
            if asked.version == asked.state.version:
                asked.state.fail(error)
                self.notify()
                return

    def _note_leaderless(self, now: float) -> None:
        leader_of = self._router.cluster.leader
        for state in self._subscription.states.values():
            if leader_of(state.tp) == NO_LEADER and not state.paused:
                state.in_trouble(now)
        self._speak_up(now, BrokerUnreachableError(NO_LEADER, "?", "partitions have no leader"))

    def _speak_up(self, now: float, error: BaseException) -> None:
        """Tell the application when no record at all has come for too long, and why."""
        patience_s = self._router.options.max_block_ms / 1000
        active = [state for state in self._subscription.states.values() if not state.paused]
        if not active or any(
            state.trouble_since is None or now - state.trouble_since < patience_s
            for state in active
        ):
            return
        state = active[0]
        failure = DeadlineExceededError(
            f"nothing could be fetched for {patience_s:.0f} s; last error: {error}"
        )
        failure.__cause__ = error
        state.fail(failure)
        for each in active:
            each.trouble_told(now)
        self.notify()

    def _wake_at(self, when: float) -> None:
        if self._retry_timer is not None:
            if self._retry_at <= when:
                return
            self._retry_timer.cancel()
        # Not asked of the timer: what is due within a millisecond has no time with uvloop.
        self._retry_at = when
        self._retry_timer = self._loop.call_at(when, self._guarded, self._retry_due)

    def _retry_due(self) -> None:
        self._retry_timer = None
        self._schedule()

    def _check_time(self) -> None:
        """Close what is overdue; do not wait for a silent leader that leads no more."""
        self._watch_timer = None
        now = self._loop.time()
        timeout_s = self._router.options.request_timeout_ms / 1000
        for leader, poll in list(self._polls.items()):
            if poll.channel is None:
                continue
            late_s = now - poll.due_at
            if late_s >= timeout_s:
                poll.channel.close(f"no answer to a fetch, {late_s:.1f} s late")
            elif late_s >= SILENCE_S:
                self._router.refresh_soon()
                leader_of = self._router.cluster.leader
                if all(leader_of(a.state.tp) not in (leader, NO_LEADER) for a in poll.asked):
                    poll.channel.close("silent, and no longer the leader")
        if self._polls:
            self._watch_timer = self._loop.call_later(WATCH_S, self._guarded, self._check_time)

    # ------------------------------------------------------------------------------ end

    async def close(self) -> None:
        """Stop fetching, and wake the calls that wait for data."""
        self._closed = True
        if self.wake in self._router.on_metadata:
            self._router.on_metadata.remove(self.wake)
        for timer in (self._retry_timer, self._watch_timer):
            if timer is not None:
                timer.cancel()
        self.notify()
        await self._tasks.close()

    def raise_if_failed(self) -> None:
        """Raise an unexpected failure of the background in the caller."""
        if self.failure is not None:
            raise ClosedError("the consumer failed in the background") from self.failure
        self._router.raise_if_failed()


def _note_watermark(
    history: History,
    asked: RequestedPartition,
    answer: FetchPartitionResponse,
    verdict: FetchVerdict,
    committed: bool,
) -> None:
    if verdict is FetchVerdict.OK and asked.leader_epoch != NO_EPOCH:
        end = asked.state.fetch_offset
        history.watermark(
            *asked.state.tp,
            asked.leader_epoch,
            answer.high_watermark,
            end if end > asked.offset else -1,
            answer.last_stable_offset if committed else -1,
        )
