"""The nodes below ``/security`` have their paths and contents here. Pure.

All ACLs of one pattern are one node, so that no change can lose some of them (CVE-2024-27309).
``/security/version`` is set in every multi that changes something below: its own version is the one
that brokers are told.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping

from oncelog_controller import znodes
from oncelog_controller.security import ClusterSecurity, StoredAcls, StoredQuotas, StoredUser
from oncelog_controller.store import Create, Delete, Op, SetData
from oncelog_protocol.acls import (
    ALL,
    DENY,
    EVERYBODY,
    LITERAL,
    OPERATIONS,
    PREFIXED,
    WILDCARD,
    AclBinding,
    AclPattern,
)
from oncelog_protocol.errors import InvalidRequestError

VERSION = "/security/version"
ACLS = "/security/acls"
ACL_PARENTS = tuple(
    f"{ACLS}/{resource_type}/{pattern_type}"
    for resource_type in OPERATIONS
    for pattern_type in (LITERAL, PREFIXED)
)
"""All nodes of ACLs are below these, which are made before them."""


def encode_name(name: str) -> str:
    """Return a name as a part of a path: base64url, since names may hold a '/'."""
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def decode_name(path: str, encoded: str) -> str:
    """Return the name that ``encoded``, a part of ``path``, stands for.

    :raises CorruptNodeError: it stands for none.
    """
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as exc:
        raise znodes.CorruptNodeError(f"{path}: its name is not base64url: {exc}") from None


def acls_path(pattern: AclPattern) -> str:
    """Return the path of one pattern's ACLs."""
    return f"{ACLS}/{pattern.resource_type}/{pattern.pattern_type}/{encode_name(pattern.name)}"


def pattern_of(path: str) -> AclPattern:
    """Return the pattern whose ACLs are at ``path``.

    :raises CorruptNodeError: no pattern has such a path. What it is of can have no name of this
        release, so there is nothing to deny; brokers would refuse it, and with it all that they are
        told beside it.
    """
    resource_type, pattern_type, name = path.removeprefix(ACLS + "/").split("/")
    pattern = AclPattern(resource_type, pattern_type, decode_name(path, name))
    try:
        (entry,) = closed(pattern)
        possible = entry.checked().pattern == pattern and acls_path(pattern) == path
    except InvalidRequestError as exc:
        raise znodes.CorruptNodeError(f"{path}: {exc}") from None
    if not possible:
        raise znodes.CorruptNodeError(f"{path}: its name is spelt in another way")
    return pattern


def encode_version(version: int) -> bytes:
    """Encode /security/version, for people; what counts is the version of the node itself."""
    return znodes.dump({"security_version": version})


def encode_acls(entries: Iterable[AclBinding]) -> bytes:
    """Encode the ACLs of one pattern."""
    rows = [
        {
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation,
            "permission": entry.permission,
        }
        for entry in entries
    ]
    return znodes.dump({"acls": rows})


def decode_acls(path: str, data: bytes) -> tuple[AclBinding, ...]:
    """Return the ACLs of one pattern. :raises CorruptNodeError: it is damaged, or of a release of
    tomorrow."""
    pattern = pattern_of(path)
    rows = znodes.load(path, data).get("acls")
    try:
        if not isinstance(rows, list):
            raise ValueError("acls is not a list")
        found = [
            AclBinding(
                *pattern, row["principal"], row["host"], row["operation"], row["permission"]
            ).checked()
            for row in rows
        ]
    except (AttributeError, InvalidRequestError, KeyError, TypeError, ValueError) as exc:
        raise znodes.CorruptNodeError(f"{path}: {exc!r}") from None
    return tuple(found)


def closed(pattern: AclPattern) -> tuple[AclBinding, ...]:
    """Return what stands for the ACLs of a node that cannot be read: nobody may do anything to what
    it was of, since some of them may have denied it."""
    return (AclBinding(*pattern, EVERYBODY, WILDCARD, ALL, DENY),)


def set_version(version: int) -> SetData:
    """Return what makes the version after ``version`` of it."""
    return SetData(VERSION, encode_version(version + 1), version)


def write_node(
    path: str, data: bytes | None, known: StoredAcls | StoredUser | StoredQuotas | None
) -> list[Op]:
    """Return what makes a node hold ``data``, or be gone (None), when so much is ``known`` of it;
    None: it is not there."""
    if data is None:
        return [] if known is None else [Delete(path, known.version)]
    return [Create(path, data) if known is None else SetData(path, data, known.version)]


def write(
    security: ClusterSecurity, changes: Mapping[AclPattern, Collection[AclBinding]], ahead: int
) -> list[Op]:
    """Return what writes the patterns as they are to be, when ``ahead`` such writes are on their
    way already."""
    ops: list[Op] = [set_version(security.version + ahead)]
    for pattern, entries in changes.items():
        data = encode_acls(entries) if entries else None
        ops += write_node(acls_path(pattern), data, security.acls.get(pattern))
    return ops
