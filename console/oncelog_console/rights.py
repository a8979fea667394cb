"""The console asks here what brokers let a visitor change, so that a control can say it.

Rules: the brokers decide; this only foretells what they would say, by the same code. What is not
known counts as allowed here: the brokers refuse it later. Rights are asked for as the console's own
user, at most every 30 s for each user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oncelog import AclBinding, Admin
from oncelog.admin.acl_rights import decide
from oncelog_cli.acl_remarks import BrokerRules, broker_rules
from oncelog_protocol.acls import (
    CLUSTER,
    CLUSTER_NAME,
    EVERYBODY,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    WILDCARD,
)
from oncelog_protocol.errors import OncelogError

RESTS_S = 30.0
WITHIN_S = 2.0
USERS_MAX = 1_000


class Need(NamedTuple):
    """A change needs this operation on this resource."""

    operation: str
    resource_type: str
    name: str

    def __str__(self) -> str:
        kind = self.resource_type.lower().replace("_", " ")
        return f"{self.operation} on " + (
            "the cluster" if self.resource_type == CLUSTER else f"{kind} {self.name}"
        )


OF_TOPIC = {
    "produce-record": "WRITE",
    "delete-records": "DELETE",
    "create-topic": "CREATE",
    "add-partitions": "ALTER",
    "delete-topic": "DELETE",
}
OF_GROUP = {
    "reset-offsets": "READ",
    "clone-group": "READ",
    "delete-group": "DELETE",
    "delete-offsets": "DELETE",
}


def needs_of(kind: str, values: Mapping[str, str]) -> list[Need]:
    """Return what a kind of change needs for these values of its form, as far as they tell."""
    if kind in OF_TOPIC:
        needs = [Need(OF_TOPIC[kind], TOPIC, values.get("topic", ""))]
    elif kind in OF_GROUP:
        needs = [Need(OF_GROUP[kind], GROUP, values.get("group", ""))]
    elif kind == "fence-producer":
        needs = [Need("WRITE", TRANSACTIONAL_ID, values.get("transactional_id", ""))]
    elif kind == "alter-configs" and values.get("of", "topic") == "topic":
        needs = [Need("ALTER_CONFIGS", TOPIC, values.get("name", ""))]
    elif kind == "alter-configs":
        needs = [Need("ALTER_CONFIGS", CLUSTER, CLUSTER_NAME)]
    elif kind in ("elect-preferred", "elect-unclean"):
        needs = [Need("ALTER", CLUSTER, CLUSTER_NAME)]
    else:
        needs = []  # who ends a hanging transaction is found out when it is planned
    return [need for need in needs if need.name]


@dataclass(frozen=True, slots=True)
class Rights:
    """They are what brokers let one user do."""

    principal: str = ""
    acls: tuple[AclBinding, ...] | None = None
    """Those that concern the user; None: nothing is refused, or it is not known."""

    def refusal(self, kind: str, values: Mapping[str, str]) -> str:
        """Return why brokers would refuse a change; "" when they would not, as far as is known."""
        if self.acls is None:
            return ""
        for need in needs_of(kind, values):
            answer = decide(self.acls, self.principal, *need)
            of_hosts = any(each.host != WILDCARD for each in self.acls)
            if not answer.allowed and (answer.denied or not of_hosts):
                return f"the brokers do not let {self.principal} do it: it takes {need}"
        return ""


class KnownRights:
    """It keeps what users may change for a while.

    :param own: the console's own admin client, which may see more than they.
    :param now_s: the time of the loop.
    """

    def __init__(self, own: Admin, now_s: Callable[[], float]) -> None:
        self._own = own
        self._now_s = now_s
        self._known: dict[str, tuple[float, Rights]] = {}

    async def of(self, session_id: str, admin: Admin) -> Rights:
        """Return what the user of an admin client may change.

        :param session_id: of whoever has signed in; all who ask as the console itself are one.
        """
        key = "" if admin is self._own else session_id
        asked_s, rights = self._known.get(key, (float("-inf"), Rights()))
        if self._now_s() - asked_s < RESTS_S:
            return rights
        self._forget()
        self._known[key] = (self._now_s(), rights)  # others do not ask meanwhile
        try:
            async with asyncio.timeout(WITHIN_S):
                rights = await rights_of(self._own, admin)
        except (TimeoutError, OncelogError):
            rights = Rights()
        self._known[key] = (self._now_s(), rights)
        return rights

    def _forget(self) -> None:
        for key, (asked_s, _) in list(self._known.items()):
            if self._now_s() - asked_s > RESTS_S or len(self._known) > USERS_MAX:
                del self._known[key]


async def rights_of(own: Admin, admin: Admin) -> Rights:
    """Return what the user of ``admin`` may change, by what ``own`` may see.

    :raises OncelogError: nobody says who the user is, or which ACLs there are.
    """
    known = await admin.whoami()
    if known.authorizer != "acl":
        return Rights(known.principal)
    rules: Mapping[int, BrokerRules] = await broker_rules(own) or {}
    if not rules or any(known.principal in rule.super_users for rule in rules.values()):
        return Rights(known.principal)
    concerned = (known.principal, EVERYBODY)
    acls = [each for each in await own.describe_acls() if each.principal in concerned]
    return Rights(known.principal, tuple(acls))
