"""Each forged batch is refused by the rule that is meant for it. Without the rule it is in the
log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oncelog_broker.kafka import data_apis
from oncelog_broker.kafka.wire.messages.fetch import (
    KafkaFetchRequest,
    KafkaFetchRequestPartition,
    KafkaFetchRequestTopic,
)
from oncelog_broker.kafka.wire.messages.find_coordinator import KafkaFindCoordinatorRequest
from oncelog_broker.kafka.wire.messages.produce import (
    KafkaProduceRequest,
    KafkaProduceRequestPartitionProduceData,
    KafkaProduceRequestTopicProduceData,
)
from oncelog_broker.log import validator
from oncelog_broker.log.log_producers import LogProducers
from oncelog_broker.server.handlers import produce
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTopicError,
    OutOfOrderSequenceNumberError,
    UnsupportedForMessageFormatError,
)
from oncelog_protocol.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    KAFKA_MAGIC,
    MAGIC,
    assemble,
    parse_header,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.schema import Span
from oncelog_protocol.types import TopicPartition
from support.kafka_client import RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.waiting import eventually

GROUP_TOPIC = "__consumer_offsets"


def nothing(*_: object, **__: object) -> None:
    """It stands for a rule that refuses nothing."""


def kafkas(magic: int = KAFKA_MAGIC, codec: Codec = Codec.NONE) -> bytes:
    return bytes(encode_batch([b"v"], keys=[b"k"], timestamps=2**40, magic=magic, codec=codec))


def changed(**fields: Any) -> bytes:
    """Return a batch whose header says something else, under its CRC."""
    batch = kafkas()
    return bytes(assemble(parse_header(batch)._replace(**fields), batch[HEADER_BYTES:]))


class Forgery(NamedTuple):
    """It is a batch, and the rule against it: its error, where it is, and its name."""

    batch: bytes
    code: int
    room: object
    rule: str
    topic: str = "t"
    without: object = nothing
    first: bytes = kafkas()
    """It is sent before, and is right."""


FORGERIES = {
    "crc": Forgery(
        kafkas()[:-2] + b"?" + kafkas()[-1:], CorruptMessageError.code, validator, "verify_crc"
    ),
    "magic": Forgery(
        kafkas(MAGIC, Codec.GZIP),
        UnsupportedForMessageFormatError.code,
        validator,
        "_refuse_format",
    ),
    "count": Forgery(
        changed(last_offset_delta=5), InvalidRecordError.code, validator, "_check_count"
    ),
    "sequence": Forgery(
        changed(producer_id=7, producer_epoch=0, base_sequence=5),
        OutOfOrderSequenceNumberError.code,
        LogProducers,
        "check",
        first=changed(producer_id=7, producer_epoch=0, base_sequence=0),
    ),
    "marker": Forgery(
        changed(attributes=CONTROL_BIT, producer_id=7, producer_epoch=0, base_sequence=0),
        InvalidRecordError.code,
        validator,
        "_refuse_attributes",
    ),
    "internal topic": Forgery(
        kafkas(), InvalidTopicError.code, produce, "INTERNAL_TOPICS", GROUP_TOPIC, frozenset()
    ),
}


async def produced(client: RawClient, batch: bytes, topic: str) -> int:
    """Return the error of the batch."""
    part = KafkaProduceRequestPartitionProduceData(0, Span(0, len(batch)))
    topics = [KafkaProduceRequestTopicProduceData(topic, partition_data=[part])]
    request = KafkaProduceRequest(acks=1, timeout_ms=5000, topic_data=topics)
    answer = await client.ask(request, 9, [batch])
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


async def internal_topic(cluster: KafkaCluster, client: RawClient) -> None:
    """Have the topic of groups made, which the first who looks for a coordinator does."""
    await client.ask(KafkaFindCoordinatorRequest(coordinator_keys=["g"]), 4)
    held: Callable[[], object] = lambda: cluster.brokers[1].replicas.held(  # noqa: E731
        TopicPartition(GROUP_TOPIC, 0)
    )
    await eventually(held)


@pytest.mark.parametrize("name", FORGERIES)
async def test_what_is_forged_is_refused_unless_its_rule_is_gone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgery = FORGERIES[name]
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        await internal_topic(cluster, client)
        log = cluster.brokers[1].replicas.partition(TopicPartition(forgery.topic, 0)).log
        if forgery.topic == "t":
            assert await produced(client, forgery.first, "t") == 0
        end = log.log_end_offset
        assert await produced(client, forgery.batch, forgery.topic) == forgery.code
        assert log.log_end_offset == end
        monkeypatch.setattr(forgery.room, forgery.rule, forgery.without)
        assert await produced(client, forgery.batch, forgery.topic) == 0
        assert log.log_end_offset > end
        client.close()


async def test_who_poses_as_a_replica_moves_no_high_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener refuses it; without that the dispatcher does, as no broker asks there."""
    part = KafkaFetchRequestPartition(0, fetch_offset=0, partition_max_bytes=2**20)
    topics = [KafkaFetchRequestTopic("t", partitions=[part])]
    request = KafkaFetchRequest(replica_id=1, topics=topics, max_bytes=2**20)
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        with pytest.raises(EOFError):
            await client.ask(request, 11)
        client.close()
        monkeypatch.setattr(data_apis, "CONSUMER_REPLICA_ID", 1)
        client = await connected(cluster)
        answer = await client.ask(request, 11)
        assert answer.error_code == ClusterAuthorizationFailedError.code
        with pytest.raises(EOFError):
            await client.ask(request, 11)
        client.close()
