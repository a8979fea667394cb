"""``consumer.run(transactional_id=...)`` consumes, transforms and produces exactly once.

Rules
-----
* Handlers run as in any run; what they return is kept here. Every ``commit_interval_ms`` what is
  *ready* (see ``outgoing``) is written in one transaction together with the positions behind it. So
  a transaction is open only while it is written: a slow handler holds up nobody's readers, and a
  transaction that aborts is tried again without calling a handler.
* A record counts as done when its transaction is committed, and in no other case.
* Before partitions are taken away a last transaction commits what of them is ready; the rest is
  forgotten, and whoever has them next reads it again. Commits name the member and its generation,
  so that a member that was taken for dead commits nothing.
* When nobody knows how a transaction ended, everything here is forgotten, and reading goes on from
  what the group has committed, which is told when that is decided.
* Positions are asked for anew once the predecessor is fenced: it may have committed until then.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import chain
from typing import Any

from oncelog.consumer.core import ConsumerCore, Place
from oncelog.consumer.dead_letter import DeadLetters, with_cause
from oncelog.consumer.lanes import HandlerJob, PartitionWork
from oncelog.consumer.offset_metadata import NOT_A_MEMBER, GroupMetadata, OffsetAndMetadata
from oncelog.consumer.outbox import Outbox
from oncelog.consumer.outgoing import ProducerRecord, checked_results, size_of
from oncelog.consumer.run_options import RunOptions
from oncelog.consumer.runner import Poll, Runner
from oncelog.consumer.subscription import TopicPartitionState
from oncelog.errors import (
    ApiError,
    ClientError,
    CommitFailedError,
    ConfigurationError,
    Kind,
    MessageTooLargeError,
    OncelogError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
    UndeliveredRecordsError,
    is_definite,
)
from oncelog.producer.partition_queue import Delivery
from oncelog.producer.producer import Producer
from oncelog_protocol import limits
from oncelog_protocol.types import TopicPartition

logger = logging.getLogger(__name__)

TRIES_MAX = 5
"""So many transactions in a row may fail before the run ends with the last one's error."""

PAUSE_S = 0.1
"""Before a transaction that failed is tried again, times the number of failures."""

TIDY_S = 5.0
"""How long the end of a run waits for a transaction that it leaves unfinished to be aborted."""

Failures = (OncelogError, OSError, TimeoutError)


class _Phase(Enum):
    """The transaction under way is in one of these."""

    NONE = "none"
    OPEN = "open"
    ENDING = "ending"
    """Its commit was asked for: whether it is committed is the coordinator's to say."""


@dataclass(slots=True)
class _Cut:
    """One transaction takes these records and positions."""

    taken: list[tuple[PartitionWork, list[HandlerJob]]]
    offsets: dict[TopicPartition, OffsetAndMetadata]
    who: GroupMetadata


class _ResultTooLarge(Exception):
    """A handler's result for one record is too large for its topic, and will always be."""

    def __init__(self, job: HandlerJob, error: MessageTooLargeError) -> None:
        super().__init__(job, error)
        self.job = job
        self.error = error


class _Letters(DeadLetters):
    """Dead letters are written in the transaction of their record, by its producer."""

    def __init__(self, topic: str, producer: Producer) -> None:
        self.topic = topic
        self._producer = producer

    async def start(self) -> None:
        await self._producer.partitions_for(self.topic)

    async def close(self) -> None:
        pass


