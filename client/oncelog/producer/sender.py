"""The sender takes batches to their leaders, and keeps a bounded number in flight.

Rules
-----
* One Produce request carries the first ready batch of each partition that the leader leads, up to
  ``max_request_size``; at most ``max_in_flight_requests_per_connection`` are unanswered on one
  connection. Answers come in order.
* A partition never has batches in flight to two leaders. What becomes of a batch that was sent is
  ``outcomes``.
* A broker that is silent for SILENCE_S is checked against fresh metadata; when somebody else leads
  by then, its connection is given up at once instead of at the request's time-out.
* Nothing here is awaited on the way: a wake-up (``wake``) runs ``_pump`` in the loop's next round,
  callbacks of answers do the rest. Whatever fails in them unexpectedly fails the producer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from oncelog.core.backoff import Backoff
from oncelog.core.connection import DATA
from oncelog.core.router import Router
from oncelog.errors import (
    BrokerUnreachableError,
    ClosedError,
    HandshakeError,
    error_for,
    is_retriable,
)
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.outcomes import Outcomes
from oncelog.producer.partition_queue import Batch, PartitionQueue
from oncelog.producer.produce import closed_error, produce_request
from oncelog.producer.safeguards import SAFE, ProducerSafeguards
from oncelog.producer.sequence import Sequences
from oncelog.producer.transactions.session import TransactionSession
from oncelog_protocol import limits
from oncelog_protocol.acls import IDEMPOTENT_WRITE
from oncelog_protocol.errors import ApiError, OncelogError
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.messages.transactions import InitPidRequest, InitPidResponse
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.types import NO_LEADER, Acks
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

SILENCE_S = 1.0
"""An answer that takes longer is a reason to ask who leads."""

ANSWER_SLACK_S = 1.0
"""A broker answers REQUEST_TIMED_OUT itself at ``request_timeout_ms``; we give up after that."""

WATCH_S = 0.25
"""How often deadlines are looked at while anything is under way; they are that exact."""


class Link:
    """The sender knows this about one leader."""

    __slots__ = ("backoff", "channel", "connecting", "draining", "leader", "retry_at", "sent")

    def __init__(self, leader: int, backoff: Backoff) -> None:
        self.leader = leader
        self.backoff = backoff
        self.channel: RequestChannel | None = None
        self.connecting = False
        self.draining = False
        self.retry_at = 0.0
        self.sent: deque[tuple[float, Sequence[Batch]]] = deque()
        """(when, batches) of every unanswered request, oldest first."""


class Sender:
    """The sender takes batches from an accumulator to the leaders."""

    def __init__(
        self,
        router: Router,
        accumulator: Accumulator,
        *,
        idempotent: bool,
        acks: Acks,
        codec: Codec,
        codec_level: int | None,
        in_flight_max: int,
        max_request_size: int,
        session: TransactionSession | None = None,
        safeguards: ProducerSafeguards = SAFE,
    ) -> None:
        self.failure: BaseException | None = None
        self._router = router
        self._accumulator = accumulator
        self._session = session
        self._sequences = Sequences(enabled=idempotent, transactional=session is not None)
        self._outcomes = Outcomes(
            router,
            accumulator,
            self._sequences,
            in_flight_max=in_flight_max,
            session=session,
            safeguards=safeguards,
        )
        self._identifying = False
        self._acks = acks
        self._codec = codec
        self._codec_level = codec_level
        self._in_flight_max = in_flight_max
        self._max_request_size = max_request_size
        self._request_timeout_s = router.options.request_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks(f"{router.options.client_id}/sender", self._task_failed)
        self._links: dict[int, Link] = {}
        self._woken = False
        self._linger_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self._retry_at = 0.0
        self._watch_timer: asyncio.TimerHandle | None = None
        router.on_metadata.append(self.wake)
        if idempotent:
            self._ask_for_id()

    @property
    def requests_in_flight(self) -> int:
        """Return how many Produce requests are not answered."""
        return sum(len(link.sent) for link in self._links.values())

    def adopt(self, producer_id: int, producer_epoch: int) -> None:
        """Send batches under this identity from now on, each partition from sequence 0."""
        self._sequences.given(producer_id, producer_epoch)
        self.wake()

    def discard(self, reason: Callable[[], BaseException], *, in_flight: bool) -> None:
        """Give up what is not acknowledged; answers to what is ``in_flight`` will not matter.

        Nobody is expected to look at each: how the transaction ends says it all.
        """
        for batch in list(self._accumulator.incomplete):
            if not batch.in_flight:
                batch.observe()
                self._outcomes.give_up(batch, reason())
            elif in_flight:
                batch.leave_in_flight()
                self._outcomes.give_up(batch, reason())

    # ------------------------------------------------------------------------------ wake-ups

    def wake(self) -> None:
        """Look for work in the loop's next round. A call costs next to nothing."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._guarded, self._pump)

    def batch_opened(self, batch: Batch) -> None:
        """Note that a batch began: its linger runs, and so does the watch over deadlines."""
        if self._linger_timer is None:
            self._linger_timer = self._loop.call_at(
                batch.linger_until, self._guarded, self._linger_over
            )
        self.watch()

    def watch(self) -> None:
        """Keep an eye on deadlines for as long as anything is under way."""
        if self._watch_timer is None:
            self._watch_timer = self._loop.call_later(WATCH_S, self._guarded, self._check_time)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; its failure fails the producer, as the loop would only log it."""
        try:
            step()
        except Exception as error:
            logger.exception("the sender failed")
            self._fail_everything(error)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._fail_everything(error)

    def _fail_everything(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
        for batch in list(self._accumulator.incomplete):
            self._outcomes.give_up(batch, closed_error("the producer failed", error, batch))
        self._accumulator.refuse_waiting(ClosedError("the producer failed"))
        self._accumulator.sticky.clear()

    def _linger_over(self) -> None:
        self._linger_timer = None
        following = self._accumulator.end_lingers(self._loop.time())
        if following is not None:
            self._linger_timer = self._loop.call_at(following, self._guarded, self._linger_over)
        self._pump()

    def _retry_due(self) -> None:
        self._retry_timer = None
        self._pump()

    def _wake_at(self, when: float) -> None:
        if self._retry_timer is not None:
            if self._retry_at <= when:
                return
            self._retry_timer.cancel()
        # Not asked of the timer: what is due within a millisecond has no time with uvloop.
        self._retry_at = when
        self._retry_timer = self._loop.call_at(when, self._guarded, self._retry_due)

    # ------------------------------------------------------------------------------ sending

    def _pump(self) -> None:
        """Send whatever may be sent now."""
        self._woken = False
        if self._tasks.closed:
            return  # woken while it closed: what is left has been told so
        if not self._sequences.ready:
            self._ask_for_id()
            return
        now = self._loop.time()
        by_leader: dict[int, list[PartitionQueue]] = {}
        sendable = self._accumulator.sendable
        for queue in list(sendable):
            if not queue.has_work:
                del sendable[queue]
            elif queue.may_send:
                leader = self._leader_for(queue, now)
                if leader != NO_LEADER:
                    by_leader.setdefault(leader, []).append(queue)
        for leader, queues in by_leader.items():
            link = self._links.get(leader)
            if link is None:
                backoff = self._router.new_backoff(f"link {leader}")
                link = self._links[leader] = Link(leader, backoff)
            self._serve(link, queues, now)

    def _leader_for(self, queue: PartitionQueue, now: float) -> int:
        """Return the leader to send to, or -1 when it is not yet time."""
        view = self._router.cluster.partition(queue.tp)
        if view is None or view.leader == NO_LEADER:
            self._router.want(queue.tp.topic)
            self._router.refresh_soon()
            return NO_LEADER
        when = queue.may_go_at(view.leader, view.leader_epoch, now)
        if when > now:
            if when < inf:
                self._wake_at(when)
            return NO_LEADER
        queue.led_by(view.leader, view.leader_epoch)
        return view.leader

    def _serve(self, link: Link, queues: list[PartitionQueue], now: float) -> None:
        channel = self._router.connections.channel_now(link.leader, DATA)
        if channel is None:
            self._connect(link, now)
            return
        if channel is not link.channel:
            link.channel = channel
            link.sent.clear()
            link.backoff.reset()
        while len(link.sent) < self._in_flight_max and not channel.closed:
            if channel.paused:
                if not link.draining:
                    link.draining = True
                    self._tasks.spawn("drain", self._drain(link, channel))
                return
            batches = self._pick(queues)
            if not batches:
                return
            self._send(link, channel, batches, now)

    def _pick(self, queues: list[PartitionQueue]) -> list[Batch]:
        """Return the next batch of each partition, in turn, as many as one request holds."""
        picked: list[Batch] = []
        size = 0
        for queue in queues:
            if not queue.may_send:
                continue
            batch = self._accumulator.next_ready(queue)
            if batch is None:
                continue
            if batch.encoded is None and not self._encode(batch):
                queue.drop_first()
                continue
            assert batch.encoded is not None
            if picked and size + len(batch.encoded) > self._max_request_size:
                continue
            if self._sequences.enabled:
                self._sequences.number(batch)
            size += len(batch.encoded)
            self._accumulator.take(batch)
            picked.append(batch)
        return picked

    def _encode(self, batch: Batch) -> bool:
        try:
            batch.encode(
                self._codec,
                self._codec_level,
                transactional=self._session is not None,
                sealed=not self._sequences.enabled,
            )
        except OncelogError as error:
            self._outcomes.give_up(batch, error)
            return False
        return True

    def _send(self, link: Link, channel: RequestChannel, batches: list[Batch], now: float) -> None:
        session, counters = self._session, self._router.counters
        counters.produce_sent()
        for batch in batches:
            batch.queue.sent(batch, link.leader)
            again = batch.count if batch.attempts > 1 else 0
            counters.batch_sent(len(batch.encoded or b""), again)
            batch.invoke(self._router.history, -1 if session is None else session.history_number)
        timeout_ms = min(int(self._request_timeout_s * 1000), limits.ACK_TIMEOUT_MS_MAX)
        request, payload = produce_request(batches, self._acks, timeout_ms)
        if session is not None:
            request.transactional_id = session.transactional_id
            session.touched()
        if self._acks is Acks.NONE:
            self._send_unanswered(channel, request, payload, batches)
            return
        sent = (now, batches)
        link.sent.append(sent)
        try:
            channel.send(request, payload, callback=partial(self._answered, link, channel, sent))
        except OncelogError as error:  # nothing left this side, and it never will
            link.sent.remove(sent)
            for batch in batches:
                batch.queue.answered(batch)
                self._outcomes.give_up(batch, error)

    def _send_unanswered(
        self,
        channel: RequestChannel,
        request: ProduceRequest,
        payload: Sequence[bytearray],
        batches: list[Batch],
    ) -> None:
        """Write a request with acks=0: its batches are done then, and nobody knows more."""
        error: BaseException | None = None
        try:
            channel.send_oneway(request, payload)
        except (OSError, OncelogError) as caught:
            error = caught
        for batch in batches:
            batch.queue.answered(batch)
            if error is None:
                self._outcomes.acknowledged(batch, -1, -1)
            else:
                self._outcomes.failed(batch, error)
                self._outcomes.resume(batch.queue)

    def _ask_for_id(self) -> None:
        if not self._identifying and self._session is None:  # else: its coordinator gives one
            self._identifying = True
            self._tasks.spawn("producer id", self._get_id())

    async def _get_id(self) -> None:
        """Ask any broker for a producer id until one gives it, or says that none ever will."""
        backoff = self._router.new_backoff("producer id")
        while not self._sequences.ready:
            try:
                deadline = self._loop.time() + self._request_timeout_s
                answer: InitPidResponse = await self._router.call_any(InitPidRequest(), deadline)
                if not answer.error_code:
                    self._sequences.given(answer.producer_id, answer.producer_epoch)
                    break
                told = partial(self._id_refusal, answer)
                if not is_retriable(told()):
                    # A later batch asks again: a right that is missing may be there then.
                    self._refused(told)
                    break
                raise told()
            except (OSError, TimeoutError, OncelogError) as error:
                if isinstance(error, HandshakeError):
                    self._refused(error.anew)
                elif isinstance(error, ClosedError) or not is_retriable(error):
                    raise
                logger.info("no producer id yet: %s", error)
                self._sequences.not_given(error)
                await asyncio.sleep(backoff.next_s())
        self._identifying = False
        self.wake()

    async def _drain(self, link: Link, channel: RequestChannel) -> None:
        try:
            await channel.drain()
        except ConnectionError:
            pass
        finally:
            link.draining = False
        self.wake()

    def _connect(self, link: Link, now: float) -> None:
        if link.connecting:
            return
        if link.retry_at > now:
            self._wake_at(link.retry_at)
            self._router.refresh_soon()
            return
        link.connecting = True
        self._tasks.spawn(f"connect {link.leader}", self._connect_now(link))

    async def _connect_now(self, link: Link) -> None:
        try:
            await self._router.connections.channel(link.leader, DATA)
        except (BrokerUnreachableError, HandshakeError) as error:
            link.retry_at = self._loop.time() + link.backoff.next_s()
            if isinstance(error, HandshakeError):
                self._refused(error.anew, link.leader)
            for queue in self._accumulator.sendable:
                if self._router.cluster.leader(queue.tp) == link.leader:
                    queue.unreachable(error)
            self._router.refresh_soon()
        finally:
            link.connecting = False
        self.wake()

    def _refused(self, error: Callable[[], OncelogError], leader: int = NO_LEADER) -> None:
        """Give up what waits for a leader (without one: for any) that will not serve this client.

        An unknown leader is not the one that refused.

        :param error: makes an error for each that is told.
        """
        leader_of = self._router.cluster.leader
        for batch in list(self._accumulator.incomplete):
            fits = leader in (NO_LEADER, leader_of(batch.queue.tp))
            if fits and not batch.in_flight:
                self._outcomes.give_up(batch, error())

    # ------------------------------------------------------------------------------ answers

    def _answered(
        self,
        link: Link,
        channel: RequestChannel,
        sent: tuple[float, Sequence[Batch]],
        reply: Any,
        error: BaseException | None,
    ) -> None:
        """Handle an answer in the channel's callback; a failure here fails the producer."""
        try:
            if link.channel is channel and link.sent and link.sent[0] is sent:
                link.sent.popleft()
            began, batches = sent
            self._router.counters.request_latency.observe(self._loop.time() - began)
            for batch in batches:
                batch.queue.answered(batch)
            if error is not None:
                self._router.refresh_soon()
                for batch in batches:
                    self._outcomes.failed(batch, error)
            else:
                self._outcomes.take_response(batches, reply.message)
            for batch in batches:
                self._outcomes.resume(batch.queue)
            self.wake()
        except Exception as failure:
            logger.exception("the sender failed")
            self._fail_everything(failure)

    # ------------------------------------------------------------------------------ deadlines

    def _check_time(self) -> None:
        """Give up what is overdue; look who leads when a leader is silent."""
        self._watch_timer = None
        now = self._loop.time()
        for batch in list(self._accumulator.incomplete):
            if batch.deadline > now:
                break  # all deadlines are equally far from their beginnings, which are in order
            self._outcomes.time_out(batch)
        for link in self._links.values():
            self._check_link(link, now)
        if self._accumulator.incomplete:
            self.watch()
        self.wake()

    def _check_link(self, link: Link, now: float) -> None:
        if link.channel is None or link.channel.closed or not link.sent:
            return
        silent_s = now - link.sent[0][0]
        if silent_s >= self._request_timeout_s + ANSWER_SLACK_S:
            link.channel.close(f"no answer to a produce within {silent_s:.1f} s")
        elif silent_s >= SILENCE_S:
            self._router.refresh_soon()
            leader_of = self._router.cluster.leader
            if not any(
                leader_of(batch.queue.tp) in (link.leader, NO_LEADER)
                for _, batches in link.sent
                for batch in batches
            ):
                link.channel.close("silent, and no longer the leader")

    # ------------------------------------------------------------------------------ end

    async def close(self, reason: str) -> None:
        """End the sending. What is not done by now fails, as indefinite if it was ever sent."""
        if self.wake in self._router.on_metadata:
            self._router.on_metadata.remove(self.wake)
        for timer in (self._linger_timer, self._retry_timer, self._watch_timer):
            if timer is not None:
                timer.cancel()
        for batch in list(self._accumulator.incomplete):
            self._outcomes.give_up(batch, closed_error(reason, None, batch))
        self._accumulator.refuse_waiting(ClosedError(reason))
        await self._tasks.close()

    def _id_refusal(self, answer: InitPidResponse) -> ApiError:
        error = error_for(answer.error_code, answer.error_message or "")
        return self._router.explained(error, IDEMPOTENT_WRITE)
