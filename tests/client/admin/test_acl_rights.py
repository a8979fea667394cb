"""Applications get the ACLs that they need, and decisions are those of brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog import AclBinding
from oncelog.admin.acl_rights import (
    DENY,
    AclNeed,
    AclResources,
    bindings,
    decide,
    made_useless,
    needed_by_consumer,
    needed_by_producer,
    sentences,
)
from oncelog.errors import InvalidRequestError
from oncelog_protocol.acls import AclPattern

WRITE = AclBinding("TOPIC", "LITERAL", "orders", "User:app", "*", "WRITE", "ALLOW")


def test_a_producer() -> None:
    needs = needed_by_producer(AclResources(topics=["orders", "orders"]))
    assert sentences(bindings(needs, ["User:app"])) == [
        "User:app may WRITE and DESCRIBE topic orders from anywhere"
    ]
    whole = AclResources(["orders-"], ["team"], ["pay"], prefix=True)
    assert sentences(bindings(needed_by_producer(whole), ["User:app"], hosts=["10.0.0.1"])) == [
        "User:app may WRITE and DESCRIBE every topic whose name begins with orders- from 10.0.0.1",
        "User:app may WRITE and DESCRIBE every transactional id whose name begins with pay"
        " from 10.0.0.1",
        "User:app may READ every group whose name begins with team from 10.0.0.1",
    ]


def test_a_consumer() -> None:
    whole = AclResources(["*"], ["team"], prefix=True)
    assert sentences(bindings(needed_by_consumer(whole), ["User:a", "User:b"])) == [
        "User:a may READ and DESCRIBE every topic from anywhere",
        "User:a may READ every group whose name begins with team from anywhere",
        "User:b may READ and DESCRIBE every topic from anywhere",
        "User:b may READ every group whose name begins with team from anywhere",
    ]


def test_both_at_once_have_nothing_twice() -> None:
    whole = AclResources(["orders"], ["team"])
    needs = [*needed_by_producer(whole), *needed_by_consumer(whole)]
    found = bindings(needs, ["User:app"])
    assert len(found) == len(set(found)) == 4


def test_every_named_resource_is_a_pattern() -> None:
    whole = AclResources(["t"], ["g"], ["x"], cluster=True, prefix=True)
    assert whole.patterns() == [
        AclPattern("TOPIC", "PREFIXED", "t"),
        AclPattern("GROUP", "PREFIXED", "g"),
        AclPattern("TRANSACTIONAL_ID", "PREFIXED", "x"),
        AclPattern("CLUSTER", "LITERAL", "oncelog-cluster"),
    ]


def test_an_acl_that_could_not_do_what_it_says() -> None:
    need = AclNeed(AclPattern("GROUP", "LITERAL", "g"), "WRITE")
    with pytest.raises(InvalidRequestError, match="'WRITE' is no operation of GROUP"):
        bindings([need], ["User:app"])


def test_decisions() -> None:
    denial = replace(WRITE, principal="User:*", host="10.0.0.0/8", permission=DENY)
    acls = [WRITE, denial]
    assert decide(acls, "User:app", "WRITE", "TOPIC", "orders").binding == WRITE
    assert decide(acls, "User:app", "DESCRIBE", "TOPIC", "orders").allowed
    assert not decide(acls, "User:app", "READ", "TOPIC", "orders").allowed
    refused = decide(acls, "User:app", "WRITE", "TOPIC", "orders", "10.1.2.3")
    assert (refused.denied, refused.binding) == (True, denial)


def test_what_another_right_implies() -> None:
    asked = ("User:app", "IDEMPOTENT_WRITE", "CLUSTER", "oncelog-cluster")
    implied = decide([WRITE], *asked)
    assert (implied.allowed, implied.binding) == (True, WRITE)
    assert implied.reason.endswith("from anywhere, which implies it")
    denial = AclBinding(*asked[2:3], "LITERAL", asked[3], "User:app", "*", asked[1], DENY)
    assert decide([WRITE, denial], *asked).denied
    create = replace(denial, operation="CREATE", permission="ALLOW")
    assert decide([create], "User:app", "CREATE", "TOPIC", "new").binding == create
    assert not decide([create], "User:app", "CREATE", "GROUP", "new").allowed
    own = replace(WRITE, operation="CREATE", permission=DENY)
    assert decide([create, own], "User:app", "CREATE", "TOPIC", "orders").denied


@pytest.mark.parametrize(
    ("changes", "useless"),
    [
        ({"operation": "ALL"}, True),
        ({"operation": "ALL", "principal": "User:*"}, True),
        ({"operation": "ALL", "name": "*"}, True),
        ({"operation": "ALL", "name": "ord", "pattern_type": "PREFIXED"}, True),
        ({"operation": "ALL", "name": "ordx", "pattern_type": "PREFIXED"}, False),
        ({"operation": "ALL", "principal": "User:other"}, False),
        ({"operation": "ALL", "host": "10.0.0.1"}, False),
        ({"operation": "READ"}, False),
        # What may be written may be described, which this does not deny.
        ({}, False),
    ],
)
def test_what_allows_nothing(changes: dict[str, str], useless: bool) -> None:
    denial = replace(WRITE, permission=DENY, **changes)
    found = list(made_useless([WRITE, denial]))
    assert found == ([(WRITE, denial)] if useless else [])


def test_blocks_of_hosts_deny_what_is_within_them() -> None:
    reads = AclBinding("GROUP", "LITERAL", "g", "User:app", "10.0.0.1", "DELETE", "ALLOW")
    every = replace(reads, operation="ALL", permission=DENY)
    for host, useless in (("10.0.0.0/8", True), ("11.0.0.0/8", False), ("2001:db8::/32", False)):
        assert bool(list(made_useless([reads, replace(every, host=host)]))) is useless
    six = replace(reads, host="2001:db8::1")
    for host, useless in (("2001:db8::/32", True), ("10.0.0.0/8", False), ("*", True)):
        assert bool(list(made_useless([six, replace(every, host=host)]))) is useless
