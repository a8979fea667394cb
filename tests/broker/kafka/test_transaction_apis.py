"""Transactions of Kafka's newer clients are ours: an end raises the epoch."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog_broker.kafka.wire.messages import fetch, txn_offset_commit
from oncelog_broker.kafka.wire.messages.api_versions import KafkaApiVersionsRequest
from oncelog_broker.kafka.wire.messages.find_coordinator import KafkaFindCoordinatorRequest
from oncelog_broker.kafka.wire.messages.init_producer_id import KafkaInitProducerIdRequest
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import OffsetFetchRequest
from support.kafka_client import WAIT_S, connected
from support.kafka_cluster import KafkaCluster
from support.kafka_transactions import (
    ID,
    a_batch,
    end,
    found,
    last_stable,
    send,
    started,
    until_taken,
)


async def committed_offset(cluster: KafkaCluster) -> int:
    """Return what the group "g" has committed in the partition, once nothing is pending."""
    answer = await until_taken(
        lambda: cluster.call(1, OffsetFetchRequest("g", None, True)),
        lambda each: each.topics[0].partitions[0].error_code,
    )
    offset: int = answer.topics[0].partitions[0].offset
    return offset


async def test_a_transaction_is_committed_with_its_offsets_and_the_next_has_a_new_epoch(
    tmp_path: Path,
) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        producer = await started(client)
        assert await send(client, a_batch(producer, b"one", b"two")) == 0
        await found(client, "g", 0)
        part = txn_offset_commit.KafkaTxnOffsetCommitRequestPartition(0, 7)
        asked = txn_offset_commit.KafkaTxnOffsetCommitRequest(
            ID, "g", *producer, topics=[
                txn_offset_commit.KafkaTxnOffsetCommitRequestTopic("t", [part])
            ],
        )  # fmt: skip
        answer = await until_taken(
            lambda: client.ask(asked, 5), lambda each: each.topics[0].partitions[0].error_code
        )
        assert answer.topics[0].partitions[0].error_code == 0
        assert await last_stable(client) == 0, "nothing is seen before the end"
        ended = await end(client, producer, True)
        assert ended.error_code == 0
        following = (ended.producer_id, ended.producer_epoch)
        assert following == (producer[0], producer[1] + 1)
        assert (await end(client, producer, True)).producer_epoch == following[1], "a repeat"
        assert await committed_offset(cluster) == 7
        # The epoch before is over: nothing late of it is taken.
        assert await send(client, a_batch(producer, b"late")) in (47, 120)
        assert await send(client, a_batch(following, b"three")) == 0
        assert (await end(client, following, False)).error_code == 0
        async with asyncio.timeout(WAIT_S):
            while await last_stable(client) < 5:
                await asyncio.sleep(0.02)
        row = fetch.KafkaFetchRequestPartition(0, fetch_offset=0, partition_max_bytes=2**20)
        topics = [fetch.KafkaFetchRequestTopic("t", partitions=[row])]
        read = await client.ask(
            fetch.KafkaFetchRequest(isolation_level=1, topics=topics, max_bytes=2**20), 12
        )
        aborted = read.responses[0].partitions[0].aborted_transactions
        assert [(each.producer_id, each.first_offset) for each in aborted] == [(producer[0], 3)]
        client.close()


async def test_a_newer_instance_fences_the_one_before(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        old = await started(client)
        assert await send(client, a_batch(old, b"-")) == 0
        new = await started(client)
        assert new[0] == old[0]
        assert new[1] > old[1]
        assert (await end(client, old, True)).error_code == 90  # PRODUCER_FENCED
        client.close()


async def test_who_keeps_his_epoch_may_have_no_transactions(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=False) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        asked = KafkaInitProducerIdRequest(ID, 10_000)
        assert (await client.ask(asked, 4)).error_code == 35  # UNSUPPORTED_VERSION
        answer = await client.ask(KafkaFindCoordinatorRequest(ID, 1), 3)
        assert answer.error_code == 35
        assert "KIP-890" in answer.error_message
        assert await send(client, a_batch((1, 0), b"-"), 11) == 48  # INVALID_TXN_STATE
        assert cluster.brokers[1].dispatcher.stats.of(ApiKey.PRODUCE).errors == {48: 1}
        # Who speaks new versions, and ends transactions in the old way, is known by his name.
        java = KafkaApiVersionsRequest("apache-kafka-java", "3.9.1")
        assert (await client.ask(java, 3)).error_code == 0
        assert (await client.ask(asked, 5)).error_code == 35
        # A producer without transactions is none of them.
        assert (await client.ask(KafkaInitProducerIdRequest(None), 4)).error_code == 0
        client.close()
