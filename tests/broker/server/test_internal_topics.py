"""Internal topics are asked for once, get as many replicas as there can be, and are counted."""

from __future__ import annotations

import logging

import pytest

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.server.controller_channel import BrokerConnector, ControllerChannel
from oncelog_broker.server.internal_topics import InternalTopics, group_topic
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
)
from oncelog_protocol.messages.admin import CreateTopicsResponse, TopicResult
from oncelog_protocol.messages.metadata import ClusterBroker
from oncelog_protocol.messages.replication import LeaderAndIsrPartition, UpdateMetadataRequest
from oncelog_runtime.tasks import Tasks
from support.coordinators import MemoryWriter, TextShard
from support.server import ControllerStub
from support.waiting import eventually


def order(partition: int, leader: int = 1, topic_id: str = "id") -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(GROUP_TOPIC, topic_id, partition, leader, 0, [1], 0, [1], False)


def update(
    *orders: LeaderAndIsrPartition, brokers: int = 1, full: bool = False
) -> UpdateMetadataRequest:
    live = [ClusterBroker(broker_id, 10, []) for broker_id in range(1, brokers + 1)]
    return UpdateMetadataRequest(1, 1, 10, full, list(orders), live)


class World:
    def __init__(
        self, *codes: int, brokers: int = 3, replicas: int = 3, min_insync_replicas: int = 1
    ) -> None:
        self.image = MetadataImage("c")
        self.image.apply(update(brokers=brokers))
        self.controller = ControllerStub(
            *(CreateTopicsResponse(0, [TopicResult(GROUP_TOPIC, code)]) for code in codes)
        )
        self.tasks = Tasks("test")
        channel = ControllerChannel(
            1, self.image, BrokerConnector(1, self.image, "internal"), self.controller
        )
        self.topics = InternalTopics(
            [group_topic(50, replicas, 100 * 1024 * 1024)],
            image=self.image,
            channel=channel,
            tasks=self.tasks,
            min_insync_replicas=lambda: min_insync_replicas,
        )

    def refusal(self) -> str:
        """Say why the topic is not there."""
        with pytest.raises(CoordinatorNotAvailableError) as caught:
            self.topics.ensure(GROUP_TOPIC)
        return str(caught.value)

    async def idle(self) -> None:
        await eventually(lambda: not len(self.tasks))


async def test_a_topic_that_is_not_there_is_asked_for_once() -> None:
    world = World(0)
    assert world.refusal() == world.refusal() == "__consumer_offsets is being made"
    await world.idle()
    (request,) = world.controller.requests
    assert world.controller.internal == [True]
    (topic,) = request.topics
    assert (topic.topic, topic.partition_count, topic.replication_factor) == (GROUP_TOPIC, 50, 3)
    assert {entry.key: entry.value for entry in topic.configs} == {
        "cleanup_policy": "compact",
        "compression_type": "producer",
        "max_message_bytes": "16777216",
        "segment_bytes": "104857600",
    }
    world.image.apply(update(order(0)))
    world.topics.ensure(GROUP_TOPIC)


async def test_with_fewer_brokers_than_replicas_it_waits_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One with fewer would stay so, and lose with one disk what groups have committed."""
    world = World(0, brokers=2)
    with caplog.at_level(logging.WARNING):
        said = world.refusal()
    assert "it is to have 3 replicas (offsets_topic_replication_factor)" in said
    assert "up: 2" in said
    assert caplog.records[0].msg == {
        "event": "internal_topic_waits",
        "topic": GROUP_TOPIC,
        "replicas": 3,
        "setting": "offsets_topic_replication_factor",
        "brokers": 2,
    }
    assert world.controller.requests == []
    world.image.apply(update(brokers=3))
    assert "being made" in world.refusal()
    await world.idle()
    assert world.controller.requests[0].topics[0].replication_factor == 3


async def test_what_could_never_be_written_asks_for_fewer_in_sync() -> None:
    world = World(0, brokers=3, replicas=1, min_insync_replicas=2)
    world.refusal()
    await world.idle()
    topic = world.controller.requests[0].topics[0]
    assert topic.replication_factor == 1
    assert {e.key: e.value for e in topic.configs}["min_insync_replicas"] == "1"


async def test_a_failure_is_tried_again_by_the_next_who_asks() -> None:
    world = World(InvalidReplicationFactorError.code, TopicAlreadyExistsError.code)
    world.refusal()
    await world.idle()
    world.refusal()
    await world.idle()
    assert len(world.controller.requests) == 2


async def test_nothing_is_asked_for_while_stopping() -> None:
    world = World()
    await world.tasks.close()
    world.refusal()
    assert world.controller.requests == []


async def test_the_count_is_what_the_metadata_say() -> None:
    world = World()
    engine = CoordinatorEngine(
        name="texts",
        topic=GROUP_TOPIC,
        writer=MemoryWriter(),
        make_shard=TextShard,
        tasks=world.tasks,
        commit_timeout_ms=1000,
    )
    counts: list[int | None] = []
    end = world.topics.follow(engine)
    world.image.apply(update(order(0)))
    assert engine.partition_count is None, "what changed is told before the whole of it"
    world.image.apply(update(full=True))
    for orders in (
        [],
        [order(1)],  # partition 0 is yet to come
        [order(0), order(2)],
        [order(p, -2) for p in range(3)],
        [order(0, topic_id="another")],
    ):
        world.image.apply(update(*orders))
        counts.append(engine.partition_count)
    assert counts == [None, None, 3, None, 1]
    end()
    world.image.apply(update(full=True))
    assert engine.partition_count == 1
