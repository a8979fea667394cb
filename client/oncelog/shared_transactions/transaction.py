"""A shared transaction has many writers in many processes, and one commit that names its winners.

::

    txn = await SharedTransaction.begin(bootstrap_servers=..., transactional_id="etl", tag=7)
    # in any process, with txn.ticket:
    async with await join(ticket, writer="part-3-attempt-0") as writer:
        await writer.send_many("out", values)
    receipts.append(writer.receipt)
    # the owner again:
    await txn.commit(winners=receipts)

Rules
-----
* A *tag* says what is written (a batch number); it only grows. What is committed under a tag can
  never be committed again: joining answers TransactionAlreadyCommittedError, and nothing is to be
  done. The owner of a newer transaction of the same id fences older ones.
* A writer is one attempt at a part of the work. An attempt that is made again is another writer,
  whatever its name, and its predecessor's records are those of a loser.
* A receipt is had when everything that was sent is in the log, and nothing can be sent after it.
  The commit makes the records of its winners visible, all at once, and those of all other writers
  invisible for good.
* An owner holds no connection between two calls, and is made anew from its ticket: whoever has the
  ticket may commit or abort, as often as it likes. What is decided stays decided. An owner that has
  an ``Admin`` at hand asks over its connections.
* Who begins may not know yet what for: an ordinal alone (``next_ordinal``) becomes a ticket
  wherever the id and the tag are known, with ``Ticket(servers, id, ordinal, tag)``.
* Brokers keep an id's last tag for good. One that is used once takes LAST_TAG, and is forgotten.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self, TypedDict, TypeVar, Unpack

from oncelog import defaults
from oncelog.admin.calls import AdminCalls, txn_coordinators
from oncelog.config import BootstrapServers, ConnectionOptions, check_shared, take
from oncelog.core.coordinators import Coordinators
from oncelog.core.router import Router
from oncelog.errors import (
    ConfigurationError,
    DeadlineExceededError,
    InvalidTxnStateError,
    OncelogError,
    ProducerFencedError,
    TransactionOutcomeUnknownError,
    is_definite,
)
from oncelog.history import UNRECORDED, History, note_failure
from oncelog.producer.transactions.calls import TRANSACTIONS
from oncelog.security import Security
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION
from oncelog_protocol.messages.shared_transactions import (
    LAST_TAG,
    ORDINAL_KEY,
    BeginSharedTxnRequest,
    BeginSharedTxnResponse,
    EndSharedTxnRequest,
    EndSharedTxnResponse,
)
from oncelog_runtime.entropy import Entropy, SystemEntropy

__all__ = ["LAST_TAG", "Receipt", "SharedEnd", "SharedTransaction", "Ticket"]

logger = logging.getLogger(__name__)

T = TypeVar("T", bound="_Json")


class _Json:
    """The fields can be written as one line of JSON, and read from it."""

    __slots__ = ()

    def to_json(self) -> str:
        """Return one line of JSON; ``from_json`` reads it."""
        return json.dumps(asdict(self))  # type: ignore[call-overload]

    @classmethod
    def from_json(cls: type[T], text: str) -> T:
        """Read what ``to_json`` wrote.

        :raises ConfigurationError: it is something else.
        """
        try:
            given = json.loads(text)
            names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
            made = cls(**{name: given[name] for name in names})
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"not a {cls.__name__.lower()}: {text!r:.200}") from error
        return made


@dataclass(frozen=True, slots=True)
class Ticket(_Json):
    """A ticket is all that a writer or another owner needs; it may be pickled, or sent as JSON."""

    bootstrap_servers: str
    transactional_id: str
    ordinal: int
    tag: int
    timeout_ms: int = 60_000
    """The coordinator keeps the transaction open for this long, from the first join on."""

    def __post_init__(self) -> None:
        check_shared(self.transactional_id, self.tag, self.timeout_ms)


@dataclass(frozen=True, slots=True)
class Receipt(_Json):
    """A writer hands this to the owner: everything that it sent is in the log."""

    writer: str
    producer_id: int


class SharedEnd(NamedTuple):
    """A shared transaction has ended. ``already``: it had before, this call changed nothing."""

    committed: bool
    already: bool


class AskingOptions(TypedDict, total=False):
    """Calls about a shared transaction connect to the cluster with these options."""

    client_id: str
    request_timeout_ms: int
    connect_timeout_ms: int
    max_block_ms: int
    security: Security | None
    entropy: Entropy | None


class SharedTransaction:
    """The owner of a shared transaction begins, commits or aborts it.

    ``await SharedTransaction.begin(...)``, or ``SharedTransaction(ticket)`` where somebody else has
    begun it. ``async with`` it: leaving without a commit aborts.

    :param over: a started client of the same cluster, whose connections are used; by default each
        call opens some of its own, and closes them.
    """

    def __init__(
        self,
        ticket: Ticket,
        *,
        client_id: str = defaults.SHARED_CLIENT_ID,
        request_timeout_ms: int = defaults.REQUEST_TIMEOUT_MS,
        connect_timeout_ms: int = defaults.CONNECT_TIMEOUT_MS,
        max_block_ms: int = defaults.SHARED_MAX_BLOCK_MS,
        security: Security | None = None,
        over: AdminCalls | None = None,
        entropy: Entropy | None = None,
        history: History | None = None,
    ) -> None:
        parameters = {**locals(), "bootstrap_servers": ticket.bootstrap_servers}
        self._ticket = ticket
        self._options = take(ConnectionOptions, parameters)
        self._over = over
        self._entropy = (entropy or SystemEntropy()).fork("shared transaction")
        self._history = history or UNRECORDED
        self._history_number = -1
        self._asked = self._ended = False

    @classmethod
    async def begin(
        cls,
        *,
        bootstrap_servers: BootstrapServers,
        transactional_id: str,
        tag: int,
        timeout_ms: int = 60_000,
        over: AdminCalls | None = None,
        history: History | None = None,
        **options: Unpack[AskingOptions],
    ) -> SharedTransaction:
        """Return an owner with an ordinal that is greater than all before in the cluster.

        Nothing is open yet: the first ``join`` opens the transaction, and fences the writers of an
        older one of this id.

        :param tag: what is written, from 0 on; at or below the last committed one of this id it is
            refused when writers join.
        :param options: ``client_id``, ``request_timeout_ms``, ``connect_timeout_ms``,
            ``max_block_ms``, ``security`` and ``entropy``, as the class takes them.
        :raises NoBrokersAvailableError, DeadlineExceededError: nobody gave one in time.
        """
        servers = _joined(bootstrap_servers)
        check_shared(transactional_id, tag, timeout_ms)
        ordinal = await cls.next_ordinal(bootstrap_servers=servers, over=over, **options)
        ticket = Ticket(servers, transactional_id, ordinal, tag, timeout_ms)
        begun = cls(ticket, over=over, history=history, **options)
        begun._history_number = begun._history.begin_txn(transactional_id)
        return begun

    @classmethod
    async def next_ordinal(
        cls,
        *,
        bootstrap_servers: BootstrapServers,
        over: AdminCalls | None = None,
        **options: Unpack[AskingOptions],
    ) -> int:
        """Return an ordinal, greater than all before, for a ticket that is made later.

        :param options: ``client_id``, ``request_timeout_ms``, ``connect_timeout_ms``,
            ``max_block_ms``, ``security`` and ``entropy``, as the class takes them.
        :raises NoBrokersAvailableError, DeadlineExceededError: nobody gave one in time.
        """
        ticket = Ticket(_joined(bootstrap_servers), "ordinals", -1, 0)
        asking = cls(ticket, over=over, **options)
        answer: BeginSharedTxnResponse = await asking._call(ORDINAL_KEY, BeginSharedTxnRequest())
        return answer.ordinal

    @property
    def ticket(self) -> Ticket:
        """Return the ticket that writers join with."""
        return self._ticket

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._ended:
            return
        try:
            await self.abort()
        except OncelogError as failure:
            if error is None:
                raise
            logger.warning("after %r the abort failed: %s", error, failure)

    async def commit(self, winners: Iterable[Receipt]) -> SharedEnd:
        """Make the winners' records visible, all at once, and the others' invisible for good.

        It is decided for good when this returns; it may be repeated.

        :raises ProducerFencedError: a newer transaction of this id has begun, or this one was
            aborted, by its time-out or by somebody else. Begin again, with the same tag.
        :raises InvalidTxnStateError: nobody has joined.
        :raises InvalidRequestError: a winner that has not joined.
        :raises TransactionOutcomeUnknownError: nobody answered in time; call it again.
        """
        chosen = list(winners)
        for receipt in chosen:
            if not isinstance(receipt, Receipt):
                raise TypeError(f"winners: {type(receipt).__name__} is not a Receipt")
        return await self._end(True, chosen)

    async def abort(self) -> SharedEnd:
        """Make all records invisible for good; after a commit this changes nothing, and says so.

        :raises ProducerFencedError: a newer transaction of this id has begun, which aborted this.
        :raises TransactionOutcomeUnknownError: nobody answered in time; call it again.
        """
        return await self._end(False, [])

    async def _end(self, commit: bool, winners: list[Receipt]) -> SharedEnd:
        ticket, history = self._ticket, self._history
        request = EndSharedTxnRequest(
            ticket.transactional_id,
            ticket.ordinal,
            ticket.tag,
            commit,
            [receipt.producer_id for receipt in winners],
        )
        if self._history_number >= 0 and not self._asked:
            names = [
                f"{ticket.transactional_id}/{receipt.producer_id}".encode() for receipt in winners
            ]
            history.ending_txn(self._history_number, commit, names)
        self._asked = True
        try:
            answer: EndSharedTxnResponse = await self._call(ticket.transactional_id, request)
        except BaseException as error:
            if isinstance(error, DeadlineExceededError) and not is_definite(error):
                failure = TransactionOutcomeUnknownError(
                    f"{ticket.transactional_id}, tag {ticket.tag}: nobody answered whether it is"
                    f" {'committed' if commit else 'aborted'}: {error}"
                )
                self._note_failure(failure)
                raise failure from error
            self._note_failure(error)
            raise
        self._ended = True
        if self._history_number >= 0:
            if answer.committed:
                history.ok(self._history_number, ())
            else:
                history.fail(self._history_number, InvalidTxnStateError("it was aborted"))
            self._history_number = -1
        return SharedEnd(answer.committed, answer.already)

    def _note_failure(self, error: BaseException) -> None:
        """Note a failure in the history, unless the error leaves the transaction open."""
        if self._history_number >= 0 and isinstance(
            error, ProducerFencedError | InvalidTxnStateError
        ):
            note_failure(self._history, self._history_number, error)
            self._history_number = -1

    async def _call(self, key: str, request: Request) -> Any:
        """Make one call to the coordinator of ``key``."""
        deadline = asyncio.get_running_loop().time() + self._options.max_block_ms / 1000
        if self._over is not None:
            return await txn_coordinators(self._over).call(key, request, deadline)
        router = Router(self._options, entropy=self._entropy)
        await router.start()
        try:
            coordinators = Coordinators(
                router, key_type=COORDINATOR_TRANSACTION, purpose=TRANSACTIONS
            )
            return await coordinators.call(key, request, deadline)
        finally:
            await router.close()


def _joined(servers: BootstrapServers) -> str:
    """Return the servers as one text, for tickets."""
    return servers if isinstance(servers, str) else ",".join(servers)
