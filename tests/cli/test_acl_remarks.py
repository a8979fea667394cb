"""ACLs that can match nothing are found by what else the cluster has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oncelog import AclBinding, Admin, UserAlteration
from oncelog_cli.acl_remarks import BrokerRules, Surroundings, look_around, remarks_on
from support.cluster import Cluster

WRITE = AclBinding("TOPIC", "LITERAL", "orders", "User:app", "*", "WRITE", "ALLOW")
RULES = {1: BrokerRules(True, frozenset({"User:admin"})), 2: BrokerRules(True, frozenset())}


def around(
    topics: frozenset[str] | None = frozenset({"orders"}),
    users: frozenset[str] | None = frozenset({"app"}),
    rules: dict[int, BrokerRules] | None = None,
) -> Surroundings:
    return Surroundings(topics, users, rules)


def test_nothing_is_said_of_what_is_as_it_should() -> None:
    everybody = replace(WRITE, principal="User:*", name="*")
    remarks = remarks_on([WRITE, everybody], [WRITE, everybody], around())
    assert (remarks.notes, remarks.warnings) == ([], [])


def test_topics_that_are_not_there_are_a_note() -> None:
    missing = replace(WRITE, name="bills")
    prefix = replace(WRITE, name="bi", pattern_type="PREFIXED")
    shown = [missing, replace(missing, operation="READ"), prefix]
    assert remarks_on(shown, shown, around()).notes == [
        "there is no topic bills now",
        "there is no topic now whose name begins with bi",
    ]
    assert remarks_on(shown, shown, around(topics=None)).notes == []


def test_users_that_are_not_there_are_a_warning() -> None:
    shown = [replace(WRITE, principal="User:ap")]
    (warning,) = remarks_on(shown, shown, around()).warnings
    assert "there is no user ap with a password" in warning
    for users in (None, frozenset[str]()):
        assert remarks_on(shown, shown, around(users=users)).warnings == []


def test_acls_of_super_users_are_a_warning() -> None:
    shown = [replace(WRITE, principal="User:admin")]
    first = {1: RULES[1]}
    (warning,) = remarks_on(shown, shown, around(rules=first)).warnings
    assert "User:admin is a super user" in warning
    (warning,) = remarks_on(shown, shown, around(rules=RULES)).warnings
    assert "no user admin" in warning, "one broker decides by ACLs"


def test_what_a_denial_makes_useless_is_a_warning() -> None:
    denial = replace(WRITE, permission="DENY", operation="ALL")
    for shown in ([WRITE], [denial], [WRITE, denial]):
        (warning,) = remarks_on(shown, [WRITE, denial], around()).warnings
        assert "that is of no use, since User:app may not do" in warning
    other = replace(WRITE, name="other")
    assert remarks_on([other], [WRITE, denial, other], around()).warnings == []


async def test_the_cluster_is_asked(tmp_path: Path) -> None:
    secured = Cluster(
        tmp_path, brokers=2, authorizer="acl", super_users=["User:ANONYMOUS", "User:a, b"]
    )
    async with secured as cluster, Admin(cluster.bootstrap) as admin:
        await cluster.create_topic("orders")
        (await admin.alter_users([UserAlteration.create("app", "pencil")])).raise_for_errors()
        seen = await look_around(admin)
        rules = BrokerRules(True, frozenset({"User:ANONYMOUS", "User:a, b"}))
        assert seen == Surroundings(frozenset({"orders"}), frozenset({"app"}), {1: rules, 2: rules})
        assert seen.is_super_user("User:a, b")
        assert not seen.is_super_user("User:app")


async def test_who_may_see_nothing_sees_nothing(tmp_path: Path) -> None:
    async with Cluster(tmp_path, authorizer="acl") as cluster, Admin(cluster.bootstrap) as admin:
        assert await look_around(admin) == Surroundings(frozenset(), None, None)


async def test_a_cluster_without_users_and_acls(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        seen = await look_around(admin)
        assert (seen.users, seen.rules) == (None, {1: BrokerRules(False, frozenset())})
