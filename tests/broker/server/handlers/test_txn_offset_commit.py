"""TxnOffsetCommit: what may and can be pending is, the rest is refused partition by partition."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_broker.server.authorizer import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE
from oncelog_broker.server.handlers.txn_offset_commit import TxnOffsetCommitHandler
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    GroupAuthorizationFailedError,
    InvalidRequestError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from oncelog_protocol.types import TopicPartition
from support.group_world import GroupWorld
from support.server import Only, answer, image_of_two_topics

FORBIDDEN = TopicAuthorizationFailedError.code
UNKNOWN = UnknownTopicOrPartitionError.code

TXN_ID = (WRITE, TRANSACTIONAL_ID, "tx")
THE_GROUP = (READ, GROUP, "g")


class Coordinator:
    """It remembers which groups' offsets a transaction was asked to add."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.asked: list[tuple[str, int, int, TopicPartition]] = []
        self.number = 1

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int], None],
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, topic_partition))
        callback(self.code)

    def verify_number(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int, int], None],
    ) -> None:
        def answered(code: int) -> None:
            callback(code, 0 if code else self.number)

        self.verify(transactional_id, producer_id, producer_epoch, topic_partition, answered)


def handler(
    world: GroupWorld, coordinator: Coordinator, *allowed: tuple[str, str, str]
) -> TxnOffsetCommitHandler:
    if not allowed:
        allowed = (TXN_ID, THE_GROUP, (READ, TOPIC, "t"), (READ, TOPIC, "missing"))
    return TxnOffsetCommitHandler(world.groups, Only(*allowed), image_of_two_topics(), coordinator)


def request(*topics: tuple[str, list[int]], producer_id: int = 7) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        "tx",
        producer_id,
        2,
        "g",
        [
            TxnOffsetCommitTopic(topic, [TxnOffsetCommitPartition(p, 10 + p) for p in partitions])
            for topic, partitions in topics
        ],
    )


@pytest.mark.parametrize(
    ("allowed", "error"),
    [
        (THE_GROUP, TransactionalIdAuthorizationFailedError),
        (TXN_ID, GroupAuthorizationFailedError),
    ],
)
def test_it_needs_the_transactional_id_and_the_group(
    allowed: tuple[str, str, str], error: type[Exception]
) -> None:
    world, coordinator = GroupWorld(), Coordinator()
    with pytest.raises(error):
        answer(handler(world, coordinator, allowed), request(("t", [0])))
    assert not world.log
    assert not coordinator.asked


def test_a_producer_has_an_id() -> None:
    world, coordinator = GroupWorld(), Coordinator()
    with pytest.raises(InvalidRequestError):
        answer(handler(world, coordinator), request(("t", [0]), producer_id=-1))
    assert not coordinator.asked


def test_everything_is_pending_until_the_marker() -> None:
    world, coordinator = GroupWorld(), Coordinator()
    response = answer(handler(world, coordinator), request(("t", [1, 0])))
    assert [(p.partition, p.error_code) for p in response.topics[0].partitions] == [(1, 0), (0, 0)]
    assert coordinator.asked == [("tx", 7, 2, TopicPartition(GROUP_TOPIC, 0))]
    world.groups.end_transaction(0, 7, 3, True, lambda _: None)
    assert world.offsets() == {("t", 0): 10, ("t", 1): 11}


def test_the_rest_is_taken() -> None:
    world, coordinator = GroupWorld(), Coordinator()
    asked = request(("missing", [0]), ("t", [5, 0, -1, 1]), ("secret", [0]))
    response = answer(handler(world, coordinator), asked)
    assert response.error_code == 0
    told = [
        (topic.topic, [(p.partition, p.error_code) for p in topic.partitions])
        for topic in response.topics
    ]
    assert told == [
        ("missing", [(0, UNKNOWN)]),
        ("t", [(5, UNKNOWN), (0, 0), (-1, UNKNOWN), (1, 0)]),
        ("secret", [(0, FORBIDDEN)]),
    ]
    world.groups.end_transaction(0, 7, 3, True, lambda _: None)
    assert world.offsets() == {("t", 0): 10, ("t", 1): 11}


def test_a_refusal_of_the_whole_stays_whole() -> None:
    world, coordinator = GroupWorld(), Coordinator(ProducerFencedError.code)
    response = answer(handler(world, coordinator), request(("t", [0]), ("secret", [0])))
    assert response.error_code == ProducerFencedError.code
    assert response.topics == []
