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
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
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
from oncelog_runtime.channel import ChannelClosedError, RequestChannel
from oncelog_runtime.tasks import TasksClosedError
from support.server import Parked, ServerUnderTest
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
async def test_apis_between_brokers_are_refused_on_listeners_for_clients(request_: Any) -> None:
    """Also a Fetch with a replica id (CVE-2018-1288): it would count as a follower's."""
    parked = Parked()
    async with ServerUnderTest({request_.api_key: parked}) as server:
        channel = await server.channel()
        reply = await channel.call(request_, timeout_s=5)
        assert reply.message.error_code == ClusterAuthorizationFailedError.code
        assert not parked.requests
        channel.close()


async def test_they_are_served_on_the_internal_listener_if_the_principal_may() -> None:
    class Nobody:
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


async def test_clients_wait_until_the_broker_is_ready_brokers_do_not() -> None:
    for internal, code in ((False, BrokerNotAvailableError.code), (True, 42)):
        handlers = {ApiKey.METADATA: Raises(InvalidRequestError())}
        async with ServerUnderTest(handlers, internal=internal, ready=False) as server:
            channel = await server.channel()
            reply = await channel.call(MetadataRequest(None), timeout_s=5)
            assert reply.message.error_code == code
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
