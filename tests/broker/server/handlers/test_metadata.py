"""Metadata answers from the image."""

from __future__ import annotations

from typing import cast

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.metadata import MetadataHandler
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext
from oncelog_broker.server.topic_creation import TopicCreation
from oncelog_protocol.messages.metadata import (
    ClusterBroker,
    ListenerAddress,
    MetadataRequest,
    MetadataResponse,
)
from oncelog_protocol.messages.replication import LeaderAndIsrPartition, UpdateMetadataRequest
from support.server import DenyAll, Only, answer, make_context
from unsafe.acls import UnauthorizedTold


class Creation:
    """It remembers which topics were wanted; it refuses those that begin with 'no'."""

    def __init__(self) -> None:
        self.wanted: list[str] = []

    def request(self, context: RequestContext, topic: str) -> bool:
        self.wanted.append(topic)
        return not topic.startswith("no")


def image_of_two_brokers() -> MetadataImage:
    image = MetadataImage("the-cluster")
    both = [ListenerAddress("internal", "in", 1), ListenerAddress("external", "out", 2)]
    brokers = [ClusterBroker(1, 10, both, "r1"), ClusterBroker(2, 20, both[:1])]
    orders = [
        LeaderAndIsrPartition("b", "id-b", 1, 2, 4, [2], 0, [2, 3], False),
        LeaderAndIsrPartition("b", "id-b", 0, 1, 3, [1, 2], 0, [1, 2], False),
        LeaderAndIsrPartition("a", "id-a", 0, 3, 5, [3], 0, [3], False),
    ]
    image.apply(UpdateMetadataRequest(1, 7, 10, True, orders, brokers))
    return image


def ask(
    topics: list[str] | None,
    *,
    create: bool = False,
    listener: str = "external",
    authorizer: Authorizer | None = None,
    creation: Creation | None = None,
) -> MetadataResponse:
    handler = MetadataHandler(
        image_of_two_brokers(),
        authorizer or AllowAllAuthorizer(),
        cast(TopicCreation | None, creation),
    )
    response: MetadataResponse = answer(
        handler, MetadataRequest(topics, create), make_context(listener=listener)
    )
    return response


def test_brokers_are_those_of_the_asking_listener() -> None:
    internal = ask([], listener="internal")
    assert [(b.broker_id, b.host, b.port, b.rack) for b in internal.brokers] == [
        (1, "in", 1, "r1"),
        (2, "in", 1, None),
    ]
    assert [b.broker_id for b in ask([]).brokers] == [1]
    assert (internal.cluster_id, internal.controller_id, internal.topics) == ("the-cluster", 1, [])


def test_all_topics_in_order() -> None:
    topics = ask(None).topics
    assert [t.topic for t in topics] == ["a", "b"]
    assert [(p.partition, p.leader, p.leader_epoch) for p in topics[1].partitions] == [
        (0, 1, 3),
        (1, 2, 4),
    ]
    assert topics[1].partitions[1].offline_replicas == [3]


def test_a_leader_that_is_not_alive_is_no_leader() -> None:
    (topic,) = ask(["a"]).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader, partition.leader_epoch) == (5, -1, 5)


@pytest.mark.parametrize(
    ("name", "code"), [("none", 3), ("", 17), ("..", 17), ("a/b", 17), ("__consumer_offsets", 3)]
)
def test_names_that_are_not_there(name: str, code: int) -> None:
    (topic,) = ask([name, name]).topics
    assert (topic.error_code, topic.topic, topic.partitions) == (code, name, [])


def test_creation_on_demand() -> None:
    creation = Creation()
    codes = [
        t.error_code
        for t in ask(
            ["b", "new", "no-way", "a/b", "__consumer_offsets"], create=True, creation=creation
        ).topics
    ]
    assert codes == [0, 5, 3, 17, 3]
    assert creation.wanted == ["new", "no-way"]
    ask(["new"], create=False, creation=creation)
    assert len(creation.wanted) == 2
    assert ask(["new"], create=True).topics[0].error_code == 3


def test_a_topic_that_may_not_be_seen_looks_as_if_it_did_not_exist() -> None:
    creation = Creation()
    known, unknown = ask(["b", "none"], authorizer=DenyAll(), creation=creation).topics
    assert (known.error_code, known.topic_id) == (unknown.error_code, unknown.topic_id) == (3, "")
    assert ask(None, authorizer=DenyAll()).topics == []
    ask(["b"], create=True, authorizer=DenyAll(), creation=creation)
    assert creation.wanted == []


def test_a_hidden_topic_is_not_told_from_one_that_could_be_created() -> None:
    creation = Creation()
    only = Only(("CREATE", "CLUSTER", "oncelog-cluster"))
    known, unknown = ask(["b", "new"], create=True, authorizer=only, creation=creation).topics
    assert (known.error_code, unknown.error_code) == (3, 3)
    assert creation.wanted == []


def test_what_was_rendered_is_rendered_again_after_a_change() -> None:
    image = image_of_two_brokers()
    handler = MetadataHandler(image, AllowAllAuthorizer(), None)
    first = answer(handler, MetadataRequest(["b"])).topics[0]
    assert answer(handler, MetadataRequest(["b"])).topics[0] is first
    image.note_controller(1, 7, [])
    assert answer(handler, MetadataRequest(["b"])).topics[0].partitions[0].leader == -1


@pytest.mark.ablation("hide_unauthorized")
@pytest.mark.parametrize(("kind", "hides"), [(MetadataHandler, True), (UnauthorizedTold, False)])
def test_a_hidden_topic_is_seen_if_the_unauthorized_are_told(
    kind: type[MetadataHandler], hides: bool
) -> None:
    handler = kind(image_of_two_brokers(), DenyAll(), None)
    answers = []
    for topic in ("a", "z"):
        response = answer(handler, MetadataRequest([topic], False), make_context(listener="out"))
        answers.append(repr(response).replace(repr(topic), "..."))
    assert (answers[0] == answers[1]) == hides
