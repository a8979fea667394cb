"""UpdateMetadata is fenced, goes into the image, and takes changed configs to the replicas."""

from __future__ import annotations

from collections.abc import Container
from typing import cast

import pytest

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.handlers.update_metadata import UpdateMetadataHandler
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.errors import StaleBrokerEpochError, StaleControllerEpochError
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrPartition,
    TopicOverrides,
    UpdateMetadataRequest,
)
from support.fence import OpenFence
from support.server import make_context


class Replicas:
    def __init__(self) -> None:
        self.configs: list[tuple[str, dict[str, str]]] = []

    def reconfigure_topic(self, topic: str, overrides: dict[str, str]) -> None:
        self.configs.append((topic, overrides))

    def forget_settings(self, known: Container[str]) -> None:
        assert known is not None


async def test_configs_reach_the_replicas_once() -> None:
    image, fence, replicas = MetadataImage("c"), OpenFence(), Replicas()
    fence.registered(5)
    settings: list[list[BrokerOverrides]] = []
    handler = UpdateMetadataHandler(fence, image, cast(ReplicaManager, replicas), settings.append)
    order = LeaderAndIsrPartition("t", "id", 0, 1, 0, [1], 0, [1], False)
    update = UpdateMetadataRequest(
        1, 1, 5, True, [order], [], [TopicOverrides("t", 1, ["retention_ms"], ["9"])]
    )
    assert (await handler.handle_async(make_context(), update)).error_code == 0
    assert (await handler.handle_async(make_context(), update)).error_code == 0
    assert replicas.configs == [("t", {"retention_ms": "9"})]
    assert image.updated
    assert settings == [[], []]
    fence.registered(6)
    with pytest.raises(StaleBrokerEpochError):
        await handler.handle_async(make_context(), update)


async def test_settings_of_brokers_are_taken_and_stay_until_others_come() -> None:
    image, fence, replicas = MetadataImage("c"), OpenFence(), Replicas()
    fence.registered(5)
    taken: list[list[BrokerOverrides]] = []
    handler = UpdateMetadataHandler(fence, image, cast(ReplicaManager, replicas), taken.append)
    one = [BrokerOverrides(-1, 0, ["log_level"], ["debug"])]
    for configs in (one, None, []):
        update = UpdateMetadataRequest(1, 1, 5, False, [], [], broker_configs=configs)
        assert (await handler.handle_async(make_context(), update)).error_code == 0
    assert taken == [one, one, []]
    old = UpdateMetadataRequest(1, 0, 5, False, [], [], broker_configs=one)
    with pytest.raises(StaleControllerEpochError):
        await handler.handle_async(make_context(), old)
    assert image.broker_configs == []
