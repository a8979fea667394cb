"""Options become ACLs and filters, or are refused with what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import AclBinding, AclBindingFilter
from oncelog.admin.acl_rights import sentences
from oncelog_cli.acl_options import (
    AclWords,
    operation_word,
    parse_resource,
    principal_of,
    row_of,
    sorted_bindings,
)
from oncelog_cli.exits import UsageError

APP: dict[str, Any] = {"allow": ["User:app"]}
WRITE = AclBinding("TOPIC", "LITERAL", "orders", "User:app", "*", "WRITE", "ALLOW")


def test_acls_of_operations() -> None:
    words = AclWords(
        deny=["User:*"], operations=["describe-configs"], cluster=True, hosts=["10.0.0.1"]
    )
    assert sentences(words.bindings()) == [
        "Everybody may not DESCRIBE_CONFIGS the cluster from 10.0.0.1"
    ]


def test_acls_of_producers_and_consumers() -> None:
    words = AclWords(**APP, topics=["t"], groups=["g"], producer=True, consumer=True)
    assert sentences(words.bindings()) == [
        "User:app may WRITE, DESCRIBE and READ topic t from anywhere",
        "User:app may READ group g from anywhere",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"topics": ["t"], "producer": True}, "for whom?"),
        ({**APP, "producer": True}, "on what?"),
        ({**APP, "operations": ["READ"]}, "on what?"),
        ({**APP, "topics": ["t"]}, "what?"),
        ({**APP, "topics": ["t"], "producer": True, "operations": ["READ"]}, "leave out"),
        ({**APP, "topics": ["t"], "producer": True, "cluster": True}, "of the cluster itself"),
        ({**APP, "consumer": True, "transactional_ids": ["x"]}, "is of a --producer"),
        ({**APP, "topics": ["t*"], "producer": True}, "has a '\\*' within it"),
        ({"allow": ["app"], "topics": ["t"], "producer": True}, "is no principal"),
        ({**APP, "topics": ["t"], "producer": True, "hosts": ["localhost"]}, "is no host"),
    ],
)
def test_what_is_missing_or_wrong(words: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        AclWords(**words).bindings()


def test_the_filters_of_what_add_wrote_choose_it_and_nothing_else() -> None:
    words = AclWords(**APP, topics=["orders"], producer=True)
    filters = words.filters()
    other = AclBinding("TOPIC", "PREFIXED", "orders", "User:app", "*", "WRITE", "ALLOW")
    assert all(any(each.matches(acl) for each in filters) for acl in words.bindings())
    assert not any(each.matches(other) for each in filters)


def test_what_is_left_out_of_a_filter_may_be_anything() -> None:
    assert AclWords().filters(["app"]) == [AclBindingFilter(principal="User:app")]
    assert AclWords(deny=["User:*"], operations=["read"], hosts=["10.0.0.1"]).filters() == [
        AclBindingFilter(principal="User:*", operation="READ", host="10.0.0.1", permission="DENY")
    ]
    assert AclWords(groups=["g"], prefix=True).filters() == [
        AclBindingFilter("GROUP", "PREFIXED", "g")
    ]


def test_a_filter_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="which"):
        AclWords().filters()
    with pytest.raises(UsageError, match="is no operation"):
        AclWords(operations=["sleep"]).filters()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("topic:a:b", ("TOPIC", "a:b")),
        ("Group:g", ("GROUP", "g")),
        ("transactional-id:x", ("TRANSACTIONAL_ID", "x")),
        ("cluster", ("CLUSTER", "oncelog-cluster")),
    ],
)
def test_a_resource(text: str, found: tuple[str, str]) -> None:
    assert parse_resource(text) == found


@pytest.mark.parametrize("text", ["", "topic", "topic:", "cluster:x", "user:app", ":x"])
def test_what_is_no_resource(text: str) -> None:
    with pytest.raises(ValueError, match="topic:NAME"):
        parse_resource(text)


def test_words() -> None:
    assert principal_of("app") == principal_of("User:app") == "User:app"
    assert operation_word("describe-configs") == "DESCRIBE_CONFIGS"


def test_rows_are_sorted_and_each_is_there_once() -> None:
    read = AclBinding("TOPIC", "LITERAL", "orders", "User:app", "*", "READ", "ALLOW")
    assert sorted_bindings([WRITE, read, WRITE]) == [read, WRITE]
    assert list(row_of(WRITE).values())[:3] == ["User:app", "ALLOW", "WRITE"]
