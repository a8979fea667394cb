"""Users authenticate to real brokers by SCRAM, and are nobody any more when they are deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin
from oncelog.admin.users import UserAlteration
from oncelog.errors import AuthenticationFailedError, TopicAuthorizationFailedError
from oncelog.security import Security
from oncelog_broker.app import Broker
from oncelog_broker.config import ListenerConfig
from oncelog_controller.first_users import add_user
from oncelog_protocol.acls import DESCRIBE, WRITE
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.messages.users import CREATE, UserWish
from oncelog_protocol.sasl.user import CredentialRow
from oncelog_testing.memory.store import MemoryMetadataStore
from support.cluster import Cluster
from support.sasl import CREDENTIALS, SECRET, SHA_512
from support.scram_cluster import ScramCluster
from support.waiting import eventually


async def test_a_user_lives_from_its_first_password_to_its_deletion(tmp_path: Path) -> None:
    async with ScramCluster(tmp_path, 2) as cluster, cluster.admin() as admin:
        await cluster.create_topic("t", partitions=2, replication_factor=2)
        with pytest.raises(AuthenticationFailedError):
            async with cluster.producer():
                pass
        created = UserAlteration.create("app", "pencil", iterations=4096)
        (await admin.alter_users([created])).raise_for_errors()
        with pytest.raises(AuthenticationFailedError):
            async with cluster.producer("pen"):
                pass
        security = Security(ca_file=cluster.papers.ca_file, username="app", password="pencil")
        async with Admin(cluster.servers("external"), security=security) as own:
            who = await own.whoami()
        assert (who.principal, who.authenticated_by) == ("User:app", "SCRAM-SHA-256")
        assert (who.listener, who.authorizer) == ("external", "acl")
        assert (await admin.whoami()).authenticated_by == "CERTIFICATE"
        await cluster.allow(DESCRIBE)
        async with cluster.producer(enable_idempotence=False) as producer:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send("t", b"refused", partition=0)
        await cluster.allow(WRITE)
        async with cluster.producer() as producer:
            for partition in range(2):
                await producer.send("t", b"taken", partition=partition)
            (await admin.alter_users([UserAlteration.delete("app")])).raise_for_errors()
            await eventually(lambda: not any(known(each) for each in cluster.brokers.values()))
        with pytest.raises(AuthenticationFailedError):
            async with cluster.producer():
                pass


def known(broker: Broker) -> bool:
    """Return whether somebody is connected as the user."""
    connections = broker.listeners["external"].connections
    return any(each.state.known.principal == "User:app" for each in connections)


async def test_a_broker_that_starts_knows_users_at_once(tmp_path: Path) -> None:
    async with ScramCluster(tmp_path, 2) as cluster, cluster.admin() as admin:
        created = UserAlteration.create("app", "pencil", iterations=4096)
        (await admin.alter_users([created])).raise_for_errors()
        await cluster.stop_broker(2)
        broker = await cluster.start_broker(2)
        assert broker.users.version >= 0
        host, port = broker.addresses["external"]
        security = Security(ca_file=cluster.papers.ca_file, username="app", password="pencil")
        channel = await security.dialer().open(
            host, port, ClientConnection("test"), connect_timeout_s=5
        )
        assert known(broker)
        channel.close()


class PasswordCluster(Cluster):
    """Brokers are known by passwords, on loopback without TLS; each has the password of all."""

    def __init__(self, directory: Path, brokers: int) -> None:
        super().__init__(directory, brokers)
        self._password_file = directory / "password"
        directory.mkdir(exist_ok=True)
        self._password_file.write_text("pencil")
        self._password_file.chmod(0o600)

    async def start_broker(self, broker_id: int, **settings: Any) -> Broker:
        sasl = ListenerConfig(name="internal", sasl_mechanisms=["SCRAM-SHA-512"])
        return await super().start_broker(
            broker_id,
            listeners=[sasl, ListenerConfig(name="external")],
            inter_broker_user=f"broker-{broker_id}",
            inter_broker_password_file=str(self._password_file),
            **settings,
        )


async def test_brokers_authenticate_by_passwords_from_their_first_start_on(tmp_path: Path) -> None:
    cluster = PasswordCluster(tmp_path / "brokers", 2)
    store = MemoryMetadataStore(cluster.zookeeper)
    await store.start()
    for broker_id in cluster.machines:
        rows = [CredentialRow.of(CREDENTIALS[SHA_512])]
        await add_user(store, UserWish(f"broker-{broker_id}", CREATE, rows), SECRET)
    await store.close()
    async with cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=2)
