"""``consumer.run`` polls, hands out to workers, and knows what is done.

Rules
-----
* One task polls, ``concurrency`` workers handle. Polling never stops while handlers work: it is
  what keeps the membership, and where partitions come and go. Partitions of which enough is under
  way are paused, each by its own share, so that a slow one does not hold up the others.
* What is committed is ours to say (``done_offsets``): of each partition all below the first
  record that is not done. A record is done when its handler has returned or its dead letter is
  acknowledged, and in no other case.
* A record that waits for its next attempt takes no worker; what must not overtake it waits with it.
* Before partitions are taken away, what of them has not begun is forgotten, and what has is waited
  for, up to a bound; then it is cancelled. It counts for the commit that follows.
* At a clean end what has begun is finished, and what lies before it in its partition is done too,
  up to the same bound: else what is done behind it could not be committed.
* At the end, whatever it is, the positions are those of the first records that are not done, so
  that whoever goes on, here or elsewhere, goes on there.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from oncelog.consumer.core import ConsumerCore
from oncelog.consumer.dead_letter import DeadLetters
from oncelog.consumer.lanes import UNDECODED, HandlerJob, HandlerLane, Lanes, PartitionWork
from oncelog.consumer.offset_metadata import OffsetAndMetadata, Offsets
from oncelog.consumer.record import Record
from oncelog.consumer.run_options import RunOptions
from oncelog.consumer.share import Limits, Share
from oncelog.errors import ClientError, ConfigurationError, DeadlineExceededError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks
from oncelog_runtime.threads import Threads

logger = logging.getLogger(__name__)

POLL_MS = 200
"""How long one poll waits for records: so long may it take to notice that the run is over."""

BREATH_S = 0.01
"""Workers whose handlers never wait let the loop go round so often."""

CANCEL_S = 1.0
"""How long a handler that was cancelled may take to end before it is left behind."""

RECORD_OVERHEAD_BYTES = 200
"""A record takes about so many bytes here beside its key and value."""


class Poll(Protocol):
    """A poll takes records, as ``Consumer.getmany`` does."""

    async def __call__(
        self, *, max_records: int | None, timeout_ms: int
    ) -> dict[TopicPartition, list[Record]]: ...


class Runner:
    """One run works over a consumer; see ``boundary.Work``."""

    def __init__(self, core: ConsumerCore, poll: Poll, options: RunOptions) -> None:
        self._core = core
        self._poll_records = poll
        self._options = options
        self._handler = options.handler
        self._is_async = options.is_async
        self._retry = options.attempts
        self._entropy = core.entropy.fork("run")
        self._tasks = Tasks("consumer-run", on_failure=lambda _, error: self._end(error))
        self._lanes = Lanes(options.order)
        self._works: dict[TopicPartition, PartitionWork] = {}
        self._share = Share(
            core,
            Limits(options.records_in_flight, options.max_bytes_in_flight),
            core.options.max_poll_records,
        )
        self._in_hand: dict[asyncio.Task[None], HandlerJob] = {}
        """What each worker is busy with, in the order in which they began."""
        self._worker_count = 0
        self._idle: deque[asyncio.Future[None]] = deque()
        self._stirred: list[asyncio.Future[None]] = []
        """Who waits for handlers to end."""
        self._over = False
        self._finishing = False
        """It ends well: what fills gaps is still handled."""
        self._ended: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._breath = 0.0
        self._threads: Threads | None = None
        self._letters: DeadLetters | None = self._make_letters()

    def _make_letters(self) -> DeadLetters | None:
        if self._options.dead_letter is None:
            return None
        core = self._core
        return DeadLetters(
            self._options.dead_letter,
            core.router.options,
            group_id=core.group_options.group_id,
            clock=core.clock,
            entropy=self._entropy.fork("dead_letter"),
        )

    async def run(self) -> None:
        """Run until the consumer is closed, something fails, or the caller is cancelled."""
        core = self._core
        core.running()
        core.boundary.begin_work(self)
        core.closing.notice(self._stir)
        try:
            await self._prepare()
            await self._until_over()
        finally:
            if not core.closed:  # a close() may be about to ask what to commit
                core.boundary.end_work()
            await self._release()

    async def _prepare(self) -> None:
        if self._letters is not None:
            await self._letters.start()

    async def _release(self) -> None:
        if self._letters is not None:
            await self._letters.close()

    async def _until_over(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._is_async:
            self._threads = Threads(self._options.concurrency, "oncelog-run")
        self._ended = loop.create_future()
        poller = self._tasks.spawn("poll", self._poll())
        drain = False
        try:
            await self._ended
            drain = True
        finally:
            await self._stop(poller, drain=drain)
        if self._failure is not None:
            await self._commit_what_is_done()
            raise self._failure

    # ------------------------------------------------------------------------------ the end

    def _end(self, error: BaseException | None) -> None:
        """Let no more records begin; the first error is the one that is raised."""
        if self._over:
            if error is not None:
                logger.error("run: also failed while ending: %r", error)
            return
        self._over = True
        self._failure = error
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _stop(self, poller: asyncio.Task[None], *, drain: bool) -> None:
        """Wait until handlers under way end (``drain``), or cancel them at once."""
        self._over = True
        self._share.freeze()
        try:
            if drain and self._failure is None:
                self._finish_gaps()
            else:
                self._forget(self._lanes.drop())
            if drain:
                await self._drain(None)
                await self._finish()
                # A poll may be in the middle of a rebalance: it ends by itself, soon.
                async with asyncio.timeout(self._options.drain_timeout_ms / 1000):
                    await asyncio.shield(poller)
        except TimeoutError:
            pass
        finally:
            self._finishing = False
            await self._tasks.close()
            self._forget(self._lanes.drop())
            if self._threads is not None:
                self._threads.close()
            self._hand_back()

    def _finish_gaps(self) -> None:
        self._finishing = True
        self._forget(self._lanes.drop_but_gaps())
        self._feed()

    async def _finish(self) -> None:
        """Finish when no handler is at work; the consumer may be closing, but is not closed."""

    def _hand_back(self) -> None:
        """Leave the consumer with nothing paused, and positions at what is not done."""
        core = self._core
        if core.closed:
            return  # what is committed last is asked of us
        try:
            core.reader.came_back()
            self._share.release_all()
            for tp, work in self._works.items():
                if self._current(tp) is work and work.offsets.span:
                    core.seek(core.subscription.state(tp), work.offsets.position)
        except ClientError as error:
            logger.warning("run: positions were not set back: %s", error)

    async def _commit_what_is_done(self) -> None:
        """Try to commit what is done after an error, which is what matters."""
        core, group = self._core, self._core.group_options
        if core.closed or group.group_id is None or not group.enable_auto_commit:
            return
        try:
            await core.in_group().commit(self.done_offsets(), core.router.deadline())
        except Exception as error:
            logger.warning("run: what is done was not committed: %s", error)

    # ------------------------------------------------------------------------------ polling

    async def _poll(self) -> None:
        core, share = self._core, self._share
        try:
            while not self._over and not core.closed:
                self._forget_lost()
                share.apportion(self._works)
                taken = await self._poll_records(max_records=share.chunk, timeout_ms=POLL_MS)
                for tp, records in taken.items():
                    self._take(tp, records)
                self._feed()
            self._end(None)
        except Exception as error:
            # That of a consumer which was closed under us is no failure.
            self._end(None if core.closed else error)

    def _take(self, tp: TopicPartition, records: Sequence[Record]) -> None:
        """Take over records that were handed out."""
        states = self._core.subscription.states
        work = self._works.get(tp)
        if work is None or self._current(tp) is not work or work.given_up:
            if work is not None:
                self._abandon(work)
                if work.given_up and states.get(tp) is work.state and work.offsets.span:
                    # It was to go, and stays: what was forgotten of it is read again.
                    self._works[tp] = PartitionWork(work.state)
                    self._core.seek(work.state, work.offsets.position)
                    return
            work = None
        elif not work.offsets.follows(records[0].offset):
            self._abandon(work)  # the application has sought back
            work = None
        if work is None:
            work = self._works[tp] = PartitionWork(states[tp])
        for record in records:
            size = RECORD_OVERHEAD_BYTES + len(record.value or b"") + len(record.key or b"")
            work.take(record.offset, size)
            self._share.add(size)
            self._line_up(HandlerJob(record, work, size))
        if self._options.dead_letter == tp.topic:
            raise ConfigurationError(
                f"dead_letter={tp.topic!r}: is a topic that this consumer reads; its dead letters"
                " would come back for ever"
            )

    def _line_up(self, job: HandlerJob) -> None:
        self._lanes.add(job)

    def _current(self, tp: TopicPartition) -> PartitionWork | None:
        """Return the work on a partition in its present assignment and topic, or None."""
        work = self._works.get(tp)
        state = self._core.subscription.states.get(tp)
        if work is None or work.state is not state or work.topic_id != state.topic_id:
            return None
        return work

    def _forget_lost(self) -> None:
        """Forget records of partitions that are no longer ours, if they have not begun."""
        for tp, work in list(self._works.items()):
            if self._current(tp) is None:
                self._abandon(work)
                del self._works[tp]

    def _abandon(self, work: PartitionWork) -> None:
        work.give_up()
        self._forget(self._lanes.drop([work]))

    def _forget(self, jobs: Iterable[HandlerJob]) -> None:
        for job in jobs:
            self._put_down(job)

    def _put_down(self, job: HandlerJob) -> None:
        job.work.put_down(job.size)
        self._share.remove(job.size, self._works.get(job.work.tp))

    # ------------------------------------------------------------------------------ what is done

    def done_offsets(self) -> Offsets:
        """Return the offset that may be committed now, of every partition that has a position."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, state in self._core.subscription.states.items():
            work = self._current(tp)
            if work is not None and work.offsets.span:
                offsets[tp] = OffsetAndMetadata(work.offsets.position, topic_id=work.topic_id)
            elif state.offset is not None:
                # Nothing of it is under way: the position, which may be behind a marker too.
                offsets[tp] = OffsetAndMetadata(state.offset, "", state.epoch, state.topic_id)
        return offsets

    async def taking_away(self, partitions: Sequence[TopicPartition]) -> None:
        works = [self._works[tp] for tp in partitions if tp in self._works]
        if self._core.closed and self._failure is None:
            self._finish_gaps()
        else:
            for work in works:
                self._abandon(work)
        await self._drain(works)

    async def _drain(self, works: Sequence[PartitionWork] | None) -> None:
        """Wait until no record of these (None: of any) is in a handler; cancel what takes long."""
        wanted = None if works is None else frozenset(works)
        # A handler that closes the consumer is not waited for: it waits for us. At the end it is:
        # somebody else closes then, or the closing is over soon.
        closing = () if works is None else self._core.closing.waiting

        def left() -> list[tuple[asyncio.Task[None], HandlerJob]]:
            return [
                (task, job)
                for task, job in self._in_hand.items()
                if task not in closing and (wanted is None or job.work in wanted)
            ]

        def done() -> bool:
            return not left() and not (self._finishing and self._lanes.ready_count)

        timeout_ms = self._options.drain_timeout_ms
        if await self._until(done, timeout_ms / 1000):
            return
        self._finishing = False
        logger.warning("run: cancels %d handlers: not done in %d ms", len(left()), timeout_ms)
        for task, job in left():
            job.abandon()
            task.cancel()
        if not await self._until(lambda: not left(), CANCEL_S):
            logger.error("run: %d cancelled handlers go on all the same", len(left()))

    async def _until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Return whether the condition came to hold in time: tried whenever a handler ends."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    stirred = asyncio.get_running_loop().create_future()
                    self._stirred.append(stirred)
                    await stirred
        except TimeoutError:
            return condition()
        return True

    # ------------------------------------------------------------------------------ workers

    def _feed(self) -> None:
        """Let workers take lanes that are ready."""
        count = 0 if self._over and not self._finishing else self._lanes.ready_count
        while count and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1
        while count and self._worker_count < self._options.concurrency:
            self._tasks.spawn(f"worker-{self._worker_count}", self._work())
            self._worker_count += 1
            count -= 1

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        while not self._over or self._finishing:
            lane = self._lanes.take()
            if lane is None:
                waiter = loop.create_future()
                self._idle.append(waiter)
                await waiter
                continue
            job = lane.jobs[0]
            if (job.work.given_up or job.work.state.withheld) and not self._finishing:
                # Lost a moment ago: it may be another's by now, so it does not begin here.
                job.work.give_up()
                self._put_down(job)
                self._lanes.over(lane)
                continue
            self._in_hand[task] = job
            job.work.begin(job.record.offset)
            try:
                pause_s = await self._attempt(job)
            except asyncio.CancelledError:
                if not job.abandoned:
                    raise
                self._put_down(job)  # not done: whoever has the partition reads it again
                self._lanes.over(lane)
            except Exception as error:
                self._end(error)
                return
            else:
                self._attempted(lane, job, pause_s)
            finally:
                del self._in_hand[task]
                self._stir()
            if job.abandoned:
                task.uncancel()
            if loop.time() - self._breath > BREATH_S:
                await asyncio.sleep(0)
                self._breath = loop.time()

    def _attempted(self, lane: HandlerLane, job: HandlerJob, pause_s: float | None) -> None:
        if pause_s is None:
            self._handled(job)
        elif self._finishing:
            # It is not tried again here, and nothing of its lane may overtake it.
            self._lanes.park(lane)
            return
        elif job.work.given_up or self._over:
            self._put_down(job)
        else:
            self._lanes.park(lane)
            asyncio.get_running_loop().call_later(pause_s, self._unpark, lane)
            return
        self._lanes.over(lane)

    def _handled(self, job: HandlerJob) -> None:
        """Note that a record's handler has returned, or that its dead letter is acknowledged."""
        job.work.offsets.finish(job.record.offset)
        self._put_down(job)

    def _unpark(self, lane: HandlerLane) -> None:
        if not self._over:
            self._lanes.unpark(lane)
            self._feed()

    def _stir(self) -> None:
        waiting, self._stirred = self._stirred, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    # ------------------------------------------------------------------------------ one record

    async def _attempt(self, job: HandlerJob) -> float | None:
        """Call the handler once. Return None when the record is done, else the pause in seconds.

        :raises Exception: it failed for good, and there is nowhere to put it.
        """
        if job.payload is UNDECODED:
            decode = self._options.decode
            try:
                job.decoded(job.record if decode is None else decode(job.record))
            except Exception as error:
                await self._bury(job, error)
                return None
        job.begin_attempt()
        try:
            returned = await self._call(job.payload)
            self._keep(job, returned)
            return None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failure: BaseException = error  # the handler's own: something in it was cancelled
        except Exception as error:
            failure = error
        if not self._retry.again(job.attempts, failure):
            await self._bury(job, failure)
            return None
        pause_s = self._retry.pause_s(job.attempts, self._entropy)
        logger.warning(
            "%s offset %d: attempt %d of %d failed, again in %.3f s: %r",
            job.work.tp,
            job.record.offset,
            job.attempts,
            self._retry.attempts,
            pause_s,
            failure,
        )
        return pause_s

    def _keep(self, job: HandlerJob, returned: object) -> None:
        """Do nothing with what the handler returned; runs in transactions keep it."""

    async def _call(self, payload: object) -> object:
        handler: Any = self._handler
        if self._threads is not None:
            result = await self._threads.call(handler, payload)
            if inspect.isawaitable(result):  # a plain function that returns a coroutine
                result = await result
            return result
        timeout_ms = self._options.handler_timeout_ms
        if timeout_ms is None:
            return await handler(payload)
        try:
            async with asyncio.timeout(timeout_ms / 1000) as patience:
                return await handler(payload)
        except TimeoutError as error:
            if not patience.expired():
                raise
            raise DeadlineExceededError(
                f"the handler took more than {timeout_ms} ms", definite=False
            ) from error

    async def _bury(self, job: HandlerJob, error: BaseException) -> None:
        """Write the record to the dead letters; without any, its error ends the run."""
        where = f"{job.work.tp} offset {job.record.offset}"
        tried = f"after {job.attempts} attempts" if job.attempts else "as it cannot be decoded"
        if self._letters is None:
            error.add_note(f"{where} failed {tried}")
            if isinstance(error, Exception):
                raise error
            raise ClientError(f"{where} failed {tried}: cancelled from within") from error
        logger.error("%s goes to %r %s: %r", where, self._letters.topic, tried, error)
        try:
            await self._letters.send(job.record, error, job.attempts)
        except Exception as failure:
            failure.add_note(f"{where} failed {tried}, and its dead letter was not written")
            raise failure from error
