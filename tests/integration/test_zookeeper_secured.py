"""A cluster under load goes over to a ZooKeeper with TLS and nodes of its own, and back again."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.toml_writer import Value
from support.tls_zookeeper import TlsZooKeeper
from support.waiting import eventually, in_thread

pytestmark = [
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(420),
]

CHROOT = "/migrated"
TOPIC = "orders"
DEADLINE_S = 60.0
SETTINGS: dict[str, Value] = {
    "authorizer": "acl",
    "super_users": ["User:ANONYMOUS"],
    "default_replication_factor": 2,
    "offsets_topic_replication_factor": 2,
    "transaction_state_log_replication_factor": 2,
    "zookeeper_session_timeout_ms": 6000,
}


class Migrated:
    """It is a cluster of two brokers, and a ZooKeeper that it goes over to."""

    def __init__(self, directory: Path, zookeeper: TlsZooKeeper) -> None:
        self.zookeeper = zookeeper
        plain = f"{zookeeper.server.address}{CHROOT}"
        self.cluster = LocalCluster(directory, brokers=2, zookeeper=plain, settings=SETTINGS)
        password = directory / "zookeeper.password"
        directory.mkdir()
        password.write_text("a long password")
        password.chmod(0o600)
        self.by_tls: dict[str, Value] = {**zookeeper.settings()}
        self.identity: dict[str, Value] = {
            **self.by_tls,
            "zookeeper_user": "oncelog",
            "zookeeper_password_file": str(password),
        }

    async def restart_with(self, more: Mapping[str, Value]) -> None:
        """Restart the brokers one by one with these settings of ZooKeeper."""
        for broker_id, broker in self.cluster.brokers.items():
            self._configure(broker_id, more)
            assert await in_thread(broker.stop)
            await in_thread(self.cluster.start_broker, broker_id, DEADLINE_S)

    def _configure(self, broker_id: int, more: Mapping[str, Value]) -> None:
        address = self.zookeeper.tls_address if more else self.zookeeper.server.address
        broker = self.cluster.broker(broker_id)
        broker.write_config(f"{address}{CHROOT}", {**SETTINGS, **more})

    async def walk(self, option: str) -> int:
        """Run the program that changes the tree; return how many nodes it says it has changed."""
        config = self.cluster.broker(1).config_path
        command = [sys.executable, "-m", "oncelog_broker", "--config", str(config), option]
        done = await in_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=DEADLINE_S
        )
        assert (done.returncode, done.stderr) == (0, "")
        found = re.match(r"changed (\d+) node", done.stdout)
        assert found is not None
        return int(found[1])

    def forbidden(self) -> dict[str, bool]:
        """Return of every node whether nobody can read it, as one who is no broker sees it."""
        address = self.zookeeper.server.address
        stranger = KazooClient(address)
        broker = KazooClient(address, auth_data=[("digest", "oncelog:a long password")])
        clients = (stranger, broker)
        found: dict[str, bool] = {}
        try:
            for each in clients:
                each.start()
            paths = [CHROOT]
            while paths:
                path = paths.pop()
                with suppress(NoNodeError):  # the brokers go on meanwhile, and remove what is over
                    paths += [f"{path}/{name}" for name in broker.get_children(path)]
                    found[path] = not _may_read(stranger, path)
        finally:
            for each in clients:
                each.stop()
                each.close()
        return found

    async def controller(self) -> int:
        """Return who is controller; wait until there is one that serves."""
        async with Admin(self.cluster.bootstrap) as admin:
            return (await admin.describe_cluster()).controller_id

    async def fail_over(self) -> None:
        """Kill the controller: the other one takes over, and the first comes back."""
        killed = await self.controller()
        self.cluster.broker(killed).kill()
        async with asyncio.timeout(DEADLINE_S):
            while await self.controller() in (killed, -1):
                await asyncio.sleep(0.1)
        await in_thread(self.cluster.start_broker, killed, DEADLINE_S)


def _may_read(client: KazooClient, path: str) -> bool:
    try:
        client.get(path)
    except NoAuthError:
        return False
    return True


@asynccontextmanager
async def load(bootstrap: str) -> AsyncIterator[list[bytes]]:
    """Write records while the block runs; what was acknowledged is in the list."""
    acknowledged: list[bytes] = []

    async def write() -> None:
        async with Producer(bootstrap, delivery_timeout_ms=120_000) as producer:
            while True:
                record = str(len(acknowledged)).encode()
                await producer.send(TOPIC, record, partition=0)
                acknowledged.append(record)
                await asyncio.sleep(0.01)

    task = asyncio.create_task(write())
    yield acknowledged
    now = len(acknowledged)
    await eventually(lambda: task.done() or len(acknowledged) > now, timeout_s=DEADLINE_S)
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)


async def read(bootstrap: str, count: int) -> list[bytes | None]:
    """Return the first records."""
    found: list[bytes | None] = []
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        await consumer.seek_to_beginning()
        async with asyncio.timeout(DEADLINE_S):
            async for record in consumer:
                found.append(record.value)
                if len(found) == count:
                    break
    return found


async def test_a_cluster_goes_over_and_back_under_load(
    tls_zookeeper: TlsZooKeeper, tmp_path: Path
) -> None:
    migrated = Migrated(tmp_path / "cluster", tls_zookeeper)
    cluster = migrated.cluster
    await in_thread(cluster.start)
    try:
        async with Admin(cluster.bootstrap) as admin:
            (await admin.create_topics([NewTopic(TOPIC, 1, 2)])).raise_for_errors()
        async with load(cluster.bootstrap) as acknowledged:
            await there_and_back(migrated)
        assert await read(cluster.bootstrap, len(acknowledged)) == acknowledged
    finally:
        await in_thread(cluster.stop)


async def there_and_back(migrated: Migrated) -> None:
    assert not any((await in_thread(migrated.forbidden)).values())
    await migrated.restart_with(migrated.identity)
    closed: dict[str, Value] = {**migrated.identity, "zookeeper_acl": "creator"}
    await migrated.restart_with(closed)
    seen = await in_thread(migrated.forbidden)
    assert seen[f"{CHROOT}/controller"], "what is made anew is closed already"
    assert not seen[f"{CHROOT}/security"]
    assert await migrated.walk("--secure-zookeeper") > 20
    assert await migrated.walk("--secure-zookeeper") == 0
    seen = await in_thread(migrated.forbidden)
    assert all(seen.values())
    assert f"{CHROOT}/security/version" in seen
    await migrated.fail_over()
    assert all((await in_thread(migrated.forbidden)).values())

    await migrated.restart_with(migrated.identity)
    assert await migrated.walk("--open-zookeeper") > 20
    assert await migrated.walk("--open-zookeeper") == 0
    await migrated.restart_with({})
    assert not any((await in_thread(migrated.forbidden)).values())
