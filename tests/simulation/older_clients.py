"""Clients from before KIP-890 run beside the others: their transactions end by number.

Such a client has our library with two parts of its own: it adds partitions and groups to its
transaction before it writes to them, and goes on under its epoch after a commit. A door before the
brokers' handlers says that its requests are of this kind, as a listener of Kafka's does.

Rules:

- a client that does not know what became of a request of its transaction has its epoch raised
  before it begins another one, as one that reads Kafka's manual does: such transactions cannot tell
  by themselves what is late of the last. After an abort it always does, for batches of which nobody
  heard may yet arrive;
- that a marker comes late, or that a batch comes again that is in the log, is no such case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from oncelog import Producer
from oncelog.consumer.offset_metadata import GroupMetadata, Offsets
from oncelog.core.coordinators import Coordinators, refused_at_top
from oncelog.errors import ApiError, InvalidTxnStateError
from oncelog.producer.transactions.calls import TRANSACTIONS, ProducerIdentity, TxnCalls
from oncelog.producer.transactions.session import TransactionSession
from oncelog.producer.transactions.transactions import Transactions
from oncelog_broker.app import Broker
from oncelog_broker.server.request import AsyncHandler, Handler, RequestContext, Respond
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    TxnTopic,
)
from oncelog_protocol.types import TopicPartition

OLDER = "client-teller-older"
"""The names of such clients begin so."""

ASKED_BY_NUMBER = (
    ApiKey.PRODUCE,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
)


def open_older_door(broker: Broker) -> None:
    """Put the door before the handlers of a broker that has not been started."""
    install = broker.dispatcher.install

    def with_door(
        handlers: Mapping[ApiKey, Handler], async_handlers: Mapping[ApiKey, AsyncHandler]
    ) -> None:
        doors = {
            api: OlderDoor(handler) if api in ASKED_BY_NUMBER else handler
            for api, handler in handlers.items()
        }
        install(doors, async_handlers)

    broker.dispatcher.install = with_door  # type: ignore[method-assign]


@dataclass(slots=True)
class OlderDoor:
    """It says of requests that they are of a transaction that ends by number."""

    inner: Handler

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """See ``Handler``."""
        if not context.is_broker and context.client_id.startswith(OLDER):
            context = replace(context, by_number=True)
        self.inner.handle(context, request, payload, respond)


class _Counting:
    """It is a router that counts what is asked of one broker."""

    def __init__(self, router: Any) -> None:
        self._router = router
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._router, name)

    async def call_broker(self, *arguments: Any) -> Any:
        """Count, and ask."""
        self.calls += 1
        return await self._router.call_broker(*arguments)


class OlderCalls(TxnCalls):
    """It adds partitions and groups, and keeps its epoch at a commit of which all is known."""

    def __init__(self, router: Any, transactional_id: str, timeout_ms: int) -> None:
        self._counting = _Counting(router)
        super().__init__(self._counting, transactional_id, timeout_ms)  # type: ignore[arg-type]
        self._adding = Coordinators(
            self._counting,  # type: ignore[arg-type]
            key_type=COORDINATOR_TRANSACTION,
            purpose=TRANSACTIONS,
        )
        self._added: set[object] = set()
        """These are in the open transaction."""
        self._answered = 0
        """So many requests of the open transaction were answered for good."""
        self._ended = ProducerIdentity()
        """The transaction of this one has ended, and the next has not begun."""

    async def add(self, identity: ProducerIdentity, tp: TopicPartition, deadline: float) -> None:
        """Add a partition, unless that was done."""
        if tp in self._added:
            return
        topics = [TxnTopic(tp.topic, [tp.partition])]
        added = AddedTransaction(self._transactional_id, *identity, topics)
        request = AddPartitionsToTxnRequest([added])
        await self._adding.call(self._transactional_id, request, deadline, _refused_added)
        self._answered += 1
        self._added.add(tp)

    async def commit_offsets(
        self, identity: ProducerIdentity, offsets: Offsets, group: GroupMetadata, deadline: float
    ) -> None:
        """Add the group first."""
        if group.group_id not in self._added:
            request = AddOffsetsToTxnRequest(self._transactional_id, *identity, group.group_id)
            await self._adding.call(self._transactional_id, request, deadline)
            self._answered += 1
            self._added.add(group.group_id)
        await super().commit_offsets(identity, offsets, group, deadline)
        self._answered += 1

    async def end(
        self, identity: ProducerIdentity, commit: bool, deadline: float
    ) -> ProducerIdentity:
        """End it; the epoch stays after a commit of which all is known."""
        if identity != self._ended:  # or an epoch is all that is missing
            request = EndTxnRequest(self._transactional_id, *identity, commit)
            try:
                await self._coordinators.call(self._transactional_id, request, deadline)
            except InvalidTxnStateError:
                if commit:
                    raise
            self._answered += 1
            self._ended = identity
        if commit and self._counting.calls == self._answered:
            self._begin()
            return identity
        return await self.init(identity, deadline)

    async def init(self, present: ProducerIdentity, deadline: float) -> ProducerIdentity:
        """Forget what was added, too."""
        identity = await super().init(present, deadline)
        self._begin()
        return identity

    def _begin(self) -> None:
        self._ended = ProducerIdentity()
        self._added.clear()
        self._answered = self._counting.calls = 0


def _refused_added(answer: AddPartitionsToTxnResponse) -> ApiError | None:
    found = refused_at_top(answer)
    if found is None and answer.results[0].error_code:
        found = error_for(answer.results[0].error_code)
        if not found.retriable:
            raise found
    return found


class OlderProducer(Producer):
    """It makes such calls."""

    def _new_session(self) -> TransactionSession | None:
        session = super()._new_session()
        assert isinstance(session, Transactions)
        timeout_ms = self._options.transaction_timeout_ms
        self.calls = OlderCalls(self._router, session.transactional_id, timeout_ms)
        session._calls = self.calls
        return session

    async def add(self, tp: TopicPartition, within_s: float) -> None:
        """Add a partition to the open transaction.

        :raises OncelogError: it is not known to be in it.
        """
        session = self._transactions
        assert session is not None
        session.check_open()
        session.touched()
        deadline = asyncio.get_running_loop().time() + within_s
        await self.calls.add(session.identity, tp, deadline)


class Adding:
    """It is a transaction, or its producer, to which partitions are added before they are written
    to."""

    def __init__(self, inner: Any, producer: OlderProducer, within_s: float) -> None:
        self._inner, self._producer, self._within_s = inner, producer, within_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, topic: str, value: bytes | None = None, **options: Any) -> Any:
        """Add, and send."""
        tp = TopicPartition(topic, options["partition"])
        await self._producer.add(tp, self._within_s)
        return await self._inner.send(topic, value, **options)
