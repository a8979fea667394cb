"""Each row of the table reaches its service for who may, and nobody's for who may not."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from oncelog_broker.server.access import BETWEEN_BROKERS, PRODUCER_ID, Access
from oncelog_broker.server.api_table import CONTROLLER, GROUPS, TRANSACTIONS, ApiRow, handlers
from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_NAME,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    AllowAllAuthorizer,
    Authorizer,
)
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_protocol.acls import AclBindingFilter
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    NotControllerError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownMemberIdError,
)
from oncelog_protocol.messages import (
    acls,
    admin,
    broker_reports,
    moves,
    quotas,
    replication,
    transactions,
    users,
)
from oncelog_protocol.messages.balance import BalanceRequest
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.broker_states import AlterBrokerStatesRequest
from oncelog_protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from oncelog_protocol.messages.shared_transactions import (
    BeginSharedTxnRequest,
    EndSharedTxnRequest,
    JoinTxnRequest,
)
from oncelog_protocol.messages.transactions import EndTxnRequest
from oncelog_protocol.quotas import QuotaFilter
from oncelog_protocol.registry import REQUESTS
from support.fake_transactions import FakeTransactions
from support.group_world import GroupWorld
from support.server import ControllerStub, DenyAll, Only, answer, make_context

ROWS: list[ApiRow[Any, Any]] = [*GROUPS, *TRANSACTIONS, *CONTROLLER]
ACCESS = {row.api: row.access for row in ROWS}

OF_GROUPS: dict[ApiKey, Request] = {
    ApiKey.JOIN_GROUP: JoinGroupRequest("g", 10_000, 60_000, "m", None, "consumer", []),
    ApiKey.SYNC_GROUP: SyncGroupRequest("g", 1, "m", None, None, None),
    ApiKey.HEARTBEAT: HeartbeatRequest("g", 1, "m", None),
    ApiKey.LEAVE_GROUP: LeaveGroupRequest("g", [LeavingMember("m")]),
}


def of_transactions(name: str) -> dict[ApiKey, Request]:
    return {
        ApiKey.END_TXN: EndTxnRequest(name, 7, 1, True),
        ApiKey.JOIN_TXN: JoinTxnRequest(name, 1, 2, "w", 60_000),
        ApiKey.END_SHARED_TXN: EndSharedTxnRequest(name, 1, 2, True, [7]),
    }


OF_TOPICS: dict[ApiKey, tuple[Request, Request, Any]] = {
    ApiKey.CREATE_TOPICS: (
        admin.CreateTopicsRequest(
            [admin.CreatableTopic("a/b", 1, 1), admin.CreatableTopic("good", 2, 1)], 77, True
        ),
        admin.CreateTopicsRequest([admin.CreatableTopic("good", 2, 1)], 77, True),
        admin.CreateTopicsResponse,
    ),
    ApiKey.CREATE_PARTITIONS: (
        admin.CreatePartitionsRequest(
            [admin.PartitionGrowth("a/b", 1), admin.PartitionGrowth("good", 2)], 77, True
        ),
        admin.CreatePartitionsRequest([admin.PartitionGrowth("good", 2)], 77, True),
        admin.CreatePartitionsResponse,
    ),
    ApiKey.DELETE_TOPICS: (
        admin.DeleteTopicsRequest(["a/b", "good"], 77),
        admin.DeleteTopicsRequest(["good"], 77),
        admin.DeleteTopicsResponse,
    ),
}
"""The request, what of it reaches the controller, and the class of the answer."""

OF_CLUSTER: dict[ApiKey, tuple[str, Request]] = {
    ApiKey.ELECT_LEADERS: ("ALTER", admin.ElectLeadersRequest(False, None)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        "ALTER",
        moves.AlterPartitionReassignmentsRequest([moves.ReassignedPartition("t", 0, [1])]),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("DESCRIBE", moves.ListPartitionReassignmentsRequest()),
    ApiKey.BALANCE: ("DESCRIBE", BalanceRequest("balance")),
    ApiKey.ALTER_BROKER_STATES: ("ALTER", AlterBrokerStatesRequest(1, "draining")),
    ApiKey.DESCRIBE_ACLS: ("DESCRIBE", acls.DescribeAclsRequest(AclBindingFilter())),
    ApiKey.CREATE_ACLS: ("ALTER", acls.CreateAclsRequest([])),
    ApiKey.DELETE_ACLS: ("ALTER", acls.DeleteAclsRequest([])),
    ApiKey.DESCRIBE_USERS: ("DESCRIBE", users.DescribeUsersRequest()),
    ApiKey.DESCRIBE_QUOTAS: ("DESCRIBE_CONFIGS", quotas.DescribeQuotasRequest(QuotaFilter())),
    ApiKey.ALTER_QUOTAS: ("ALTER_CONFIGS", quotas.AlterQuotasRequest([])),
}
"""The operation on the cluster that is needed, and the request."""

OF_BROKERS: dict[ApiKey, tuple[Request, Any]] = {
    ApiKey.ALTER_PARTITION: (
        replication.AlterPartitionRequest(1, 2, []),
        replication.AlterPartitionResponse(41),
    ),
    ApiKey.CONTROLLED_SHUTDOWN: (
        replication.ControlledShutdownRequest(1, 2),
        replication.ControlledShutdownResponse(0, 3),
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: (
        transactions.AllocateProducerIdsRequest(1, 2),
        transactions.AllocateProducerIdsResponse(0, 1000, 1000),
    ),
    ApiKey.BROKER_REPORT: (
        broker_reports.BrokerReportRequest(1, 2, 1, -1, True),
        broker_reports.BrokerReportResponse(0),
    ),
}


# ---------------------------------------------------------------- the table itself


def test_every_row_is_tried_here() -> None:
    elsewhere = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}  # handlers/test_handed_on.py
    tried = {
        *OF_GROUPS,
        *of_transactions(""),
        *OF_TOPICS,
        *OF_BROKERS,
        ApiKey.BEGIN_SHARED_TXN,
        *OF_CLUSTER,
    }
    assert {row.api for row in ROWS} == tried | elsewhere
    assert len(ACCESS) == len(ROWS), "an API has one row"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api.name)
def test_what_names_the_resource_is_in_the_message(row: ApiRow[Any, Any]) -> None:
    request = REQUESTS[row.api]
    field = row.access.items or row.access.name
    if field:
        holders = (request, request.response)
        assert any(field in [each.name for each in fields(holder)] for holder in holders)


def test_rows_between_brokers_are_those_that_the_router_checks() -> None:
    rows = {api for api, access in ACCESS.items() if access == BETWEEN_BROKERS}
    assert rows == {api for api in ACCESS if REQUESTS[api].between_brokers}
    assert ACCESS[ApiKey.BEGIN_SHARED_TXN] == PRODUCER_ID


# ---------------------------------------------------------------- groups


@pytest.mark.parametrize("api", OF_GROUPS, ids=lambda api: api.name)
def test_a_group_is_asked_by_who_may_read_it(api: ApiKey) -> None:
    world = GroupWorld()
    world.stable(1)
    before = dict(world.group().members)
    access = ACCESS[api]
    assert (access.operation, access.resource_type) == (READ, "GROUP")
    for nobody in (DenyAll(), Only((READ, "GROUP", "other")), Only((READ, TOPIC, "g"))):
        handler = handlers(GROUPS, world.groups, nobody)[api]
        with pytest.raises(GroupAuthorizationFailedError):
            answer(handler, OF_GROUPS[api])
    assert dict(world.group().members) == before
    response = answer(
        handlers(GROUPS, world.groups, Only((READ, "GROUP", "g")))[api], OF_GROUPS[api]
    )
    if api == ApiKey.LEAVE_GROUP:
        (response,) = response.members
    if api == ApiKey.JOIN_GROUP:
        assert response.error_code != 0, "no member without a protocol"
    else:
        assert response.error_code == UnknownMemberIdError.code


def test_a_member_is_served() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    member = player.member_id
    served = handlers(GROUPS, world.groups, Only((READ, "GROUP", "g")))
    heard = answer(served[ApiKey.HEARTBEAT], HeartbeatRequest("g", 1, member, None))
    assert heard.error_code == 0
    given = answer(served[ApiKey.SYNC_GROUP], SyncGroupRequest("g", 1, member, None, None, None))
    assert (given.error_code, given.assignment) == (0, member.encode())
    members = [LeavingMember("m"), LeavingMember(member)]
    left = answer(served[ApiKey.LEAVE_GROUP], LeaveGroupRequest("g", members))
    assert [m.error_code for m in left.members] == [UnknownMemberIdError.code, 0]
    assert not world.group().members


# ---------------------------------------------------------------- transactions


@pytest.mark.parametrize("code", [0, ProducerFencedError.code])
@pytest.mark.parametrize("api", [*of_transactions("")], ids=lambda api: api.name)
def test_the_coordinator_of_transactions_answers(api: ApiKey, code: int) -> None:
    fake = FakeTransactions(code)
    request = of_transactions("a")[api]
    response = answer(handlers(TRANSACTIONS, fake, AllowAllAuthorizer())[api], request)
    assert response.error_code == code
    assert fake.asked == [request]


@pytest.mark.parametrize("api", [*of_transactions("")], ids=lambda api: api.name)
def test_transactional_ids_that_may_not_be_used(api: ApiKey) -> None:
    fake = FakeTransactions()
    handler = handlers(TRANSACTIONS, fake, Only(("WRITE", TRANSACTIONAL_ID, "mine")))[api]
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        answer(handler, of_transactions("a")[api])
    for name in ("", "__ordinals"):
        with pytest.raises(InvalidRequestError):
            answer(handler, of_transactions(name)[api])
    assert not fake.asked
    assert answer(handler, of_transactions("mine")[api]).error_code == 0


@pytest.mark.parametrize("code", [0, ProducerFencedError.code])
def test_who_may_write_somewhere_may_have_an_ordinal(code: int) -> None:
    for allowed in (("WRITE", TOPIC, "t"), ("IDEMPOTENT_WRITE", CLUSTER, CLUSTER_NAME)):
        fake = FakeTransactions(code)
        handler = handlers(TRANSACTIONS, fake, Only(allowed))[ApiKey.BEGIN_SHARED_TXN]
        assert answer(handler, BeginSharedTxnRequest()).error_code == code
        assert len(fake.asked) == 1


def test_an_ordinal_is_not_for_everybody() -> None:
    fake = FakeTransactions()
    for authorizer in (DenyAll(), Only(("READ", TOPIC, "t")), Only()):
        handler = handlers(TRANSACTIONS, fake, authorizer)[ApiKey.BEGIN_SHARED_TXN]
        with pytest.raises(ClusterAuthorizationFailedError):
            answer(handler, BeginSharedTxnRequest())
    assert not fake.asked


# ---------------------------------------------------------------- the controller


@pytest.mark.parametrize("api", OF_TOPICS, ids=lambda api: api.name)
async def test_topics_that_are_legal_and_allowed_reach_the_controller(api: ApiKey) -> None:
    request, forwarded, answered = OF_TOPICS[api]
    access: Access = ACCESS[api]
    controller = ControllerStub(answered(0, [admin.TopicResult("good")]))
    only = Only((access.operation, TOPIC, "good"))
    served = handlers(CONTROLLER, ControllerRequests(controller, only), only)
    response = await served[api].handle_async(make_context(internal=False), request)
    assert isinstance(response, answered)
    assert [(r.topic, r.error_code) for r in response.topics] == [("a/b", 17), ("good", 0)]
    assert (controller.requests, controller.internal) == ([forwarded], [False])

    nobody = DenyAll()
    served = handlers(CONTROLLER, ControllerRequests(controller, nobody), nobody)
    response = await served[api].handle_async(make_context(internal=False), request)
    codes = [r.error_code for r in response.topics]
    assert codes == [17, TopicAuthorizationFailedError.code]
    assert len(controller.requests) == 1


@pytest.mark.parametrize("api", OF_CLUSTER, ids=lambda api: api.name)
async def test_the_cluster_is_asked_for_who_may_touch_it(api: ApiKey) -> None:
    code = NotControllerError.code
    operation, request = OF_CLUSTER[api]
    controller = ControllerStub(type(request).response(code))
    other = "ALTER" if operation == "DESCRIBE" else "DESCRIBE"
    tried: list[tuple[Authorizer, bool]] = [
        (Only((operation, CLUSTER, CLUSTER_NAME)), True),
        (Only((other, CLUSTER, CLUSTER_NAME)), False),
        (DenyAll(), False),
    ]
    for authorizer, may in tried:
        served = handlers(CONTROLLER, ControllerRequests(controller, authorizer), authorizer)
        handler = served[api]
        if may:
            response = await handler.handle_async(make_context(internal=False), request)
            assert response.error_code == code
        else:
            with pytest.raises(ClusterAuthorizationFailedError):
                await handler.handle_async(make_context(), request)
    assert (controller.requests, controller.internal) == ([request], [False])
    assert controller.askers == [make_context().principal]


@pytest.mark.parametrize("api", OF_BROKERS, ids=lambda api: api.name)
async def test_brokers_get_the_controllers_answer_as_it_is(api: ApiKey) -> None:
    request, response = OF_BROKERS[api]
    controller = ControllerStub(response)
    nobody = DenyAll()  # the dispatcher has asked before
    served = handlers(CONTROLLER, ControllerRequests(controller, nobody), nobody)
    assert await served[api].handle_async(make_context(), request) is response
    assert (controller.requests, controller.internal) == ([request], [True])
