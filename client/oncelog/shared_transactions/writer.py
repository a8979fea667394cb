"""A writer of a shared transaction joins by a ticket, sends, and has a receipt for the owner.

Rules
-----
* A batch that fails for good fails the writer, which then sends nothing more and never has a
  receipt; the work is done again by another writer.
* The receipt seals: what could be sent after it would be committed without having been waited for.
* A join adds some chance to the writer's name, so that a second process under the same name is a
  second writer, and never a half of the first.
* A process that does part after part joins again (``rejoin``) with the writer that it has, whose
  connections stay: for the transactions it is another writer each time.
"""

from __future__ import annotations

from typing import Any

from oncelog import defaults
from oncelog.config import CompressionOption
from oncelog.core.coordinators import Coordinators, refused_at_top
from oncelog.core.health import ClientHealth
from oncelog.errors import (
    ApiError,
    ConfigurationError,
    NoTransactionError,
    OncelogError,
    TransactionAbortableError,
    TransactionAlreadyCommittedError,
)
from oncelog.history import History
from oncelog.observability.metrics import ProducerMetrics
from oncelog.producer.partitioner import PartitionerOption
from oncelog.producer.record_producer import RecordProducer
from oncelog.producer.sender import Sender
from oncelog.producer.transactions.calls import TRANSACTIONS
from oncelog.producer.transactions.sending import Sending
from oncelog.producer.transactions.session import TransactionSession
from oncelog.security import Security
from oncelog.shared_transactions.transaction import Receipt, Ticket
from oncelog_protocol import limits
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION
from oncelog_protocol.messages.shared_transactions import JoinTxnRequest, JoinTxnResponse
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy

WRITER_CHARS_MAX = limits.NAME_CHARS_MAX - 16
"""The bound on the name that is given; the one that travels is a little longer."""


class _Membership:
    """A writer sends in this session; see ``producer.transactions.session``."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.serial = 0
        self.history_number = -1
        self.error: BaseException | None = None
        self.joined = self.sealed = False
        self._sender: Sender | None = None

    def start(self, sender: Sender) -> None:
        """Send records by ``sender`` from now on."""
        self._sender = sender

    def leave(self, transactional_id: str) -> None:
        """Leave the transaction: between two of them nothing is sent."""
        self.transactional_id = transactional_id
        self.joined = self.sealed = False

    def enter(self, history_number: int) -> None:
        """Become another writer, of the transaction with this number in the history."""
        self.serial += 1
        self.history_number = history_number
        self.joined = True

    @property
    def retries(self) -> bool:
        return self.error is None

    def check_open(self) -> None:
        if self.error is not None:
            raise self.failure()
        if self.sealed or not self.joined:
            raise NoTransactionError("nothing is sent before joining, nor behind a receipt")

    def failure(self) -> TransactionAbortableError:
        failed = TransactionAbortableError(
            f"this writer has failed, let another one do its work: {self.error}"
        )
        failed.__cause__ = self.error
        return failed

    def touched(self) -> None:
        pass

    def lost(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
            self.discard(in_flight=False)

    def discard(self, *, in_flight: bool) -> None:
        """Give up what is not acknowledged; see ``Sender.discard``."""
        assert self._sender is not None
        self._sender.discard(self.failure, in_flight=in_flight)

    def adopt(self, producer_id: int, producer_epoch: int) -> None:
        """Give everything that is sent from now on this writer's identity."""
        assert self._sender is not None
        self._sender.adopt(producer_id, producer_epoch)


class _WritersProducer(RecordProducer):
    """A writer's records are sent by this producer, which joins over the same connections."""

    def __init__(self, membership: _Membership, servers: str, options: dict[str, Any]) -> None:
        super().__init__(servers, **options)
        self._membership = membership
        self._chance = self._entropy.fork("writer")
        self._coordinators = Coordinators(
            self._router, key_type=COORDINATOR_TRANSACTION, purpose=TRANSACTIONS
        )

    def _new_session(self) -> TransactionSession:
        return self._membership

    async def _begin_session(self, sender: Sender) -> None:
        self._membership.start(sender)

    @property
    def closed(self) -> bool:
        """Return whether the producer was closed."""
        return self._closed

    async def enlist(self, ticket: Ticket, writer: str) -> int:
        """Become a writer of the ticket's transaction, by the name and some chance.

        It returns the producer id that the writer has in this transaction.
        """
        request = JoinTxnRequest(
            ticket.transactional_id,
            ticket.ordinal,
            ticket.tag,
            f"{writer}.{self._chance.token(4).hex()}",
            ticket.timeout_ms,
        )
        answer: JoinTxnResponse = await self._coordinators.call(
            ticket.transactional_id, request, self._router.deadline(), _refused
        )
        self._membership.adopt(answer.producer_id, answer.producer_epoch)
        name = f"{ticket.transactional_id}/{answer.producer_id}"
        self._membership.enter(self._router.history.begin_txn(name))
        return answer.producer_id


def _refused(answer: JoinTxnResponse) -> ApiError | None:
    try:
        return refused_at_top(answer)
    except TransactionAlreadyCommittedError as error:
        told = str(error)
        raise TransactionAlreadyCommittedError(told, answer.last_committed_tag) from None


