"""The synchronous face: the same clients for scripts, notebooks and Spark's executors.

Rules
-----
* Each client runs on an event loop of its own, in a thread of its own: the one place of the SDK
  that knows of threads. Calls go there and wait; an interrupt (Ctrl+C) cancels what was asked.
* Every public method of the asynchronous client is here with the same parameters, made by
  ``_blocking`` from the method itself; a parity test sees to it that none is missing.
* Iterating costs one crossing a batch, not one a record; positions are exact all the same (see
  ``consumer/cursor.py``).
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from oncelog.admin import Admin as AsyncAdmin
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.consumer import Consumer as AsyncConsumer
from oncelog.consumer.offset_metadata import GroupMetadata
from oncelog.consumer.record import Record
from oncelog.errors import ApiError, DeadlineExceededError
from oncelog.loop_thread import LoopThread
from oncelog.producer.delivery import Delivery as AsyncDelivery
from oncelog.producer.delivery import RecordMetadata
from oncelog.producer.producer import Producer as AsyncProducer
from oncelog.producer.transaction import Partaker
from oncelog.producer.transaction import Transaction as AsyncTransaction
from oncelog.shared_transaction import Receipt, Ticket
from oncelog.shared_transaction import SharedTransaction as AsyncSharedTransaction
from oncelog.shared_writer import SharedWriter as AsyncSharedWriter
from oncelog.shared_writer import join as async_join

__all__ = [
    "Admin",
    "Consumer",
    "Delivery",
    "Producer",
    "SharedTransaction",
    "SharedWriter",
    "Transaction",
    "join",
]

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
AsyncClient = AsyncProducer | AsyncConsumer | AsyncAdmin | AsyncSharedWriter
C = TypeVar("C", bound=AsyncClient)


class _Face(Generic[C]):
    """What the clients share."""

    def __init__(self, client: C, thread: LoopThread | None = None) -> None:
        self._client: C = client
        self._thread = thread or LoopThread(f"oncelog-{type(client).__name__.lower()}")
        self._finalizer = weakref.finalize(self, _left_open, self._thread, client)

    def __enter__(self) -> Any:
        try:
            self._thread.call(self._start())
        except BaseException:
            self._shut()
            raise
        return self

    async def _start(self) -> None:
        if not isinstance(self._client, AsyncSharedWriter):  # which has joined
            await self._client.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.running:
            try:
                self._thread.call(self._client.__aexit__(kind, error, traceback))
            finally:
                self._shut()

    def _shut(self) -> None:
        self._finalizer.detach()
        self._thread.stop()


def _left_open(thread: LoopThread, client: AsyncClient) -> None:
    """The face was dropped, or the program ends, without close(): never in silence."""
    if isinstance(client, AsyncProducer | AsyncSharedWriter):
        left = client.unacknowledged_count
        if left:
            logger.error("producer was not closed: %d records are not acknowledged", left)
    thread.stop()


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The asynchronous ``method``, waited for."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return cast(T, self._thread.call(method(self._client, *args, **kwargs)))

    return call


def _on_loop(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A synchronous ``method``, run where the client lives."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return method(self._client, *args, **kwargs)

        return cast(T, self._thread.call(run()))

    return call


def _measuring(method: Callable[[Any], T]) -> Callable[[Any], T]:
    """``metrics``: also of a client that is closed."""

    @wraps(method)
    def call(self: Any, /) -> T:
        if not self._thread.running:
            return method(self._client)

        async def run() -> T:
            return method(self._client)

        return cast(T, self._thread.call(run()))

    return call


def _promising(
    method: Callable[Concatenate[Any, P], asyncio.Future[T]],
) -> Callable[Concatenate[Any, P], Future[T]]:
    """A ``method`` that returns a future of the loop; here one that a thread can wait for."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        outcome: Future[T] = Future()

        def settle(future: asyncio.Future[T]) -> None:
            if future.cancelled():
                outcome.cancel()
            elif (error := future.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(future.result())

        async def run() -> None:
            method(self._client, *args, **kwargs).add_done_callback(settle)

        self._thread.call(run())
        return outcome

    return call


def _closing(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Any, P], None]:
    """``close``: the thread ends too, whatever close says."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not self._thread.running:
            return
        try:
            self._thread.call(method(self._client, *args, **kwargs))
        finally:
            self._shut()

    return call


def _making(method: Callable[Concatenate[Any, P], None]) -> Callable[..., Any]:
    """``__init__`` with the parameters of the asynchronous client's."""

    def decorate(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return wraps(method)(init)

    return decorate


class Delivery:
    """One record on its way, for a thread that waits."""

    __slots__ = ("_delivery", "_thread")

    def __init__(self, delivery: AsyncDelivery, thread: LoopThread) -> None:
        self._delivery = delivery
        self._thread = thread

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self._delivery.done()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement; raises why there is none.

        :raises DeadlineExceededError: not known within ``timeout_s``; it may still come.
        """
        if self._delivery.done():
            return self._delivery.result()

        async def wait() -> RecordMetadata:
            return await self._delivery

        try:
            return self._thread.call(wait(), timeout_s)
        except TimeoutError as error:
            if self._delivery.done():
                return self._delivery.result()
            if timeout_s is None:
                raise
            raise DeadlineExceededError(
                f"not acknowledged within {timeout_s} s", definite=False
            ) from error

    def exception(self) -> BaseException | None:
        """The error of a delivery that is done."""
        return self._delivery.exception()

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call ``callback(delivery)`` when done, **in the client's own thread**."""

        async def add() -> None:
            self._delivery.add_done_callback(lambda _: callback(self))

        self._thread.call(add())


def _delivering(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncDelivery]],
) -> Callable[Concatenate[Any, P], Delivery]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Delivery:
        delivery = self._thread.call(method(self._client, *args, **kwargs))
        return Delivery(delivery, self._thread)

    return call


