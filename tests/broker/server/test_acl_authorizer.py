"""The authorizer with ACLs decides by them, and keeps what it has decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_broker.server import acl_authorizer
from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acl_state import AclState
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DENY,
    DESCRIBE,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    AclBinding,
)
from oncelog_protocol.errors import BrokerNotAvailableError
from support.server import make_context

ALLOWED = AclBinding(TOPIC, LITERAL, "orders", "User:app", "*", WRITE, ALLOW)
DENIED = replace(ALLOWED, permission=DENY)


def asks(principal: str = "User:app", host: str = "10.0.0.1") -> RequestContext:
    context = make_context(internal=False)
    context.principal, context.peer = principal, f"{host}:40000"
    return context


def with_acls(*entries: AclBinding, super_users: tuple[str, ...] = ()) -> AclAuthorizer:
    authorizer = AclAuthorizer(super_users)
    authorizer.replace(AclState.made_of(1, entries))
    return authorizer


@pytest.mark.parametrize(
    ("entries", "writes", "describes", "writes_some", "denied"),
    [
        pytest.param([], False, False, False, False, id="none"),
        pytest.param([DENIED], False, False, False, True, id="DENY"),
        pytest.param([ALLOWED], True, True, True, False, id="ALLOW"),
        pytest.param([ALLOWED, DENIED], False, True, False, True, id="both"),
        pytest.param(
            [replace(ALLOWED, pattern_type=PREFIXED, name="or")],
            True,
            True,
            True,
            False,
            id="prefix",
        ),
        pytest.param([replace(ALLOWED, name="*")], True, True, True, False, id="*"),
        pytest.param([replace(ALLOWED, name="*"), DENIED], False, True, True, True, id="* but one"),
        pytest.param([replace(ALLOWED, operation=READ)], False, True, False, False, id="implied"),
        pytest.param(
            [replace(ALLOWED, operation=READ), replace(DENIED, operation=DESCRIBE)],
            False,
            False,
            False,
            False,
            id="implied but denied",
        ),
        pytest.param([replace(ALLOWED, operation=ALL)], True, True, True, False, id="ALL"),
        pytest.param([replace(ALLOWED, host="10.9.9.9")], False, False, False, False, id="host"),
        pytest.param([replace(ALLOWED, host="10.0.0.0/8")], True, True, True, False, id="block"),
    ],
)
def test_entries_decide(
    entries: list[AclBinding], writes: bool, describes: bool, writes_some: bool, denied: bool
) -> None:
    authorizer = with_acls(*entries)
    for _ in range(2):  # decided, then kept
        assert authorizer.authorize(asks(), WRITE, TOPIC, "orders") == writes
        assert authorizer.authorize(asks(), DESCRIBE, TOPIC, "orders") == describes
        assert authorizer.authorize_any(asks(), WRITE, TOPIC) == writes_some
        assert authorizer.denies(asks(), WRITE, TOPIC, "orders") == denied


def test_it_is_an_authorizer() -> None:
    authorizer: Authorizer = AclAuthorizer()
    with pytest.raises(BrokerNotAvailableError):
        authorizer.authorize(asks(), WRITE, TOPIC, "orders")


def test_without_a_state_only_super_users_and_brokers_are_served() -> None:
    authorizer = AclAuthorizer(["User:admin"])
    assert authorizer.state is None
    assert authorizer.version == -1
    with pytest.raises(BrokerNotAvailableError, match="not known here yet"):
        authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    with pytest.raises(BrokerNotAvailableError):
        authorizer.authorize_any(asks(), WRITE, TOPIC)
    with pytest.raises(BrokerNotAvailableError):
        authorizer.denies(asks(), WRITE, TOPIC, "orders")
    with pytest.raises(BrokerNotAvailableError):
        authorizer.authorize(asks(), CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert authorizer.authorize(asks("User:admin"), WRITE, TOPIC, "orders")
    assert authorizer.authorize(make_context(), CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def test_a_super_user_may_do_what_is_denied() -> None:
    authorizer = with_acls(replace(DENIED, principal="User:*"), super_users=("User:admin",))
    assert authorizer.authorize(asks("User:admin"), WRITE, TOPIC, "orders")
    assert not authorizer.denies(asks("User:admin"), WRITE, TOPIC, "orders")
    assert authorizer.authorize_any(asks("User:admin"), WRITE, TOPIC)
    decision = authorizer.decision(asks("User:admin"), WRITE, TOPIC, "orders")
    assert (decision.entry, decision.reason) == (None, "super_users names the principal")
    assert not authorizer.authorize(asks("User:admin2"), WRITE, TOPIC, "orders")


def test_a_broker_may_do_what_brokers_do_and_nothing_else_by_itself() -> None:
    authorizer = with_acls(
        AclBinding(CLUSTER, LITERAL, "*", "User:*", "*", ALL, DENY),
    )
    assert authorizer.authorize(make_context(), CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert not authorizer.authorize(make_context(), DESCRIBE, CLUSTER, CLUSTER_NAME)
    assert not authorizer.authorize(make_context(), READ, TOPIC, "orders")
    assert not authorizer.authorize(asks(), CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def test_the_entry_that_decided_is_told() -> None:
    authorizer = with_acls(ALLOWED, replace(DENIED, operation=READ))
    allowed = authorizer.decision(asks(), WRITE, TOPIC, "orders")
    denied = authorizer.decision(asks(), READ, TOPIC, "orders")
    nothing = authorizer.decision(asks(), READ, TOPIC, "payments")
    assert allowed.reason == "User:app may WRITE topic orders from anywhere"
    assert denied.entry == replace(DENIED, operation=READ)
    assert (nothing.entry, nothing.reason) == (None, "no ACL allows it")
    assert authorizer.decision(asks(), WRITE, TOPIC, None).entry == ALLOWED


def test_decisions_of_different_hosts_are_different() -> None:
    authorizer = with_acls(replace(ALLOWED, host="10.0.0.1"))
    assert authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    assert not authorizer.authorize(asks(host="10.0.0.2"), WRITE, TOPIC, "orders")
    assert authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    v6 = with_acls(replace(ALLOWED, host="2001:db8::1"))
    assert v6.authorize(asks(host="2001:db8::1"), WRITE, TOPIC, "orders")


# ---- versions


def test_a_new_version_ends_what_was_decided() -> None:
    authorizer = with_acls(ALLOWED)
    assert authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    assert authorizer.replace(AclState.made_of(2, [ALLOWED, DENIED]))
    assert not authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    assert authorizer.change(2, 5, {ALLOWED.pattern: [ALLOWED]})
    assert authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    assert authorizer.change(5, 6, {ALLOWED.pattern: []})
    assert not authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    assert authorizer.version == 6


@pytest.mark.hostile(40)
def test_an_older_version_is_ignored() -> None:
    authorizer = AclAuthorizer()
    assert authorizer.replace(AclState.made_of(7, [DENIED]))
    assert not authorizer.replace(AclState.made_of(6, [ALLOWED]))
    assert not authorizer.replace(AclState.made_of(7, [ALLOWED]))
    assert authorizer.change(5, 6, {ALLOWED.pattern: [ALLOWED]})
    assert authorizer.version == 7
    assert not authorizer.authorize(asks(), WRITE, TOPIC, "orders")


def test_a_change_to_another_version_than_the_present_one_is_not_taken() -> None:
    authorizer = AclAuthorizer()
    assert not authorizer.change(0, 1, {})
    authorizer.replace(AclState.made_of(3, [DENIED]))
    assert not authorizer.change(4, 5, {ALLOWED.pattern: [ALLOWED]})
    assert not authorizer.change(2, 5, {ALLOWED.pattern: [ALLOWED]})
    assert authorizer.version == 3
    assert authorizer.state is not None
    assert list(authorizer.state) == [DENIED]


def test_kept_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_authorizer, "KEPT_DECISIONS_MAX", 3)
    authorizer = with_acls(ALLOWED)
    kept = authorizer.decision(asks(), WRITE, TOPIC, "orders")
    assert authorizer.decision(asks(), WRITE, TOPIC, "orders") is kept
    for number in range(3):
        authorizer.authorize(asks(), WRITE, TOPIC, f"t{number}")
    again = authorizer.decision(asks(), WRITE, TOPIC, "orders")
    assert again is not kept
    assert again == kept


def test_decisions_of_long_names_are_not_kept() -> None:
    authorizer = with_acls(replace(ALLOWED, name="*"))
    context = asks()
    for length, same in ((255, True), (256, False)):
        first = authorizer.decision(context, WRITE, TOPIC, "x" * length)
        assert (authorizer.decision(context, WRITE, TOPIC, "x" * length) is first) is same


def test_who_follows_is_told_of_other_acls_and_of_nothing_else() -> None:
    authorizer, versions = AclAuthorizer(), list[int]()
    authorizer.on_change(lambda: versions.append(authorizer.version))
    authorizer.replace(AclState(3))
    authorizer.replace(AclState(3))
    authorizer.change(3, 4, {})
    authorizer.change(9, 10, {})
    assert versions == [3, 4]


def test_who_is_suspended_decides_for_super_users_and_brokers_only() -> None:
    told = list[bool]()
    authorizer = AclAuthorizer(["User:root"])
    authorizer.replace(AclState.made_of(2, [ALLOWED]))
    authorizer.on_change(lambda: told.append(True))
    assert authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    authorizer.suspend(True)
    assert told == [True], "what waits is looked at"
    with pytest.raises(BrokerNotAvailableError):
        authorizer.authorize(asks(), WRITE, TOPIC, "orders")
    assert authorizer.authorize(asks("User:root"), WRITE, TOPIC, "any")
    authorizer.suspend(False)
    assert authorizer.authorize(asks(), WRITE, TOPIC, "orders")
