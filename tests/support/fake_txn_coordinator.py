"""The fake cluster's transaction coordinator obeys the protocol, and writes markers at once.

It is one for all transactional ids and keeps its state whatever becomes of the brokers. A test that
wants a transaction's time to be over says ``time_out``, one that wants the id forgotten ``forget``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncelog_protocol.errors import (
    ApiError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    NotCoordinatorError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAlreadyCommittedError,
)
from oncelog_protocol.messages import shared_transactions as shared_wire
from oncelog_protocol.messages import transactions as wire
from oncelog_protocol.types import TopicPartition

if TYPE_CHECKING:
    from support.fake_cluster import FakeCluster

__all__ = ["FakeShared", "FakeTxn", "FakeTxnCoordinator"]

TIMEOUT_MS_MAX = 900_000
Pair = tuple[int, int]


@dataclass
class FakeTxn:
    """It is an ordinary transactional id."""

    pair: Pair
    state: str = "Empty"
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    offsets: dict[tuple[str, TopicPartition], wire.TxnOffsetCommitPartition] = field(
        default_factory=dict
    )
    ended: Pair | None = None
    """The producer whose transaction ended last."""
    by: str = ""
    """The one that ended it: client, time-out, fence, or init by itself."""
    init_by: Pair = (-1, -1)


@dataclass
class FakeShared:
    """It is a transactional id of shared transactions."""

    ordinal: int = -1
    tag: int = -1
    last_committed_tag: int = -1
    state: str = "Empty"
    writers: dict[str, int] = field(default_factory=dict)
    partitions: dict[int, dict[TopicPartition, None]] = field(default_factory=dict)
    winners: list[int] = field(default_factory=list)


class FakeTxnCoordinator:
    """It has all transactional ids."""

    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self.broker_id = broker_id
        self.ids: dict[str, FakeTxn] = {}
        self.shared: dict[str, FakeShared] = {}
        self.committed: dict[tuple[str, TopicPartition], wire.TxnOffsetCommitPartition] = {}
        """(group, partition) to the offset that a transaction committed."""
        self.fence: Callable[[wire.TxnOffsetCommitRequest], int] = lambda request: 0
        """Whether a group takes a member's offsets."""
        self.on_committed: Callable[[str, TopicPartition, Any], None] = lambda group, tp, item: None
        self.epoch_max = 32766
        self._cluster = cluster
        self._ordinal = 0

    # ------------------------------------------------------------------------------ for tests

    def time_out(self, transactional_id: str) -> None:
        """The transaction's time is over."""
        self._end_ordinary(self.ids[transactional_id], False, "time-out")

    def forget(self, transactional_id: str) -> None:
        """The id was idle for too long."""
        del self.ids[transactional_id]

    def pending(self, group: str, tp: TopicPartition) -> bool:
        """Return whether an open transaction holds an offset of this partition."""
        return any((group, tp) in txn.offsets for txn in self.ids.values())

    # ------------------------------------------------------------------------------ ordinary

    def handle(self, broker: int, request: Any) -> Any:
        """Return the answer to a request that came to ``broker``."""
        response = request.response()
        try:
            if broker != self.broker_id and not isinstance(request, wire.TxnOffsetCommitRequest):
                raise NotCoordinatorError
            match request:
                case wire.InitPidRequest():
                    response.producer_id, response.producer_epoch = self._init(request)
                case wire.EndTxnRequest():
                    response.producer_id, response.producer_epoch = self._end(request)
                case wire.TxnOffsetCommitRequest():
                    self._take_offsets(request, response)
                case shared_wire.BeginSharedTxnRequest():
                    self._ordinal += 1
                    response.ordinal = self._ordinal
                case shared_wire.JoinTxnRequest():
                    self._join(request, response)
                case shared_wire.EndSharedTxnRequest():
                    self._end_shared(request, response)
        except ApiError as error:
            response.error_code, response.error_message = error.code, str(error)
        return response

    def _init(self, request: wire.InitPidRequest) -> Pair:
        assert request.transactional_id is not None
        if not 0 < request.transaction_timeout_ms <= TIMEOUT_MS_MAX:
            raise InvalidTransactionTimeoutError
        if request.transactional_id in self.shared:
            raise InvalidTxnStateError
        named = (request.producer_id, request.producer_epoch)
        txn = self.ids.get(request.transactional_id)
        if txn is None:
            txn = self.ids[request.transactional_id] = FakeTxn((self._cluster.next_id(), 0))
            return txn.pair
        if named[0] >= 0:
            if txn.state == "Empty" and txn.init_by == named:
                return txn.pair
            if named != txn.pair and (named != txn.ended or txn.by == "fence"):
                raise ProducerFencedError
        if txn.state == "Ongoing":
            self._end_ordinary(txn, False, "init" if named[0] >= 0 else "fence")
        txn.pair = self._next(txn.pair)
        txn.state, txn.init_by = "Empty", named
        return txn.pair

    def add(self, transactional_id: str | None, pair: Pair, tp: TopicPartition) -> None:
        """A leader has the first batch of a transaction."""
        if transactional_id in self.shared:
            state = self.shared[transactional_id]
            if state.state != "Ongoing" or pair[0] not in state.writers.values():
                raise ProducerFencedError
            state.partitions.setdefault(pair[0], {})[tp] = None
            return
        txn = self._known(transactional_id, pair)
        if txn.pair != pair:
            if txn.ended == pair and txn.by == "time-out":
                raise TransactionAbortableError
            raise ProducerFencedError
        txn.state = "Ongoing"
        txn.partitions[tp] = None

    def _known(self, transactional_id: str | None, pair: Pair) -> FakeTxn:
        txn = self.ids.get(transactional_id or "")
        if txn is None or pair[0] not in (txn.pair[0], (txn.ended or txn.pair)[0]):
            raise InvalidProducerIdMappingError
        return txn

    def _end(self, request: wire.EndTxnRequest) -> Pair:
        pair = (request.producer_id, request.producer_epoch)
        txn = self._known(request.transactional_id, pair)
        if txn.pair != pair:
            if txn.ended != pair or txn.by == "fence":
                raise ProducerFencedError
            if request.commit == (txn.state == "CompleteCommit"):
                return txn.pair
            if request.commit and txn.by == "time-out":
                raise TransactionAbortableError
            raise InvalidTxnStateError
        if request.commit and txn.state != "Ongoing":
            raise InvalidTxnStateError
        self._end_ordinary(txn, request.commit, "client")
        return txn.pair

    def _end_ordinary(self, txn: FakeTxn, commit: bool, by: str) -> None:
        producer_id, epoch = txn.pair
        for tp in txn.partitions:
            self._cluster.partition(*tp).mark(commit, producer_id, epoch + 1)
        if commit:
            self.committed |= txn.offsets
            for (group, tp), item in txn.offsets.items():
                self.on_committed(group, tp, item)
        txn.partitions, txn.offsets = {}, {}
        txn.ended, txn.by = txn.pair, by
        txn.state = "CompleteCommit" if commit else "CompleteAbort"
        txn.pair = self._next(txn.pair)
        self._cluster.announce()

    def _next(self, pair: Pair) -> Pair:
        if pair[1] >= self.epoch_max:
            return self._cluster.next_id(), 0
        return pair[0], pair[1] + 1

    def _take_offsets(
        self, request: wire.TxnOffsetCommitRequest, response: wire.TxnOffsetCommitResponse
    ) -> None:
        pair = (request.producer_id, request.producer_epoch)
        response.error_code = self.fence(request)
        if response.error_code:
            return
        txn = self._known(request.transactional_id, pair)
        if txn.pair != pair:
            raise TransactionAbortableError if txn.by == "time-out" else ProducerFencedError
        txn.state = "Ongoing"
        for topic in request.topics:
            items = []
            for item in topic.partitions:
                txn.offsets[request.group_id, TopicPartition(topic.topic, item.partition)] = item
                items.append(wire.TxnOffsetCommitPartitionResponse(item.partition))
            response.topics.append(wire.TxnOffsetCommitTopicResponse(topic.topic, items))

    # ------------------------------------------------------------------------------ shared

    def _join(
        self, request: shared_wire.JoinTxnRequest, response: shared_wire.JoinTxnResponse
    ) -> None:
        if request.transactional_id in self.ids:
            raise InvalidTxnStateError
        if not 0 < request.transaction_timeout_ms <= TIMEOUT_MS_MAX:
            raise InvalidTransactionTimeoutError
        state = self.shared.setdefault(request.transactional_id, FakeShared())
        response.last_committed_tag = state.last_committed_tag
        if request.tag <= state.last_committed_tag:
            raise TransactionAlreadyCommittedError
        if request.ordinal < state.ordinal:
            raise ProducerFencedError
        if request.ordinal > state.ordinal:
            if state.state == "Ongoing":
                self._decide(state, [], commit=False)
            state.ordinal, state.tag, state.state = request.ordinal, request.tag, "Ongoing"
            state.writers, state.partitions = {}, {}
        elif state.state != "Ongoing":
            raise ProducerFencedError
        if request.tag != state.tag:
            raise InvalidTxnStateError
        if request.writer not in state.writers:
            state.writers[request.writer] = self._cluster.next_id()
        response.producer_id, response.producer_epoch = state.writers[request.writer], 0

    def _end_shared(
        self, request: shared_wire.EndSharedTxnRequest, response: shared_wire.EndSharedTxnResponse
    ) -> None:
        state = self.shared.get(request.transactional_id, FakeShared())
        if request.ordinal == state.ordinal and state.state.startswith("Complete"):
            if request.commit and state.state == "CompleteAbort":
                raise ProducerFencedError
            response.already, response.committed = True, state.state == "CompleteCommit"
            return
        if request.ordinal < state.ordinal:
            raise ProducerFencedError
        if request.ordinal != state.ordinal or state.state != "Ongoing":
            if request.commit:
                raise InvalidTxnStateError
            self._abort_unbound(request)
            return
        if any(winner not in state.writers.values() for winner in request.winners):
            raise InvalidRequestError("a winner that did not join")
        self._decide(state, request.winners, commit=request.commit)
        response.committed = request.commit

    def _abort_unbound(self, request: shared_wire.EndSharedTxnRequest) -> None:
        """A newer ordinal, which nobody has joined, takes the id over."""
        state = self.shared.setdefault(request.transactional_id, FakeShared())
        if state.state == "Ongoing":
            self._decide(state, [], commit=False)
        state.ordinal, state.tag, state.state = request.ordinal, request.tag, "CompleteAbort"
        state.writers, state.partitions = {}, {}

    def _decide(self, state: FakeShared, winners: list[int], *, commit: bool) -> None:
        for producer_id, partitions in state.partitions.items():
            for tp in partitions:
                won = commit and producer_id in winners
                self._cluster.partition(*tp).mark(won, producer_id, 1)
        if commit:
            state.last_committed_tag = max(state.tag, state.last_committed_tag)
            state.winners = list(winners)
        state.state = "CompleteCommit" if commit else "CompleteAbort"
        self._cluster.announce()
