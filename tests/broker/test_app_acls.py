"""Real brokers decide by ACLs: who may do what, from when on, and on which broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog_broker.app import Broker
from oncelog_controller import security_nodes
from oncelog_controller.store import Create, SetData
from oncelog_protocol.acls import (
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DENY,
    DESCRIBE,
    GROUP,
    LITERAL,
    READ,
    TOPIC,
    WILDCARD,
    WRITE,
    AclBinding,
    AclBindingFilter,
    AclPattern,
)
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    SecurityDisabledError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.acls import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from oncelog_protocol.messages.groups import FindCoordinatorRequest
from oncelog_runtime.channel import RequestChannel
from support.acl_cluster import AclCluster
from support.cluster import Cluster
from support.hand_records import fetch_values, produce
from support.waiting import eventually

MAY_WRITE = AclBinding(TOPIC, LITERAL, "t", "User:app", "*", WRITE, ALLOW)
MAY_READ = replace(MAY_WRITE, operation=READ)
REFUSED = TopicAuthorizationFailedError.code


async def spread(cluster: Cluster, topic: str = "t") -> None:
    """Make a topic with a leader on each of three brokers."""
    await cluster.create_topic(topic, partitions=3, replication_factor=3)
    await eventually(lambda: {cluster.leader(topic, index) for index in range(3)} == {1, 2, 3})


async def test_a_change_is_in_force_on_every_broker_when_it_is_acknowledged(
    tmp_path: Path,
) -> None:
    async with AclCluster(tmp_path, 3) as cluster:
        await spread(cluster)
        assert await cluster.writes() == {REFUSED}
        await cluster.allow(MAY_WRITE)
        assert await cluster.writes() == {0}, "and replicas follow: acks=all"
        assert await cluster.writes("other") == {REFUSED}
        await cluster.allow(replace(MAY_WRITE, principal="User:*", permission=DENY))
        assert await cluster.writes() == {REFUSED}
        assert await cluster.writes("admin") == {0}
        await cluster.take_back(AclBindingFilter(permission=DENY))
        assert await cluster.writes() == {0}
        await cluster.take_back(AclBindingFilter())
        assert await cluster.writes() == {REFUSED}
        channel = await cluster.channel(cluster.leader("t"), name="app")
        with pytest.raises(TopicAuthorizationFailedError):
            await fetch_values(channel, "t", 0)


async def test_only_who_may_alter_the_cluster_alters_acls(tmp_path: Path) -> None:
    async with AclCluster(tmp_path, 1) as cluster:
        code = ClusterAuthorizationFailedError.code
        for request in (
            CreateAclsRequest([MAY_WRITE]),
            DeleteAclsRequest([AclBindingFilter()]),
            DescribeAclsRequest(AclBindingFilter()),
        ):
            assert (await cluster.ask(request, name="app")).error_code == code
        may_look = AclBinding(CLUSTER, LITERAL, CLUSTER_NAME, "User:app", "*", DESCRIBE, ALLOW)
        await cluster.allow(may_look)
        listed = await cluster.ask(DescribeAclsRequest(AclBindingFilter()), name="app")
        assert listed.entries == [may_look]


async def test_a_broker_that_restarts_knows_what_it_decides_by_before_it_registers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with AclCluster(tmp_path, 3) as cluster:
        await spread(cluster)
        version = await cluster.allow(MAY_WRITE)
        back = next(b for b in cluster.brokers if b != cluster.controller.broker_id)
        await cluster.stop_broker(back)
        newer = await cluster.allow(MAY_READ)
        assert newer > version
        caplog.set_level("INFO")
        broker: Broker = await cluster.start_broker(back)
        assert broker.acls.version == newer
        lines = [record.getMessage() for record in caplog.records]
        learned = next(n for n, line in enumerate(lines) if f"acls_changed version={newer}" in line)
        registered = next(n for n, line in enumerate(lines) if "broker_registered" in line)
        assert learned < registered
        await cluster.converged()
        assert await cluster.writes() == {0}


async def test_a_new_controller_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    async with AclCluster(tmp_path, 3) as cluster:
        await spread(cluster)
        version = await cluster.allow(MAY_WRITE)
        await cluster.crash_broker(cluster.controller.broker_id)
        await cluster.converged()
        assert await cluster.writes() == {0}
        assert await cluster.allow(MAY_READ) == version + 1
        await cluster.take_back(AclBindingFilter(principal="User:app"))
        assert await cluster.writes() == {REFUSED}


@pytest.mark.hostile(55)
async def test_what_a_spoilt_node_held_is_denied_and_the_rest_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have held a DENY, so that not even the ACLs of other patterns allow anything there."""
    everywhere = replace(MAY_WRITE, name=WILDCARD)
    async with AclCluster(tmp_path, 3) as cluster:
        await spread(cluster)
        await spread(cluster, "spoilt")
        await cluster.allow(everywhere, replace(MAY_WRITE, name="spoilt"))
        assert await cluster.writes(topic="spoilt") == {0}
        acls = f"{security_nodes.ACLS}/TOPIC/LITERAL"
        spoilt = security_nodes.acls_path(replace(MAY_WRITE, name="spoilt").pattern)
        tomorrow = b'{"version":2,"acls":[]}'
        impossible = [AclPattern(TOPIC, LITERAL, name) for name in ("a b", "a*", "x" * 300, "\0")]
        names = [security_nodes.acls_path(pattern) for pattern in impossible]
        names += [f"{acls}/%", f"{security_nodes.ACLS}/TOPIC/PREFIXED/Kg"]
        cluster.zookeeper.apply(
            SetData(spoilt, tomorrow),
            *(Create(name, tomorrow) for name in names),
            SetData(security_nodes.VERSION, tomorrow),
        )
        await cluster.crash_broker(cluster.controller.broker_id)
        await cluster.converged()
        assert await cluster.writes(topic="spoilt") == {REFUSED}
        assert await cluster.writes() == {0}
        assert await cluster.writes("admin", "spoilt") == {0}
        told = [line for line in caplog.text.splitlines() if "acls_unreadable" in line]
        assert sum("ERROR" in line for line in told) >= 1 + len(names)
        for path in (spoilt, *names):
            assert any(f"path={path} " in line for line in told)
        # Whoever may alter ACLs repairs it: what is there of the pattern goes, and is written anew.
        await cluster.take_back(AclBindingFilter(TOPIC, LITERAL, "spoilt"))
        assert await cluster.writes(topic="spoilt") == {0}


