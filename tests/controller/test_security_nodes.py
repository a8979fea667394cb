"""The nodes below /security hold what was written, and garbage in them is told as such."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller import security_nodes
from oncelog_controller.security import ClusterSecurity, StoredAcls
from oncelog_controller.store import Create, Delete, SetData
from oncelog_controller.znodes import CorruptNodeError
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    AclBinding,
    AclPattern,
)

ENTRY = AclBinding(TOPIC, LITERAL, "orders", "User:app", "10.0.0.0/8", READ, ALLOW)
PATH = security_nodes.acls_path(ENTRY.pattern)

# ---- security_nodes.py: paths and contents


@given(st.text(min_size=1, max_size=40).filter(lambda name: name.isprintable() and "*" not in name))
def test_any_name_is_one_node_and_comes_back(name: str) -> None:
    pattern = AclPattern(GROUP, LITERAL, name)
    path = security_nodes.acls_path(pattern)
    assert path.count("/") == 5
    assert security_nodes.pattern_of(path) == pattern


def test_entries_come_back() -> None:
    entries = (ENTRY, replace(ENTRY, principal="User:*", host="*", operation=ALL))
    data = security_nodes.encode_acls(entries)
    assert security_nodes.decode_acls(PATH, data) == entries
    assert b'"principal":"User:app","host":"10.0.0.0/8","operation":"READ"' in data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[{}]}',
        b'{"version":1,"acls":["READ"]}',
        security_nodes.encode_acls([replace(ENTRY, operation="FLY")]),
        security_nodes.encode_acls([replace(ENTRY, host="nowhere")]),
        security_nodes.encode_acls([ENTRY]).replace(b'"User:app"', b"7"),
    ],
)
@pytest.mark.hostile(55)
def test_garbage_is_not_taken_for_acls(data: bytes) -> None:
    with pytest.raises(CorruptNodeError, match=PATH):
        security_nodes.decode_acls(PATH, data)


@pytest.mark.parametrize("name", ["%", "a", "_w", "a=b"])
def test_a_node_whose_name_is_no_pattern(name: str) -> None:
    with pytest.raises(CorruptNodeError, match="its name is not base64url"):
        security_nodes.pattern_of(f"/security/acls/TOPIC/LITERAL/{name}")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (security_nodes.acls_path(AclPattern(TOPIC, LITERAL, "a b")), "no topic can have the name"),
        (security_nodes.acls_path(AclPattern(TOPIC, LITERAL, "x" * 250)), "no topic can have"),
        (security_nodes.acls_path(AclPattern(GROUP, LITERAL, "\0")), "printable characters"),
        (security_nodes.acls_path(AclPattern(TOPIC, PREFIXED, "*")), "PREFIXED"),
        (security_nodes.acls_path(AclPattern(CLUSTER, LITERAL, "kafka-cluster")), "another way"),
        ("/security/acls/TOPIC/LITERAL/YR", "another way"),
    ],
)
@pytest.mark.hostile(55)
def test_a_node_whose_name_is_one_that_nothing_can_have(path: str, says: str) -> None:
    """Brokers would refuse an order with it, and go on with what they were told before."""
    with pytest.raises(CorruptNodeError, match=says):
        security_nodes.pattern_of(path)


def test_a_node_is_made_set_or_deleted_by_what_is_known_of_it() -> None:
    known = StoredAcls((ENTRY,), 4)
    assert security_nodes.write_node(PATH, b"x", None) == [Create(PATH, b"x")]
    assert security_nodes.write_node(PATH, b"x", known) == [SetData(PATH, b"x", 4)]
    assert security_nodes.write_node(PATH, None, known) == [Delete(PATH, 4)]
    assert security_nodes.write_node(PATH, None, None) == []


# ---- security.py: what is known follows what is written


def test_what_was_written_is_what_is_known() -> None:
    security = ClusterSecurity(5)
    other = replace(ENTRY, name="payments")
    first = {ENTRY.pattern: [ENTRY], other.pattern: [other]}
    version, *ops = security_nodes.write(security, first, 0)
    assert version == SetData("/security/version", security_nodes.encode_version(6), 5)
    assert [type(op) for op in ops] == [Create, Create]
    ahead, *_ = security_nodes.write(security, first, 2)
    assert ahead == SetData("/security/version", security_nodes.encode_version(8), 7)
    security.take(first)
    changed = {ENTRY.pattern: [ENTRY, replace(ENTRY, host="*")], other.pattern: []}
    _, change, delete = security_nodes.write(security, changed, 0)
    assert isinstance(change, SetData)
    assert (change.path, change.version) == (PATH, 0)
    assert delete == Delete(security_nodes.acls_path(other.pattern), 0)
    security.take(changed)
    assert security.version == 7
    assert security.acls == {ENTRY.pattern: StoredAcls((ENTRY, replace(ENTRY, host="*")), 1)}
    assert security.of(other.pattern) == ()
    assert security.entries() == [ENTRY, replace(ENTRY, host="*")]
