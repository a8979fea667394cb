"""ACLs are looked at beside what else the cluster has: users, topics, super users."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog import AclBinding, Admin

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class BrokerRules:
    """A broker's settings say whom no ACL concerns."""

    decides_by_acls: bool
    super_users: frozenset[str]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """These are what ACLs are about; None where the cluster does not say."""

    topics: frozenset[str] | None
    users: frozenset[str] | None
    rules: dict[int, BrokerRules] | None

    def is_super_user(self, principal: str) -> bool:
        """Return whether every broker lets the principal do everything, as far as it is known."""
        return bool(self.rules) and all(
            principal in rule.super_users for rule in (self.rules or {}).values()
        )


@dataclass(slots=True)
class Remarks:
    """A note is what may be as it should; a warning is what hardly is."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def look_around(admin: Admin) -> Surroundings:
    """Return what the cluster says; it says less to who may see less."""
    from oncelog.errors import ApiError

    try:
        topics = frozenset(await admin.list_topics(include_internal=True))
    except ApiError:
        topics = None
    try:
        users = frozenset(user.name for user in await admin.describe_users())
    except ApiError:
        users = None
    return Surroundings(topics, users, await broker_rules(admin))


async def broker_rules(admin: Admin) -> dict[int, BrokerRules] | None:
    """Return what each broker that answers has set; None when one may not see it."""
    from oncelog.errors import ApiError, BrokerNotAvailableError

    try:
        brokers = [broker.broker_id for broker in (await admin.describe_cluster()).brokers]
        described = await admin.describe_configs(
            brokers=brokers, keys=["authorizer", "super_users"]
        )
    except ApiError:
        return None
    rules: dict[int, BrokerRules] = {}
    for outcome in described:
        if isinstance(outcome.error, BrokerNotAvailableError):
            continue
        if outcome.error is not None or "super_users" not in outcome.settings:
            return None
        values = {key: setting.value or "" for key, setting in outcome.settings.items()}
        rules[int(outcome.name)] = BrokerRules(
            values["authorizer"] == "acl", frozenset(json.loads(values["super_users"] or "[]"))
        )
    return rules


def remarks_on(
    shown: Sequence[AclBinding], every: Iterable[AclBinding], around: Surroundings
) -> Remarks:
    """Return what is to be said of some of all ACLs: that they can match nothing, or that others
    cannot because of them."""
    from oncelog.admin.acl_rights import made_useless

    remarks = Remarks(list(_of_topics(shown, around)), list(_of_users(shown, around)))
    some = set(shown)
    for entry, denial in made_useless(every):
        if entry in some or denial in some:
            remarks.warnings.append(
                f"{entry.sentence()}: that is of no use, since {denial.sentence()}"
            )
    return remarks


def _of_topics(shown: Iterable[AclBinding], around: Surroundings) -> Iterator[str]:
    from oncelog.admin.acl_rights import LITERAL, TOPIC, WILDCARD

    patterns = dict.fromkeys(e.pattern for e in shown if e.resource_type == TOPIC)
    for pattern in patterns if around.topics is not None else ():
        topics, name = around.topics or frozenset(), pattern.name
        if pattern.pattern_type == LITERAL:
            if name != WILDCARD and name not in topics:
                yield f"there is no topic {name} now"
        elif not any(topic.startswith(name) for topic in topics):
            yield f"there is no topic now whose name begins with {name}"


def _of_users(shown: Iterable[AclBinding], around: Surroundings) -> Iterator[str]:
    from oncelog.admin.acl_rights import EVERYBODY

    for principal in dict.fromkeys(entry.principal for entry in shown):
        name = principal.removeprefix("User:")
        if around.is_super_user(principal):
            yield f"{principal} is a super user: ACLs neither allow nor deny it anything"
        elif principal in (EVERYBODY, ANONYMOUS):
            continue
        elif around.users and name not in around.users:
            # Where nobody has a password, users are known by certificates or tokens.
            yield (
                f"there is no user {name} with a password: only who has a certificate or a token"
                " of that name is meant"
            )
