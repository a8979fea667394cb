"""The state decides as a few lines of plain Python do, whatever the ACLs are."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.acl_state import AclState
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    EVERYBODY,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WILDCARD,
    WRITE,
    AclBinding,
)

APP = "User:app"
HERE = "10.0.0.1"
ALLOWED = AclBinding(TOPIC, LITERAL, "orders", APP, "*", WRITE, ALLOW)
DENIED = replace(ALLOWED, permission=DENY)


def naive(
    entries: list[AclBinding], principal: str, host: str, operation: str, kind: str, name: str
) -> bool:
    def is_of(entry: AclBinding) -> bool:
        named = (
            name.startswith(entry.name)
            if entry.pattern_type == PREFIXED
            else entry.name in (name, "*")
        )
        here = entry.host == "*" or ip_address(host) in ip_network(entry.host)
        return (
            named
            and here
            and entry.resource_type == kind
            and entry.principal
            in (
                principal,
                "User:*",
            )
        )

    denied = {e.operation for e in entries if is_of(e) and e.permission == DENY}
    allowed = {e.operation for e in entries if is_of(e) and e.permission == ALLOW}
    if allowed & {READ, WRITE, DELETE, ALTER}:
        allowed.add(DESCRIBE)
    if ALTER_CONFIGS in allowed:
        allowed.add(DESCRIBE_CONFIGS)
    return not denied & {operation, ALL} and bool(allowed & {operation, ALL})


NAMES = ("o", "or", "ord", "orders", "orange", "p", "~")
PRINCIPALS = (APP, "User:b", EVERYBODY)
HOSTS = (HERE, "10.0.0.2", "2001:db8::1")
OPERATIONS = (READ, WRITE, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS, ALL)

ENTRIES = st.builds(
    AclBinding,
    st.sampled_from((TOPIC, GROUP)),
    st.just(LITERAL),
    st.sampled_from((*NAMES[:-1], WILDCARD)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(("*", "*", HERE, "10.0.0.0/24")),
    st.sampled_from(OPERATIONS),
    st.sampled_from((ALLOW, ALLOW, DENY)),
).flatmap(
    lambda entry: st.sampled_from(
        (entry, entry if entry.name == WILDCARD else replace(entry, pattern_type=PREFIXED))
    )
)
ASKED = st.tuples(
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS[:-1]),
    st.sampled_from((TOPIC, GROUP)),
)


@given(st.lists(ENTRIES, max_size=12, unique=True), ASKED, st.sampled_from(NAMES))
def test_it_decides_as_plain_python_does(
    entries: list[AclBinding], asked: tuple[str, str, str, str], name: str
) -> None:
    state = AclState.made_of(1, entries)
    decision = state.decide(*asked, name)
    assert decision.allowed == naive(entries, *asked, name)
    if decision.entry is not None:
        assert (decision.entry.permission == ALLOW) == decision.allowed
        assert decision.entry in entries
        assert decision.reason == decision.entry.sentence()
    else:
        assert not decision.allowed


@given(st.lists(ENTRIES, max_size=8, unique=True), ASKED)
def test_some_resource_is_allowed_when_there_is_a_name_that_is(
    entries: list[AclBinding], asked: tuple[str, str, str, str]
) -> None:
    possible = [*NAMES, *(name + "~" for name in NAMES)]
    allowed = any(naive(entries, *asked, name) for name in possible)
    assert AclState.made_of(1, entries).decide_any(*asked).allowed == allowed


@given(
    st.lists(ENTRIES, max_size=12, unique=True),
    st.lists(ENTRIES, max_size=12, unique=True),
    ASKED,
    st.sampled_from(NAMES),
)
def test_a_changed_state_is_the_one_that_was_made_anew(
    before: list[AclBinding], after: list[AclBinding], asked: tuple[str, str, str, str], name: str
) -> None:
    old, new = AclState.made_of(1, before), AclState.made_of(2, after)
    patterns = dict.fromkeys(entry.pattern for entry in (*before, *after))
    changed = old.changed(2, {pattern: new.of(pattern) for pattern in patterns})
    assert changed.version == 2
    assert dict(changed.patterns) == dict(new.patterns)
    assert dict(changed.rights) == dict(new.rights)
    assert changed.names_hosts == new.names_hosts
    assert changed.decide(*asked, name).allowed == naive(after, *asked, name)
    assert old.decide(*asked, name).allowed == naive(before, *asked, name)
    assert sorted(map(repr, changed)) == sorted(map(repr, after))


@pytest.mark.parametrize(
    ("entries", "operation", "decided"),
    [
        ([], WRITE, None),
        ([ALLOWED], WRITE, ALLOWED),
        ([DENIED], WRITE, DENIED),
        ([ALLOWED, DENIED], WRITE, DENIED),
        ([ALLOWED, replace(DENIED, operation=ALL)], WRITE, replace(DENIED, operation=ALL)),
        ([ALLOWED, replace(DENIED, name="*")], WRITE, replace(DENIED, name="*")),
        ([ALLOWED], DESCRIBE, ALLOWED),
        ([ALLOWED], READ, None),
        ([ALLOWED], CREATE, None),
        ([replace(ALLOWED, operation=ALL)], CREATE, replace(ALLOWED, operation=ALL)),
        ([replace(ALLOWED, operation=DELETE)], DESCRIBE, replace(ALLOWED, operation=DELETE)),
        ([ALLOWED, replace(DENIED, operation=READ)], DESCRIBE, ALLOWED),
        ([replace(ALLOWED, host=HERE)], WRITE, replace(ALLOWED, host=HERE)),
        ([replace(ALLOWED, host="10.0.0.2")], WRITE, None),
        ([ALLOWED, replace(DENIED, host="10.0.0.2")], WRITE, ALLOWED),
        ([replace(ALLOWED, principal=EVERYBODY)], WRITE, replace(ALLOWED, principal=EVERYBODY)),
        ([replace(ALLOWED, principal="User:b")], WRITE, None),
        ([replace(ALLOWED, resource_type=GROUP)], WRITE, None),
    ],
)
def test_the_entry_that_decided_is_named(
    entries: list[AclBinding], operation: str, decided: AclBinding | None
) -> None:
    decision = AclState.made_of(1, entries).decide(APP, HERE, operation, TOPIC, "orders")
    assert decision.entry == decided
    assert decision.allowed == (decided is not None and decided.permission == ALLOW)
    assert decision.denied == (decided is not None and decided.permission == DENY)
    if decided is None:
        assert decision.reason == "no ACL allows it"


def test_a_host_that_is_no_address_has_what_everybody_has() -> None:
    state = AclState.made_of(1, [ALLOWED, replace(ALLOWED, operation=READ, host="10.0.0.0/8")])
    assert state.decide(APP, "?", WRITE, TOPIC, "orders").allowed
    assert not state.decide(APP, "?", READ, TOPIC, "orders").allowed
