"""LeaderAndIsr is fenced, then noted, then applied."""

from __future__ import annotations

from typing import cast

import pytest

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.handlers.leader_and_isr import LeaderAndIsrHandler
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.errors import StaleBrokerEpochError, StaleControllerEpochError
from oncelog_protocol.messages.metadata import ClusterBroker
from oncelog_protocol.messages.replication import LeaderAndIsrRequest, ReplicaResult
from support.fence import OpenFence
from support.server import make_context


class Replicas:
    """It remembers what the image knew when an order was applied."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.seen: list[list[int]] = []

    async def apply_leader_and_isr(self, request: LeaderAndIsrRequest) -> list[ReplicaResult]:
        self.seen.append(list(self.image.brokers))
        return [ReplicaResult("t", 0, 0)]


def order(controller_epoch: int, broker_epoch: int) -> LeaderAndIsrRequest:
    brokers = [ClusterBroker(4, 40, [])]
    return LeaderAndIsrRequest(2, controller_epoch, broker_epoch, False, [], brokers)


async def test_orders_are_fenced_and_brokers_are_known_before_they_are_applied() -> None:
    image, fence = MetadataImage("c"), OpenFence()
    replicas = Replicas(image)
    handler = LeaderAndIsrHandler(fence, image, cast(ReplicaManager, replicas))
    fence.registered(10)
    response = await handler.handle_async(make_context(), order(5, 10))
    assert (response.error_code, len(response.partitions)) == (0, 1)
    assert replicas.seen == [[4]]
    assert (image.controller_id, image.controller_epoch) == (2, 5)
    with pytest.raises(StaleControllerEpochError):
        await handler.handle_async(make_context(), order(4, 10))
    with pytest.raises(StaleBrokerEpochError):
        await handler.handle_async(make_context(), order(5, 9))
    assert (await handler.handle_async(make_context(), order(5, 11))).error_code == 0
    assert len(replicas.seen) == 2
    assert not image.updated, "only UpdateMetadata makes a broker ready"
