"""A broker hears of a topic later than others: what is committed there stays committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.app import Broker
from oncelog_broker.server.handlers.update_metadata import UpdateMetadataHandler
from oncelog_protocol.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_protocol.messages.admin import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_producer import HandProducer, all_marked, committed_offset, read
from support.waiting import eventually

SETTINGS: dict[str, Any] = {
    "transaction_state_log_num_partitions": 1,
    "offsets_topic_num_partitions": 1,
}


class Heard(Cluster):
    """One broker answers ``state``, and clients ask it first: another than the deaf one, which may
    be controller."""

    asked = 1

    def ask(self, broker_id: int) -> None:
        """Ask this one from now on."""
        self.asked = broker_id

    @property
    def brokers(self) -> dict[int, Broker]:
        found = super().brokers
        return {each: found[each] for each in sorted(found, key=lambda each: each != self.asked)}

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsrPartition:
        broker = next(iter(self.brokers.values()))
        order = broker.image.partition(TopicPartition(topic, partition))
        assert order is not None
        return order


class Deaf:
    """No news come to these brokers: the controller goes on sending."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids: list[int] = []
        heard = UpdateMetadataHandler.handle_async

        async def handle(handler: UpdateMetadataHandler, *arguments: Any) -> Any:
            deaf = [cluster.brokers[i].image for i in self.ids if i in cluster.brokers]
            if any(handler._image is image for image in deaf):
                raise BrokerNotAvailableError("the connection breaks here")
            return await heard(handler, *arguments)

        monkeypatch.setattr(UpdateMetadataHandler, "handle_async", handle)


async def make(cluster: Cluster, topic: str, leader: int) -> None:
    """Make a topic on one broker; return when who hears has heard of it."""
    request = CreateTopicsRequest([CreatableTopic(topic, -1, -1, [[leader]])], 10_000)
    response = await cluster.call(cluster.controller.broker_id, request)
    assert response.topics[0].error_code == 0


def knows(cluster: Cluster, topic: str) -> Callable[[int], bool]:
    name = TopicPartition(topic, 0)
    return lambda broker_id: cluster.brokers[broker_id].image.partition(name) is not None


def roles(cluster: Cluster) -> tuple[int, int, int]:
    """Return the coordinator, the one that follows it, and a third broker."""
    state = cluster.state(TRANSACTION_TOPIC)
    heir = next(each for each in state.replicas if each != state.leader)
    third = next(each for each in cluster.brokers if each not in (state.leader, heir))
    return state.leader, heir, third


@pytest.mark.parametrize("commit", [True, False])
async def test_a_later_coordinator_that_has_not_heard_of_the_topic_ends_it_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    async with Heard(tmp_path, 3, **SETTINGS) as cluster:
        deaf = Deaf(cluster, monkeypatch)
        producer = HandProducer(cluster, "a")
        await producer.init()
        coordinator, heir, third = roles(cluster)
        cluster.ask(third)
        deaf.ids = [heir]
        await make(cluster, "t", third)
        await eventually(lambda: knows(cluster, "t")(coordinator) and knows(cluster, "t")(third))
        assert (await producer.send("t", 0, b"1")).error_code == 0
        await cluster.crash_broker(coordinator)
        assert (await producer.end(commit)).error_code == 0
        assert cluster.leader(TRANSACTION_TOPIC) == heir
        assert not knows(cluster, "t")(heir)
        deaf.ids = []
        await all_marked(cluster)
        seen = await read(cluster, "t")
        assert (seen.values, seen.control) == ([b"1"] if commit else [], 1)
        assert (await producer.send("t", 0, b"2")).error_code == 0
        assert (await producer.end(True)).error_code == 0
        await all_marked(cluster)
        assert (await read(cluster, "t")).values == ([b"1"] if commit else []) + [b"2"]


async def test_a_leader_that_coordinates_and_has_not_heard_of_its_own_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replicas are told first; what others know comes later."""
    async with Heard(tmp_path, 3, **SETTINGS) as cluster:
        deaf = Deaf(cluster, monkeypatch)
        producer = HandProducer(cluster, "a")
        await producer.init()
        coordinator, _, third = roles(cluster)
        cluster.ask(third)
        deaf.ids = [coordinator]
        await make(cluster, "t", coordinator)
        await eventually(lambda: knows(cluster, "t")(third))
        assert (await producer.send("t", 0, b"1")).error_code != 0
        deaf.ids = []
        await eventually(lambda: knows(cluster, "t")(coordinator))
        assert (await producer.send("t", 0, b"2")).error_code == 0
        assert (await producer.end(True)).error_code == 0
        await all_marked(cluster)
        assert (await read(cluster, "t")).values == [b"2"]


async def test_offsets_of_a_transaction_when_the_groups_are_new_to_the_next_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Heard(tmp_path, 3, **SETTINGS) as cluster:
        deaf = Deaf(cluster, monkeypatch)
        await cluster.create_topic("t")
        producer = HandProducer(cluster, "a")
        await producer.init()
        coordinator, heir, third = roles(cluster)
        cluster.ask(third)
        deaf.ids = [heir]
        request = CreatableTopic(GROUP_TOPIC, -1, -1, [[third]])
        made = await cluster.call(
            cluster.controller.broker_id,
            CreateTopicsRequest([request], 10_000),
            listener="internal",
        )
        assert made.topics[0].error_code == 0
        await eventually(lambda: knows(cluster, GROUP_TOPIC)(coordinator))
        assert await producer.send_offset("g", "t", 0, 5) == 0
        await cluster.crash_broker(coordinator)
        assert (await producer.end(True)).error_code == 0
        deaf.ids = []
        await all_marked(cluster)
        assert await committed_offset(cluster, "g", "t") == (0, 5)


async def test_a_topic_that_was_deleted_holds_up_no_transaction(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3, **SETTINGS) as cluster:
        for topic in ("t", "u"):
            await cluster.create_topic(topic)
        producer = HandProducer(cluster, "a")
        await producer.init()
        for topic in ("t", "u"):
            assert (await producer.send(topic, 0, b"1")).error_code == 0
        deleted = await cluster.call(
            cluster.controller.broker_id, DeleteTopicsRequest(["t"], 10_000)
        )
        assert deleted.topics[0].error_code == 0
        await eventually(lambda: not any(knows(cluster, "t")(each) for each in cluster.brokers))
        assert (await producer.end(True)).error_code == 0
        await all_marked(cluster)
        assert (await read(cluster, "u")).values == [b"1"]
