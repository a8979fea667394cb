"""Requests to the coordinator of transactions are wrong, or go to the right place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    NotCoordinatorError,
    TransactionalIdNotFoundError,
)
from oncelog_protocol.messages.shared_transactions import ORDINAL_KEY
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    ListTransactionsRequest,
)
from oncelog_protocol.messages.transactions import AddedTransaction
from support.transaction_world import Answer, TransactionWorld, transaction_world

INVALID = InvalidRequestError.code
TIMEOUT = InvalidTransactionTimeoutError.code

WRONG: list[tuple[Callable[[TransactionWorld], Answer], int]] = [
    (lambda world: world.init(transactional_id=""), INVALID),
    (lambda world: world.init(transactional_id=ORDINAL_KEY), INVALID),
    (lambda world: world.init(timeout_ms=0), TIMEOUT),
    (lambda world: world.init(timeout_ms=-1), TIMEOUT),
    (lambda world: world.init(timeout_ms=900_001), TIMEOUT),
    (lambda world: world.init((7, -1)), INVALID),
    (lambda world: world.init((-1, 7)), INVALID),
    (lambda world: world.add((7, 0), transactional_id=""), INVALID),
    (lambda world: world.add((7, 0), transactional_id=ORDINAL_KEY), INVALID),
    (lambda world: world.end((7, 0), transactional_id=""), INVALID),
    (lambda world: world.join(1, 1, transactional_id=""), INVALID),
    (lambda world: world.join(0, 1), INVALID),
    (lambda world: world.join(1, -1), INVALID),
    (lambda world: world.join(1, 1, ""), INVALID),
    (lambda world: world.join(1, 1, timeout_ms=0), TIMEOUT),
    (lambda world: world.end_shared(0, 1), INVALID),
    (lambda world: world.end_shared(1, 1, transactional_id=ORDINAL_KEY), INVALID),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
async def test_wrong_requests_are_refused_at_once(number: int) -> None:
    ask, code = WRONG[number]
    async with transaction_world() as world:
        assert ask(world).code == code
        assert not world.partition.records


async def test_partitions_have_to_be_named() -> None:
    async with transaction_world() as world:
        answer = Answer()
        world.transactions.add_partitions(AddedTransaction("t", 7, 0, []), answer)
        assert answer.code == INVALID


async def test_another_broker_coordinates() -> None:
    async with transaction_world() as world:
        world.engine.resigned(0, 2)
        for answer in (
            world.init(),
            world.add((7, 0)),
            world.end((7, 0)),
            world.join(1, 1),
            world.end_shared(1, 1),
        ):
            assert answer.code == NotCoordinatorError.code


async def test_ids_are_described_one_by_one() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        answer = Answer()
        world.transactions.describe(["u", "t"], answer)
        missing, found = answer.value
        assert missing == DescribedTransaction(TransactionalIdNotFoundError.code, "u")
        assert (found.state, found.producer_id, found.start_ms) == (
            "Ongoing",
            1000,
            world.clock.now_ms(),
        )
        nothing = Answer()
        world.transactions.describe([], nothing)
        assert nothing.value == []


async def test_what_is_described_is_committed() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.writer.auto_commit = False
        world.add(producer)
        answer = Answer()
        world.transactions.describe(["t"], answer)
        assert answer.waits
        world.partition.commit()
        assert answer.value[0].state == "Ongoing"


async def test_ids_are_listed_in_order() -> None:
    async with transaction_world() as world:
        for name in ("u", "t"):
            await world.inited(transactional_id=name)
        response = world.transactions.list(ListTransactionsRequest())
        assert response.error_code == 0
        assert [each.transactional_id for each in response.transactions] == ["t", "u"]
        world.engine.resigned(0, 2)
        world.engine.elected(0, 3)
        response = world.transactions.list(ListTransactionsRequest())
        assert response.error_code == CoordinatorLoadInProgressError.code
        assert not response.transactions
