"""An ACL says who may, or may not, do what to which resource: its words, its checks, its filters.

Names and meanings are Kafka's (KIP-11, KIP-290, KIP-679), with these differences:

* What can never match, or does not match what its writer means, is refused with the reason: a name
  with ``*`` in it, an empty prefix or ``*`` as a prefix, an operation that the type does not have.
* The host may be a block of addresses.
* The cluster's name is ``oncelog-cluster``; ``kafka-cluster`` is taken for it.

An entry is checked where it is made (:meth:`AclBinding.checked`), and by the controller again.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from oncelog_protocol import limits
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.schema import Name

CLUSTER = "CLUSTER"
TOPIC = "TOPIC"
GROUP = "GROUP"
TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
CLUSTER_NAME = "oncelog-cluster"
KAFKA_CLUSTER_NAME = "kafka-cluster"

READ = "READ"
WRITE = "WRITE"
CREATE = "CREATE"
DELETE = "DELETE"
ALTER = "ALTER"
DESCRIBE = "DESCRIBE"
CLUSTER_ACTION = "CLUSTER_ACTION"
DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
ALTER_CONFIGS = "ALTER_CONFIGS"
IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"
ALL = "ALL"
"""An ACL of it is one of every operation; no handler asks for it."""

LITERAL = "LITERAL"
PREFIXED = "PREFIXED"
ALLOW = "ALLOW"
DENY = "DENY"
ANY = "ANY"
"""It stands for every word of the field, in a filter."""
MATCH = "MATCH"
"""It stands for the patterns that are of one resource, in a filter: its name, prefixes, ``*``."""

WILDCARD = "*"
USER = "User:"
EVERYBODY = "User:*"
PRINCIPAL_CHARS_MAX = 255
"""Characters of a principal's name without ``User:``."""

OPERATIONS = {
    TOPIC: (
        READ,
        WRITE,
        CREATE,
        DELETE,
        ALTER,
        DESCRIBE,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        ALL,
    ),
    GROUP: (READ, DELETE, DESCRIBE, ALL),
    TRANSACTIONAL_ID: (WRITE, DESCRIBE, ALL),
    CLUSTER: (
        CREATE,
        ALTER,
        DESCRIBE,
        CLUSTER_ACTION,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        IDEMPOTENT_WRITE,
        ALL,
    ),
}
"""The operations that each type of resource has."""

IMPLIED_BY = {
    DESCRIBE: (READ, WRITE, DELETE, ALTER),
    DESCRIBE_CONFIGS: (ALTER_CONFIGS,),
}
"""An ALLOW of one of these operations is one of the operation that they stand beside."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_ALL_OPERATIONS = tuple(dict.fromkeys(word for words in OPERATIONS.values() for word in words))


class AclPattern(NamedTuple):
    """It names the resources that an entry is of."""

    resource_type: str
    pattern_type: str
    name: str


@dataclass(frozen=True, slots=True)
class AclBinding:
    """It allows or denies a principal one operation from one host on one pattern."""

    resource_type: Name
    pattern_type: Name
    name: Name
    principal: Name
    host: Name
    operation: Name
    permission: Name

    @property
    def pattern(self) -> AclPattern:
        """Return which resources it is of."""
        return AclPattern(self.resource_type, self.pattern_type, self.name)

    def checked(self) -> AclBinding:
        """Return the entry in the one spelling in which it is kept.

        :raises InvalidRequestError: a word is not known, or the entry could not do what it says.
        """
        _check_word("resource type", self.resource_type, tuple(OPERATIONS))
        _check_word("pattern type", self.pattern_type, (LITERAL, PREFIXED))
        _check_word("permission", self.permission, (ALLOW, DENY))
        _check_word(
            f"operation of {self.resource_type}", self.operation, OPERATIONS[self.resource_type]
        )
        name = _cluster_name(self.resource_type, self.name)
        _check_name(self.resource_type, self.pattern_type, name)
        check_principal(self.principal)
        return replace(self, name=name, host=_checked_host(self.host))

    def sentence(self) -> str:
        """Return what it says, as people would."""
        (text,) = sentences([self])
        return text


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """It chooses entries: ``ANY``, and None for names, leave a field open."""

    resource_type: Name = ANY
    pattern_type: Name = ANY
    name: Name | None = None
    principal: Name | None = None
    host: Name | None = None
    operation: Name = ANY
    permission: Name = ANY

    def checked(self) -> AclBindingFilter:
        """Return the filter in the spelling in which entries are kept.

        :raises InvalidRequestError: a word is not known, so that nothing could match.
        """
        _check_word("resource type", self.resource_type, (ANY, *OPERATIONS))
        _check_word("pattern type", self.pattern_type, (ANY, MATCH, LITERAL, PREFIXED))
        _check_word("operation", self.operation, (ANY, *_ALL_OPERATIONS))
        _check_word("permission", self.permission, (ANY, ALLOW, DENY))
        name = None if self.name is None else _cluster_name(self.resource_type, self.name)
        host = None if self.host is None else _checked_host(self.host)
        if self.principal is not None:
            check_principal(self.principal)
        return replace(self, name=name, host=host)

    @property
    def pattern(self) -> AclPattern | None:
        """Return the one pattern whose entries it may choose; None when it names none."""
        if ANY in (self.resource_type, self.pattern_type) or self.name is None:
            return None
        if self.pattern_type == MATCH:
            return None
        return AclPattern(self.resource_type, self.pattern_type, self.name)

    def matches(self, entry: AclBinding) -> bool:
        """Return whether the filter chooses the entry."""
        return (
            self.resource_type in (ANY, entry.resource_type)
            and self._matches_name(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (ANY, entry.operation)
            and self.permission in (ANY, entry.permission)
        )

    def _matches_name(self, entry: AclBinding) -> bool:
        if self.pattern_type not in (ANY, MATCH, entry.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != MATCH:
            return self.name == entry.name
        if entry.pattern_type == PREFIXED:
            return self.name.startswith(entry.name)
        return entry.name in (self.name, WILDCARD)


def sentences(entries: Iterable[AclBinding]) -> list[str]:
    """Return what entries say, as people would: one sentence for those that differ in the operation
    alone, in the order in which they came first."""
    groups: dict[AclBinding, list[str]] = {}
    for entry in entries:
        groups.setdefault(replace(entry, operation=ALL), []).append(entry.operation)
    return [_sentence(entry, operations) for entry, operations in groups.items()]


def host_network(host: str) -> Network | None:
    """Return the addresses that an entry's host stands for, in its checked spelling; None for
    ``*``."""
    return None if host == WILDCARD else ipaddress.ip_network(host)


def peer_address(host: str) -> Address | None:
    """Return the address of a peer, IPv4 within IPv6 as IPv4; None when it is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _sentence(entry: AclBinding, operations: Sequence[str]) -> str:
    who = "Everybody" if entry.principal == EVERYBODY else entry.principal
    allowed = entry.permission == ALLOW
    if ALL in operations:
        what = "do everything to" if allowed else "do anything to"
    else:
        *first, last = dict.fromkeys(operations)
        link = " and " if allowed else " or "
        what = (", ".join(first) + link if first else "") + last
    where = "anywhere" if entry.host == WILDCARD else entry.host
    verb = "may" if allowed else "may not"
    return f"{who} {verb} {what} {_resource(entry)} from {where}"