class TransactionalRunner(Runner):
    """Results and positions are written together by a run in transactions."""

    def __init__(self, core: ConsumerCore, poll: Poll, options: RunOptions) -> None:
        if core.boundary.transaction is not None:
            raise ClientError("this consumer is in a transaction already")
        if core.group_options.group_id is None:
            raise ConfigurationError("transactional_id: needs a consumer with a group_id")
        if core.options.isolation_level != "read_committed":
            raise ConfigurationError(
                "transactional_id: needs a consumer with isolation_level='read_committed': what is"
                " aborted must not be answered"
            )
        self._producer = self._make_producer(core, options)
        super().__init__(core, poll, options)
        self._handler = _whole(options)
        self._outboxes: dict[PartitionWork, Outbox] = {}
        self._phase = _Phase.NONE
        self._usable = True
        """Whether there may be more transactions."""
        self._order = asyncio.Lock()
        """One transaction after the other."""
        self._ready = asyncio.Event()
        self._ready_count = 0
        self._ready_bytes = 0
        self._one_by_one = 0
        """How many records go into transactions of their own: a result of one is too large."""
        in_flight = options.records_in_flight
        self._enough = min(options.transaction_records_max, max(in_flight // 2, 1))
        self._enough_bytes = max(options.max_bytes_in_flight // 2, 1)

    @staticmethod
    def _make_producer(core: ConsumerCore, options: RunOptions) -> Producer:
        return Producer(
            **asdict(core.router.options),
            transactional_id=options.transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
            linger_ms=0,
            # A dead letter is larger than its record, which may be as large as one can be.
            max_request_size=limits.BATCH_BYTES_MAX,
            clock=core.clock,
            entropy=core.entropy.fork("transactions"),
            history=core.router.history,
        )

    def _make_letters(self) -> DeadLetters | None:
        topic = self._options.dead_letter
        return None if topic is None else _Letters(topic, self._producer)

    # ------------------------------------------------------------------------------ life

    async def _prepare(self) -> None:
        core = self._core
        core.boundary.commit_by_transactions()
        if core.group is not None:
            # Wait for commits under way: they might land behind one of a transaction.
            await core.group.commits.commit({}, core.router.deadline())
        await self._producer.start()
        states = core.subscription.states.values()
        found = {s: s.origin for s in states if s.origin is not None and s.offset == s.origin[0]}
        core.read_on_from_committed(found)
        await super()._prepare()
        self._tasks.spawn("transactions", self._transact())

    async def _finish(self) -> None:
        await self._commit_all(frozenset())

    def _hand_back(self) -> None:
        if self._phase is _Phase.ENDING and not self._core.closed:
            self._core.reader.came_back()
            self._share.release_all()
            self._in_doubt()
        else:
            super()._hand_back()

    async def _commit_what_is_done(self) -> None:
        """Do nothing: the last transaction has committed it."""

    async def _release(self) -> None:
        await super()._release()
        producer = self._producer
        if self._phase is _Phase.OPEN:
            try:
                async with asyncio.timeout(TIDY_S):
                    await producer.abort_transaction()
            except Failures as error:
                logger.info("run: a transaction is left to its time-out: %s", error)
        try:
            await producer.close(timeout_ms=0)
        except UndeliveredRecordsError:
            pass  # of a transaction that is not committed

    # ------------------------------------------------------------------------------ records

    def _line_up(self, job: HandlerJob) -> None:
        outbox = self._outboxes.get(job.work)
        if outbox is None:
            outbox = self._outboxes[job.work] = Outbox()
        outbox.add(job)
        super()._line_up(job)

    def _keep(self, job: HandlerJob, returned: object) -> None:
        self._keep_results(job, checked_results(returned))

    def _keep_results(self, job: HandlerJob, results: Sequence[ProducerRecord]) -> None:
        size = size_of(results)
        job.keep(results, size)
        self._share.grow(size)

    async def _bury(self, job: HandlerJob, error: BaseException) -> None:
        if self._letters is None:
            await super()._bury(job, error)
            return
        record = job.record
        logger.error("%s offset %d goes to the dead letters: %r", job.work.tp, record.offset, error)
        group_id = self._core.group_options.group_id
        headers = with_cause(record, error, job.attempts, group_id)
        letter = ProducerRecord(self._letters.topic, record.value, record.key, headers)
        self._keep_results(job, [letter])

    def _handled(self, job: HandlerJob) -> None:
        outbox = self._outboxes.get(job.work)
        if outbox is None:
            self._put_down(job)  # its partition is gone: whoever has it reads it again
            return
        count, size = outbox.handled()
        before = self._ready_count
        self._ready_count += count
        self._ready_bytes += size
        if count and (not before or self._is_enough()):
            self._ready.set()

    def _is_enough(self) -> bool:
        return self._ready_count >= self._enough or self._ready_bytes >= self._enough_bytes

    def _forget_lost(self) -> None:
        super()._forget_lost()
        for work in list(self._outboxes):
            if self._works.get(work.tp) is not work:
                self._discard(work)

    def _discard(self, work: PartitionWork) -> None:
        outbox = self._outboxes.pop(work, None)
        if outbox is not None:
            count, size = outbox.ready
            self._ready_count -= count
            self._ready_bytes -= size
            self._forget(outbox.clear())

    async def taking_away(self, partitions: Sequence[TopicPartition]) -> None:
        works = [self._works[tp] for tp in partitions if tp in self._works]
        await super().taking_away(partitions)
        try:
            await self._commit_all(frozenset(works))
        finally:
            for work in works:
                self._discard(work)

    # ------------------------------------------------------------------------------ transactions

    async def _transact(self) -> None:
        """Commit what is ready, again and again."""
        loop = asyncio.get_running_loop()
        interval_s = self._options.commit_interval_ms / 1000
        idle_s = self._core.group_options.auto_commit_interval_ms / 1000
        begun = loop.time() - interval_s
        while not self._over:
            if not self._ready_count:
                # Positions may move without records, over markers: these are committed too.
                await self._until_stirred(loop.time() + idle_s)
            while self._ready_count and not self._is_enough() and begun + interval_s > loop.time():
                await self._until_stirred(begun + interval_s)
            begun = loop.time()
            if not await self._commit(frozenset()) and self._ready_count:
                await asyncio.sleep(PAUSE_S)  # in the middle of a rebalance, say

    async def _commit_all(self, leaving: frozenset[PartitionWork]) -> None:
        """Commit what is ready, as far as that is possible in ``drain_timeout_ms``."""
        try:
            async with asyncio.timeout(self._options.drain_timeout_ms / 1000):
                while await self._commit(leaving):
                    pass
        except Failures as error:
            logger.warning("run: what was handled last will be handled again: %s", error)

    async def _until_stirred(self, when: float) -> None:
        self._ready.clear()
        try:
            async with asyncio.timeout_at(when):
                await self._ready.wait()
        except TimeoutError:
            pass

    async def _commit(self, leaving: frozenset[PartitionWork]) -> bool:
        """Commit what is ready in one transaction; return whether one was committed.

        When the transaction is aborted another one is tried.

        :param leaving: of which partitions, though they are being taken away, all the same.
        :raises OncelogError: no more transactions are possible, or too many failed in a row.
        """
        async with self._order:
            failures = 0
            await self._tidy()
            while self._usable and (cut := self._cut(leaving)) is not None:
                try:
                    await self._write(cut)
                    self._settle(cut)
                    return True
                except _ResultTooLarge as found:
                    await self._put_aside(found.job, found.error)
                    continue
                except TransactionOutcomeUnknownError as error:
                    logger.warning("run: nobody knows how a transaction ended: %s", error)
                    self._in_doubt()
                    return False
                except Failures as error:
                    failures += 1
                    if failures == TRIES_MAX or _is_fatal(error):
                        self._give_up(error)
                    await self._recover(error, cut.who)
                    if self._over or not self._usable:
                        raise
                await asyncio.sleep(PAUSE_S * failures)
            return False

    async def _put_aside(self, job: HandlerJob, error: MessageTooLargeError) -> None:
        """Put the record into the dead letters in place of its results; raise if that cannot be."""
        if self._phase is not _Phase.NONE:
            await self._abort()
        before, results = job.size, job.results or ()
        try:
            if self._letters is None or results[0].topic == self._letters.topic:
                where = f"{job.work.tp} offset {job.record.offset}"
                error.add_note(f"{where}: what its handler returned is too large for its topic")
                raise error
            await self._bury(job, error)
        except MessageTooLargeError:
            self._give_up(error)
            raise
        dropped = size_of(results)
        job.grow(-dropped)
        self._share.grow(-dropped)
        self._ready_bytes += job.size - before

    def _give_up(self, error: BaseException) -> None:
        """End the run, as there can be no more transactions."""
        self._usable = False
        self._end(error)

    async def _tidy(self) -> None:
        """Abort a transaction that a cancellation left in the middle."""
        if self._phase is _Phase.OPEN:
            await self._abort()
        elif self._phase is _Phase.ENDING:
            self._in_doubt()

    def _cut(self, leaving: frozenset[PartitionWork]) -> _Cut | None:
        """Return what can be committed now; None when that is nothing, or not ours to commit."""
        core = self._core
        taken: list[tuple[PartitionWork, list[HandlerJob]]] = []
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        room = 1 if self._one_by_one else self._options.transaction_records_max
        for tp, state in core.subscription.states.items():
            work = self._current(tp)
            leaves = work is not None and work in leaving
            going = state.withheld or (work is not None and work.given_up)
            if state.offset is None or (going and not leaves):
                continue
            outbox = None if work is None else self._outboxes.get(work)
            jobs = [] if outbox is None else outbox.first(room)
            position = OffsetAndMetadata(state.offset, "", state.epoch, state.topic_id)
            if work is not None and work.offsets.span > len(jobs):
                # Not all that was taken goes in: the position is that of what comes first then.
                behind = None if outbox is None else outbox.offset_after(len(jobs))
                place = work.offsets.position if behind is None else behind
                position = OffsetAndMetadata(place, topic_id=work.topic_id)
            if jobs or self._has_moved(tp, position.offset):
                offsets[tp] = position
            if work is not None and jobs:
                taken.append((work, jobs))
                room -= len(jobs)
        if not offsets or core.group is None or core.ended:
            return None
        try:
            return _Cut(taken, offsets, core.group.commits.identity.now(list(offsets)))
        except CommitFailedError as error:
            logger.debug("run: nothing is committed now: %s", error)
            return None

    def _has_moved(self, tp: TopicPartition, offset: int) -> bool:
        """Return whether a commit would move the offset. The first commit always does."""
        group = self._core.group
        known = None if group is None else group.commits.known.get(tp)
        return known is None or offset != known.offset

    async def _write(self, cut: _Cut) -> None:
        """Write results and positions into the open transaction.

        :raises _ResultTooLarge: a result is, and can be told; the transaction is open still.
        """
        await self._producer.begin_transaction()
        self._phase = _Phase.OPEN
        sent: list[tuple[HandlerJob, Delivery]] = []
        try:
            await self._write_all(cut, sent)
        except TransactionAbortableError:
            for job, delivery in sent:
                error = delivery.exception() if delivery.done() else None
                if isinstance(error, MessageTooLargeError):
                    count = sum(len(jobs) for _, jobs in cut.taken)
                    if count == 1:
                        raise _ResultTooLarge(job, error) from None
                    # A batch has results of several records: each by itself shows which it is.
                    self._one_by_one = count
            raise

    async def _write_all(self, cut: _Cut, sent: list[tuple[HandlerJob, Delivery]]) -> None:
        producer = self._producer
        for job in chain.from_iterable(jobs for _, jobs in cut.taken):
            for item in job.results or ():
                try:
                    delivery = await producer.enqueue(
                        item.topic,
                        item.value,
                        key=item.key,
                        headers=item.headers,
                        partition=item.partition,
                        timestamp_ms=item.timestamp_ms,
                    )
                except MessageTooLargeError as error:
                    raise _ResultTooLarge(job, error) from None
                sent.append((job, delivery))
        await producer.send_offsets(cut.offsets, cut.who)
        self._phase = _Phase.ENDING
        try:
            await producer.commit_transaction()
        except TransactionOutcomeUnknownError:
            await producer.commit_transaction()  # asks the same again; it cannot commit twice
        self._phase = _Phase.NONE

    def _settle(self, cut: _Cut) -> None:
        """Note that what is in the committed transaction is done."""
        group = self._core.group
        if group is not None:
            group.commits.remember(cut.offsets)
        for work, jobs in cut.taken:
            outbox = self._outboxes.get(work)
            if outbox is None:
                continue
            outbox.committed(len(jobs))
            self._one_by_one = max(self._one_by_one - len(jobs), 0)
            self._ready_count -= len(jobs)
            for job in jobs:
                self._ready_bytes -= job.size
                work.offsets.finish(job.record.offset)
                self._put_down(job)

    async def _recover(self, error: BaseException, who: GroupMetadata) -> None:
        """Abort after a failure; if the group refused ``who``, it hears of that."""
        logger.info("run: a transaction failed: %r", error)
        fenced = _fencing(error)
        if fenced is not None and self._core.group is not None:
            self._core.group.commits.identity.fenced(who, fenced.code)
        if self._phase is _Phase.NONE:
            return
        if not _is_fatal(error):
            await self._abort()
        elif self._phase is _Phase.ENDING and not is_definite(error):
            self._in_doubt()
        else:
            self._phase = _Phase.NONE

    async def _abort(self) -> None:
        self._phase = _Phase.NONE
        try:
            await self._producer.abort_transaction()
        except Failures as error:
            if _is_fatal(error):
                self._give_up(error)
            # It is not committed: nobody asked for that. The next one begins when it is settled.
            logger.info("run: abort: %s", error)

    def _in_doubt(self) -> None:
        """Begin anew from what the group has committed, whatever that is."""
        self._phase = _Phase.NONE
        core = self._core
        places: dict[TopicPartitionState, Place | None] = {}
        for tp, state in list(core.subscription.states.items()):
            work = self._current(tp)
            if work is not None:
                self._abandon(work)
                self._discard(work)
            if work is not None and work.offsets.span:
                places[state] = (work.offsets.position, -1)
            elif state.offset is not None:
                places[state] = (state.offset, state.epoch)
            self._works.pop(tp, None)
        if not core.ended:
            core.read_on_from_committed(places)


def _whole(options: RunOptions) -> Callable[[Any], object]:
    """Return the handler as a function that returns all which a generator would yield."""
    handler: Any = options.handler

    async def gathered(payload: object) -> list[object]:
        return [item async for item in handler(payload)]

    def listed(payload: object) -> object:  # to its end in the thread
        returned = handler(payload)
        return list(returned) if inspect.isgenerator(returned) else returned

    if inspect.isasyncgenfunction(handler) or inspect.isasyncgenfunction(
        getattr(handler, "__call__", None)  # noqa: B004 - an object's own
    ):
        return gathered
    return handler if options.is_async else listed


def _is_fatal(error: BaseException) -> bool:
    if _fencing(error) is not None or isinstance(error, CommitFailedError):
        return False  # of the group, not of the producer
    return getattr(error, "kind", Kind.RETRIABLE) is Kind.FATAL


def _fencing(error: BaseException) -> ApiError | None:
    """Return the group's refusal of the member behind an error; None if it was something else."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NOT_A_MEMBER):
            return cause
        cause = cause.__cause__
    return None
