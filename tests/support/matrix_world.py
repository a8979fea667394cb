"""A running broker is asked for what the matrix of rights has rows of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from oncelog_broker.server.authorizer import CLUSTER, AllowAllAuthorizer, Authorizer
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import (
    COORDINATOR_TRANSACTION,
    FindCoordinatorRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsToTxnRequest,
    InitPidRequest,
    TxnTopic,
)
from oncelog_protocol.types import NO_BROKER
from support.cluster import Cluster
from support.matrix import (
    BROKER,
    FRESH,
    PRODUCER_ID,
    MatrixRow,
    of_api,
    outcome,
    renamed,
    request_of,
)

__all__ = ["Asked", "World", "is_of_the_test", "is_open", "world"]


class World:
    """It is a running broker with something of everything."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.producer_id = -1
        self._count = 0

    async def ask(self, row: MatrixRow, **names: str) -> Any:
        """Return the answer to the row's request, with other names in it."""
        listener, own = ("internal", BROKER) if row.from_broker else ("external", NO_BROKER)
        channel = await self.cluster.channel(1, listener, own_broker_id=own)
        try:
            self._count += 1
            fresh = f"fresh-{self._count}"
            given: dict[Any, Any] = {"fresh": fresh, PRODUCER_ID: self.producer_id, **names}
            request, payload = request_of(row)
            reply = await channel.call(renamed(request, given), payload, timeout_s=15)
            return renamed(reply.message, {fresh: "fresh"})
        finally:
            channel.close()
            await channel.wait_closed()


@asynccontextmanager
async def world(directory: Path, authorizer: Authorizer) -> AsyncIterator[World]:
    """Run a broker with this authorizer, in which everything that rows name is there."""
    async with Cluster(
        directory,
        options={"authorizer": authorizer},
        auto_create_topics_enable=True,
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    ) as cluster:
        await cluster.create_topic("orders", partitions=2)
        await cluster.create_topic("open")
        made = World(cluster)
        for key, kind in (("team", 0), ("payer", COORDINATOR_TRANSACTION)):
            await _served(cluster, FindCoordinatorRequest(key, kind))
        given = await _served(cluster, InitPidRequest("payer", 60_000))
        made.producer_id = given.producer_id
        txn = AddedTransaction(
            "payer", given.producer_id, given.producer_epoch, [TxnTopic("orders", [0])]
        )
        await _served(cluster, AddPartitionsToTxnRequest([txn]))
        (commit,) = of_api(ApiKey.OFFSET_COMMIT)
        await _served(cluster, request_of(commit)[0])
        kept = OffsetCommitTopic("orders", [OffsetCommitPartition(1, 0)])
        await _served(cluster, OffsetCommitRequest("team", -1, "", None, [kept]))
        yield made


async def _served(cluster: Cluster, request: Any) -> Any:
    """Ask until it is served: coordinators take a moment."""
    served: list[Any] = []

    async def tried() -> bool:
        response = await cluster.call(1, request)
        if not any(code for _, code in outcome(response)):
            served.append(response)
        return bool(served)

    async with asyncio.timeout(15):
        while not await tried():
            await asyncio.sleep(0)
    return served[0]


class Asked(AllowAllAuthorizer):
    """It allows all but ``refused`` and ``denied``, and notes what the test's requests ask for.

    What a broker does for itself is not noted, and allowed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refused: frozenset[str] = frozenset()
        self.denied: frozenset[str] = frozenset()

    def without(self, *refused: str, denied: str = "") -> None:
        """Refuse these from now on, and deny one; nothing was asked yet."""
        self.asked.clear()
        self.refused = frozenset(refused)
        self.denied = frozenset(filter(None, [denied]))

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        name = "" if resource_type == CLUSTER else f" {resource_name}"
        return self._may(context, f"{operation} {resource_type}{name}", resource_name)

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        return self._may(context, f"{operation} some {resource_type}")

    def denies(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        name = "" if resource_type == CLUSTER else f" {resource_name}"
        return is_of_the_test(context) and f"{operation} {resource_type}{name}" in self.denied

    def _may(self, context: RequestContext, asked: str, name: str = "") -> bool:
        if not is_of_the_test(context) or is_open(name):
            return True
        for new in FRESH.findall(asked):
            asked = asked.replace(new, "fresh")
        self.asked.append(asked)
        return asked not in self.refused | self.denied


def is_of_the_test(context: RequestContext) -> bool:
    """Return whether the test asks, and not the broker itself."""
    return context.listener == "external" or context.introduction.own_broker_id == BROKER


def is_open(name: str) -> bool:
    """Return whether a resource stands beside the one that a row asks about."""
    return name.startswith(("open", "__"))
