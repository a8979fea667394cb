"""StopReplica is fenced, then carried out."""

from __future__ import annotations

from typing import cast

import pytest

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.handlers.stop_replica import StopReplicaHandler
from oncelog_protocol.errors import StaleControllerEpochError
from oncelog_protocol.messages.replication import ReplicaResult, StopPartition, StopReplicaRequest
from support.fence import OpenFence
from support.server import make_context


class Replicas:
    async def stop_replicas(self, request: StopReplicaRequest) -> list[ReplicaResult]:
        return [ReplicaResult(p.topic, p.partition, 0) for p in request.partitions]


async def test_an_order_of_a_deposed_controller_stops_nothing() -> None:
    fence = OpenFence()
    fence.registered(1)
    handler = StopReplicaHandler(fence, cast(ReplicaManager, Replicas()))
    request = StopReplicaRequest(1, 3, 1, [StopPartition("t", "id", 0, 2, True)])
    response = await handler.handle_async(make_context(), request)
    assert [(r.topic, r.error_code) for r in response.partitions] == [("t", 0)]
    fence.controller_epoch = 4
    with pytest.raises(StaleControllerEpochError):
        await handler.handle_async(make_context(), request)
