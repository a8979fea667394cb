"""The admin client creates, lists and deletes ACLs, on scripted brokers and on real ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelog import AclBinding, AclBindingFilter, Admin, blocking
from oncelog.admin.acls import AclDeletion, AclOutcome
from oncelog.errors import (
    ClosedError,
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    SecurityDisabledError,
)
from oncelog_protocol import limits
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.admin_cluster import AdminCluster
from support.client_threads import in_thread
from support.cluster import Cluster
from support.fake_cluster import Action

MAY_WRITE = AclBinding(
    resource_type="TOPIC",
    pattern_type="LITERAL",
    name="orders",
    principal="User:app",
    host="*",
    operation="WRITE",
    permission="ALLOW",
)
MAY_READ = replace(MAY_WRITE, operation="READ")
MAY_NOT_READ = replace(MAY_READ, principal="User:*", permission="DENY", host="10.1.0.0/16")
WRONG = replace(MAY_WRITE, name="a*b")


def make(cluster: Any) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1))


async def test_acls_from_beginning_to_end() -> None:
    async with AdminCluster(2) as cluster, make(cluster) as admin:
        cluster.controller_id = 2
        created = await admin.create_acls([MAY_WRITE, WRONG, MAY_READ])
        assert created[0] == AclOutcome(MAY_WRITE)
        assert created[2].error is None
        assert created[1].binding == WRONG
        assert isinstance(created[1].error, InvalidRequestError)
        assert "has a '*' within it" in str(created[1].error)
        assert await admin.describe_acls() == [MAY_WRITE, MAY_READ]
        reads = AclBindingFilter(operation="READ")
        assert await admin.describe_acls(reads) == [MAY_READ]
        tried = await admin.delete_acls([reads], validate_only=True)
        assert list(tried) == [AclDeletion(reads, None, (MAY_READ,))]
        everything = AclBindingFilter()
        deleted = await admin.delete_acls([reads, AclBindingFilter(operation="SLEEP"), everything])
        assert [each.bindings for each in deleted] == [(MAY_READ,), (), (MAY_WRITE,)]
        assert isinstance(deleted[1].error, InvalidRequestError)
        assert await admin.describe_acls() == []


async def test_a_filter_that_can_match_nothing_says_why() -> None:
    async with AdminCluster() as cluster, make(cluster) as admin:
        with pytest.raises(InvalidRequestError, match="'SLEEP' is no operation"):
            await admin.describe_acls(AclBindingFilter(operation="SLEEP"))


async def test_a_lost_answer_is_asked_for_again() -> None:
    async with AdminCluster() as cluster, make(cluster) as admin:
        cluster.rule(ApiKey.CREATE_ACLS, Action.DROP_AFTER)
        (await admin.create_acls([MAY_WRITE])).raise_for_errors()
        assert cluster.count(ApiKey.CREATE_ACLS) == 2
        assert list(cluster.acls) == [MAY_WRITE]


async def test_more_than_a_request_takes_goes_in_several() -> None:
    many = [replace(MAY_WRITE, name=f"t{n}") for n in range(limits.ACLS_OF_REQUEST_MAX + 1)]
    async with AdminCluster() as cluster, make(cluster) as admin:
        created = await admin.create_acls(many)
        assert [each.binding for each in created] == many
        assert cluster.count(ApiKey.CREATE_ACLS) == 2
        assert list(await admin.create_acls([])) == []
        assert cluster.count(ApiKey.CREATE_ACLS) == 2


async def test_an_admin_that_is_closed_asks_nobody() -> None:
    async with AdminCluster() as cluster:
        admin = make(cluster)
        for call in (admin.create_acls([]), admin.delete_acls([]), admin.describe_acls()):
            with pytest.raises(ClosedError):
                await call


async def test_the_blocking_face() -> None:
    async with AdminCluster() as cluster:

        def work() -> None:
            with blocking.Admin(cluster.bootstrap) as admin:
                admin.create_acls([MAY_WRITE, MAY_READ]).raise_for_errors()
                admin.delete_acls([AclBindingFilter(operation="READ")]).raise_for_errors()
                assert admin.describe_acls() == [MAY_WRITE]

        await in_thread(work)


async def test_real_brokers_decide_by_them(tmp_path: Path) -> None:
    secured: dict[str, Any] = {"authorizer": "acl", "super_users": ["User:ANONYMOUS"]}
    async with Cluster(tmp_path, brokers=2, **secured) as cluster, make(cluster) as admin:
        created = await admin.create_acls([MAY_WRITE, MAY_NOT_READ, WRONG, MAY_WRITE])
        assert [each.error is None for each in created] == [True, True, False, True]
        listed = await admin.describe_acls()
        assert sorted(listed, key=repr) == sorted([MAY_WRITE, MAY_NOT_READ], key=repr)
        for broker in cluster.brokers.values():
            assert broker.acls.state is not None
            assert set(broker.acls.state) == {MAY_WRITE, MAY_NOT_READ}
        (tried,) = await admin.create_acls([MAY_READ], validate_only=True)
        assert tried.error is None
        denials = AclBindingFilter(permission="DENY")
        (deleted,) = await admin.delete_acls([denials])
        assert deleted.bindings == (MAY_NOT_READ,)
        assert await admin.describe_acls() == [MAY_WRITE]
        with pytest.raises(InvalidRequestError, match="is no host"):
            await admin.describe_acls(AclBindingFilter(host="localhost"))


async def test_who_may_not_and_where_there_are_none(tmp_path: Path) -> None:
    async with Cluster(tmp_path / "open") as cluster, make(cluster) as admin:
        with pytest.raises(SecurityDisabledError):
            await admin.create_acls([MAY_WRITE])
    async with Cluster(tmp_path / "closed", authorizer="acl") as cluster, make(cluster) as admin:
        with pytest.raises(ClusterAuthorizationFailedError):
            await admin.delete_acls([AclBindingFilter()])
