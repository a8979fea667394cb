"""ACLs are refused with the reason, chosen by filters, and told to people as sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    ALTER_CONFIGS,
    ANY,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DENY,
    DESCRIBE,
    EVERYBODY,
    GROUP,
    LITERAL,
    MATCH,
    OPERATIONS,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WILDCARD,
    WRITE,
    AclBinding,
    AclBindingFilter,
    host_network,
    peer_address,
    sentences,
)
from oncelog_protocol.errors import InvalidRequestError

ENTRY = AclBinding(TOPIC, LITERAL, "orders", "User:app", "*", WRITE, ALLOW)
CLUSTERS = AclBinding(CLUSTER, LITERAL, CLUSTER_NAME, "User:app", "*", CREATE, ALLOW)


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY,
        CLUSTERS,
        replace(CLUSTERS, name=WILDCARD, operation=CLUSTER_ACTION),
        replace(ENTRY, name=WILDCARD),
        replace(ENTRY, pattern_type=PREFIXED, name="."),
        replace(ENTRY, resource_type=GROUP, name="a/b c\u05d0", operation=READ),
        replace(ENTRY, principal=EVERYBODY, permission=DENY, operation=ALL),
        replace(ENTRY, principal="User:CN=app,O=x y"),
        replace(ENTRY, host="10.0.0.1"),
        replace(ENTRY, host="10.0.0.0/8"),
        replace(ENTRY, host="2001:db8::/32"),
    ],
)
def test_an_entry_that_can_match_is_taken_as_it_is(entry: AclBinding) -> None:
    assert entry.checked() == entry
    assert entry.pattern == (entry.resource_type, entry.pattern_type, entry.name)


@pytest.mark.parametrize("resource_type", OPERATIONS)
def test_each_operation_of_a_type_is_taken(resource_type: str) -> None:
    for operation in OPERATIONS[resource_type]:
        replace(
            CLUSTERS if resource_type == CLUSTER else ENTRY,
            resource_type=resource_type,
            operation=operation,
        ).checked()


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        (replace(CLUSTERS, name="kafka-cluster"), CLUSTERS),
        (replace(ENTRY, host="10.0.0.1/32"), replace(ENTRY, host="10.0.0.1")),
        (replace(ENTRY, host="::ffff:10.0.0.1"), replace(ENTRY, host="10.0.0.1")),
        (replace(ENTRY, host="::ffff:10.0.0.0/104"), replace(ENTRY, host="10.0.0.0/8")),
        (replace(ENTRY, host="::FFFE:0:0/95"), replace(ENTRY, host="::fffe:0:0/95")),
        (replace(ENTRY, host="2001:DB8:0::1"), replace(ENTRY, host="2001:db8::1")),
    ],
)
def test_one_thing_is_kept_in_one_spelling(entry: AclBinding, kept: AclBinding) -> None:
    assert entry.checked() == kept


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (replace(ENTRY, resource_type="TABLE"), "'TABLE' is no resource type; known are TOPIC"),
        (replace(ENTRY, pattern_type=MATCH), "'MATCH' is no pattern type"),
        (replace(ENTRY, permission=ANY), "'ANY' is no permission; known are ALLOW, DENY"),
        (replace(ENTRY, operation=ANY), "'ANY' is no operation of TOPIC"),
        (replace(ENTRY, operation=CLUSTER_ACTION), "'CLUSTER_ACTION' is no operation of TOPIC"),
        (replace(ENTRY, resource_type=GROUP), "'WRITE' is no operation of GROUP; known are READ"),
        (replace(CLUSTERS, name="orders"), "an ACL of the cluster is LITERAL and has the name"),
        (replace(CLUSTERS, pattern_type=PREFIXED), "an ACL of the cluster is LITERAL"),
        (replace(ENTRY, name=""), "the name is empty"),
        (replace(ENTRY, pattern_type=PREFIXED, name=""), "'' is no prefix: all names are"),
        (replace(ENTRY, pattern_type=PREFIXED, name="*"), "'\\*' is no prefix: all names are"),
        (replace(ENTRY, name="orders*"), "has a '\\*' within it, which would stand for itself"),
        (replace(ENTRY, pattern_type=PREFIXED, name="or*"), "PREFIXED with what they begin with"),
        (replace(ENTRY, name="a/b"), "no topic can have the name 'a/b'"),
        (replace(ENTRY, name=".."), "no topic can have the name '..'"),
        (replace(ENTRY, name="\u202eorders"), "no topic can have the name"),
        (replace(ENTRY, name="x" * 1_000_000), "no topic can have the name 'x{60}'"),
        (
            replace(ENTRY, resource_type=GROUP, operation=READ, name="g\u202e"),
            "is not of 1 to 1024 printable characters",
        ),
        (
            replace(ENTRY, resource_type=TRANSACTIONAL_ID, name="x" * 1_000_000),
            "the name 'x{60}' is not of 1 to 1024 printable characters",
        ),
        (replace(ENTRY, principal="app"), "'app' is no principal: 'User:' and a name"),
        (replace(ENTRY, principal="Group:app"), "'Group:app' is no principal"),
        (replace(ENTRY, principal="User:"), "'User:' is no principal"),
        (replace(ENTRY, principal="User:" + "x" * 256), "is no principal"),
        (replace(ENTRY, principal="User:a*"), "has a '\\*' within it"),
        (replace(ENTRY, principal="User:a\0"), "a character that cannot be printed"),
        (replace(ENTRY, host=""), "'' is no host"),
        (replace(ENTRY, host="broker-1"), "'broker-1' is no host: .* a host's name is not"),
        (
            replace(ENTRY, host="10.0.0.1/8"),
            "is an address within a block; the block is 10.0.0.0/8",
        ),
        (replace(ENTRY, host="10.0.0.0/33"), "is no host"),
    ],
)
@pytest.mark.hostile(44)
def test_what_cannot_do_what_it_says_is_refused_with_the_reason(
    entry: AclBinding, reason: str
) -> None:
    with pytest.raises(InvalidRequestError, match=reason) as refused:
        entry.checked()
    assert len(str(refused.value)) < 400


# ---- filters

ENTRIES = {
    "literal": ENTRY,
    "all": replace(ENTRY, name=WILDCARD, permission=DENY),
    "prefix": replace(ENTRY, pattern_type=PREFIXED, name="or", host="10.0.0.1"),
    "other": replace(ENTRY, name="payments", principal=EVERYBODY, operation=ALL),
    "group": replace(ENTRY, resource_type=GROUP, operation=READ),
    "cluster": CLUSTERS,
}


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (AclBindingFilter(), "literal all prefix other group cluster"),
        (AclBindingFilter(resource_type=TOPIC), "literal all prefix other"),
        (AclBindingFilter(name="orders"), "literal group"),
        (AclBindingFilter(TOPIC, LITERAL, "orders"), "literal"),
        (AclBindingFilter(TOPIC, LITERAL, "*"), "all"),
        (AclBindingFilter(TOPIC, PREFIXED), "prefix"),
        (AclBindingFilter(TOPIC, PREFIXED, "orders"), ""),
        (AclBindingFilter(TOPIC, MATCH, "orders"), "literal all prefix"),
        (AclBindingFilter(TOPIC, MATCH, "o"), "all"),
        (AclBindingFilter(TOPIC, MATCH), "literal all prefix other"),
        (AclBindingFilter(principal="User:app"), "literal all prefix group cluster"),
        (AclBindingFilter(principal=EVERYBODY), "other"),
        (AclBindingFilter(host="10.0.0.1"), "prefix"),
        (AclBindingFilter(host="*"), "literal all other group cluster"),
        (AclBindingFilter(operation=ALL), "other"),
        (AclBindingFilter(operation=READ), "group"),
        (AclBindingFilter(permission=DENY), "all"),
        (AclBindingFilter(CLUSTER, name="kafka-cluster"), "cluster"),
    ],
)
def test_a_filter_chooses_as_kafkas_does(wanted: AclBindingFilter, chosen: str) -> None:
    checked = wanted.checked()
    assert [name for name, entry in ENTRIES.items() if checked.matches(entry)] == chosen.split()


@pytest.mark.parametrize(
    "wanted",
    [
        AclBindingFilter(resource_type=MATCH),
        AclBindingFilter(pattern_type="REGEX"),
        AclBindingFilter(operation="ANYTHING"),
        AclBindingFilter(permission=ALL),
        AclBindingFilter(principal="app"),
        AclBindingFilter(host="localhost"),
    ],
)
def test_a_filter_that_can_choose_nothing_is_refused(wanted: AclBindingFilter) -> None:
    with pytest.raises(InvalidRequestError, match="is no "):
        wanted.checked()


# ---- hosts


def test_a_host_stands_for_addresses_and_a_peer_is_one() -> None:
    assert host_network("*") is None
    network = host_network("10.1.0.0/16")
    assert network is not None
    inside, mapped, outside = map(peer_address, ("10.1.2.3", "::ffff:10.1.2.3", "10.2.0.0"))
    assert inside in network
    assert mapped == inside
    assert outside not in network
    assert peer_address("fe80::1%eth0") == peer_address("fe80::1")
    assert peer_address("?") is None


# ---- sentences


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (ENTRY, "User:app may WRITE topic orders from anywhere"),
        (
            replace(ENTRY, principal=EVERYBODY, permission=DENY, operation=ALL, name="*"),
            "Everybody may not do anything to every topic from anywhere",
        ),
        (
            replace(ENTRY, pattern_type=PREFIXED, name="or", host="10.0.0.0/8"),
            "User:app may WRITE every topic whose name begins with or from 10.0.0.0/8",
        ),
        (
            replace(CLUSTERS, operation=ALTER_CONFIGS),
            "User:app may ALTER_CONFIGS the cluster from anywhere",
        ),
        (
            replace(ENTRY, resource_type=TRANSACTIONAL_ID, operation=ALL),
            "User:app may do everything to transactional id orders from anywhere",
        ),
    ],
)
def test_an_entry_is_told_as_a_sentence(entry: AclBinding, sentence: str) -> None:
    assert entry.sentence() == sentence


def test_entries_that_differ_in_the_operation_alone_are_one_sentence() -> None:
    denied = replace(ENTRY, permission=DENY)
    told = sentences(
        [
            ENTRY,
            replace(denied, operation=READ),
            replace(ENTRY, operation=DESCRIBE),
            replace(denied, operation=CREATE),
            denied,
            replace(ENTRY, host="10.0.0.1"),
        ]
    )
    assert told == [
        "User:app may WRITE and DESCRIBE topic orders from anywhere",
        "User:app may not READ, CREATE or WRITE topic orders from anywhere",
        "User:app may WRITE topic orders from 10.0.0.1",
    ]


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (AclBindingFilter(TOPIC, LITERAL, "orders", operation=READ), True),
        (AclBindingFilter(TOPIC, PREFIXED, "orders"), True),
        (AclBindingFilter(TOPIC, MATCH, "orders"), False),
        (AclBindingFilter(TOPIC, LITERAL), False),
        (AclBindingFilter(TOPIC, name="orders"), False),
        (AclBindingFilter(pattern_type=LITERAL, name="orders"), False),
    ],
)
def test_a_filter_that_names_one_pattern_says_so(wanted: AclBindingFilter, named: bool) -> None:
    pattern = wanted.pattern
    assert (pattern is not None) == named
    if pattern is not None:
        assert pattern == (TOPIC, wanted.pattern_type, "orders")
