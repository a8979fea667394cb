"""The synchronous clients serve scripts, notebooks and Spark's executors.

Rules
-----
* Every public method of the asynchronous client is here with the same parameters, made by
  ``face.py`` from the method itself; a parity test sees to it that none is missing.
* Iterating costs one crossing a batch, not one a record; positions are exact all the same (see
  ``consumer/cursor.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from oncelog import face
from oncelog.admin.admin import Admin as AsyncAdmin
from oncelog.config import BootstrapServers
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.consumer import Consumer as AsyncConsumer
from oncelog.consumer.consumer import core_of
from oncelog.consumer.cursor import Cursor
from oncelog.consumer.idle import Idling
from oncelog.consumer.record import Record
from oncelog.consumer.run_options import RunSettings
from oncelog.face import BlockingClient, Delivery, inside
from oncelog.history import History
from oncelog.loop_thread import LoopThread
from oncelog.producer.producer import Producer as AsyncProducer
from oncelog.producer.transactions.transaction import Elsewhere
from oncelog.producer.transactions.transaction import Transaction as AsyncTransaction
from oncelog.shared_transactions.transaction import AskingOptions, Receipt, Ticket
from oncelog.shared_transactions.transaction import SharedTransaction as AsyncSharedTransaction
from oncelog.shared_transactions.writer import SharedWriter as AsyncSharedWriter
from oncelog.shared_transactions.writer import join as async_join
from oncelog.signals import StopSignals

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

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")


class Producer(BlockingClient[AsyncProducer]):
    """A producer sends records from synchronous code; see :class:`oncelog.Producer`.

    Use it as ``with Producer("localhost:9092") as producer: ...``. Waiting for each record costs a
    crossing between threads each time: ``send_many`` is the way to send many.
    """

    @face.making(AsyncProducer.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(AsyncProducer(*args, **options))

    start = face.blocking(AsyncProducer.start)
    close = face.closing(AsyncProducer.close)
    send = face.blocking(AsyncProducer.send)
    enqueue = face.delivering(AsyncProducer.enqueue)
    send_nowait = face.delivering_now(AsyncProducer.send_nowait)
    send_many = face.blocking(AsyncProducer.send_many)
    enqueue_many = face.blocking(AsyncProducer.enqueue_many)
    flush = face.blocking(AsyncProducer.flush)
    partitions_for = face.blocking(AsyncProducer.partitions_for)
    metrics = face.measuring(AsyncProducer.metrics)
    health = face.on_loop(AsyncProducer.health)
    begin_transaction = face.blocking(AsyncProducer.begin_transaction)
    send_offsets = face.blocking(AsyncProducer.send_offsets)
    commit_transaction = face.blocking(AsyncProducer.commit_transaction)
    abort_transaction = face.blocking(AsyncProducer.abort_transaction)

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """Return a block that commits at its end; see :meth:`oncelog.Producer.transaction`.

        Use it as ``with producer.transaction() as txn: txn.send(...)``.
        """
        return Transaction(self, consumer)

    @property
    def unacknowledged_count(self) -> int:
        """Return how many records were taken and are not acknowledged."""
        return self._client.unacknowledged_count


class Transaction:
    """A transaction is a block: see :meth:`oncelog.Producer.transaction`.

    Use it as ``with producer.transaction() as txn: ...``.
    """

    def __init__(self, producer: Producer, consumer: Consumer | None) -> None:
        _, self._thread = inside(producer)
        elsewhere = None if consumer is None else Elsewhere(*inside(consumer))
        self._client = face.on_loop(AsyncProducer.transaction)(producer, elsewhere)

    def __enter__(self) -> Transaction:
        self._thread.call(self._client.__aenter__())
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._thread.call(self._client.__aexit__(kind, error, traceback))

    send = face.blocking(AsyncTransaction.send)
    enqueue = face.delivering(AsyncTransaction.enqueue)
    send_nowait = face.delivering_now(AsyncTransaction.send_nowait)
    send_many = face.blocking(AsyncTransaction.send_many)
    enqueue_many = face.blocking(AsyncTransaction.enqueue_many)
    flush = face.blocking(AsyncTransaction.flush)
    send_offsets = face.blocking(AsyncTransaction.send_offsets)
    abort = face.blocking(AsyncTransaction.abort)


class SharedWriter(BlockingClient[AsyncSharedWriter]):
    """A shared writer sends records in a transaction of many; see :class:`oncelog.SharedWriter`.

    Use it as ``with join(ticket, writer=...) as writer: ...``.
    """

    close = face.closing(AsyncSharedWriter.close)
    rejoin = face.blocking(AsyncSharedWriter.rejoin)
    send = face.blocking(AsyncSharedWriter.send)
    enqueue = face.delivering(AsyncSharedWriter.enqueue)
    send_nowait = face.delivering_now(AsyncSharedWriter.send_nowait)
    send_many = face.blocking(AsyncSharedWriter.send_many)
    enqueue_many = face.blocking(AsyncSharedWriter.enqueue_many)
    flush = face.blocking(AsyncSharedWriter.flush)
    partitions_for = face.blocking(AsyncSharedWriter.partitions_for)
    metrics = face.measuring(AsyncSharedWriter.metrics)
    health = face.on_loop(AsyncSharedWriter.health)

    @property
    def unacknowledged_count(self) -> int:
        """Return how many records were taken and are not acknowledged."""
        return self._client.unacknowledged_count

    @property
    def ticket(self) -> Ticket:
        """Return the ticket by which the writer joined."""
        return self._client.ticket

    @property
    def receipt(self) -> Receipt:
        """Return the receipt for the owner; see :attr:`oncelog.SharedWriter.receipt`."""
        return self._client.receipt


def _joining(
    method: Callable[P, Coroutine[Any, Any, AsyncSharedWriter]],
) -> Callable[P, SharedWriter]:
    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> SharedWriter:
        thread = LoopThread("oncelog-sharedwriter")
        try:
            return SharedWriter(thread.call(method(*args, **kwargs)), thread)
        except BaseException:
            thread.stop()
            raise

    return call


join = _joining(async_join)


def _alone(coro: Coroutine[Any, Any, T], over: Admin | None = None) -> T:
    """Run ``coro`` on a loop made for it alone, or on the loop of the client ``over``."""
    if over is not None:
        return inside(over)[1].call(coro)
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
    return None if over is None else inside(over)[0]


class SharedTransaction:
    """An owner begins and ends a shared transaction; see :class:`oncelog.SharedTransaction`.

    It holds no thread between calls.
    """

    @face.like(AsyncSharedTransaction.__init__)
    def __init__(
        self,
        ticket: Ticket,
        *,
        over: Admin | None = None,
        history: History | None = None,
        **options: Unpack[AskingOptions],
    ) -> None:
        self._over = over
        self._client = AsyncSharedTransaction(
            ticket, over=_client_of(over), history=history, **options
        )

    @classmethod
    @face.like(cast(Any, AsyncSharedTransaction.begin).__func__)
    def begin(
        cls,
        *,
        bootstrap_servers: BootstrapServers,
        transactional_id: str,
        tag: int,
        timeout_ms: int = 60_000,
        over: Admin | None = None,
        history: History | None = None,
        **options: Unpack[AskingOptions],
    ) -> SharedTransaction:
        """See :meth:`oncelog.SharedTransaction.begin`."""
        made = cls.__new__(cls)
        made._over = over
        begun = AsyncSharedTransaction.begin(
            bootstrap_servers=bootstrap_servers,
            transactional_id=transactional_id,
            tag=tag,
            timeout_ms=timeout_ms,
            over=_client_of(over),
            history=history,
            **options,
        )
        made._client = _alone(begun, over)
        return made

    @classmethod
    @face.like(cast(Any, AsyncSharedTransaction.next_ordinal).__func__)
    def next_ordinal(
        cls,
        *,
        bootstrap_servers: BootstrapServers,
        over: Admin | None = None,
        **options: Unpack[AskingOptions],
    ) -> int:
        """See :meth:`oncelog.SharedTransaction.next_ordinal`."""
        asking = AsyncSharedTransaction.next_ordinal(
            bootstrap_servers=bootstrap_servers, over=_client_of(over), **options
        )
        return _alone(asking, over)

    def __enter__(self) -> SharedTransaction:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        _alone(self._client.__aexit__(kind, error, traceback), self._over)

    @property
    def ticket(self) -> Ticket:
        """Return the ticket that writers join with."""
        return self._client.ticket

    commit = _asking(AsyncSharedTransaction.commit)
    abort = _asking(AsyncSharedTransaction.abort)


class Consumer(BlockingClient[AsyncConsumer]):
    """A consumer reads records in synchronous code; see :class:`oncelog.Consumer`.

    Use it as ``for record in consumer: ...``.
    """

    _signals: StopSignals | None = None

    @face.making(AsyncConsumer.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(AsyncConsumer(*args, **options))

    start = face.blocking(AsyncConsumer.start)
    close = face.closing(AsyncConsumer.close)
    assign = face.on_loop(AsyncConsumer.assign)
    assignment = face.on_loop(AsyncConsumer.assignment)
    position = face.blocking(AsyncConsumer.position)
    seek = face.on_loop(AsyncConsumer.seek)
    seek_to_beginning = face.blocking(AsyncConsumer.seek_to_beginning)
    seek_to_end = face.blocking(AsyncConsumer.seek_to_end)
    seek_to_timestamp = face.blocking(AsyncConsumer.seek_to_timestamp)
    pause = face.on_loop(AsyncConsumer.pause)
    resume = face.on_loop(AsyncConsumer.resume)
    paused = face.on_loop(AsyncConsumer.paused)
    beginning_offsets = face.blocking(AsyncConsumer.beginning_offsets)
    end_offsets = face.blocking(AsyncConsumer.end_offsets)
    offsets_for_times = face.blocking(AsyncConsumer.offsets_for_times)
    wait_for_records = face.blocking(AsyncConsumer.wait_for_records)
    lag = face.blocking(AsyncConsumer.lag)
    partitions_for = face.blocking(AsyncConsumer.partitions_for)
    metrics = face.measuring(AsyncConsumer.metrics)
    health = face.on_loop(AsyncConsumer.health)
    getone = face.blocking(AsyncConsumer.getone)
    getmany = face.blocking(AsyncConsumer.getmany)
    getbatch = face.blocking(AsyncConsumer.getbatch)
    getbatches = face.blocking(AsyncConsumer.getbatches)
    subscribe = face.on_loop(AsyncConsumer.subscribe)
    unsubscribe = face.blocking(AsyncConsumer.unsubscribe)
    commit = face.blocking(AsyncConsumer.commit)
    commit_async = face.promising(AsyncConsumer.commit_async)
    committed = face.blocking(AsyncConsumer.committed)
    group_metadata = face.on_loop(AsyncConsumer.group_metadata)
    enforce_rebalance = face.on_loop(AsyncConsumer.enforce_rebalance)

    @overload
    def run(
        self,
        handler: Callable[[Record], object],
        *,
        decode: None = None,
        **options: Unpack[RunSettings],
    ) -> None: ...

    @overload
    def run(
        self,
        handler: Callable[[D], object],
        *,
        decode: Callable[[Record], D],
        **options: Unpack[RunSettings],
    ) -> None: ...

    @face.like(AsyncConsumer.run)
    def run(self, *args: Any, **options: Any) -> None:
        """See :meth:`oncelog.Consumer.run`."""
        if options.pop("stop_on_signals", False):  # which come to this thread, not to the client's
            self.stop_on_signals()
        self._thread.call(self._client.run(*args, **options))

    def stop_on_signals(self) -> None:
        """See :meth:`oncelog.Consumer.stop_on_signals`."""
        if self._signals is None:
            self._signals = StopSignals(lambda: self._thread.submit(self._client.close()))

    def _shut(self) -> None:
        super()._shut()
        if self._signals is not None:
            self._signals.release()

    def __iter__(self) -> Iterator[Record]:
        """Yield records until the consumer is closed."""
        return self._records(core_of(self._client).next_cursor)

    def until_idle(self, seconds: float) -> Iterator[Record]:
        """Yield records until none has come for so long: :meth:`oncelog.Consumer.until_idle`."""
        return self._records(Idling(core_of(self._client), seconds).next_cursor)

    def _records(
        self, next_cursor: Callable[[], Coroutine[Any, Any, Cursor | None]]
    ) -> Iterator[Record]:
        for cursor in self._until_closed(next_cursor):
            yield from cursor.iterator

    def batches(self) -> Iterator[ColumnBatch]:
        """Yield batches as columns until the consumer is closed."""
        return self._until_closed(core_of(self._client).next_batch)

    def _until_closed(self, ask: Callable[[], Coroutine[Any, Any, T | None]]) -> Iterator[T]:
        self._thread.check_process()
        while self._thread.running and (found := self._thread.call(ask())) is not None:
            yield found


class Admin(BlockingClient[AsyncAdmin]):
    """An admin client changes and describes a cluster; see :class:`oncelog.Admin`.

    Use it as ``with Admin("localhost:9092") as admin: ...``.
    """

    @face.making(AsyncAdmin.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(AsyncAdmin(*args, **options))

    start = face.blocking(AsyncAdmin.start)
    close = face.closing(AsyncAdmin.close)
    metrics = face.measuring(AsyncAdmin.metrics)
    health = face.on_loop(AsyncAdmin.health)
    create_topics = face.blocking(AsyncAdmin.create_topics)
    delete_topics = face.blocking(AsyncAdmin.delete_topics)
    create_partitions = face.blocking(AsyncAdmin.create_partitions)
    list_topics = face.blocking(AsyncAdmin.list_topics)
    describe_topics = face.blocking(AsyncAdmin.describe_topics)
    describe_configs = face.blocking(AsyncAdmin.describe_configs)
    alter_configs = face.blocking(AsyncAdmin.alter_configs)
    alter_broker_configs = face.blocking(AsyncAdmin.alter_broker_configs)
    describe_cluster = face.blocking(AsyncAdmin.describe_cluster)
    describe_events = face.blocking(AsyncAdmin.describe_events)
    describe_log = face.blocking(AsyncAdmin.describe_log)
    whoami = face.blocking(AsyncAdmin.whoami)
    describe_api_versions = face.blocking(AsyncAdmin.describe_api_versions)
    describe_log_dirs = face.blocking(AsyncAdmin.describe_log_dirs)
    alter_replica_log_dirs = face.blocking(AsyncAdmin.alter_replica_log_dirs)
    elect_leaders = face.blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = face.blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = face.blocking(AsyncAdmin.list_partition_reassignments)
    balance = face.blocking(AsyncAdmin.balance)
    alter_broker_states = face.blocking(AsyncAdmin.alter_broker_states)
    alter_users = face.blocking(AsyncAdmin.alter_users)
    describe_users = face.blocking(AsyncAdmin.describe_users)
    create_acls = face.blocking(AsyncAdmin.create_acls)
    delete_acls = face.blocking(AsyncAdmin.delete_acls)
    describe_acls = face.blocking(AsyncAdmin.describe_acls)
    alter_quotas = face.blocking(AsyncAdmin.alter_quotas)
    describe_quotas = face.blocking(AsyncAdmin.describe_quotas)
    delete_records = face.blocking(AsyncAdmin.delete_records)
    list_offsets = face.blocking(AsyncAdmin.list_offsets)
    list_groups = face.blocking(AsyncAdmin.list_groups)
    describe_groups = face.blocking(AsyncAdmin.describe_groups)
    delete_groups = face.blocking(AsyncAdmin.delete_groups)
    list_group_offsets = face.blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = face.blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = face.blocking(AsyncAdmin.delete_group_offsets)
    remove_group_members = face.blocking(AsyncAdmin.remove_group_members)
    plan_offset_reset = face.blocking(AsyncAdmin.plan_offset_reset)
    reset_group_offsets = face.blocking(AsyncAdmin.reset_group_offsets)
    list_transactions = face.blocking(AsyncAdmin.list_transactions)
    describe_transactions = face.blocking(AsyncAdmin.describe_transactions)
    describe_producers = face.blocking(AsyncAdmin.describe_producers)
    find_hanging_transactions = face.blocking(AsyncAdmin.find_hanging_transactions)
    fence_producers = face.blocking(AsyncAdmin.fence_producers)
    abort_transaction = face.blocking(AsyncAdmin.abort_transaction)
