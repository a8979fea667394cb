"""AddPartitionsToTxn takes many at once, each for itself, and none waits long for another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_broker.replication.purgatory import Deadlines
from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    AllowAllAuthorizer,
    Authorizer,
)
from oncelog_broker.server.handlers.add_partitions_to_txn import AddPartitionsToTxnHandler
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    InvalidRequestError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsToTxnRequest,
    TxnTopic,
)
from support.fake_transactions import FakeTransactions, image_of
from support.server import DenyAll, Only, make_context
from support.waiting import eventually

BROKER = (CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def added(name: str = "a", topic: str = "t", *partitions: int) -> AddedTransaction:
    return AddedTransaction(name, 7, 1, [TxnTopic(topic, list(partitions or (0,)))])


class World:
    def __init__(self, authorizer: Authorizer | None = None, *codes: int) -> None:
        self.transactions = FakeTransactions(*codes)
        self.deadlines = Deadlines()
        image = image_of({"t": [1, 2], GROUP_TOPIC: [1]})
        self.handler = AddPartitionsToTxnHandler(
            self.transactions, authorizer or AllowAllAuthorizer(), image, self.deadlines
        )
        self.answers: list[Any] = []

    def ask(self, *asked: AddedTransaction, internal: bool = True) -> list[int]:
        """Return error codes, once there is an answer."""
        self.handler.handle(
            make_context(internal=internal, listener="l"),
            AddPartitionsToTxnRequest(list(asked)),
            memoryview(b""),
            lambda message, payload=(): self.answers.append(message),
        )
        return self.codes

    @property
    def codes(self) -> list[int]:
        assert len(self.answers) <= 1
        return [result.error_code for answer in self.answers for result in answer.results]


async def test_many_at_once_in_order() -> None:
    world = World(None, 0, ProducerFencedError.code, 0)
    assert world.ask(added("a"), added("b"), added("c")) == [0, ProducerFencedError.code, 0]
    assert [each.transactional_id for each in world.answers[0].results] == ["a", "b", "c"]
    assert [each.transactional_id for each in world.transactions.asked] == ["a", "b", "c"]
    assert len(world.deadlines) == 0


async def test_none() -> None:
    world = World()
    assert world.ask() == []
    assert world.answers[0].error_code == 0


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (added("a", "t", 2), UnknownTopicOrPartitionError),
        (added("a", "none"), UnknownTopicOrPartitionError),
        (added(""), InvalidRequestError),
        (added("__ordinals"), InvalidRequestError),
    ],
)
async def test_what_is_not_even_asked(asked: AddedTransaction, error: Any) -> None:
    world = World()
    assert world.ask(asked, internal=False) == [error.code]
    assert not world.transactions.asked


async def test_a_topic_that_may_not_be_written_to_looks_like_one_that_is_not_there() -> None:
    mine = Only((WRITE, TRANSACTIONAL_ID, "a"))
    for topic in ("t", "none"):
        refused = World(mine).ask(added("a", topic), internal=False)
        assert refused == [TopicAuthorizationFailedError.code]


async def test_only_brokers_add_to_many_at_once() -> None:
    world = World()
    with pytest.raises(ClusterAuthorizationFailedError):
        world.ask(added("a"), added("b"), internal=False)
    with pytest.raises(ClusterAuthorizationFailedError):
        World(DenyAll()).ask(added("a"), added("b"))
    assert not world.transactions.asked


async def test_clients_name_what_they_may_write_to() -> None:
    mine = (WRITE, TRANSACTIONAL_ID, "a")
    cases: list[tuple[Authorizer, AddedTransaction, int]] = [
        (Only(mine, (WRITE, TOPIC, "t")), added(), 0),
        (Only(mine), added(), TopicAuthorizationFailedError.code),
        (Only((WRITE, TOPIC, "t")), added(), TransactionalIdAuthorizationFailedError.code),
        (AllowAllAuthorizer(), added("a", GROUP_TOPIC), InvalidRequestError.code),
    ]
    for authorizer, asked, code in cases:
        assert World(authorizer).ask(asked, internal=False) == [code]


async def test_leaders_have_checked_who_writes() -> None:
    world = World(Only(BROKER))
    assert world.ask(added(), added("a", GROUP_TOPIC)) == [0, 0]
    refused = World(Only(BROKER)).ask(added(), internal=False)
    assert refused == [TransactionalIdAuthorizationFailedError.code]


async def test_one_that_is_parked_holds_up_nobody_for_long() -> None:
    world = World()
    world.transactions.holds = True
    world.ask(added("a"), added("b"))
    assert world.answers == []
    world.transactions.held.pop(0)()
    await eventually(lambda: world.answers)
    assert world.codes == [0, ConcurrentTransactionsError.code]
    world.transactions.held.pop(0)()
    await asyncio.sleep(0)
    assert len(world.answers) == 1, "what comes late changes nothing"
