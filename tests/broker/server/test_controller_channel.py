"""The way to the controller: finds it, follows it, batches ISR changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_broker.server.controller_channel import BrokerConnector, ControllerChannel, IsrChannel
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    NotControllerError,
    RebootstrapRequiredError,
    StaleBrokerEpochError,
)
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)
from oncelog_runtime.tasks import Tasks
from support.server import ServerUnderTest
from support.waiting import eventually


class Controller:
    """It answers AlterPartition, and may say that it is not the controller."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.error_code = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(
        self, request: Any, *, internal: bool = False, asker: str = ""
    ) -> AlterPartitionResponse:
        self.requests.append(request)
        await self.gate.wait()
        if self.error_code:
            return AlterPartitionResponse(self.error_code)
        results = [
            AlterPartitionResult(i.topic, i.partition, 0, 1, 3, [m.broker_id for m in i.isr], 9)
            for i in request.partitions
        ]
        return AlterPartitionResponse(0, results)

    async def handle_async(self, context: RequestContext, request: Any) -> AlterPartitionResponse:
        return await self.handle(request)


def item(partition: int, *members: int) -> AlterPartitionItem:
    return AlterPartitionItem("t", "id", partition, 3, 8, [IsrMember(m, 5) for m in members])


def broker(broker_id: int, address: tuple[str, int]) -> ClusterBroker:
    return ClusterBroker(broker_id, 1, [ListenerAddress("internal", *address)])


def serving(broker_id: int, controller: Controller) -> ServerUnderTest:
    handlers = {ApiKey.ALTER_PARTITION: controller}
    return ServerUnderTest({}, handlers, internal=True, identity=Identity("c", broker_id))


def make(image: MetadataImage, local: Controller, tasks: Tasks) -> tuple[ControllerChannel, Any]:
    connector = BrokerConnector(1, image, "internal")
    channel = ControllerChannel(1, image, connector, local)
    return channel, IsrChannel(1, lambda: 77, channel, tasks)


async def test_this_process_is_asked_directly_when_it_is_the_controller() -> None:
    image, local, tasks = MetadataImage("c"), Controller(), Tasks("test")
    image.note_controller(1, 1, [])
    _, isr = make(image, local, tasks)
    response = await isr.alter_partition([item(0, 1, 2)])
    assert response.partitions[0].isr == [1, 2]
    assert (local.requests[0].broker_id, local.requests[0].broker_epoch) == (1, 77)
    await tasks.close()


async def test_what_is_asked_while_one_request_is_out_leaves_together() -> None:
    image, local, tasks = MetadataImage("c"), Controller(), Tasks("test")
    image.note_controller(1, 1, [])
    _, isr = make(image, local, tasks)
    local.gate.clear()
    first = asyncio.create_task(isr.alter_partition([item(0, 1)]))
    await eventually(lambda: local.requests)
    later = [
        asyncio.create_task(isr.alter_partition([item(1, 1), item(2, 1)])),
        asyncio.create_task(isr.alter_partition([item(3, 1)])),
        asyncio.create_task(isr.alter_partition([item(1, 1, 2)])),
    ]
    await asyncio.sleep(0)
    local.gate.set()
    await first
    answers = await asyncio.gather(*later)
    assert len(local.requests) == 2
    assert [i.partition for i in local.requests[1].partitions] == [1, 2, 3]
    assert [[r.partition for r in a.partitions] for a in answers] == [[1, 2], [3], [1]]
    assert answers[0].partitions[0].isr == [1, 2], "the newest wish of a partition stands"
    await tasks.close()


async def test_a_whole_request_that_is_refused_raises_for_each() -> None:
    image, local, tasks = MetadataImage("c"), Controller(), Tasks("test")
    image.note_controller(1, 1, [])
    local.error_code = StaleBrokerEpochError.code
    _, isr = make(image, local, tasks)
    with pytest.raises(StaleBrokerEpochError):
        await isr.alter_partition([item(0, 1)])
    local.error_code = 0
    await isr.alter_partition([item(0, 1)])
    await tasks.close()


async def test_the_controller_is_followed_when_it_moves() -> None:
    image, local, tasks = MetadataImage("c"), Controller(), Tasks("test")
    old, new = Controller(), Controller()
    old.error_code = NotControllerError.code
    async with (
        serving(2, old) as old_server,
        serving(3, new) as new_server,
    ):
        brokers = [broker(2, old_server.address), broker(3, new_server.address)]
        channel, isr = make(image, local, tasks)
        asked = asyncio.create_task(isr.alter_partition([item(0, 1, 3)]))
        await asyncio.sleep(0.01)
        image.note_controller(2, 1, brokers)
        await eventually(lambda: len(old.requests) >= 2)
        image.note_controller(3, 2, brokers)
        assert (await asked).partitions[0].isr == [1, 3]
        assert len(new.requests) == 1
        channel.close()
    await tasks.close()


async def test_nobody_is_controller_for_too_long() -> None:
    image, tasks = MetadataImage("c"), Tasks("test")
    channel, _ = make(image, Controller(), tasks)
    with pytest.raises(TimeoutError):
        await channel.call(AlterPartitionRequest(1, 1, []), timeout_s=0.05)
    assert image.on_change == []


async def test_the_connector_finds_brokers_by_the_image() -> None:
    image = MetadataImage("c")
    connector = BrokerConnector(1, image, "internal")
    with pytest.raises(ConnectionError, match="broker 2 is not in the metadata"):
        await connector.open(2)
    async with ServerUnderTest(internal=True) as server:
        image.note_controller(2, 1, [broker(2, server.address)])
        channel = await connector.open(2)
        assert channel.versions
        channel.close()
        await channel.wait_closed()


async def test_an_address_that_leads_astray_is_refused_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    image, controller = MetadataImage("c"), Controller()
    async with serving(3, controller) as server:
        image.note_controller(2, 1, [broker(2, server.address)])
        connector = BrokerConnector(1, image, "internal")
        for _ in range(3):
            with pytest.raises(RebootstrapRequiredError, match="expected broker 2 of cluster 'c'"):
                await connector.open(2)
    lines = [r.getMessage() for r in caplog.records if "address_leads_astray" in r.getMessage()]
    assert len(lines) == 1
    assert "found broker 3 of cluster 'c'" in lines[0]


async def test_a_controller_whose_address_leads_astray_is_asked_again() -> None:
    image, local, tasks = MetadataImage("c"), Controller(), Tasks("test")
    right = Controller()
    async with serving(3, Controller()) as wrong_server, serving(2, right) as server:
        image.note_controller(2, 1, [broker(2, wrong_server.address)])
        channel, isr = make(image, local, tasks)
        asked = asyncio.create_task(isr.alter_partition([item(0, 1)]))
        await eventually(lambda: wrong_server.listener.counters.misled > 1)
        image.note_controller(2, 1, [broker(2, server.address)])
        await asked
        assert len(right.requests) == 1
        channel.close()
    await tasks.close()


async def test_one_attempt_is_not_followed_by_another() -> None:
    image, local, tasks = MetadataImage("c"), Controller(), Tasks("test")
    channel, _ = make(image, local, tasks)
    request = AlterPartitionRequest(1, 77, [item(0, 1)])
    with pytest.raises(NotControllerError):
        await channel.call_once(request, timeout_s=5)
    image.note_controller(1, 1, [])
    local.error_code = NotControllerError.code
    response = await channel.call_once(request, timeout_s=5)
    assert response.error_code == NotControllerError.code
    assert len(local.requests) == 1
    await tasks.close()
