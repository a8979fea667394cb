"""Handlers of the table's kinds ask the right service, tell it enough, and leave out the rest."""

from __future__ import annotations

import pytest

from oncelog_broker.server.api_table import GROUPS, TRANSACTIONS, handlers
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
from oncelog_broker.server.handlers.handed_on import HandedOnWithPeer
from oncelog_broker.server.request import ConnectionState, Handler, RequestContext
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    MemberIdRequiredError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import GroupProtocol, JoinGroupRequest, ListGroupsRequest
from oncelog_protocol.messages.transaction_admin import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from support.fake_transactions import FakeTransactions
from support.group_world import Answer, GroupWorld
from support.server import Only, answer, make_context


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
