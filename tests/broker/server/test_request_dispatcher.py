"""The dispatcher refuses some requests before their handler, and answers for a handler's errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.server.request_dispatcher import refusal
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    UnknownServerError,
    UnsupportedVersionError,
)
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.admin import ElectLeadersRequest, ElectLeadersResponse
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.messages.metadata import (
    DescribeClusterRequest,
    MetadataRequest,
    MetadataResponse,
)
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.messages.replication import (
    AlterPartitionRequest,
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from oncelog_protocol.messages.transactions import WriteTxnMarkersRequest
from oncelog_protocol.registry import REQUESTS
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import ChannelClosedError, RequestChannel
from oncelog_runtime.tasks import TasksClosedError
from support.server import DenyAll, Parked, ServerUnderTest
from support.waiting import eventually

BROKER_1 = Identity("cluster", 1)
FOLLOWER_FETCH = FetchRequest(2, 7, 0, 1, 1024, 0, 0, [])
BETWEEN_BROKERS = [
    LeaderAndIsrRequest(1, 1, 1, True, [], []),
    StopReplicaRequest(1, 1, 1, []),
    UpdateMetadataRequest(1, 1, 1, True, [], []),
    AlterPartitionRequest(1, 1, []),
    ControlledShutdownRequest(1, 1),
    FOLLOWER_FETCH,
]


class Raises:
    """It is a handler that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        raise self.error

    async def handle_async(self, context: RequestContext, request: Any) -> Any:
        await asyncio.sleep(0)
        raise self.error


@pytest.mark.parametrize("request_", BETWEEN_BROKERS, ids=lambda r: type(r).__name__)
@pytest.mark.hostile(37)
@pytest.mark.cve("2018-1288")
async def test_apis_between_brokers_are_refused_on_listeners_for_clients(request_: Any) -> None:
    """Also a Fetch with a replica id (CVE-2018-1288): it would count as a follower's."""
    parked = Parked()
    async with ServerUnderTest({request_.api_key: parked}) as server:
        channel = await server.channel()
        reply = await channel.call(request_, timeout_s=5)
        assert reply.message.error_code == ClusterAuthorizationFailedError.code
        assert not parked.requests
        await eventually(lambda: channel.closed, what="whoever is no broker is sent away")


async def test_they_are_served_on_the_internal_listener_if_the_principal_may() -> None:
    class Nobody(DenyAll):
        def authorize(self, context: RequestContext, operation: str, *resource: str) -> bool:
            return operation != "CLUSTER_ACTION"

    for authorizer, code in ((None, InvalidRequestError.code), (Nobody(), 31)):
        handlers = {ApiKey.FETCH: Raises(InvalidRequestError())}
        async with ServerUnderTest(
            handlers, internal=True, authorizer=authorizer, identity=BROKER_1
        ) as server:
            channel = await server.channel(own_broker_id=2)
            reply = await channel.call(FOLLOWER_FETCH, timeout_s=5)
            assert reply.message.error_code == code
            channel.close()


@pytest.mark.parametrize("request_", BETWEEN_BROKERS, ids=lambda r: type(r).__name__)
@pytest.mark.hostile(37)
@pytest.mark.cve("2018-1288")
async def test_brokers_serve_only_who_named_them_and_itself(request_: Any) -> None:
    parked = Parked()
    asker = getattr(request_, request_.asker_field)
    identity = Identity("cluster", 4)
    options: dict[str, Any] = {"internal": True, "identity": identity}
    async with ServerUnderTest({request_.api_key: parked}, **options) as server:
        for meant, own in (
            (UNKNOWN, asker),
            (Identity("cluster"), asker),
            (Identity("", 4), asker),
            (identity, -1),
            (identity, asker + 1),
        ):
            machine = ClientConnection("test", meant=meant, own_broker_id=own)
            channel = await RequestChannel.open(*server.address, machine)
            reply = await channel.call(request_, timeout_s=5)
            assert reply.message.error_code == ClusterAuthorizationFailedError.code
            channel.close()
        assert not parked.requests
        channel = await server.channel(own_broker_id=asker)
        channel.send(request_, callback=lambda reply, error: None)
        await eventually(lambda: parked.requests)
        channel.close()


async def test_markers_are_taken_from_brokers_alone() -> None:
    parked, request = Parked(), WriteTxnMarkersRequest([])
    handlers = {ApiKey.WRITE_TXN_MARKERS: parked}
    async with ServerUnderTest(handlers, internal=True, identity=BROKER_1) as server:
        channel = await server.channel()
        reply = await channel.call(request, timeout_s=5)
        assert reply.message.error_code == ClusterAuthorizationFailedError.code
        channel.close()
        channel = await server.channel(own_broker_id=2)
        channel.send(request, callback=lambda reply, error: None)
        await eventually(lambda: parked.requests)
        channel.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequestError("no"), InvalidRequestError.code),
        (ValueError("a bug"), UnknownServerError.code),
        (OSError("a disk"), UnknownServerError.code),
    ],
)
async def test_errors_of_handlers_refuse_the_request_and_nothing_else(
    error: Exception, code: int
) -> None:
    raises = Raises(error)
    async with ServerUnderTest({ApiKey.METADATA: raises}, {ApiKey.ELECT_LEADERS: raises}) as server:
        channel = await server.channel()
        for request in (MetadataRequest(None), ElectLeadersRequest(False, None)):
            reply = await channel.call(request, timeout_s=5)
            assert reply.message.error_code == code
        channel.close()