async def join(
    ticket: Ticket,
    *,
    writer: str,
    client_id: str = defaults.WRITER_CLIENT_ID,
    compression_type: CompressionOption = defaults.COMPRESSION_TYPE,
    compression_level: int | None = None,
    linger_ms: float = defaults.LINGER_MS,
    batch_size: int = defaults.BATCH_SIZE,
    buffer_memory: int = defaults.BUFFER_MEMORY,
    max_in_flight_requests_per_connection: int = defaults.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    max_request_size: int = defaults.MAX_REQUEST_SIZE,
    delivery_timeout_ms: int = defaults.DELIVERY_TIMEOUT_MS,
    request_timeout_ms: int = defaults.REQUEST_TIMEOUT_MS,
    connect_timeout_ms: int = defaults.CONNECT_TIMEOUT_MS,
    max_block_ms: int = defaults.MAX_BLOCK_MS,
    security: Security | None = None,
    partitioner: PartitionerOption = "default",
    clock: WallClock | None = None,
    entropy: Entropy | None = None,
    history: History | None = None,
) -> SharedWriter:
    """Become a writer of the ticket's transaction. ``async with await join(...) as writer: ...``

    :param writer: what this attempt at a part of the work is called, for whoever looks at the
        transaction. Other options as of Producer.
    :raises TransactionAlreadyCommittedError: the ticket's tag is committed: nothing is to be done.
    :raises ProducerFencedError: a newer transaction of the id has begun, or this one has ended.
    :raises InvalidTxnStateError: the id is one of ordinary transactions, or bound to another tag.
    :raises NoBrokersAvailableError, DeadlineExceededError: nobody answered in time.
    """
    options = {name: value for name, value in locals().items() if name not in ("ticket", "writer")}
    made = SharedWriter(ticket, writer, options)
    await made._join()
    return made


class SharedWriter(Sending):
    """A shared writer sends like a producer; leaving ``async with`` waits for acknowledgements."""

    _producer: _WritersProducer

    def __init__(self, ticket: Ticket, writer: str, options: dict[str, Any]) -> None:
        _check_name(writer)
        self._ticket = ticket
        self._writer = writer
        self._membership = _Membership(ticket.transactional_id)
        super().__init__(_WritersProducer(self._membership, ticket.bootstrap_servers, options))
        self._producer_id = -1

    async def _join(self) -> None:
        await self._producer.start()
        try:
            await self._enlist(self._ticket, self._writer)
        except BaseException:
            await self._producer.close(timeout_ms=0)
            raise

    async def _enlist(self, ticket: Ticket, writer: str) -> None:
        self._producer_id = await self._producer.enlist(ticket, writer)
        self._ticket, self._writer = ticket, writer

    async def rejoin(self, ticket: Ticket, *, writer: str) -> None:
        """Become another writer, of this or another transaction, after taking the last receipt.

        Errors are those of ``join``; after one of them it may be called again.

        :raises NoTransactionError: there is no receipt yet, or the writer is closed.
        :raises TransactionAbortableError: this writer has failed: ``join`` with a new one.
        :raises ConfigurationError: the ticket is of another cluster.
        """
        _check_name(writer)
        membership = self._membership
        if membership.error is not None:
            raise membership.failure()
        if self._producer.closed or (membership.joined and not membership.sealed):
            raise NoTransactionError("a writer joins again when its receipt is taken")
        if ticket.bootstrap_servers != self._ticket.bootstrap_servers:
            raise ConfigurationError(
                f"the ticket is of {ticket.bootstrap_servers}, this writer is connected to"
                f" {self._ticket.bootstrap_servers}"
            )
        membership.leave(ticket.transactional_id)
        await self._enlist(ticket, writer)

    @property
    def ticket(self) -> Ticket:
        """Return the ticket by which the writer joined."""
        return self._ticket

    @property
    def receipt(self) -> Receipt:
        """Return the receipt for the owner: everything that was sent is in the log.

        Nothing can be sent after it.

        :raises TransactionAbortableError: something failed; another writer has to do the work.
        :raises NoTransactionError: something is not acknowledged yet: flush, or leave the block.
        """
        if self._membership.error is not None:
            raise self._membership.failure()
        if self._producer.unacknowledged_count:
            raise NoTransactionError("records are not acknowledged yet: flush() first")
        self._membership.sealed = True
        return Receipt(self._writer, self._producer_id)

    async def __aenter__(self) -> SharedWriter:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._fail(error)
            await self._producer.close(timeout_ms=0)
            return
        await self.close()

    def _fail(self, error: BaseException) -> None:
        self._membership.lost(error)
        self._membership.discard(in_flight=True)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what is left and close; the receipt can be had afterwards.

        :raises TransactionAbortableError: something was not acknowledged: there is no receipt.
        """
        try:
            await self._producer.close(timeout_ms)
        except OncelogError as error:
            self._membership.lost(error)
        if self._membership.error is not None:
            raise self._membership.failure()

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions; see ``Producer.partitions_for``."""
        return await self._producer.partitions_for(topic)

    def metrics(self) -> ProducerMetrics:
        """Return a snapshot of the writer's counters; see :meth:`oncelog.Producer.metrics`."""
        return self._producer.metrics()

    def health(self) -> ClientHealth:
        """Return whether brokers answer; see :meth:`oncelog.Producer.health`."""
        return self._producer.health()

    @property
    def unacknowledged_count(self) -> int:
        """Return how many records were taken and are neither acknowledged nor failed."""
        return self._producer.unacknowledged_count


def _check_name(writer: str) -> None:
    if not 0 < len(writer) <= WRITER_CHARS_MAX:
        raise ConfigurationError(
            f"writer={writer!r:.80}: must have 1 to {WRITER_CHARS_MAX} characters"
        )