def _resource(entry: AclBinding) -> str:
    if entry.resource_type == CLUSTER:
        return "the cluster"
    kind = entry.resource_type.lower().replace("_", " ")
    if entry.pattern_type == PREFIXED:
        return f"every {kind} whose name begins with {entry.name}"
    return f"every {kind}" if entry.name == WILDCARD else f"{kind} {entry.name}"


def _check_word(what: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise InvalidRequestError(f"{word[:60]!r} is no {what}; known are {', '.join(words)}")


def _cluster_name(resource_type: str, name: str) -> str:
    kafkas = resource_type == CLUSTER and name == KAFKA_CLUSTER_NAME
    return CLUSTER_NAME if kafkas else name


def _check_name(resource_type: str, pattern_type: str, name: str) -> None:
    if resource_type == CLUSTER:
        if pattern_type != LITERAL or name not in (CLUSTER_NAME, WILDCARD):
            raise InvalidRequestError(
                f"an ACL of the cluster is LITERAL and has the name {CLUSTER_NAME}"
            )
        return
    if pattern_type == PREFIXED:
        if name in ("", WILDCARD):
            raise InvalidRequestError(
                f"{name!r} is no prefix: all names are the pattern LITERAL with the name '*'"
            )
    elif name == WILDCARD:
        return
    elif not name:
        raise InvalidRequestError("the name is empty")
    if WILDCARD in name:
        raise InvalidRequestError(
            f"{name[:60]!r} has a '*' within it, which would stand for itself: the names that "
            "begin alike are the pattern PREFIXED with what they begin with"
        )
    _check_characters(resource_type, pattern_type, name)


def _check_characters(resource_type: str, pattern_type: str, name: str) -> None:
    if resource_type == TOPIC:
        begins = pattern_type == PREFIXED and limits.TOPIC_PATTERN.fullmatch(name) is not None
        if not begins and not limits.is_legal_topic(name):
            raise InvalidRequestError(
                f"no topic can have the name {name[:60]!r}: 1 to {limits.TOPIC_CHARS_MAX} letters, "
                "digits, '.', '_' or '-' are possible"
            )
    elif len(name) > limits.NAME_CHARS_MAX or not name.isprintable():
        raise InvalidRequestError(
            f"the name {name[:60]!r} is not of 1 to {limits.NAME_CHARS_MAX} printable characters"
        )


def check_principal(principal: str) -> None:
    """:raises InvalidRequestError: it is not User:name, or no name can be so."""
    name = principal.removeprefix(USER)
    if not principal.startswith(USER) or not 1 <= len(name) <= PRINCIPAL_CHARS_MAX:
        raise InvalidRequestError(
            f"{principal[:60]!r} is no principal: 'User:' and a name of 1 to "
            f"{PRINCIPAL_CHARS_MAX} characters, or 'User:*' for everybody"
        )
    if not name.isprintable() or (WILDCARD in name and name != WILDCARD):
        raise InvalidRequestError(
            f"the name of principal {principal[:60]!r} has a '*' within it or a character that "
            "cannot be printed"
        )


def _checked_host(host: str) -> str:
    """Return the one spelling of a host: ``*``, an address, or a block of addresses."""
    if host == WILDCARD:
        return host
    try:
        network = ipaddress.ip_network(host, strict=False)
    except ValueError:
        raise InvalidRequestError(
            f"{host[:60]!r} is no host: '*', an IP address or a block like 10.1.0.0/16 is "
            "possible, a host's name is not"
        ) from None
    if "/" in host and ipaddress.ip_address(host.partition("/")[0]) != network.network_address:
        raise InvalidRequestError(f"{host} is an address within a block; the block is {network}")
    first = peer_address(str(network.network_address))
    if first is None or network.prefixlen < network.max_prefixlen - first.max_prefixlen:
        return str(network)
    length = network.prefixlen - network.max_prefixlen + first.max_prefixlen
    return str(first) if length == first.max_prefixlen else f"{first}/{length}"
