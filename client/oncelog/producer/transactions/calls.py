"""A transactional producer gets its identity from a coordinator, which also ends transactions.

Rules: every call is repeated until it is answered or its deadline is over; each of them may be
repeated as often as need be, as the coordinators know a repeat ([K8], KIP-890). The error that ends
one says by ``definite`` whether any attempt may have been carried out.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog.consumer.offset_metadata import GroupMetadata, Offsets
from oncelog.core.coordinators import Coordinators, refused_at_top
from oncelog.core.router import Router
from oncelog.errors import ApiError, InconsistentTopicIdError, error_about
from oncelog_protocol.acls import READ
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION
from oncelog_protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
)
from oncelog_protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

TRANSACTIONS = "transactions"
"""A connection of their own: an answer that waits for an older transaction holds up no metadata."""


class ProducerIdentity(NamedTuple):
    """An identity is a producer id and its epoch."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TxnCalls:
    """One transactional id makes these calls."""

    def __init__(self, router: Router, transactional_id: str, timeout_ms: int) -> None:
        self.counters, self.history = router.counters, router.history
        self._router = router
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinators = Coordinators(
            router, key_type=COORDINATOR_TRANSACTION, purpose=TRANSACTIONS
        )
        self._groups = Coordinators(router, purpose=TRANSACTIONS)

    async def init(self, present: ProducerIdentity, deadline: float) -> ProducerIdentity:
        """Return a new epoch, once an open transaction is settled; it fences the older ones.

        :param present: what this producer has by now: given, it is refused when somebody else has
            taken over (KIP-360). An empty one takes over.
        """
        request = InitPidRequest(self._transactional_id, self._timeout_ms, *present)
        return await self._next_identity(request, deadline)

    async def end(
        self, identity: ProducerIdentity, commit: bool, deadline: float
    ) -> ProducerIdentity:
        """Commit or abort, and return the identity of the next transaction."""
        request = EndTxnRequest(self._transactional_id, *identity, commit)
        return await self._next_identity(request, deadline)

    async def _next_identity(
        self, request: InitPidRequest | EndTxnRequest, deadline: float
    ) -> ProducerIdentity:
        answer: InitPidResponse | EndTxnResponse = await self._coordinators.call(
            self._transactional_id, request, deadline
        )
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    async def commit_offsets(
        self, identity: ProducerIdentity, offsets: Offsets, group: GroupMetadata, deadline: float
    ) -> None:
        """Add offsets that become the group's with the transaction (KIP-447)."""
        request = _offsets_request(self._transactional_id, identity, offsets, group)
        await self._groups.call(group.group_id, request, deadline, self._refused)

    def _refused(self, answer: TxnOffsetCommitResponse) -> ApiError | None:
        """Return an error that may heal, of the answer or of one of its partitions, or None.

        :raises ApiError: any other.
        """
        found = refused_at_top(answer)
        for topic in answer.topics:
            for item in topic.partitions:
                if item.error_code:
                    tp = TopicPartition(topic.topic, item.partition)
                    error = error_about(tp, item.error_code)
                    if not error.retriable or isinstance(error, InconsistentTopicIdError):
                        # In the second case the topic was made again: these offsets are of no use.
                        raise self._router.explained(error, READ, tp.topic)
                    found = found or error
        return found


def _offsets_request(
    transactional_id: str,
    identity: ProducerIdentity,
    offsets: Offsets,
    group: GroupMetadata,
) -> TxnOffsetCommitRequest:
    topics: dict[tuple[str, str], TxnOffsetCommitTopic] = {}
    for tp, item in offsets.items():
        entry = topics.setdefault(
            (tp.topic, item.topic_id), TxnOffsetCommitTopic(tp.topic, [], item.topic_id)
        )
        entry.partitions.append(
            TxnOffsetCommitPartition(tp.partition, item.offset, item.leader_epoch, item.metadata)
        )
    return TxnOffsetCommitRequest(
        transactional_id,
        *identity,
        group.group_id,
        list(topics.values()),
        group.generation_id,
        group.member_id,
        group.group_instance_id,
    )
