"""Transactions are asked for in Kafka's words, and answered in ours."""

from __future__ import annotations

import pytest

from oncelog_broker.app import Broker
from oncelog_broker.kafka.wire.messages.txn_offset_commit import (
    KafkaTxnOffsetCommitResponse,
    KafkaTxnOffsetCommitResponsePartition,
    KafkaTxnOffsetCommitResponseTopic,
)
from oncelog_broker.server.peer_identity import ANONYMOUS
from oncelog_broker.server.request import ConnectionState, RequestContext, Respond
from oncelog_protocol.errors import NotCoordinatorError
from oncelog_protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
)
from simulation.cluster import SimCluster
from simulation.kafka_door import speaks_kafka
from simulation.kafka_transactions import IdentityDoor, TransactionDoor, offsets_from_kafka
from simulation.knobs import Knobs
from simulation.play import play_cluster

OFFSETS = TxnOffsetCommitRequest(
    "id",
    7,
    3,
    "g",
    [TxnOffsetCommitTopic("t", [TxnOffsetCommitPartition(0, 5, 2, "m")], "an-id")],
    4,
    "member",
)
END = EndTxnRequest("id", 7, 3, True)


class Inner:
    """It stands in the place of the broker's handlers: it keeps requests, and answers."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[object] = []

    def handle(
        self, context: RequestContext, request: object, payload: memoryview, respond: Respond
    ) -> None:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        respond(self.answer)

    async def handle_async(self, context: RequestContext, request: object) -> object:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def context_of(client_id: str) -> RequestContext:
    return RequestContext("external", None, ANONYMOUS, client_id, "p:1", 1, ConnectionState())


def asked(broker: Broker, request: object, answer: object, client_id: str) -> tuple[object, object]:
    """Return what the broker's handler is asked, and what the client is answered."""
    inner = Inner(answer)
    told: list[object] = []

    def respond(message: object, payload: object = ()) -> None:
        told.append(message)

    TransactionDoor(inner, broker, speaks_kafka).handle(
        context_of(client_id), request, memoryview(b""), respond
    )
    (request,), (heard,) = inner.asked, told
    return request, heard


@pytest.mark.parametrize("client_id", ["kafkas-1", "native-2"])
def test_nothing_is_lost_there_and_back(client_id: str) -> None:
    async def scene(cluster: SimCluster) -> None:
        broker = cluster.brokers[1]
        ended = EndTxnResponse(0, None, 7, 4)
        assert asked(broker, END, ended, client_id) == (END, ended)
        refused = TxnOffsetCommitResponse(NotCoordinatorError.code)
        assert asked(broker, OFFSETS, refused, client_id) == (OFFSETS, refused)
        given = InitPidResponse(0, None, 7, 3)
        inner = Inner(given)
        request = InitPidRequest("id", 1000, 7, 2)
        door = IdentityDoor(inner, broker, speaks_kafka)
        assert await door.handle_async(context_of(client_id), request) == given
        assert inner.asked == [request]

    play_cluster(scene, Knobs(partitions=1, kafka=True))


def test_what_the_broker_raises_is_an_answer() -> None:
    async def scene(cluster: SimCluster) -> None:
        broker = cluster.brokers[1]
        error = NotCoordinatorError("elsewhere")
        _, heard = asked(broker, END, error, "kafkas-1")
        assert isinstance(heard, EndTxnResponse)
        assert heard.error_code == error.code
        door = IdentityDoor(Inner(error), broker, speaks_kafka)
        answer = await door.handle_async(context_of("kafkas-1"), InitPidRequest("id", 1000))
        assert answer.error_code == error.code

    play_cluster(scene, Knobs(partitions=1, kafka=True))


@pytest.mark.parametrize(
    ("codes", "of_all"),
    [((0, 0), 0), ((16, 16), 16), ((16, 0), 0), ((3, 3), 0)],
)
def test_an_error_of_all_partitions_is_one_of_the_whole(
    codes: tuple[int, int], of_all: int
) -> None:
    parts = [KafkaTxnOffsetCommitResponsePartition(at, code) for at, code in enumerate(codes)]
    answer = offsets_from_kafka(
        KafkaTxnOffsetCommitResponse(topics=[KafkaTxnOffsetCommitResponseTopic("t", parts)])
    )
    assert answer.error_code == of_all
    if not of_all:
        found = [part.error_code for topic in answer.topics for part in topic.partitions]
        assert tuple(found) == codes
