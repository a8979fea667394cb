"""A real cluster puts on record who was let in, who was refused, and who changed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.server.audit import AUDIT_LOGGER
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.admin import DeleteTopicsRequest
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.replication import StopReplicaRequest
from oncelog_protocol.types import NO_BROKER
from support.acl_cluster import AclCluster
from support.hand_records import fetch_values, produce

SUPER = "super_users names the principal"


class Record:
    """It has what the audit has written."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level("INFO", logger=AUDIT_LOGGER)

    def of(self, principal: str, event: str) -> list[Any]:
        """Return the lines of an event about a principal."""
        lines: list[Any] = [r.msg for r in self._caplog.records if r.name == AUDIT_LOGGER]
        return [line for line in lines if line["event"] == event and line["principal"] == principal]

    def clear(self) -> None:
        self._caplog.clear()


async def test_denials_and_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = Record(caplog)
    async with AclCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        (created,) = record.of("User:admin", "audit_change")
        assert (created["resource"], created["outcome"]) == ("topic:t", "done")
        assert (created["acl"], created["listener"]) == (SUPER, "external")
        (known,) = record.of("User:admin", "audit_authenticated")
        assert (known["mechanism"], known["client_id"]) == ("CERTIFICATE", "test")

        app = await cluster.channel(1, name="app")
        for _ in range(3):
            assert (await produce(app, "t", 0, [b"v"])).error_code == 29
        (denied,) = record.of("User:app", "audit_denied")
        assert (denied["operation"], denied["resource"]) == ("WRITE", "topic:t")
        assert denied["acl"] == "no ACL allows it"
        assert denied["address"].startswith("127.0.0.1:")
        record.clear()
        await app.call(MetadataRequest(None), timeout_s=5)
        assert record.of("User:app", "audit_denied") == [], "a list leaves out what is hidden"
        await app.call(MetadataRequest(["t"]), timeout_s=5)
        (denied,) = record.of("User:app", "audit_denied")
        assert (denied["operation"], denied["resource"]) == ("DESCRIBE", "topic:t")
        await app.call(DeleteTopicsRequest(["t"], 5000), timeout_s=5)
        (change,) = record.of("User:app", "audit_change")
        assert (change["api"], change["resource"]) == ("DELETE_TOPICS", "topic:t")
        assert change["outcome"] == TopicAuthorizationFailedError.name
        app.close()

        record.clear()
        admin = await cluster.channel(1)
        assert (await produce(admin, "t", 0, [b"v"])).error_code == 0
        assert await fetch_values(admin, "t", 0) == [b"v"]
        assert record.of("User:admin", "audit_change") == [], "reads and writes are not on record"
        admin.close()
        audit = cluster.brokers[1].audit
        assert audit.denials["WRITE", "TOPIC"] == 3
        assert audit.authentications["CERTIFICATE", "success"] >= 2


@pytest.mark.hostile(38)
async def test_a_client_that_gives_orders_is_on_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = Record(caplog)
    async with AclCluster(tmp_path, 1) as cluster:
        epoch = cluster.brokers[1].broker_epoch
        order = StopReplicaRequest(1, 99, epoch, [])
        for own_broker_id in (NO_BROKER, 1):
            channel = await cluster.channel(1, "internal", own_broker_id=own_broker_id, name="app")
            answer = (await channel.call(order, timeout_s=5)).message
            assert answer.error_code == ClusterAuthorizationFailedError.code
            channel.close()
        (denied,) = record.of("User:app", "audit_denied")
        assert (denied["operation"], denied["resource"]) == ("CLUSTER_ACTION", "cluster")
        assert denied["acl"].startswith("StopReplicaRequest: ")
        (false,) = record.of("User:app", "audit_authentication_failed")
        assert (false["mechanism"], false["reason"]) == (
            "BROKER_ID",
            "User:app says that it is broker 1",
        )
