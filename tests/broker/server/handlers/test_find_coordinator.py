"""FindCoordinator answers from the image, and has the internal topic made on first use."""

from __future__ import annotations

from typing import cast

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.find_coordinator import FindCoordinatorHandler
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.coordinators import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    coordinator_partition,
)
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    InvalidRequestError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.groups import (
    COORDINATOR_GROUP,
    COORDINATOR_TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import LeaderAndIsrPartition, UpdateMetadataRequest
from oncelog_protocol.messages.shared_transactions import ORDINAL_KEY
from support.server import DenyAll, Only, answer, make_context

COUNT = 4


class Topics:
    """It has internal topics as the image has them; it remembers what was wanted."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.wanted: list[str] = []

    def ensure(self, topic: str) -> None:
        self.wanted.append(topic)
        if topic not in self.image.topics:
            raise CoordinatorNotAvailableError

    def partition_count(self, topic: str) -> int | None:
        count = len(self.image.topics[topic].partitions)
        return count if count == COUNT else None


def ask(
    key: str = "g",
    *,
    key_type: int = COORDINATOR_GROUP,
    leaders: tuple[int, ...] = (1, 2, 1, 2),
    listener: str = "external",
    authorizer: Authorizer | None = None,
    topic: str = GROUP_TOPIC,
) -> FindCoordinatorResponse:
    image = MetadataImage("c")
    both = [ListenerAddress("internal", "in", 1), ListenerAddress("external", "out", 2)]
    brokers = [ClusterBroker(1, 10, both), ClusterBroker(2, 20, both)]
    orders = [
        LeaderAndIsrPartition(topic, "id", number, leader, 0, [leader], 0, [leader], False)
        for number, leader in enumerate(leaders)
    ]
    image.apply(UpdateMetadataRequest(1, 7, 10, True, orders, brokers))
    handler = FindCoordinatorHandler(
        image, cast(InternalTopics, Topics(image)), authorizer or AllowAllAuthorizer()
    )
    response: FindCoordinatorResponse = answer(
        handler, FindCoordinatorRequest(key, key_type), make_context(listener=listener)
    )
    return response


@pytest.mark.parametrize("key", ["g", "another", "größe", "a" * 1000])
def test_the_leader_of_the_partition_that_the_name_falls_on(key: str) -> None:
    response = ask(key)
    leader = (1, 2, 1, 2)[coordinator_partition(key, COUNT)]
    assert (response.error_code, response.broker_id) == (0, leader)
    assert (response.host, response.port) == ("out", 2)


def test_by_the_address_of_the_asking_listener() -> None:
    assert ask(listener="internal").host == "in"


@pytest.mark.parametrize(
    ("leaders", "listener"),
    [
        ((), "external"),
        ((1, 2), "external"),
        ((-1, -1, -1, -1), "external"),
        ((9, 9, 9, 9), "external"),
        ((1, 2, 1, 2), "third"),
    ],
    ids=["no topic", "not the whole topic", "no leader", "leader is gone", "no such listener"],
)
def test_nobody_can_be_named(leaders: tuple[int, ...], listener: str) -> None:
    with pytest.raises(CoordinatorNotAvailableError):
        ask(leaders=leaders, listener=listener)


@pytest.mark.parametrize(
    ("key", "key_type", "error"),
    [
        ("", COORDINATOR_GROUP, InvalidGroupIdError),
        ("", COORDINATOR_TRANSACTION, InvalidRequestError),
        ("g", 7, InvalidRequestError),
    ],
)
def test_what_cannot_be_asked(key: str, key_type: int, error: type[ApiError]) -> None:
    with pytest.raises(error):
        ask(key, key_type=key_type)


def test_who_may_not_learns_nothing() -> None:
    with pytest.raises(GroupAuthorizationFailedError):
        ask(authorizer=DenyAll())
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        ask(key_type=COORDINATOR_TRANSACTION, authorizer=DenyAll())


def test_transactional_ids_have_a_topic_of_their_own() -> None:
    with pytest.raises(CoordinatorNotAvailableError):
        ask("a", key_type=COORDINATOR_TRANSACTION)
    response = ask("a", key_type=COORDINATOR_TRANSACTION, topic=TRANSACTION_TOPIC)
    assert response.broker_id == (1, 2, 1, 2)[coordinator_partition("a", COUNT)]


def test_who_gives_the_ordinals_is_told_to_who_may_write_somewhere() -> None:
    def told(authorizer: Authorizer) -> int:
        response = ask(
            ORDINAL_KEY,
            key_type=COORDINATOR_TRANSACTION,
            topic=TRANSACTION_TOPIC,
            authorizer=authorizer,
        )
        return response.broker_id

    expected = (1, 2, 1, 2)[coordinator_partition(ORDINAL_KEY, COUNT)]
    assert told(Only(("WRITE", "TOPIC", "t"))) == expected
    assert told(Only(("IDEMPOTENT_WRITE", "CLUSTER", "oncelog-cluster"))) == expected
    for nobody in (DenyAll(), Only(("DESCRIBE", "TRANSACTIONAL_ID", ORDINAL_KEY))):
        with pytest.raises(ClusterAuthorizationFailedError):
            told(nobody)