def _delivering_now(
    method: Callable[Concatenate[Any, P], AsyncDelivery],
) -> Callable[Concatenate[Any, P], Delivery]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Delivery:
        async def run() -> AsyncDelivery:
            return method(self._client, *args, **kwargs)

        return Delivery(self._thread.call(run()), self._thread)

    return call


class Producer(_Face[AsyncProducer]):
    """``with Producer("localhost:9092") as producer: ...``; see :class:`oncelog.Producer`.

    Waiting for each record costs a crossing between threads each time: ``send_many`` is the way to
    send many.
    """

    @_making(AsyncProducer.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(AsyncProducer(*args, **options))

    def __enter__(self) -> Producer:
        return cast(Producer, super().__enter__())

    start = _blocking(AsyncProducer.start)
    close = _closing(AsyncProducer.close)
    send = _blocking(AsyncProducer.send)
    enqueue = _delivering(AsyncProducer.enqueue)
    send_nowait = _delivering_now(AsyncProducer.send_nowait)
    send_many = _blocking(AsyncProducer.send_many)
    enqueue_many = _blocking(AsyncProducer.enqueue_many)
    flush = _blocking(AsyncProducer.flush)
    partitions_for = _blocking(AsyncProducer.partitions_for)
    metrics = _measuring(AsyncProducer.metrics)
    begin_transaction = _blocking(AsyncProducer.begin_transaction)
    send_offsets = _blocking(AsyncProducer.send_offsets)
    commit_transaction = _blocking(AsyncProducer.commit_transaction)
    abort_transaction = _blocking(AsyncProducer.abort_transaction)

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """``with producer.transaction() as txn: txn.send(...)``; see
        :meth:`oncelog.Producer.transaction`."""
        return Transaction(self, consumer)

    @property
    def unacknowledged_count(self) -> int:
        """Records taken and not acknowledged."""
        return self._client.unacknowledged_count


class _CrossingTransaction(AsyncTransaction):
    """A transaction on the producer's loop whose consumer lives on another."""

    _home: LoopThread | None = None

    async def _at_consumer(self, work: Callable[[], T]) -> T:
        assert self._home is not None
        return await self._home.visit(work)

    def _refused(self, who: GroupMetadata, error: ApiError) -> None:
        assert self._home is not None
        assert self._part is not None
        self._home.tell(partial(self._part.refused, who, error))


class Transaction:
    """``with producer.transaction() as txn: ...``; see :meth:`oncelog.Producer.transaction`."""

    def __init__(self, producer: Producer, consumer: Consumer | None) -> None:
        client = producer._client
        client._check_usable()
        partaker = None if consumer is None else cast(Partaker, consumer._client)
        self._thread = producer._thread
        self._client = _CrossingTransaction(client, client._in_transactions(), partaker)
        self._client._home = None if consumer is None else consumer._thread

    def __enter__(self) -> Transaction:
        self._thread.call(self._client.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.call(self._client.__aexit__(kind, error, traceback))

    send = _blocking(AsyncTransaction.send)
    enqueue = _delivering(AsyncTransaction.enqueue)
    send_nowait = _delivering_now(AsyncTransaction.send_nowait)
    send_many = _blocking(AsyncTransaction.send_many)
    enqueue_many = _blocking(AsyncTransaction.enqueue_many)
    flush = _blocking(AsyncTransaction.flush)
    send_offsets = _blocking(AsyncTransaction.send_offsets)
    abort = _blocking(AsyncTransaction.abort)


class SharedWriter(_Face[AsyncSharedWriter]):
    """``with join(ticket, writer=...) as writer: ...``; see :class:`oncelog.SharedWriter`."""

    def __enter__(self) -> SharedWriter:
        return cast(SharedWriter, super().__enter__())

    close = _closing(AsyncSharedWriter.close)
    rejoin = _blocking(AsyncSharedWriter.rejoin)
    send = _blocking(AsyncSharedWriter.send)
    enqueue = _delivering(AsyncSharedWriter.enqueue)
    send_nowait = _delivering_now(AsyncSharedWriter.send_nowait)
    send_many = _blocking(AsyncSharedWriter.send_many)
    enqueue_many = _blocking(AsyncSharedWriter.enqueue_many)
    flush = _blocking(AsyncSharedWriter.flush)
    partitions_for = _blocking(AsyncSharedWriter.partitions_for)
    metrics = _measuring(AsyncSharedWriter.metrics)

    @property
    def unacknowledged_count(self) -> int:
        """Records taken and not acknowledged."""
        return self._client.unacknowledged_count

    @property
    def ticket(self) -> Ticket:
        """By which it joined."""
        return self._client.ticket

    @property
    def receipt(self) -> Receipt:
        """For the owner; see :attr:`oncelog.SharedWriter.receipt`."""
        return self._client.receipt


@wraps(async_join)
def _join(ticket: Ticket, **options: Any) -> SharedWriter:
    thread = LoopThread("oncelog-sharedwriter")
    try:
        return SharedWriter(thread.call(async_join(ticket, **options)), thread)
    except BaseException:
        thread.stop()
        raise


join = cast("Callable[..., SharedWriter]", _join)


def _alone(coro: Coroutine[Any, Any, T], over: Any = None) -> T:
    """Run ``coro`` on a loop that is there for nothing else, or where the client ``over`` lives."""
    if over is not None:
        return cast(T, over._thread.call(coro))
    thread = LoopThread("oncelog-sharedtransaction")
    try:
        return thread.call(coro)
    finally:
        thread.stop()


def _asking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _alone(method(self._client, *args, **kwargs), self._over)

    return call


def _client_of(over: Admin | None) -> AsyncAdmin | None:
    return None if over is None else over._client


class SharedTransaction:
    """The owner's side; see :class:`oncelog.SharedTransaction`. Holds no thread between calls."""

    @_making(AsyncSharedTransaction.__init__)
    def __init__(self, *args: Any, over: Admin | None = None, **options: Any) -> None:
        self._over = over
        self._client = AsyncSharedTransaction(*args, over=_client_of(over), **options)

    @classmethod
    @wraps(cast(Any, AsyncSharedTransaction.begin).__func__)
    def begin(cls, *, over: Admin | None = None, **options: Any) -> SharedTransaction:
        """See :meth:`oncelog.SharedTransaction.begin`."""
        made = cls.__new__(cls)
        made._over = over
        options["over"] = _client_of(over)
        made._client = _alone(AsyncSharedTransaction.begin(**options), over)
        return made

    @classmethod
    @wraps(cast(Any, AsyncSharedTransaction.next_ordinal).__func__)
    def next_ordinal(cls, *, over: Admin | None = None, **options: Any) -> int:
        """See :meth:`oncelog.SharedTransaction.next_ordinal`."""
        options["over"] = _client_of(over)
        return _alone(AsyncSharedTransaction.next_ordinal(**options), over)

    def __enter__(self) -> SharedTransaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _alone(self._client.__aexit__(kind, error, traceback), self._over)

    @property
    def ticket(self) -> Ticket:
        """For the writers."""
        return self._client.ticket

    commit = _asking(AsyncSharedTransaction.commit)
    abort = _asking(AsyncSharedTransaction.abort)


class Consumer(_Face[AsyncConsumer]):
    """``for record in consumer: ...``; see :class:`oncelog.Consumer`."""

    @_making(AsyncConsumer.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(AsyncConsumer(*args, **options))

    def __enter__(self) -> Consumer:
        return cast(Consumer, super().__enter__())

    start = _blocking(AsyncConsumer.start)
    close = _closing(AsyncConsumer.close)
    assign = _on_loop(AsyncConsumer.assign)
    assignment = _on_loop(AsyncConsumer.assignment)
    position = _blocking(AsyncConsumer.position)
    seek = _on_loop(AsyncConsumer.seek)
    seek_to_beginning = _blocking(AsyncConsumer.seek_to_beginning)
    seek_to_end = _blocking(AsyncConsumer.seek_to_end)
    seek_to_timestamp = _blocking(AsyncConsumer.seek_to_timestamp)
    pause = _on_loop(AsyncConsumer.pause)
    resume = _on_loop(AsyncConsumer.resume)
    paused = _on_loop(AsyncConsumer.paused)
    beginning_offsets = _blocking(AsyncConsumer.beginning_offsets)
    end_offsets = _blocking(AsyncConsumer.end_offsets)
    offsets_for_times = _blocking(AsyncConsumer.offsets_for_times)
    wait_for_records = _blocking(AsyncConsumer.wait_for_records)
    lag = _blocking(AsyncConsumer.lag)
    partitions_for = _blocking(AsyncConsumer.partitions_for)
    metrics = _measuring(AsyncConsumer.metrics)
    getone = _blocking(AsyncConsumer.getone)
    getmany = _blocking(AsyncConsumer.getmany)
    getbatch = _blocking(AsyncConsumer.getbatch)
    getbatches = _blocking(AsyncConsumer.getbatches)
    run = _blocking(AsyncConsumer.run)
    subscribe = _on_loop(AsyncConsumer.subscribe)
    unsubscribe = _blocking(AsyncConsumer.unsubscribe)
    commit = _blocking(AsyncConsumer.commit)
    commit_async = _promising(AsyncConsumer.commit_async)
    committed = _blocking(AsyncConsumer.committed)
    group_metadata = _on_loop(AsyncConsumer.group_metadata)
    enforce_rebalance = _on_loop(AsyncConsumer.enforce_rebalance)

    def __iter__(self) -> Iterator[Record]:
        """Records until the consumer is closed."""
        while self._thread.running:
            cursor = self._thread.call(self._client._next_cursor())
            if cursor is None:
                return
            yield from cursor.iterator

    def batches(self) -> Iterator[ColumnBatch]:
        """Batches as columns until the consumer is closed."""
        while self._thread.running:
            batch = self._thread.call(self._client._next_batch())
            if batch is None:
                return
            yield batch


class Admin(_Face[AsyncAdmin]):
    """``with Admin("localhost:9092") as admin: ...``; see :class:`oncelog.Admin`."""

    @_making(AsyncAdmin.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(AsyncAdmin(*args, **options))

    def __enter__(self) -> Admin:
        return cast(Admin, super().__enter__())

    start = _blocking(AsyncAdmin.start)
    close = _closing(AsyncAdmin.close)
    metrics = _measuring(AsyncAdmin.metrics)
    create_topics = _blocking(AsyncAdmin.create_topics)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)
    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    describe_configs = _blocking(AsyncAdmin.describe_configs)
    alter_configs = _blocking(AsyncAdmin.alter_configs)
    alter_broker_configs = _blocking(AsyncAdmin.alter_broker_configs)
    describe_cluster = _blocking(AsyncAdmin.describe_cluster)
    describe_api_versions = _blocking(AsyncAdmin.describe_api_versions)
    describe_log_dirs = _blocking(AsyncAdmin.describe_log_dirs)
    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    delete_records = _blocking(AsyncAdmin.delete_records)
    list_groups = _blocking(AsyncAdmin.list_groups)
    describe_groups = _blocking(AsyncAdmin.describe_groups)
    delete_groups = _blocking(AsyncAdmin.delete_groups)
    list_group_offsets = _blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = _blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = _blocking(AsyncAdmin.delete_group_offsets)
    remove_group_members = _blocking(AsyncAdmin.remove_group_members)
    plan_offset_reset = _blocking(AsyncAdmin.plan_offset_reset)
    reset_group_offsets = _blocking(AsyncAdmin.reset_group_offsets)
    list_transactions = _blocking(AsyncAdmin.list_transactions)
    describe_transactions = _blocking(AsyncAdmin.describe_transactions)
    describe_producers = _blocking(AsyncAdmin.describe_producers)
    find_hanging_transactions = _blocking(AsyncAdmin.find_hanging_transactions)
    fence_producers = _blocking(AsyncAdmin.fence_producers)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)
