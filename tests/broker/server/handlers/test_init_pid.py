"""InitPid gives an id of this broker's block, or what a transaction coordinator says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.init_pid import InitPidHandler
from oncelog_broker.server.producer_ids import ProducerIds
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    InvalidRequestError,
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.transactions import (
    AllocateProducerIdsResponse,
    InitPidRequest,
    InitPidResponse,
)
from oncelog_runtime.tasks import Tasks
from support.fake_transactions import FakeTransactions
from support.server import DenyAll, Only, make_context


class Fence:
    broker_epoch = 5


class Controller:
    """It gives one block of two."""

    def __init__(self) -> None:
        self.given = False

    async def call(self, request: Request, *, timeout_s: float) -> AllocateProducerIdsResponse:
        if self.given:
            raise TimeoutError
        self.given = True
        return AllocateProducerIdsResponse(0, 40, 2)


@asynccontextmanager
async def handler_with(
    transactions: FakeTransactions, authorizer: Authorizer | None = None
) -> AsyncIterator[InitPidHandler]:
    tasks = Tasks("test")
    ids = ProducerIds(1, Controller(), Fence(), tasks)
    yield InitPidHandler(ids, transactions, authorizer or AllowAllAuthorizer())
    await tasks.close()


async def test_each_gets_an_id_of_its_own_and_then_nobody_does() -> None:
    async with handler_with(FakeTransactions(), Only(("WRITE", "TOPIC", "t"))) as handler:
        for producer_id in (40, 41):
            answer = await handler.handle_async(make_context(), InitPidRequest())
            assert answer == InitPidResponse(0, None, producer_id, 0)
        with pytest.raises(CoordinatorNotAvailableError):
            await handler.handle_async(make_context(), InitPidRequest())


async def test_who_may_write_nowhere_gets_no_id() -> None:
    for authorizer in (DenyAll(), Only(("WRITE", "TRANSACTIONAL_ID", "me"))):
        async with handler_with(FakeTransactions(), authorizer) as handler:
            with pytest.raises(ClusterAuthorizationFailedError):
                await handler.handle_async(make_context(), InitPidRequest())


async def test_nobody_knows_whose_an_id_without_a_transactional_id_is() -> None:
    async with handler_with(FakeTransactions()) as handler:
        with pytest.raises(InvalidRequestError):
            await handler.handle_async(make_context(), InitPidRequest(None, 0, 40, 0))


@pytest.mark.parametrize("code", [0, ProducerFencedError.code])
async def test_a_transactional_id_is_the_coordinators(code: int) -> None:
    transactions = FakeTransactions(code)
    async with handler_with(transactions) as handler:
        request = InitPidRequest("me", 60_000)
        assert (await handler.handle_async(make_context(), request)).error_code == code
        assert transactions.asked == [request]


async def test_ids_that_may_not_be_used() -> None:
    async with handler_with(FakeTransactions(), DenyAll()) as handler:
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            await handler.handle_async(make_context(), InitPidRequest("me"))
        for name in ("", "__ordinals"):
            with pytest.raises(InvalidRequestError):
                await handler.handle_async(make_context(), InitPidRequest(name))


class Late(FakeTransactions):
    """It answers when the test says so."""

    def init_pid(self, request: InitPidRequest, respond: Callable[[InitPidResponse], None]) -> None:
        self.held.append(lambda: respond(InitPidResponse()))


async def test_an_answer_that_nobody_waits_for() -> None:
    transactions = Late()
    async with handler_with(transactions) as handler:
        asked = asyncio.ensure_future(handler.handle_async(make_context(), InitPidRequest("me")))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        transactions.held[0]()
