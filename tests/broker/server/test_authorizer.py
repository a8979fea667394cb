"""These tests check the authorizer port's only version."""

from __future__ import annotations

from oncelog_broker.server.authorizer import CREATE, TOPIC, WRITE, AllowAllAuthorizer, Authorizer
from support.server import DenyAll, Only, make_context


def test_everything_is_allowed() -> None:
    authorizer: Authorizer = AllowAllAuthorizer()
    assert authorizer.authorize(make_context(), CREATE, TOPIC, "t")
    assert authorizer.authorize_any(make_context(), WRITE, TOPIC)


def test_a_fake_with_one_allowed_topic_may_write_to_some_topic() -> None:
    authorizer: Authorizer = Only((WRITE, TOPIC, "t"))
    assert authorizer.authorize_any(make_context(), WRITE, TOPIC)
    assert not authorizer.authorize_any(make_context(), CREATE, TOPIC)
    assert not DenyAll().authorize_any(make_context(), WRITE, TOPIC)
