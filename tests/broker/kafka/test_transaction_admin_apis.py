"""Operators of Kafka see transactions and producers, and abort what hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_broker.kafka.wire.messages.describe_producers import (
    KafkaDescribeProducersRequest,
    KafkaDescribeProducersRequestTopicRequest,
    KafkaDescribeProducersResponsePartitionResponse,
)
from oncelog_broker.kafka.wire.messages.describe_transactions import (
    KafkaDescribeTransactionsRequest,
)
from oncelog_broker.kafka.wire.messages.list_transactions import KafkaListTransactionsRequest
from oncelog_broker.kafka.wire.messages.write_txn_markers import (
    KafkaWriteTxnMarkersRequest,
    KafkaWriteTxnMarkersRequestWritableTxnMarker,
    KafkaWriteTxnMarkersRequestWritableTxnMarkerTopic,
)
from oncelog_broker.server.handlers import describe_producers
from support.kafka_client import RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.kafka_transactions import ID, a_batch, last_stable, send, started


async def producers(client: RawClient) -> KafkaDescribeProducersResponsePartitionResponse:
    """Return what the partition knows of producers."""
    topic = KafkaDescribeProducersRequestTopicRequest("t", [0])
    answer = await client.ask(KafkaDescribeProducersRequest([topic]), 0)
    part: KafkaDescribeProducersResponsePartitionResponse = answer.topics[0].partitions[0]
    return part


async def marked(client: RawClient, producer: tuple[int, int], *, commit: bool = False) -> int:
    """Write a marker as operators do; return the error code of its partition."""
    where = KafkaWriteTxnMarkersRequestWritableTxnMarkerTopic("t", [0])
    marker = KafkaWriteTxnMarkersRequestWritableTxnMarker(*producer, commit, [where], 0)
    answer = await client.ask(KafkaWriteTxnMarkersRequest([marker]), 1)
    code: int = answer.markers[0].topics[0].partitions[0].error_code
    return code


async def test_what_is_open_is_seen_and_aborted_by_hand(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        producer = await started(client)
        assert await send(client, a_batch(producer, b"hangs")) == 0

        listed = await client.ask(KafkaListTransactionsRequest(["Ongoing", "Odd"]), 1)
        (row,) = listed.transaction_states
        assert (row.transactional_id, row.producer_id) == (ID, producer[0])
        assert row.transaction_state == "Ongoing"
        assert listed.unknown_state_filters == ["Odd"]
        for ids, older_ms in (([producer[0] + 1], -1), ([], 3_600_000)):
            others = KafkaListTransactionsRequest([], ids, older_ms)
            assert (await client.ask(others, 1)).transaction_states == []

        described = await client.ask(KafkaDescribeTransactionsRequest([ID, "nobody"]), 0)
        mine, nobody = described.transaction_states
        assert (mine.error_code, mine.transaction_state) == (0, "Ongoing")
        assert (mine.producer_id, mine.producer_epoch) == producer
        assert mine.transaction_start_time_ms > 0
        assert [(each.topic, each.partitions) for each in mine.topics] == [("t", [0])]
        assert nobody.error_code == 105  # TRANSACTIONAL_ID_NOT_FOUND

        (found,) = (await producers(client)).active_producers
        assert (found.producer_id, found.producer_epoch) == producer
        assert found.current_txn_start_offset == 0

        assert await marked(client, producer, commit=True) == 31  # CLUSTER_AUTHORIZATION_FAILED
        assert await marked(client, (producer[0], 99)) == 47  # INVALID_PRODUCER_EPOCH
        assert await last_stable(client) == 0
        assert await marked(client, producer) == 0
        assert await last_stable(client) == 2
        assert await marked(client, producer) == 48  # INVALID_TXN_STATE: nothing is open
        client.close()


async def test_all_producers_are_told_though_one_answer_has_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_producers, "COUNT_MAX", 2)
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        ids = set()
        for number in range(5):
            producer = await started(client, f"{ID}-{number}")
            assert await send(client, a_batch(producer, b"-"), named=f"{ID}-{number}") == 0
            ids.add(producer[0])
        told = await producers(client)
        assert told.error_code == 0
        assert [each.producer_id for each in told.active_producers] == sorted(ids)
        client.close()


async def test_too_many_aborts_in_one_request_are_refused(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        client = await connected(cluster)
        where = KafkaWriteTxnMarkersRequestWritableTxnMarkerTopic("t", [0] * 1001)
        marker = KafkaWriteTxnMarkersRequestWritableTxnMarker(1, 1, False, [where], -1)
        with pytest.raises(EOFError):
            await client.ask(KafkaWriteTxnMarkersRequest([marker]), 1)
        client.close()
