"""Handlers of the table's kinds ask the right service, tell it enough, and leave out the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_broker.server.api_table import CONTROLLER, GROUPS, TRANSACTIONS, handlers
from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_NAME,
    DESCRIBE,
    GROUP,
    READ,
    TRANSACTIONAL_ID,
    AllowAllAuthorizer,
    Authorizer,
)
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.handlers.handed_on import HandedOnWithPeer, ToController
from oncelog_broker.server.request import ConnectionState, Handler, RequestContext
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    MemberIdRequiredError,
    NotControllerError,
)
from oncelog_protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreatedAcl,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import GroupProtocol, JoinGroupRequest, ListGroupsRequest
from oncelog_protocol.messages.transaction_admin import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC
from support.fake_transactions import FakeTransactions
from support.group_world import Answer, GroupWorld
from support.server import ControllerStub, DenyAll, ElsewhereStub, Only, answer, make_context


def joining(world: GroupWorld, authorizer: Authorizer) -> Handler:
    return handlers(GROUPS, world.groups, authorizer)[ApiKey.JOIN_GROUP]


def join(member_id: str = "") -> JoinGroupRequest:
    protocols = [GroupProtocol("range", b"")]
    return JoinGroupRequest("g", 10_000, 60_000, member_id, None, "consumer", protocols)


# ---------------------------------------------------------------- with the peer


def test_who_may_not_leaves_no_trace_at_the_service() -> None:
    world = GroupWorld()
    with pytest.raises(GroupAuthorizationFailedError):
        answer(joining(world, Only((READ, GROUP, "other"))), join())
    assert not world.shard.groups


@pytest.mark.parametrize("peer", ["10.1.2.3:4711", "[::1]:4711"])
def test_the_service_is_told_who_asks_and_from_where(peer: str) -> None:
    world = GroupWorld()
    handler = joining(world, Only((READ, GROUP, "g")))
    context = RequestContext("external", None, "User:x", "billing", peer, 0, ConnectionState())
    first = answer(handler, join(), context)
    assert first.error_code == MemberIdRequiredError.code
    parked = Answer()
    handler.handle(context, join(first.member_id), memoryview(b""), parked)
    assert parked.waits
    world.advance(1)
    assert parked.code == 0
    (member,) = world.group().members.values()
    assert member.client_id == "billing"
    assert member.client_host == peer.removesuffix(":4711")


def test_an_answer_may_be_given_at_once() -> None:
    handler = joining(GroupWorld(), Only((READ, GROUP, "g")))
    assert answer(handler, join("stranger"), make_context()).member_id == "stranger"


class Revocable(AllowAllAuthorizer):
    """It allows everything until it is told not to."""

    revoked = False

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        return not self.revoked


def test_who_waits_is_refused_when_the_right_is_gone_and_answered_once() -> None:
    world, authorizer = GroupWorld(), Revocable()
    handler = joining(world, authorizer)
    assert isinstance(handler, HandedOnWithPeer)
    first = answer(handler, join())
    parked = Answer()
    handler.handle(make_context(), join(first.member_id), memoryview(b""), parked)
    handler.look_again()
    assert parked.waits
    authorizer.revoked = True
    handler.look_again()
    assert parked.code == GroupAuthorizationFailedError.code
    handler.look_again()
    world.advance(1)
    assert parked.code == GroupAuthorizationFailedError.code, "the round ends without it"


# ---------------------------------------------------------------- lists


@pytest.mark.parametrize(
    ("authorizer", "seen"),
    [
        (AllowAllAuthorizer(), ["a", "b"]),
        (Only((DESCRIBE, CLUSTER, CLUSTER_NAME)), ["a", "b"]),
        (Only((DESCRIBE, GROUP, "b")), ["b"]),
        (Only(), []),
    ],
)
def test_groups_are_listed_to_who_may_see_them(authorizer: Authorizer, seen: list[str]) -> None:
    world = GroupWorld()
    world.commit_offset(group="b")
    world.commit_offset(group="a")
    handler = handlers(GROUPS, world.groups, authorizer)[ApiKey.LIST_GROUPS]
    response = answer(handler, ListGroupsRequest())
    assert [group.group_id for group in response.groups] == seen


def test_states_of_groups_and_what_is_not_known_yet() -> None:
    world = GroupWorld()
    world.commit_offset(group="a")
    world.stable(1, group="b")
    world.loading = True
    for authorizer in (AllowAllAuthorizer(), Only((DESCRIBE, GROUP, "b"))):
        handler = handlers(GROUPS, world.groups, authorizer)[ApiKey.LIST_GROUPS]
        response = answer(handler, ListGroupsRequest(["Stable"]))
        assert response.error_code == CoordinatorLoadInProgressError.code
        assert [group.group_id for group in response.groups] == ["b"]


@pytest.mark.parametrize(
    ("authorizer", "seen"),
    [
        (AllowAllAuthorizer(), ["a", "b"]),
        (Only((DESCRIBE, TRANSACTIONAL_ID, "b")), ["b"]),
        (Only((DESCRIBE, CLUSTER, CLUSTER_NAME)), []),
        (Only(), []),
    ],
)
def test_transactions_are_listed_to_who_may_see_them(
    authorizer: Authorizer, seen: list[str]
) -> None:
    transactions = FakeTransactions()
    transactions.listed = ListTransactionsResponse(
        CoordinatorLoadInProgressError.code,
        [ListedTransaction(name, 7, "Ongoing") for name in ("a", "b")],
    )
    asked = ListTransactionsRequest(["Ongoing"])
    handler = handlers(TRANSACTIONS, transactions, authorizer)[ApiKey.LIST_TRANSACTIONS]
    response = answer(handler, asked)
    assert [listed.transactional_id for listed in response.transactions] == seen
    assert response.error_code == CoordinatorLoadInProgressError.code
    assert transactions.asked == [asked]


# ---------------------------------------------------------------- to the controller

ELSEWHERE = CreateAclsResponse(0, [CreatedAcl()])
NOT_HERE = CreateAclsResponse(NotControllerError.code)


def to_controller(api: ApiKey, requests: ControllerRequests, authorizer: Authorizer) -> Any:
    return handlers(CONTROLLER, requests, authorizer)[api]


TO_CONTROLLER = [row.api for row in CONTROLLER if row.kind is ToController]


@pytest.mark.parametrize("api", TO_CONTROLLER, ids=lambda api: api.name)
async def test_any_broker_serves_a_client_of_kafka(api: ApiKey) -> None:
    """A library of Kafka may ask any broker, and gives up after NOT_CONTROLLER."""
    elsewhere, authorizer = ElsewhereStub(ELSEWHERE), AllowAllAuthorizer()
    controller = ControllerStub(NOT_HERE, NOT_HERE, ELSEWHERE)
    requests = ControllerRequests(controller, authorizer, elsewhere=elsewhere)
    handler = to_controller(api, requests, authorizer)
    native = make_context(internal=False)
    kafkas = replace(native, magic=KAFKA_MAGIC)
    request: Any = object()
    assert await handler.handle_async(native, request) is NOT_HERE
    assert elsewhere.requests == []
    assert await handler.handle_async(kafkas, request) is ELSEWHERE
    assert elsewhere.requests == [request]
    assert await handler.handle_async(kafkas, request) is ELSEWHERE, "it is the controller by now"
    assert elsewhere.requests == [request]
    assert controller.askers == [native.principal] * 3


async def test_what_a_client_of_kafka_may_not_is_not_handed_on() -> None:
    elsewhere = ElsewhereStub(ELSEWHERE)
    requests = ControllerRequests(ControllerStub(), DenyAll(), elsewhere=elsewhere)
    handler = to_controller(ApiKey.CREATE_ACLS, requests, DenyAll())
    kafkas = replace(make_context(internal=False), magic=KAFKA_MAGIC)
    with pytest.raises(ClusterAuthorizationFailedError):
        await handler.handle_async(kafkas, CreateAclsRequest([]))
    assert elsewhere.requests == []
