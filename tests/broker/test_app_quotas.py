"""Real brokers count by the quotas of their cluster: all of them, at once, and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog.admin.quotas import QuotaAlteration
from oncelog_broker.app import Broker
from oncelog_protocol.acls import ALLOW, LITERAL, TOPIC, WRITE, AclBinding
from oncelog_protocol.errors import ThrottlingQuotaExceededError
from oncelog_protocol.messages.acls import CreateAclsRequest
from oncelog_protocol.messages.quotas import AlterQuotasRequest, QuotaChange
from oncelog_protocol.quotas import (
    CONNECTIONS,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    QuotaEntity,
)
from support.hand_records import produce
from support.scram_cluster import ScramCluster
from support.tls_cluster import TlsCluster
from support.waiting import eventually

APP = QuotaEntity("app")
ANYBODY = QuotaEntity(DEFAULT_ENTITY)
HOST = QuotaEntity(None, None, "127.0.0.1")
ADMIN = "client"
"""Whoever says no other name on a cluster of these tests; it is a super user."""
MAY_WRITE = AclBinding(TOPIC, LITERAL, "t", "User:app", "*", WRITE, ALLOW)


class QuotaCluster(TlsCluster):
    def __init__(self, directory: Path, brokers: int) -> None:
        settings: dict[str, Any] = {"authorizer": "acl", "super_users": [f"User:{ADMIN}"]}
        super().__init__(directory, brokers, **settings)

    async def set(self, entity: QuotaEntity, **values: float | None) -> None:
        """Set quotas of an entity; None takes one away."""
        changes = [QuotaChange(*entity, key, value) for key, value in values.items()]
        response = await self.call(self.controller.broker_id, AlterQuotasRequest(changes))
        assert [response.error_code, *(each.error_code for each in response.results)] == [0] * (
            1 + len(changes)
        )

    async def writes(self, name: str) -> int:
        """Return what a user is told who writes."""
        channel = await self.channel(self.leader("t"), name=name)
        try:
            return (await produce(channel, "t", 0, [b"v"])).error_code
        finally:
            channel.close()


async def test_a_quota_is_in_force_on_every_broker_when_it_is_acknowledged(tmp_path: Path) -> None:
    async with QuotaCluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        await cluster.call(cluster.controller.broker_id, CreateAclsRequest([MAY_WRITE]))
        assert await cluster.writes("app") == 0
        await cluster.set(APP, **{PRODUCER_BYTE_RATE: 0.0})
        for broker in cluster.brokers.values():
            assert broker.known_quotas.values == {APP: {PRODUCER_BYTE_RATE: 0}}
        with pytest.raises(ThrottlingQuotaExceededError):
            await cluster.writes("app")
        await cluster.set(APP, **{PRODUCER_BYTE_RATE: None})
        assert await cluster.writes("app") == 0


async def test_brokers_and_super_users_have_no_quotas(tmp_path: Path) -> None:
    async with QuotaCluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        await cluster.set(ANYBODY, **{PRODUCER_BYTE_RATE: 0.0, REQUEST_RATE: 0.0})
        assert await cluster.writes(ADMIN) == 0, "and followers follow: acks=all"
        await cluster.stop_broker(cluster.controller.broker_id)
        await eventually(lambda: cluster.state("t").leader >= 0)
        assert await cluster.writes(ADMIN) == 0


async def test_quotas_outlive_the_controller_and_are_known_before_anybody_is_served(
    tmp_path: Path,
) -> None:
    async with QuotaCluster(tmp_path, 3) as cluster:
        await cluster.set(APP, **{REQUEST_RATE: 7.5})
        gone = cluster.controller.broker_id
        await cluster.stop_broker(gone)
        await cluster.converged()
        await cluster.set(HOST, **{CONNECTIONS: 100.0})
        await cluster.start_broker(gone)
        expected = {APP: {REQUEST_RATE: 7.5}, HOST: {CONNECTIONS: 100}}
        for broker in cluster.brokers.values():
            assert broker.known_quotas.values == expected


@pytest.mark.parametrize("authorizer", ["acl", "none"])
async def test_a_broker_that_restarts_knows_quotas_before_it_registers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, authorizer: str
) -> None:
    """Quotas are also of users of a cluster that does not decide by ACLs."""
    supers = ["User:admin"] if authorizer == "acl" else []
    settings: dict[str, Any] = {"authorizer": authorizer, "super_users": supers}
    async with ScramCluster(tmp_path, 2, **settings) as cluster:
        async with cluster.admin() as admin:
            quota = QuotaAlteration(APP, {REQUEST_RATE: 7.5})
            (await admin.alter_quotas([quota])).raise_for_errors()
        back = next(b for b in cluster.brokers if b != cluster.controller.broker_id)
        await cluster.stop_broker(back)
        caplog.set_level("INFO")
        broker: Broker = await cluster.start_broker(back)
        assert broker.known_quotas.values == {APP: {REQUEST_RATE: 7.5}}
        lines = [record.getMessage() for record in caplog.records]
        learned = next(n for n, line in enumerate(lines) if "quotas_changed" in line)
        registered = next(n for n, line in enumerate(lines) if "broker_registered" in line)
        assert learned < registered


async def test_an_address_has_so_many_connections_of_clients(tmp_path: Path) -> None:
    async with QuotaCluster(tmp_path, 3) as cluster:
        await cluster.set(HOST, **{CONNECTIONS: 0.0})
        with pytest.raises(OSError):
            await cluster.channel(1)
        listeners = cluster.brokers[1].listeners
        assert listeners["external"].counters.refused == 1
        assert listeners["internal"].counters.refused == 0
        broker = await cluster.channel(1, "internal", own_broker_id=2)
        broker.close()
