"""The command that would allow something is one that can be pasted."""

from __future__ import annotations

import pytest

from oncelog.core.denials import allowing_command


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
