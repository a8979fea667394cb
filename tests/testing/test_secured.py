"""A secured cluster for tests knows who asks, and lets nobody do what no ACL allows."""

from __future__ import annotations

import pytest

from oncelog import (
    AclBinding,
    Admin,
    AuthenticationFailedError,
    Consumer,
    Producer,
    Security,
    blocking,
)
from oncelog.errors import DuplicateResourceError, TopicAuthorizationFailedError
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing import AsyncCluster, Cluster
from oncelog_testing.secured import ADMIN, SecuredUsers


def may_write(topic: str, user: str) -> AclBinding:
    return AclBinding("TOPIC", "LITERAL", topic, f"User:{user}", "*", "WRITE", "ALLOW")


def test_the_admin_may_do_everything_and_a_user_what_acls_allow() -> None:
    with Cluster(brokers=2, secure=True) as cluster:
        topic = cluster.create_topic("orders")
        cluster.produce(topic, ["by the cluster itself"])
        app = cluster.create_user("app", acls=[may_write(topic, "app")])
        with blocking.Producer(cluster.bootstrap, security=app) as producer:
            producer.send(topic, b"by the app")
        with (
            blocking.Consumer(
                topic,
                bootstrap_servers=cluster.bootstrap,
                auto_offset_reset="earliest",
                security=app,
            ) as consumer,
            pytest.raises(TopicAuthorizationFailedError),
        ):
            consumer.getone()
        assert [record.value for record in cluster.records(topic)] == [
            b"by the cluster itself",
            b"by the app",
        ]
        with blocking.Admin(cluster.bootstrap, security=cluster.security) as admin:
            assert [user.name for user in admin.describe_users()] == [ADMIN, "app"]


async def test_who_is_nobody_is_refused() -> None:
    async with AsyncCluster(secure=True) as cluster:
        for security in (None, Security(username=ADMIN, password="wrong")):
            with pytest.raises(AuthenticationFailedError):
                async with Admin(cluster.bootstrap, security=security):
                    pass
        await cluster.create_user("app")
        with pytest.raises(DuplicateResourceError):
            await cluster.create_user("app")


async def test_users_outlive_what_happens_to_brokers_and_time() -> None:
    async with AsyncCluster(brokers=3, secure=True) as cluster:
        topic = await cluster.create_topic("t")
        app = await cluster.create_user("app", acls=[may_write(topic, "app")])
        await cluster.restart(await cluster.leader(topic), clean=False)
        await cluster.kill(cluster.controller)
        await cluster.advance(120)
        async with Producer(cluster.bootstrap, security=app) as producer:
            await producer.send(topic, b"x")
        async with Consumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
            security=cluster.security,
        ) as consumer:
            assert (await consumer.getone()).value == b"x"


def test_a_cluster_that_is_not_secured_has_no_users(oncelog_cluster: Cluster) -> None:
    assert oncelog_cluster.security is None
    with pytest.raises(ValueError, match="secure=True"):
        oncelog_cluster.create_user("app")


def test_passwords_are_not_shown() -> None:
    admin = SecuredUsers(SeededEntropy(1)).admin
    assert admin.password is not None
    assert admin.password not in repr(admin)