async def test_a_bug_on_the_produce_path_closes_the_connection() -> None:
    """UNKNOWN_SERVER_ERROR there has made clients write twice."""
    async with ServerUnderTest({ApiKey.PRODUCE: Raises(ValueError("a bug"))}) as server:
        channel = await server.channel()
        with pytest.raises(ChannelClosedError):
            await channel.call(ProduceRequest(None, 1, 1000, []), timeout_s=5)


async def test_async_handlers_answer_in_order_too() -> None:
    class Slow:
        async def handle_async(self, context: RequestContext, request: Any) -> Any:
            await asyncio.sleep(0.02 if request.unclean else 0)
            return ElectLeadersResponse(1 if request.unclean else 2)

    async with ServerUnderTest({}, {ApiKey.ELECT_LEADERS: Slow()}) as server:
        channel = await server.channel()
        replies = await asyncio.gather(
            channel.call(ElectLeadersRequest(True, None), timeout_s=5),
            channel.call(ElectLeadersRequest(False, None), timeout_s=5),
        )
        assert [r.message.error_code for r in replies] == [1, 2]
        channel.close()


@pytest.mark.parametrize(
    ("internal", "own_broker_id", "code"),
    [
        (False, NO_BROKER, BrokerNotAvailableError.code),
        (False, 2, BrokerNotAvailableError.code),
        (True, NO_BROKER, BrokerNotAvailableError.code),
        (True, 2, InvalidRequestError.code),
    ],
)
async def test_clients_wait_until_the_broker_is_ready_on_every_listener_and_brokers_do_not(
    internal: bool, own_broker_id: int, code: int
) -> None:
    handlers = {ApiKey.METADATA: Raises(InvalidRequestError())}
    async with ServerUnderTest(handlers, internal=internal, ready=False) as server:
        channel = await server.channel(own_broker_id=own_broker_id)
        reply = await channel.call(MetadataRequest(None), timeout_s=5)
        assert reply.message.error_code == code
        channel.close()


async def test_clients_are_refused_while_they_are_suspended_and_brokers_are_not() -> None:
    handlers = {ApiKey.METADATA: Raises(InvalidRequestError())}
    async with ServerUnderTest(handlers, internal=True) as server:
        client, broker = await server.channel(), await server.channel(own_broker_id=2)
        served, refused = InvalidRequestError.code, BrokerNotAvailableError.code
        for suspended in (True, False):
            server.dispatcher.suspend_clients(suspended)
            for channel, code in ((client, refused if suspended else served), (broker, served)):
                reply = await channel.call(MetadataRequest(None), timeout_s=5)
                assert reply.message.error_code == code
        client.close()
        broker.close()


async def test_a_handler_is_told_which_broker_asks_and_of_a_client_that_none_does() -> None:
    parked = Parked()
    async with ServerUnderTest({ApiKey.METADATA: parked}, internal=True) as server:
        for own_broker_id in (2, NO_BROKER):
            channel = await server.channel(own_broker_id=own_broker_id)
            call = asyncio.create_task(channel.call(MetadataRequest(None), timeout_s=5))
            await eventually(lambda: bool(parked.requests))
            context, _, _, respond = parked.requests.pop()
            respond(MetadataResponse("c", 1))
            await call
            assert context.broker_id == (2 if own_broker_id == 2 else None)
            assert context.is_broker == (own_broker_id == 2)
            channel.close()


@pytest.mark.parametrize(("own_broker_id", "begun"), [(2, 2), (NO_BROKER, 1)])
async def test_a_client_between_brokers_has_one_fetch_at_a_time_as_on_its_own_listener(
    own_broker_id: int, begun: int
) -> None:
    parked = Parked()
    async with ServerUnderTest({ApiKey.FETCH: parked}, internal=True) as server:
        channel = await server.channel(own_broker_id=own_broker_id)
        fetch = FetchRequest(-1, -1, 0, 1, 1024, 0, 0, [])
        answered: list[object] = []
        for _ in range(2):
            channel.send(fetch, callback=lambda reply, error: answered.append(reply))
        await eventually(lambda: bool(parked.requests))
        assert len(parked.requests) == begun
        while len(answered) < 2:
            while parked.requests:
                _, _, _, respond = parked.requests.pop(0)
                respond(FetchResponse())
            await asyncio.sleep(0)
        channel.close()


async def test_an_api_without_handler_is_unsupported() -> None:
    async with ServerUnderTest() as server:
        channel = await server.channel()
        reply = await channel.call(DescribeClusterRequest(), timeout_s=5)
        assert reply.message.error_code == UnsupportedVersionError.code
        channel.close()


def test_every_api_can_be_refused() -> None:
    for api in REQUESTS.values():
        assert refusal(api, 42).error_code == 42
    assert refusal(DescribeClusterRequest(), 31, "why").error_message == "why"


async def test_what_comes_while_the_broker_stops_is_refused_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rooms close one after the other; a request that is under way finds one of them closed."""
    closed = TasksClosedError("replication is closed: clear t-0 was not started")
    stopping = Raises(closed)
    async with ServerUnderTest({ApiKey.METADATA: stopping}, {ApiKey.ELECT_LEADERS: stopping}) as s:
        channel = await s.channel()
        with caplog.at_level("INFO"):
            for request in (MetadataRequest(None), ElectLeadersRequest(False, None)):
                reply = await channel.call(request, timeout_s=5)
                assert reply.message.error_code == BrokerNotAvailableError.code
            await s.tasks.close()
            reply = await channel.call(ElectLeadersRequest(False, None), timeout_s=5)
            assert reply.message.error_code == BrokerNotAvailableError.code
        channel.close()
    told = [
        record for record in caplog.records if record.getMessage().startswith("request_at_stop ")
    ]
    assert [record.levelname for record in told] == ["INFO"] * 3
    assert not any(record.exc_info for record in caplog.records)
