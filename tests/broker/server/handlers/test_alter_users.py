"""Users are altered by who may alter the cluster; mighty ones by super users only."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.alter_users import AlterUsersHandler, GuardedUsers
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.peer_identity import ANONYMOUS
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import ClusterAuthorizationFailedError, NotControllerError
from oncelog_protocol.messages.users import (
    CREATE,
    DELETE,
    DISABLE,
    SET_PASSWORD,
    AlteredUser,
    AlterUsersRequest,
    AlterUsersResponse,
    UserWish,
)
from support.server import ControllerStub, DenyAll, make_context

GUARDED = GuardedUsers(["User:admin"], "User:broker-{id}")
REFUSED = ClusterAuthorizationFailedError.code


def asks(principal: str) -> RequestContext:
    context = make_context(internal=False)
    context.principal = principal
    return context


def served(
    *results: AlteredUser, authorizer: Authorizer | None = None, code: int = 0
) -> tuple[AlterUsersHandler, ControllerStub]:
    controller = ControllerStub(AlterUsersResponse(code, list(results), 7))
    requests = ControllerRequests(controller, authorizer or AllowAllAuthorizer())
    return AlterUsersHandler(requests, GUARDED), controller


@pytest.mark.parametrize(
    ("principal", "guards"),
    [
        ("User:admin", True),
        ("User:broker-1", True),
        ("User:broker-2147483647", True),
        ("User:broker-", False),
        ("User:broker-a", False),
        ("User:broker", False),
        ("User:admin2", False),
        ("User:app", False),
    ],
)
def test_whom_only_super_users_may_alter(principal: str, guards: bool) -> None:
    assert GUARDED.guards(principal) == guards


def test_brokers_may_have_any_name() -> None:
    guarded = GuardedUsers([], "User:b{id}.example")
    assert guarded.guards("User:b7.example")
    for other in ("b.example", "b7.exampl", "b", "7.example", "bx.example"):
        assert not guarded.guards(f"User:{other}")


async def test_who_may_not_alter_the_cluster_alters_nobody() -> None:
    handler, controller = served(authorizer=DenyAll())
    requests = [
        AlterUsersRequest([]),
        AlterUsersRequest([UserWish("other", SET_PASSWORD)]),
        AlterUsersRequest([UserWish("app", DELETE)]),
        AlterUsersRequest([UserWish("app", SET_PASSWORD), UserWish("other", DISABLE)]),
    ]
    for request in requests:
        with pytest.raises(ClusterAuthorizationFailedError):
            await handler.handle_async(asks("User:app"), request)
    assert controller.requests == []


async def test_ones_own_password_is_ones_own() -> None:
    for name in ("app", "admin", "broker-1"):
        handler, controller = served(AlteredUser(name), authorizer=DenyAll())
        request = AlterUsersRequest([UserWish(name, SET_PASSWORD)])
        response = await handler.handle_async(asks(f"User:{name}"), request)
        assert response.results == [AlteredUser(name)]
        assert controller.requests == [request]
    handler, controller = served(authorizer=DenyAll())
    nobody = UserWish(ANONYMOUS.removeprefix("User:"), SET_PASSWORD)
    with pytest.raises(ClusterAuthorizationFailedError):
        await handler.handle_async(asks(ANONYMOUS), AlterUsersRequest([nobody]))


async def test_mighty_users_are_altered_by_super_users_only() -> None:
    wishes = [
        UserWish("admin", DELETE),
        UserWish("app", CREATE),
        UserWish("broker-1", SET_PASSWORD),
        UserWish("other", DELETE),
    ]
    told = [AlteredUser("app"), AlteredUser("other", 91, "there is no user")]
    handler, controller = served(*told)
    response = await handler.handle_async(asks("User:boss"), AlterUsersRequest(wishes, True))
    assert [(each.name, each.error_code) for each in response.results] == [
        ("admin", REFUSED),
        ("app", 0),
        ("broker-1", REFUSED),
        ("other", 91),
    ]
    assert response.results[0].error_message == "only a super user may alter this user"
    assert response.version == 7
    assert controller.requests == [AlterUsersRequest([wishes[1], wishes[3]], True)]
    handler, controller = served(*(AlteredUser(wish.name) for wish in wishes))
    response = await handler.handle_async(asks("User:admin"), AlterUsersRequest(wishes))
    assert {each.error_code for each in response.results} == {0}
    assert controller.requests == [AlterUsersRequest(wishes)]


async def test_nothing_that_is_refused_reaches_the_controller() -> None:
    handler, controller = served()
    request = AlterUsersRequest([UserWish("admin", DELETE)])
    response = await handler.handle_async(asks("User:boss"), request)
    assert (response.error_code, response.results[0].error_code) == (0, REFUSED)
    assert controller.requests == []


async def test_another_brokers_controller_is_named() -> None:
    code = NotControllerError.code
    handler, _ = served(AlteredUser("app", code), code=code)
    request: Any = AlterUsersRequest([UserWish("admin", DELETE), UserWish("app", CREATE)])
    response = await handler.handle_async(asks("User:boss"), request)
    assert response.error_code == code
    assert [each.error_code for each in response.results] == [REFUSED, code]
