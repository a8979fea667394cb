"""A control says why it is off where the brokers' ACLs would refuse the change."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import AclBinding, Admin, TopicPartition, UserAlteration
from oncelog.testing import AsyncCluster
from oncelog_console.changes.kinds import KINDS
from oncelog_console.rights import RESTS_S, KnownRights, Need, Rights, needs_of
from support.cluster import Cluster
from support.console import Browser, console_of

PASSWORD = "correct horse battery"
ALICE = "User:alice"
VALUES = {
    "topic": "orders",
    "group": "billing",
    "transactional_id": "pay",
    "name": "orders",
}


def allow(operation: str, kind: str, name: str, host: str = "*") -> AclBinding:
    return AclBinding(kind, "LITERAL", name, ALICE, host, operation, "ALLOW").checked()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "abort-transaction"])
def test_every_change_needs_something(kind: str) -> None:
    (need,) = needs_of(kind, VALUES)
    assert Rights().refusal(kind, VALUES) == "", "what is not known is not refused"
    nothing = Rights(ALICE, ())
    assert nothing.refusal(kind, VALUES) == (
        f"the brokers do not let {ALICE} do it: it takes {need}"
    )
    granted = Rights(ALICE, (allow(need.operation, need.resource_type, need.name),))
    assert granted.refusal(kind, VALUES) == ""


def test_needs_are_said_in_words() -> None:
    assert str(Need("DELETE", "TOPIC", "orders")) == "DELETE on topic orders"
    assert str(Need("WRITE", "TRANSACTIONAL_ID", "a")) == "WRITE on transactional id a"
    assert str(needs_of("alter-configs", {"of": "all"})[0]) == "ALTER_CONFIGS on the cluster"
    assert needs_of("clone-group", {"source": "billing"}) == [], "the form says which later"


def test_who_may_do_it_from_one_address_only_is_not_refused_here() -> None:
    acl = allow("DELETE", "TOPIC", "orders", host="10.0.0.1")
    assert Rights(ALICE, (acl,)).refusal("delete-topic", {"topic": "orders"}) == ""


async def test_a_cluster_without_acls_refuses_nothing(cluster: Cluster, admin: Admin) -> None:
    now = 0.0
    known = KnownRights(admin, lambda: now)
    rights = await known.of("s", admin)
    assert rights.acls is None
    assert await known.of("t", admin) is rights, "all who ask as the console are one"
    now = RESTS_S
    assert await known.of("s", admin) is not rights


async def test_a_cluster_that_is_away_refuses_nothing(cluster: Cluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        known = KnownRights(admin, lambda: 0.0)
        await cluster.close()
        assert await known.of("s", admin) == Rights()


@pytest_asyncio.fixture
async def secured() -> AsyncIterator[Browser]:
    """Alice may read and describe orders, and reset billing. She has signed in."""
    async with AsyncCluster(secure=True) as cluster:
        security = cluster.security
        async with Admin(cluster.bootstrap, security=security) as admin:
            await admin.alter_users([UserAlteration.create("alice", PASSWORD)])
            await admin.create_topics(["orders"])
            await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
            await admin.create_acls(
                [
                    allow("READ", "TOPIC", "orders"),
                    allow("DESCRIBE_CONFIGS", "TOPIC", "orders"),
                    allow("READ", "GROUP", "billing"),
                ]
            )
            async with console_of(cluster.bootstrap, changes=True, security=security) as browser:
                await browser.until(lambda seen: seen.topic("orders"))
                await browser.post("/sign-in", {"username": "alice", "password": PASSWORD})
                yield browser


async def test_controls_say_why_they_are_off(secured: Browser) -> None:
    page = await secured.get("/topics/orders")
    assert page.status == 200
    assert '<button type="button" disabled>Delete a topic</button>' in page.text
    assert f"the brokers do not let {ALICE} do it: it takes DELETE on topic orders" in page.text
    assert 'href="/changes/delete-topic' not in page.text
    group = await secured.get("/groups/billing")
    assert 'href="/changes/reset-offsets?group=billing"' in group.text
    assert '<button type="button" disabled>Delete a group</button>' in group.text


async def test_the_brokers_refuse_what_is_asked_anyhow(secured: Browser) -> None:
    made = await secured.post("/changes/create-topic", {"topic": "more"})
    assert made.status in (403, 409)
    assert "more" in made.text
    plan = await secured.post("/changes/delete-topic", {"topic": "orders"})
    if plan.status == 303:
        page = await secured.follow(plan)
        token = page.text.partition('name="token" value="')[2].partition('"')[0]
        done = await secured.post(plan.location, {"token": token, "typed": "orders"})
        page = await secured.follow(done)
        assert "It failed" in page.text
    assert secured.console.poller.seen.topic("orders") is not None
