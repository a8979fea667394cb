"""Each rule of security is left out here: what it guards against is seen then.

``tests/simulation/ablations.py`` has the same rules, under faults.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_broker.server.authorizer import READ, AllowAllAuthorizer
from oncelog_broker.server.handlers.fetch import FetchHandler
from oncelog_broker.server.listener import Listener
from oncelog_broker.server.listener_security import ListenerSecurity
from oncelog_broker.server.request import RequestContext
from oncelog_broker.server.safeguards import SAFE, SecuritySafeguards
from oncelog_broker.server.users import Users
from oncelog_protocol.acl_state import AclState
from oncelog_protocol.errors import TopicAuthorizationFailedError
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.types import TopicPartition
from support.replication_cluster import Cluster, call, make_context
from support.room_settings import connection_settings
from support.safeguards import decisions, left_out
from unsafe.security import UNSAFE, without

TP = TopicPartition("t", 0)


def test_every_rule_can_be_left_out() -> None:
    assert left_out(UNSAFE.values()) == decisions(SecuritySafeguards)


@pytest.mark.ablation("bind_broker_id")
@pytest.mark.parametrize(
    ("safeguards", "taken_for"), [(SAFE, None), (without("bind_broker_id"), 2)]
)
async def test_a_broker_that_names_another_is_taken_for_it_if_names_are_believed(
    safeguards: SecuritySafeguards, taken_for: int | None
) -> None:
    security = ListenerSecurity(
        proves_peers=True, broker_principal="User:broker-{id}", sasl=(Mechanism.SCRAM_SHA_256,)
    )
    listener = Listener(
        "internal",
        internal=True,
        dispatcher=cast(Any, None),
        limits=connection_settings(),
        pool=cast(Any, None),
        security=security,
        security_safeguards=safeguards,
    )
    known = SimpleNamespace(principal="User:broker-1")
    channel: Any = SimpleNamespace(
        state=SimpleNamespace(known=known), peer="10.0.0.1:1", peer_host="10.0.0.1"
    )
    assert listener.asker(channel, 1) == 1
    assert listener.asker(channel, 2) == taken_for


@pytest.mark.ablation("newer_version_only")
@pytest.mark.parametrize(("safeguards", "version"), [(SAFE, 5), (without("newer_version_only"), 3)])
def test_an_older_version_decides_if_the_last_to_come_does(
    safeguards: SecuritySafeguards, version: int
) -> None:
    acls, users = AclAuthorizer((), safeguards), Users(b"", safeguards)
    for told in (5, 3):
        acls.replace(AclState(told))
        users.replace(told, b"", [])
    assert (acls.version, users.version) == (version, version)


class UntilTaken(AllowAllAuthorizer):
    """It allows everything, until the right to read is taken."""

    def __init__(self) -> None:
        self.taken = False

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        return not (self.taken and operation == READ)


@pytest.mark.ablation("recheck_parked")
@pytest.mark.parametrize(
    ("safeguards", "answered"), [(SAFE, True), (without("recheck_parked"), False)]
)
async def test_a_fetch_that_waits_reads_on_if_it_is_asked_once(
    safeguards: SecuritySafeguards, answered: bool
) -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        authorizer = UntilTaken()
        handler = FetchHandler(cluster[1].replicas, authorizer, safeguards=safeguards)
        context = make_context()
        topics = [FetchTopic("t", [FetchPartition(0, 0, 1 << 20)], "id")]
        waits = call(
            handler, FetchRequest(-1, 0, 10_000, 1, 1 << 20, 0, -1, topics), context=context
        )
        authorizer.taken = True
        handler.look_again()
        for _ in range(3):
            await asyncio.sleep(0)
        assert bool(waits.count) == answered
        if answered:
            message = await waits.wait()
            assert message.topics[0].partitions[0].error_code == TopicAuthorizationFailedError.code
        for callback in context.connection.on_close:
            callback()
