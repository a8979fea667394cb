"""Every API meets every condition of real ACLs, and exactly what comes of it is compared.

The rows are those of matrix.toml, the conditions those of ``CONDITIONS``. No API is left out, and
none of the conditions for any: an API that needs nothing is served under all of them, and what
brokers do to each other is served to brokers, and refused to clients, under all of them. Each
request is a *cell*; ``make security-check`` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    TOPIC,
    WILDCARD,
    AclBinding,
)
from oncelog_protocol.errors import BrokerNotAvailableError, InvalidRequestError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.registry import REQUESTS
from support.matrix import CODES, MatrixRow, Need, codes_of, is_allowed, is_refused, of_api, outcome
from support.matrix_world import is_of_the_test, is_open, world
from unsafe.acls import AllowWins, DenyImplies

ALICE = "User:alice"
HOST = "10.0.0.7"

CONDITIONS = (
    *("none", "DENY", "ALLOW", "both", "prefix", "*"),
    *("implied", "super user", "unloaded", "other host"),
)

ALLOWED, DENIED, UNAVAILABLE = "allowed", "denied", "unavailable"
"""An answer is one of these."""


def acl_authorizer(*entries: AclBinding) -> AclAuthorizer:
    """Return an authorizer that knows these ACLs, and no others."""
    made = AclAuthorizer()
    made.replace(AclState.made_of(1, entries))
    return made


def of_a_super_user(*entries: AclBinding) -> AclAuthorizer:
    """Return one to which alice is a super user."""
    made = AclAuthorizer([ALICE])
    made.replace(AclState.made_of(1, entries))
    return made


class Secured(AllowAllAuthorizer):
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


# ---- one need, under each condition


@dataclass(frozen=True)
class Case:
    """It is one way to write ACLs down, and what an API says then."""

    condition: str
    name: str
    acls: tuple[AclBinding, ...]
    expected: str


def cases(asked: str) -> Iterator[Case]:
    """Yield all cases of one need: those that ACLs are the condition of."""
    allow = entry(asked)
    deny = replace(allow, permission=DENY)
    deny_all = replace(deny, operation=ALL)
    elsewhere, here = "10.0.0.8", "10.0.0.0/8"
    for condition, name, acls, allowed in (
        ("none", "no ACL", [], False),
        ("none", "of others", [replace(allow, principal="User:bob")], False),
        ("DENY", "DENY", [deny], False),
        ("DENY", "DENY of all operations", [deny_all], False),
        ("ALLOW", "ALLOW", [allow], True),
        ("ALLOW", "ALLOW of all operations", [replace(allow, operation=ALL)], True),
        ("ALLOW", "ALLOW of everybody", [replace(allow, principal=EVERYBODY)], True),
        ("ALLOW", "ALLOW from here", [entry(asked, host=HOST)], True),
        ("ALLOW", "ALLOW from this block", [entry(asked, host=here)], True),
        ("both", "both", [allow, deny], False),
        ("both", "DENY of all operations", [allow, deny_all], False),
        ("both", "DENY of everybody", [allow, replace(deny, principal=EVERYBODY)], False),
        ("both", "DENY of others", [allow, replace(deny, principal="User:bob")], True),
        ("both", "DENY from here", [allow, replace(deny, host=here)], False),
        ("other host", "ALLOW from elsewhere", [entry(asked, host=elsewhere)], False),
        ("other host", "ALLOW from another block", [entry(asked, host="11.0.0.0/8")], False),
        ("other host", "DENY from elsewhere", [allow, replace(deny, host=elsewhere)], True),
    ):
        yield Case(condition, name, tuple(acls), ALLOWED if allowed else DENIED)
    yield from _of_patterns(asked, allow, deny)
    yield from _of_other_operations(asked, allow)


def _of_patterns(asked: str, allow: AclBinding, deny: AclBinding) -> Iterator[Case]:
    star = {"pattern_type": LITERAL, "name": WILDCARD}
    some = ALLOWED if "some" in asked else DENIED
    every = replace(allow, **star)
    yield Case("*", "ALLOW of *", (every,), ALLOWED)
    yield Case("*", "DENY of *", (allow, replace(deny, **star)), DENIED)
    if allow.resource_type == CLUSTER:
        yield Case("*", "ALLOW of *, DENY of the cluster", (every, deny), DENIED)
        # The cluster has one name. An ACL of a prefix of it would do nothing that one of the name
        # does not do, so that none can be made.
        with pytest.raises(InvalidRequestError):
            entry(asked, pattern_type=PREFIXED, name=CLUSTER_NAME[:3])
        yield Case("prefix", "it cannot be made", (), DENIED)
        return
    prefix = {"pattern_type": PREFIXED, "name": allow.name[:3]}
    other = replace(allow, pattern_type=PREFIXED, name="zzz")
    yield Case("*", "ALLOW of *, DENY of the name", (every, deny), some)
    yield Case("prefix", "ALLOW of a prefix", (replace(allow, **prefix),), ALLOWED)
    yield Case("prefix", "ALLOW of another prefix", (other,), some)
    yield Case("prefix", "DENY of a prefix", (allow, replace(deny, **prefix)), DENIED)


def _of_other_operations(asked: str, allow: AclBinding) -> Iterator[Case]:
    """Yield an ALLOW of each operation that the resource has beside the one that is asked for, and
    a DENY of it."""
    for more in OPERATIONS[allow.resource_type]:
        if more in (allow.operation, ALL):
            continue
        implies = more in IMPLIED_BY.get(allow.operation, ())
        expected = ALLOWED if implies else DENIED
        yield Case("implied", f"ALLOW of {more}", (replace(allow, operation=more),), expected)
        denied = replace(allow, operation=more, permission=DENY)
        yield Case("implied", f"DENY of {more}", (allow, denied), ALLOWED)


# ---- all cells of a row


@dataclass(frozen=True)
class Cell:
    """It is one request under one condition, and what must come of it."""

    row: MatrixRow
    condition: str
    name: str
    judge: AclAuthorizer
    expected: str
    need: Need | None = None
    """It is refused for the lack of this; None: for another reason, and as a whole."""

    def __str__(self) -> str:
        return f"{self.row}, {self.condition}: {self.name}: to be {self.expected}"

    def is_as_expected(self, response: Any) -> bool:
        if self.expected == ALLOWED:
            return is_allowed(response, self.row)
        if self.expected == UNAVAILABLE:
            codes = {code for _, code in outcome(response)}
            return not codes_of(response) and BrokerNotAvailableError.code in codes
        if self.need is not None:
            return is_refused(response, self.need)
        return codes_of(response) == {("", CODES[CLUSTER])}


def cells(row: MatrixRow) -> Iterator[Cell]:
    """Yield the cells of a row."""
    if row.from_broker:  # what brokers need of each other is no matter of ACLs
        yield from _whatever_acls_say(row, ALLOWED, "CLUSTER_ACTION CLUSTER")
        if [need.any for need in row.needs] == [("CLUSTER_ACTION CLUSTER",)]:
            client = replace(row, from_broker=False)
            yield from _whatever_acls_say(client, DENIED, "CLUSTER_ACTION CLUSTER")
    elif not row.needs:
        yield from _whatever_acls_say(row, ALLOWED, "READ TOPIC orders")
    else:
        yield from _of_needs(row)


def _whatever_acls_say(row: MatrixRow, expected: str, asked: str) -> Iterator[Cell]:
    for case in cases(asked):
        yield Cell(row, case.condition, case.name, acl_authorizer(*case.acls), expected)
    yield Cell(row, "super user", "no ACL", of_a_super_user(), expected)
    yield Cell(row, "unloaded", "no state", AclAuthorizer(), expected)


def _of_needs(row: MatrixRow) -> Iterator[Cell]:
    for need in row.needs:
        others = [entry(each.any[0]) for each in row.needs if each is not need]
        for asked in need.any:
            for case in cases(asked):
                judge = acl_authorizer(*others, *case.acls)
                lost = [each for each in row.needs if _denies(case, need, each)]
                expected, lacks = (DENIED, lost[0]) if lost else (case.expected, need)
                yield Cell(row, case.condition, case.name, judge, expected, lacks)
    enough = [entry(need.any[0]) for need in row.needs]
    if row.denied_by:
        denied = entry(row.denied_by, permission=DENY)
        judge = acl_authorizer(*enough, denied)
        yield Cell(row, "DENY", f"DENY of {row.denied_by}, which is implied", judge, DENIED)
    every_denied = [
        AclBinding(kind, LITERAL, WILDCARD, EVERYBODY, WILDCARD, ALL, DENY) for kind in OPERATIONS
    ]
    yield Cell(row, "super user", "no ACL", of_a_super_user(), ALLOWED)
    yield Cell(row, "super user", "everything denied", of_a_super_user(*every_denied), ALLOWED)
    yield Cell(row, "super user", "no state", AclAuthorizer([ALICE]), ALLOWED)
    yield Cell(row, "unloaded", "no state", AclAuthorizer(), UNAVAILABLE)


def _denies(case: Case, of: Need, another: Need) -> bool:
    """Return whether a case of one need denies another one of the same row and resource."""
    if another is of:
        return False
    denied = replace(entry(another.any[0]), permission=DENY)
    return denied in case.acls and case.condition == "implied"


@pytest.mark.parametrize("api", sorted(REQUESTS), ids=lambda api: ApiKey(api).name)
@pytest.mark.hostile(43)
async def test_an_api_does_under_every_condition_what_the_matrix_says(
    api: int, tmp_path: Path, record_property: Any
) -> None:
    secured = Secured()
    every = [cell for row in of_api(api) for cell in cells(row)]
    assert {cell.condition for cell in every} == set(CONDITIONS)
    failed = []
    async with world(tmp_path, secured) as it:
        for cell in every:
            secured.judge = cell.judge
            response = await it.ask(cell.row)
            if not cell.is_as_expected(response):
                failed.append(f"{cell}, not {response}")
    record_property("matrix", json.dumps([ApiKey(api).name, len(every), len(failed)]))
    assert failed == []


def test_the_cases_of_a_need_tell_all_conditions_apart() -> None:
    """Each condition has a case that only it decides: what would be said without it is another."""
    decided = {(case.condition, case.expected) for case in cases("DESCRIBE TOPIC orders")}
    assert {condition for condition, _ in decided} == set(CONDITIONS) - {"super user", "unloaded"}
    for condition in ("both", "prefix", "*", "implied", "other host"):
        assert {expected for each, expected in decided if each == condition} == {ALLOWED, DENIED}
    assert entry("READ TOPIC orders").resource_type == TOPIC


# ---- the cases are worth something: ACLs that lack a rule fail them


def failed(kind: type[AclState]) -> set[str]:
    """Return the conditions under which such ACLs decide otherwise than a case says."""
    found = set()
    for asked in ("DESCRIBE TOPIC orders", "READ TOPIC orders", "DESCRIBE GROUP readers"):
        operation, resource_type, name = asked.split()
        for case in cases(asked):
            state = kind.made_of(1, case.acls)
            decision = state.decide(ALICE, HOST, operation, resource_type, name)
            if decision.allowed != (case.expected == ALLOWED):
                found.add(case.condition)
    return found


def test_acls_keep_the_cases() -> None:
    assert failed(AclState) == set()


@pytest.mark.ablation("deny_wins")
def test_an_allow_that_wins_over_a_deny_is_caught() -> None:
    assert "both" in failed(AllowWins)


@pytest.mark.ablation("implied_only_allow")
def test_a_deny_that_implies_others_is_caught() -> None:
    assert failed(DenyImplies) == {"implied"}
