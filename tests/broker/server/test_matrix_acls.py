"""The matrix with real ACLs: what a row needs is met by the ACLs that mean it, and by no others.

Each need of each row, under each way to write it down: nothing, DENY, ALLOW, both, prefix, ``*``,
implied, of everybody, of others, from other hosts; and for super users, and before ACLs are known.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acl_state import AclState
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    DENY,
    EVERYBODY,
    IMPLIED_BY,
    LITERAL,
    OPERATIONS,
    PREFIXED,
    WILDCARD,
    AclBinding,
)
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.registry import REQUESTS
from support.matrix import codes_of, is_allowed, is_refused, of_api, outcome
from support.matrix_world import is_of_the_test, is_open, world

ALICE = "User:alice"
HOST = "10.0.0.7"


def acl_authorizer(*entries: AclBinding) -> AclAuthorizer:
    """Return an authorizer that knows these ACLs, and no others."""
    made = AclAuthorizer()
    made.replace(AclState.made_of(1, entries))
    return made


class Secured:
    """The test's requests come from alice, at ``HOST``, and are judged by what is set. What the
    broker does for itself is allowed, and what is open to everybody."""

    def __init__(self) -> None:
        self.judge: Authorizer = AllowAllAuthorizer()

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        return self._judge(context, resource_name).authorize(
            alice(context), operation, resource_type, resource_name
        )

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        return self._judge(context).authorize_any(alice(context), operation, resource_type)

    def denies(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        return self._judge(context, resource_name).denies(
            alice(context), operation, resource_type, resource_name
        )

    def _judge(self, context: RequestContext, name: str = "") -> Authorizer:
        judged = is_of_the_test(context) and not is_open(name)
        return self.judge if judged else AllowAllAuthorizer()


def alice(context: RequestContext) -> RequestContext:
    return replace(context, principal=ALICE, peer=f"{HOST}:1")


def entry(asked: str, **other: str) -> AclBinding:
    """Return the ACL that allows alice what a row asks for, or another one like it."""
    operation, kind, *rest = asked.split()
    name = "".join(rest)
    if kind == "some":
        kind, name = name, "orders"
    pattern = PREFIXED if name == "fresh" else LITERAL
    made = AclBinding(kind, pattern, name or CLUSTER_NAME, ALICE, WILDCARD, operation, ALLOW)
    return replace(made, **other).checked()


def cases(asked: str) -> list[tuple[str, list[AclBinding], bool]]:
    """Return (name, ACLs, whether they allow what is asked)."""
    allow = entry(asked)
    kind, operation = allow.resource_type, allow.operation
    deny = replace(allow, permission=DENY)
    found = [
        ("none", [], False),
        ("deny", [deny], False),
        ("allow", [allow], True),
        ("both", [allow, deny], False),
        (
            "allow and deny of all operations",
            [allow, entry(asked, operation=ALL, permission=DENY)],
            False,
        ),
        ("allow and deny of everybody", [allow, replace(deny, principal=EVERYBODY)], False),
        ("allow and deny of others", [allow, replace(deny, principal="User:bob")], True),
        ("all operations", [replace(allow, operation=ALL)], True),
        ("everybody", [replace(allow, principal=EVERYBODY)], True),
        ("others", [replace(allow, principal="User:bob")], False),
        ("this host", [entry(asked, host=HOST)], True),
        ("this block", [entry(asked, host="10.0.0.0/8")], True),
        ("other host", [entry(asked, host="10.0.0.8")], False),
        ("other block", [entry(asked, host="11.0.0.0/8")], False),
        (
            "allow and deny from elsewhere",
            [allow, entry(asked, host="10.0.0.8", permission=DENY)],
            True,
        ),
        (
            "allow and deny from here",
            [allow, entry(asked, host="10.0.0.0/8", permission=DENY)],
            False,
        ),
    ]
    if kind != CLUSTER:
        prefix = {"pattern_type": PREFIXED, "name": allow.name[:3]}
        star = {"pattern_type": LITERAL, "name": WILDCARD}
        found += [
            ("prefix", [replace(allow, **prefix)], True),
            ("other prefix", [replace(allow, pattern_type=PREFIXED, name="zzz")], "some" in asked),
            ("star", [replace(allow, **star)], True),
            ("allow and deny of a prefix", [allow, replace(deny, **prefix)], False),
            ("allow and deny of star", [allow, replace(deny, **star)], False),
            ("star and deny", [replace(allow, **star), deny], "some" in asked),
        ]
    if "some" not in asked:
        found += [
            (f"implied by {more}", [replace(allow, operation=more)], True)
            for more in IMPLIED_BY.get(operation, ())
            if more in OPERATIONS[kind]
        ]
        found += [
            (f"deny of {more}", [allow, replace(deny, operation=more)], True)
            for more in IMPLIED_BY.get(operation, ())
            if more in OPERATIONS[kind]
        ]
    return found


@pytest.mark.parametrize("api", sorted(REQUESTS), ids=lambda api: ApiKey(api).name)
@pytest.mark.hostile(43)
async def test_acls_allow_what_they_say_and_no_more(api: int, tmp_path: Path) -> None:
    secured = Secured()
    async with world(tmp_path, secured) as it:
        for row in of_api(api):
            if row.from_broker:
                continue
            for need in row.needs:
                others = [entry(each.any[0]) for each in row.needs if each is not need]
                for asked in need.any:
                    for name, acls, allowed in cases(asked):
                        secured.judge = acl_authorizer(*others, *acls)
                        response = await it.ask(row)
                        wanted = (
                            is_allowed(response, row) if allowed else is_refused(response, need)
                        )
                        assert wanted, (str(row), asked, name, response)


@pytest.mark.parametrize("api", sorted(REQUESTS), ids=lambda api: ApiKey(api).name)
async def test_super_users_may_and_nobody_else_before_acls_are_known(
    api: int, tmp_path: Path
) -> None:
    secured = Secured()
    async with world(tmp_path, secured) as it:
        for row in of_api(api):
            secured.judge = AclAuthorizer()
            if row.from_broker:  # what brokers need of each other is no matter of ACLs
                assert is_allowed(await it.ask(row), row), str(row)
                continue
            response = await it.ask(row)
            assert is_unavailable(response) == bool(row.needs), (str(row), response)
            secured.judge = AclAuthorizer([ALICE])
            response = await it.ask(row)
            assert is_allowed(response, row), (str(row), response)


def is_unavailable(response: object) -> bool:
    """Return whether an answer says that the broker cannot know, and no more than that."""
    found = set(outcome(response))
    return not codes_of(response) and BrokerNotAvailableError.code in {code for _, code in found}
