"""The needs of applications are turned into ACLs here, and ACLs into decisions. Pure.

Decisions are made by the same code as in brokers (:mod:`oncelog_protocol.acl_state`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oncelog_protocol.acl_state import AclState
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DENY,
    DESCRIBE,
    EVERYBODY,
    GROUP,
    IDEMPOTENT_WRITE,
    IMPLIED_BY,
    LITERAL,
    OPERATIONS,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WILDCARD,
    WRITE,
    AclBinding,
    AclPattern,
    host_network,
    sentences,
)

__all__ = [
    "ALL",
    "ALLOW",
    "CLUSTER",
    "CLUSTER_NAME",
    "DENY",
    "EVERYBODY",
    "LITERAL",
    "OPERATIONS",
    "PREFIXED",
    "TOPIC",
    "WILDCARD",
    "AclAnswer",
    "AclNeed",
    "AclResources",
    "bindings",
    "decide",
    "made_useless",
    "needed_by_consumer",
    "needed_by_producer",
    "sentences",
]


@dataclass(frozen=True, slots=True)
class AclAnswer:
    """It says whether something is allowed, and why."""

    allowed: bool
    reason: str
    binding: AclBinding | None = None
    """This ACL decided; None: none did."""

    @property
    def denied(self) -> bool:
        """Return whether an ACL forbids it, rather than none allowing it."""
        return self.binding is not None and not self.allowed


class AclNeed(NamedTuple):
    """It is one operation on the resources of one pattern."""

    pattern: AclPattern
    operation: str


@dataclass(frozen=True, slots=True)
class AclResources:
    """It names resources, each alone or, with ``prefix``, all whose names begin so."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    cluster: bool = False
    prefix: bool = False

    def patterns(self) -> list[AclPattern]:
        """Return a pattern for each name, and one for the cluster."""
        found = [
            *self.of(TOPIC, self.topics),
            *self.of(GROUP, self.groups),
            *self.of(TRANSACTIONAL_ID, self.transactional_ids),
        ]
        return [*found, AclPattern(CLUSTER, LITERAL, CLUSTER_NAME)] if self.cluster else found

    def of(self, resource_type: str, names: Iterable[str]) -> list[AclPattern]:
        """Return a pattern for each name of one type. ``*`` is all names, also with ``prefix``."""
        return [
            AclPattern(
                resource_type, PREFIXED if self.prefix and name != WILDCARD else LITERAL, name
            )
            for name in dict.fromkeys(names)
        ]


def needed_by_producer(resources: AclResources) -> list[AclNeed]:
    """Return what a producer needs to write to the topics; with transactional ids in transactions,
    with groups also to commit their offsets in these."""
    both = [
        *resources.of(TOPIC, resources.topics),
        *resources.of(TRANSACTIONAL_ID, resources.transactional_ids),
    ]
    needs = [AclNeed(pattern, operation) for pattern in both for operation in (WRITE, DESCRIBE)]
    return [*needs, *(AclNeed(each, READ) for each in resources.of(GROUP, resources.groups))]


def needed_by_consumer(resources: AclResources) -> list[AclNeed]:
    """Return what a consumer needs to read the topics, as a member of the groups if there are
    any."""
    topics = resources.of(TOPIC, resources.topics)
    needs = [AclNeed(pattern, operation) for pattern in topics for operation in (READ, DESCRIBE)]
    return [*needs, *(AclNeed(each, READ) for each in resources.of(GROUP, resources.groups))]


def bindings(
    needs: Iterable[AclNeed],
    principals: Iterable[str],
    *,
    permission: str = ALLOW,
    hosts: Iterable[str] = (WILDCARD,),
) -> list[AclBinding]:
    """Return the ACLs that give, or with DENY refuse, principals what is needed from hosts.

    :raises InvalidRequestError: one of them could not do what it says.
    """
    hosts = tuple(hosts)
    needs = tuple(needs)
    found = [
        AclBinding(*need.pattern, principal, host, need.operation, permission).checked()
        for principal in principals
        for host in hosts
        for need in needs
    ]
    return list(dict.fromkeys(found))


def decide(
    acls: Iterable[AclBinding],
    principal: str,
    operation: str,
    resource_type: str,
    name: str,
    host: str = "",
) -> AclAnswer:
    """Return what brokers decide by these ACLs, for a principal that is no super user.

    Without ``host`` ACLs of certain hosts do not count. Creating a topic is also allowed by CREATE
    on the cluster, and IDEMPOTENT_WRITE by WRITE on some topic (KIP-679), if it is not denied.
    """
    state = AclState.made_of(0, acls)
    decision = state.decide(principal, host, operation, resource_type, name)
    answer = AclAnswer(decision.allowed, decision.reason, decision.entry)
    if answer.allowed or answer.denied:
        return answer
    implied = decision
    if (operation, resource_type) == (CREATE, TOPIC):
        implied = state.decide(principal, host, CREATE, CLUSTER, CLUSTER_NAME)
    elif (operation, resource_type) == (IDEMPOTENT_WRITE, CLUSTER):
        implied = state.decide_any(principal, host, WRITE, TOPIC)
    if not implied.allowed:
        return answer
    return AclAnswer(True, f"{implied.reason}, which implies it", implied.entry)


def made_useless(acls: Iterable[AclBinding]) -> Iterator[tuple[AclBinding, AclBinding]]:
    """Yield each ALLOW that allows nothing, with a DENY that is to blame."""
    every = list(acls)
    denials: dict[tuple[str, str], list[AclBinding]] = {}
    for entry in every:
        if entry.permission == DENY:
            denials.setdefault((entry.principal, entry.resource_type), []).append(entry)
    for entry in every:
        if entry.permission == DENY:
            continue
        against = [
            denial
            for principal in dict.fromkeys((entry.principal, EVERYBODY))
            for denial in denials.get((principal, entry.resource_type), ())
            if _covers(denial, entry)
        ]
        given = [entry.operation, *(op for op, by in IMPLIED_BY.items() if entry.operation in by)]
        if against and all(any(d.operation in (op, ALL) for d in against) for op in given):
            yield entry, against[0]


def _covers(denial: AclBinding, entry: AclBinding) -> bool:
    """Return whether a denial is of all names and hosts that an entry is of."""
    if denial.pattern_type == PREFIXED:
        names = entry.name != WILDCARD and entry.name.startswith(denial.name)
    else:
        names = denial.name == WILDCARD or denial.pattern == entry.pattern
    return names and _covers_host(denial.host, entry.host)


def _covers_host(whole: str, part: str) -> bool:
    outer, inner = host_network(whole), host_network(part)
    if outer is None or inner is None:
        return outer is None
    if isinstance(outer, ipaddress.IPv4Network):
        return isinstance(inner, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, ipaddress.IPv6Network) and inner.subnet_of(outer)
