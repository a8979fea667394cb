"""Brokers of a command line and Kafka's reassignment files are parsed, or refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog_cli.reassignment_text import parse_brokers, parse_reassignments


def test_brokers() -> None:
    assert parse_brokers("4, 1,2") == [4, 1, 2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "expected ids"), ("1,,2", "expected ids"), ("1,-2", "expected"), ("1,2,1", "broker 1")],
)
def test_no_brokers(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_brokers(text)


def row(**changed: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "replicas": [1, 2], **changed}


def test_kafkas_file() -> None:
    rows = [row(log_dirs=["any", "any"]), row(partition=3, replicas=[5])]
    text = json.dumps({"version": 1, "partitions": rows})
    assert parse_reassignments(text) == {("t", 0): [1, 2], ("t", 3): [5]}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "no list"),
        ({"partitions": []}, "nothing in it"),
        ({"partitions": [row(topic="")]}, "names no topic"),
        ({"partitions": [row(partition=-1)]}, "names no partition"),
        ({"partitions": [row(partition=True)]}, "names no partition"),
        ({"partitions": [row(replicas=[])]}, "replicas"),
        ({"partitions": [row(replicas=["1"])]}, "replicas"),
        ({"partitions": [row(replicas=[1, 1])]}, "t-0: broker 1 is there twice"),
        ({"partitions": [row(), row()]}, "t-0 is named twice"),
        ({"partitions": [row(log_dirs=["/data2", "any"])]}, "log directories"),
    ],
)
def test_what_is_no_such_file(document: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_reassignments(json.dumps(document))


def test_what_is_no_json() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        parse_reassignments("nonsense")