async def test_brokers_need_no_acl_for_their_own_work(tmp_path: Path) -> None:
    """A topic is made for the offsets of groups, which a broker asks the controller for."""
    async with AclCluster(tmp_path, 2) as cluster:
        await cluster.allow(
            AclBinding(GROUP, LITERAL, "team", "User:app", "*", READ, ALLOW),
            AclBinding(TOPIC, LITERAL, "mine", "User:app", "*", CREATE, ALLOW),
        )
        for broker_id in (1, 2):
            channel = await cluster.channel(broker_id, name="app")
            async with asyncio.timeout(15):
                while await find(channel):
                    await asyncio.sleep(0.02)
            channel.close()


async def find(channel: RequestChannel) -> int:
    """Return what a broker says to who looks for the coordinator of a group."""
    code: int = (await channel.call(FindCoordinatorRequest("team"), timeout_s=5)).message.error_code
    assert code in (0, CoordinatorNotAvailableError.code)
    return code


async def test_without_the_authorizer_nobody_is_refused_and_acls_are_disabled(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        request = CreateAclsRequest([MAY_WRITE])
        answer = await cluster.call(cluster.controller.broker_id, request)
        assert answer.error_code == SecurityDisabledError.code
        assert cluster.brokers[1].acls.version == -1


async def test_brokers_are_secured_one_after_the_other(tmp_path: Path) -> None:
    """One that does not decide by ACLs yet acknowledges what it is told all the same."""
    async with AclCluster(tmp_path, 2, authorizer="none") as cluster:
        await cluster.create_topic("t", replication_factor=2)
        for broker_id in (1, 2):
            await cluster.stop_broker(broker_id)
            await cluster.start_broker(broker_id, authorizer="acl")
            await cluster.converged()
        await cluster.allow(MAY_WRITE)
        channel = await cluster.channel(cluster.leader("t"), name="app")
        assert (await produce(channel, "t", 0, [b"v"])).error_code == 0


@pytest.mark.hostile(36)
async def test_a_right_that_is_taken_back_ends_what_waits_for_it(tmp_path: Path) -> None:
    async with AclCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        await cluster.allow(MAY_READ)
        channel = await cluster.channel(1, name="app")
        waiting = asyncio.create_task(fetch_values(channel, "t", 0, wait_ms=60_000))
        deadlines = cluster.brokers[1].replicas.deadlines
        await eventually(lambda: len(deadlines) > 0)
        assert not waiting.done()
        await cluster.take_back(AclBindingFilter())
        with pytest.raises(TopicAuthorizationFailedError):
            async with asyncio.timeout(15):
                await waiting


async def test_brokers_that_were_not_told_the_newest_version_refuse_clients_and_go_on_replicating(
    tmp_path: Path,
) -> None:
    async with AclCluster(tmp_path, 3, security_stale_max_ms=1000) as cluster:
        await spread(cluster)
        await cluster.allow(MAY_WRITE)
        channels = [await cluster.channel(cluster.leader("t", n), name="app") for n in range(3)]
        store = cluster.brokers[1].metadata_store
        await store.set(security_nodes.VERSION, security_nodes.encode_version(2))
        brokers = list(cluster.brokers.values())
        await eventually(lambda: all(broker.dispatcher.suspended for broker in brokers))
        for number, channel in enumerate(channels):
            with pytest.raises(BrokerNotAvailableError):
                await produce(channel, "t", number, [b"v"])
        assert all(len(cluster.state("t", n).isr) == 3 for n in range(3))
        await cluster.stop_broker(cluster.controller.broker_id)
        brokers = list(cluster.brokers.values())
        await eventually(lambda: not any(broker.dispatcher.suspended for broker in brokers))
        assert await cluster.writes() == {0}, "the next controller has told them"
