"""Admin calls give a result an item, find the controller, and keep deadlines."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import Admin, NewTopic, TopicPartition
from oncelog.admin import admin as admin_module
from oncelog.admin.results import WhoAmI
from oncelog.errors import (
    BrokerNotAvailableError,
    BrokerUnreachableError,
    ClosedError,
    ConfigurationError,
    DeadlineExceededError,
    NoBrokersAvailableError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from oncelog_protocol.errors import LogDirNotFoundError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.handshake import ApiVersionRange
from oncelog_protocol.registry import supported_ranges
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_runtime.entropy import SeededEntropy
from support import fake_handlers
from support.fake_cluster import Action, FakeCluster
from support.fake_security import FakeSecurity


def make(cluster: FakeCluster, **options: Any) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1), **options)


async def test_topics_from_beginning_to_end() -> None:
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        results = await admin.create_topics([NewTopic("b", partitions=3), "a"])
        assert [result.topic for result in results] == ["b", "a"]
        assert results.raise_for_errors()[0].partition_count == 3
        again = await admin.create_topics(["a", "c"])
        assert isinstance(again[0].error, TopicAlreadyExistsError)
        assert again[1].error is None
        assert await admin.list_topics() == ["a", "b", "c"]
        (grown,) = await admin.create_partitions({"a": 4})
        assert grown.partition_count == 4
        described = await admin.describe_topics(["b", "missing"])
        assert [p.leader for p in described[0].partitions] == [1, 2, 1]
        assert isinstance(described[1].error, UnknownTopicOrPartitionError)
        assert [topic.topic for topic in await admin.describe_topics()] == ["a", "b", "c"]
        deleted = await admin.delete_topics(["a", "missing"])
        assert deleted[0].error is None
        assert "missing" in str(deleted[1].error)
        assert await admin.list_topics() == ["b", "c"]


async def test_the_controller_is_found() -> None:
    async with FakeCluster(3) as cluster, make(cluster) as admin:
        await admin.create_topics(["a"])
        cluster.controller_id = 3
        (result,) = await admin.create_topics(["b"])
        assert result.error is None
        (altered,) = await admin.alter_configs({"a": {"retention_ms": "5", "x": None}})
        assert altered.error is None
        wishes: dict[int | None, dict[str, str | None]] = {
            None: {"log_level": "debug"},
            2: {"log_level": None},
        }
        changed = await admin.alter_broker_configs(wishes, validate_only=True)
        assert [(each.kind, each.name, each.error) for each in changed] == [
            ("broker", "", None),
            ("broker", "2", None),
        ]
        sent = [request for broker, request in cluster.requests if broker == 3][-1]
        assert [each.entries[0].value for each in sent.resources] == ["debug", None]
        assert sent.validate_only
        partition = TopicPartition("a", 0)
        (elected,) = await admin.elect_leaders([partition])
        assert (elected.partition, elected.error) == (partition, None)
        assert cluster.count(ApiKey.ELECT_LEADERS, 3) == 1


async def test_who_a_client_is() -> None:
    async with FakeCluster() as cluster, make(cluster) as admin:
        address = f"127.0.0.1:{cluster.brokers[1].port}"
        assert await admin.whoami() == WhoAmI(
            "User:ANONYMOUS", "", "fake", 1, address, "fake", "none"
        )
        cluster.security = FakeSecurity(Mechanism.PLAIN)  # its brokers do not say it
        with pytest.raises(UnsupportedVersionError, match="as whom"):
            await admin.whoami()


async def test_a_lost_answer_is_asked_for_again() -> None:
    async with FakeCluster() as cluster, make(cluster) as admin:
        cluster.rule(ApiKey.CREATE_TOPICS, Action.DROP_AFTER)
        (result,) = await admin.create_topics(["a"])
        assert isinstance(result.error, TopicAlreadyExistsError), "it was our own work"


async def test_calls_end_by_their_deadlines() -> None:
    async with FakeCluster() as cluster, make(cluster) as admin:
        cluster.controller_id = -1
        with pytest.raises(DeadlineExceededError, match="CreateTopics"):
            await admin.create_topics(["a"], timeout_ms=100)
        held = cluster.rule(ApiKey.METADATA, Action.HOLD, times=100)
        with pytest.raises(DeadlineExceededError):
            await admin.list_topics(timeout_ms=100)
        held.release.set()


async def test_cluster_configs_and_log_dirs() -> None:
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        await admin.create_topics(["a"])
        description = await admin.describe_cluster()
        assert (description.cluster_id, description.controller_id) == ("fake", 1)
        assert [broker.broker_id for broker in description.brokers] == [1, 2]
        port = cluster.brokers[2].port
        assert description.brokers[1].listeners == {"external": ("127.0.0.1", port)}
        told = [(broker.state, broker.http) for broker in description.brokers]
        assert told == [("active", ""), ("active", "127.0.0.1:9642")]
        configs = await admin.describe_configs(
            topics=["a"], brokers=[2, None], keys=["retention_ms"]
        )
        named = [(c.kind, c.name) for c in configs]
        assert named == [("topic", "a"), ("broker", "2"), ("broker", "")]
        assert configs[0].settings["retention_ms"].value == "1000"
        log_dirs = await admin.describe_log_dirs()
        assert [log_dir.broker_id for log_dir in log_dirs] == [1, 2]
        assert log_dirs[0].replicas[0].partition == TopicPartition("a", 0)


async def test_a_broker_of_an_older_release_says_nothing_of_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def older() -> list[ApiVersionRange]:
        others = [r for r in supported_ranges() if r.api_key != ApiKey.DESCRIBE_CLUSTER]
        return [*others, ApiVersionRange(ApiKey.DESCRIBE_CLUSTER, 0, 0)]

    monkeypatch.setattr(fake_handlers, "supported_ranges", older)
    async with FakeCluster(1) as cluster, make(cluster) as admin:
        (broker,) = (await admin.describe_cluster()).brokers
        assert (broker.broker_id, broker.state, broker.http) == (1, None, None)


async def test_a_broker_that_does_not_answer_is_one_entry() -> None:
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        await cluster.brokers[2].stop()
        cluster.rule(ApiKey.DESCRIBE_LOG_DIRS, Action.ERROR, error=RequestTimedOutError, broker=1)
        first, second = await admin.describe_log_dirs()
        assert isinstance(first.error, RequestTimedOutError)
        assert isinstance(second.error, BrokerUnreachableError)
        assert second.path == ""


async def test_configs_of_a_broker_that_is_not_alive_say_so() -> None:
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        listed, other = await admin.describe_configs(brokers=[9, 2], timeout_ms=60_000)
        assert isinstance(listed.error, BrokerNotAvailableError)
        assert str(listed.error) == "broker 9 is not alive; brokers that are: 1, 2"
        assert (other.name, other.error) == ("2", None)
        assert cluster.count(ApiKey.DESCRIBE_CONFIGS) == 1  # nobody was asked in its place


async def test_configs_of_a_broker_that_is_listed_and_lets_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admin_module, "NOT_ALIVE_S", 0.05)
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        await cluster.brokers[2].stop()
        (outcome,) = await admin.describe_configs(brokers=[2], timeout_ms=60_000)
        assert isinstance(outcome.error, BrokerNotAvailableError)
        assert "broker 2 is not alive: broker 2 at 127.0.0.1" in str(outcome.error)


async def test_what_contradicts_itself_is_not_sent() -> None:
    async with FakeCluster() as cluster, make(cluster) as admin:
        with pytest.raises(ConfigurationError, match="assignment"):
            await admin.create_topics([NewTopic("a", partitions=1, assignment=[[1]])])
        await admin.create_topics([NewTopic("a", assignment=[[1]], configs={"k": "v"})])


async def test_closed_and_nobody_there() -> None:
    async with FakeCluster() as cluster:
        admin = make(cluster)
        with pytest.raises(ClosedError):
            await admin.list_topics()
        await admin.start()
        with pytest.raises(ClosedError, match="already"):
            await admin.start()
        await admin.close()
        await admin.close()
        with pytest.raises(ClosedError):
            await admin.describe_cluster()
        await admin.start()
        assert await admin.list_topics() == []
        await admin.close()
    with pytest.raises(NoBrokersAvailableError):
        await admin.start()


async def test_replicas_go_to_other_directories() -> None:
    async with FakeCluster(2) as cluster, make(cluster) as admin:
        places = {TopicPartition("a", 0): "/data", TopicPartition("a", 1): "/none"}
        moved, refused = await admin.alter_replica_log_dirs(2, places)
        assert (moved.partition, moved.error, moved.bytes_to_copy) == (("a", 0), None, 10)
        assert isinstance(refused.error, LogDirNotFoundError)
        assert refused.bytes_to_copy is None
