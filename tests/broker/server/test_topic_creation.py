"""Each name is created once at a time, a bounded number, and never for who may not."""

from __future__ import annotations

from oncelog_broker.server import topic_creation
from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.controller_channel import BrokerConnector, ControllerChannel
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.topic_creation import TopicCreation
from oncelog_protocol.messages.admin import CreateTopicsResponse, TopicResult
from oncelog_runtime.tasks import Tasks
from support.server import ControllerStub, DenyAll, Only, make_context
from support.waiting import eventually


def make(controller: ControllerStub, tasks: Tasks) -> tuple[TopicCreation, MetadataImage]:
    image = MetadataImage("c")
    connector = BrokerConnector(1, image, "internal")
    channel = ControllerChannel(1, image, connector, controller)
    return TopicCreation(channel, tasks, AllowAllAuthorizer()), image


async def test_a_name_is_asked_for_once_at_a_time() -> None:
    tasks = Tasks("test")
    controller = ControllerStub(
        CreateTopicsResponse(0, [TopicResult("a")]), CreateTopicsResponse(0, [TopicResult("a", 36)])
    )
    creation, image = make(controller, tasks)
    assert creation.request(make_context(), "a")
    assert creation.request(make_context(), "a")
    image.note_controller(1, 1, [])
    await eventually(lambda: controller.requests)
    (topic,) = controller.requests[0].topics
    assert (topic.topic, topic.partition_count, topic.replication_factor) == ("a", -1, -1)
    await eventually(lambda: len(tasks) == 0)
    assert creation.request(make_context(), "a")
    await eventually(lambda: len(controller.requests) == 2)
    await tasks.close()


async def test_a_client_that_asks_for_random_names_is_bounded() -> None:
    tasks = Tasks("test")
    creation, _ = make(ControllerStub(), tasks)
    asked = [creation.request(make_context(), f"t{n}") for n in range(200)]
    assert sum(asked) == topic_creation.PENDING_MAX == len(tasks)
    await tasks.close()


async def test_who_may_not_create_creates_nothing() -> None:
    tasks = Tasks("test")
    image = MetadataImage("c")
    channel = ControllerChannel(1, image, BrokerConnector(1, image, "internal"), ControllerStub())
    assert not TopicCreation(channel, tasks, DenyAll()).request(make_context(), "a")
    assert len(tasks) == 0
    creation = TopicCreation(channel, tasks, Only(("CREATE", "TOPIC", "a")))
    client = make_context(internal=False)
    assert not creation.request(client, "b")
    assert creation.request(client, "a")
    await tasks.close()
