"""A denial says what is missing, and the command that would allow it is one that can be pasted."""

from __future__ import annotations

import pytest

from oncelog.core.denials import allowing_command, explained, or_hidden
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.identity import UNRECOGNISED, Recognition


@pytest.mark.parametrize(
    ("operation", "resource_type", "name", "words"),
    [
        ("WRITE", "TOPIC", "orders", "--producer --topic orders"),
        ("READ", "TOPIC", "orders", "--consumer --topic orders"),
        ("READ", "GROUP", "a b", "--consumer --group 'a b'"),
        ("WRITE", "TRANSACTIONAL_ID", "pay", "--producer --transactional-id pay"),
        ("DELETE", "TOPIC", "orders", "--operation DELETE --topic orders"),
        ("DESCRIBE", "GROUP", "team", "--operation DESCRIBE --group team"),
        ("ALTER", "CLUSTER", "oncelog-cluster", "--operation ALTER --cluster"),
    ],
)
def test_the_command(operation: str, resource_type: str, name: str, words: str) -> None:
    found = allowing_command("User:app", operation, resource_type, name)
    assert found == f"oncelog acls add --allow User:app {words}"


@pytest.mark.parametrize(
    ("kind", "operation", "name", "told"),
    [
        (
            TopicAuthorizationFailedError,
            "WRITE",
            "orders",
            "may not WRITE topic orders: "
            "oncelog acls add --allow User:app --producer --topic orders",
        ),
        (
            GroupAuthorizationFailedError,
            "READ",
            "g",
            "may not READ group g: oncelog acls add --allow User:app --consumer --group g",
        ),
        (
            TransactionalIdAuthorizationFailedError,
            "WRITE",
            "pay",
            "may not WRITE transactional id pay: "
            "oncelog acls add --allow User:app --producer --transactional-id pay",
        ),
        (
            ClusterAuthorizationFailedError,
            "ALTER",
            "oncelog-cluster",
            "may not ALTER the cluster: "
            "oncelog acls add --allow User:app --operation ALTER --cluster",
        ),
        (
            ClusterAuthorizationFailedError,
            "IDEMPOTENT_WRITE",
            "oncelog-cluster",
            "may not WRITE any topic: oncelog acls add --allow User:app --producer --topic TOPIC",
        ),
    ],
)
def test_a_denial(kind: type[ApiError], operation: str, name: str, told: str) -> None:
    error = explained(kind("whatever the broker says"), "User:app", operation, name)
    assert (type(error), str(error)) == (kind, told)


def test_an_unknown_principal_has_a_place_and_other_errors_stay() -> None:
    denied = explained(TopicAuthorizationFailedError(), "", "READ", "t")
    assert str(denied).endswith("--allow User:NAME --consumer --topic t")
    other = UnknownTopicOrPartitionError("t")
    assert explained(other, "User:app", "READ", "t") is other


def test_what_is_not_there_may_be_hidden_where_acls_decide() -> None:
    told = or_hidden(Recognition("User:app", "SCRAM-SHA-256", "external", "acl"), "orders")
    command = allowing_command("User:app", "WRITE", "TOPIC", "orders")
    assert told == f", or User:app may not see it: {command} (--consumer to read it)"
    assert or_hidden(Recognition("User:app", "SCRAM-SHA-256", "external", "none"), "orders") == ""
    assert or_hidden(UNRECOGNISED, "orders") == ""
