"""These tests check the authorizer port's only version."""

from __future__ import annotations

from oncelog_broker.server.authorizer import CREATE, TOPIC, AllowAllAuthorizer, Authorizer
from support.server import make_context


def test_everything_is_allowed() -> None:
    authorizer: Authorizer = AllowAllAuthorizer()
    assert authorizer.authorize(make_context(), CREATE, TOPIC, "t")
