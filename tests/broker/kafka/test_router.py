"""A Kafka listener answers every API in every version that it offers, and refuses what clients may
not ask. The sections test the small modules that the router calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.config import ConfigError, load
from oncelog_broker.kafka.error_codes import OWN_CODES_FROM, kafka_code
from oncelog_broker.kafka.router import TRANSLATIONS
from oncelog_broker.kafka.topic_ids import id_bytes
from oncelog_broker.kafka.versions import OFFERED, WITH_NUMBERS, api_versions
from oncelog_broker.kafka.wire.declaration import NO_UUID, KafkaRequest
from oncelog_broker.kafka.wire.messages import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    join_group,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    write_txn_markers,
)
from oncelog_broker.kafka.wire.messages.add_offsets_to_txn import KafkaAddOffsetsToTxnRequest
from oncelog_broker.kafka.wire.messages.add_partitions_to_txn import (
    KafkaAddPartitionsToTxnRequest,
    KafkaAddPartitionsToTxnRequestTopic,
)
from oncelog_broker.kafka.wire.messages.alter_client_quotas import KafkaAlterClientQuotasRequest
from oncelog_broker.kafka.wire.messages.alter_partition_reassignments import (
    KafkaAlterPartitionReassignmentsRequestReassignablePartition,
)
from oncelog_broker.kafka.wire.messages.alter_user_scram_credentials import (
    KafkaAlterUserScramCredentialsRequest,
)
from oncelog_broker.kafka.wire.messages.api_versions import KafkaApiVersionsRequest
from oncelog_broker.kafka.wire.messages.create_acls import KafkaCreateAclsRequest
from oncelog_broker.kafka.wire.messages.delete_acls import KafkaDeleteAclsRequest
from oncelog_broker.kafka.wire.messages.describe_acls import KafkaDescribeAclsRequest
from oncelog_broker.kafka.wire.messages.describe_client_quotas import (
    KafkaDescribeClientQuotasRequest,
)
from oncelog_broker.kafka.wire.messages.describe_groups import KafkaDescribeGroupsRequest
from oncelog_broker.kafka.wire.messages.describe_transactions import (
    KafkaDescribeTransactionsRequest,
)
from oncelog_broker.kafka.wire.messages.describe_user_scram_credentials import (
    KafkaDescribeUserScramCredentialsRequest,
)
from oncelog_broker.kafka.wire.messages.end_txn import KafkaEndTxnRequest
from oncelog_broker.kafka.wire.messages.find_coordinator import KafkaFindCoordinatorRequest
from oncelog_broker.kafka.wire.messages.heartbeat import KafkaHeartbeatRequest
from oncelog_broker.kafka.wire.messages.init_producer_id import KafkaInitProducerIdRequest
from oncelog_broker.kafka.wire.messages.leave_group import (
    KafkaLeaveGroupRequest,
    KafkaLeaveGroupRequestMemberIdentity,
)
from oncelog_broker.kafka.wire.messages.list_groups import KafkaListGroupsRequest
from oncelog_broker.kafka.wire.messages.list_transactions import KafkaListTransactionsRequest
from oncelog_broker.kafka.wire.messages.sasl_authenticate import KafkaSaslAuthenticateRequest
from oncelog_broker.kafka.wire.messages.sasl_handshake import KafkaSaslHandshakeRequest
from oncelog_broker.kafka.wire.messages.sync_group import KafkaSyncGroupRequest
from oncelog_broker.kafka.wire.messages.table import REQUESTS
from oncelog_broker.kafka.wire.messages.txn_offset_commit import (
    KafkaTxnOffsetCommitRequest,
    KafkaTxnOffsetCommitRequestPartition,
    KafkaTxnOffsetCommitRequestTopic,
)
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.errors import ERRORS
from oncelog_protocol.kafka_consumer_protocol import (
    encode_kafka_assignment,
    encode_kafka_subscription,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import (
    GroupProtocol,
    JoinGroupRequest,
    MemberAssignment,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
    SyncGroupRequest,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC, BatchHeader, assemble
from oncelog_protocol.records.kafka_body import BodyColumns, encode_body
from oncelog_protocol.schema import Span
from oncelog_protocol.types import TopicPartition
from support.hand_records import produce as produce_natively
from support.kafka_client import WAIT_S, RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.waiting import eventually


def a_batch(values: list[bytes | None]) -> bytes:
    """Return a batch as clients of Kafka send it."""
    body = encode_body(BodyColumns(values, None, None, None, None))
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=KAFKA_MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=len(values) - 1,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(values),
    )
    return bytes(assemble(header, body))


def a_produce(batch: bytes, topic: str = "t", acks: int = -1) -> produce.KafkaProduceRequest:
    part = produce.KafkaProduceRequestPartitionProduceData(0, Span(0, len(batch)))
    data = [produce.KafkaProduceRequestTopicProduceData(topic, partition_data=[part])]
    return produce.KafkaProduceRequest(acks=acks, timeout_ms=5000, topic_data=data)


def a_fetch(**changed: Any) -> fetch.KafkaFetchRequest:
    part = fetch.KafkaFetchRequestPartition(0, fetch_offset=0, partition_max_bytes=2**20)
    topics = [fetch.KafkaFetchRequestTopic("t", partitions=[part])]
    return fetch.KafkaFetchRequest(topics=topics, max_bytes=2**20, **changed)


def of_groups() -> list[KafkaRequest]:
    """Return those requests of groups that are alike in all versions."""
    return [
        KafkaHeartbeatRequest("g", 1, "nobody"),
        KafkaSyncGroupRequest("g", 1, "nobody"),
        KafkaDescribeGroupsRequest(["g"]),
        KafkaListGroupsRequest(),
    ]


def of_security() -> list[KafkaRequest]:
    """Return a request of each API of security."""
    return [
        KafkaSaslHandshakeRequest("PLAIN"),
        KafkaSaslAuthenticateRequest(b"?"),
        KafkaDescribeAclsRequest(1, None, 1, None, None, 1, 1),
        KafkaCreateAclsRequest(),
        KafkaDeleteAclsRequest(),
        KafkaDescribeClientQuotasRequest(),
        KafkaAlterClientQuotasRequest(),
        KafkaDescribeUserScramCredentialsRequest(),
        KafkaAlterUserScramCredentialsRequest(),
    ]


def requests_of(version: int) -> dict[int, KafkaRequest]:
    """Return a request of each API that makes sense in this version."""
    many = version >= 4
    commit = offset_commit.KafkaOffsetCommitRequestTopic(
        "t", partitions=[offset_commit.KafkaOffsetCommitRequestPartition(0, 5)]
    )
    asked: list[KafkaRequest] = [
        a_fetch(),
        list_offsets.KafkaListOffsetsRequest(
            -1,
            topics=[
                list_offsets.KafkaListOffsetsRequestTopic(
                    "t", [list_offsets.KafkaListOffsetsRequestPartition(0, timestamp=-1)]
                )
            ],
        ),
        metadata.KafkaMetadataRequest([metadata.KafkaMetadataRequestTopic(name="t")]),
        offset_commit.KafkaOffsetCommitRequest("g", topics=[commit]),
        offset_fetch.KafkaOffsetFetchRequest(
            groups=[
                offset_fetch.KafkaOffsetFetchRequestGroup(
                    "g", topics=[offset_fetch.KafkaOffsetFetchRequestTopics("t", NO_UUID, [0])]
                )
            ]
        )
        if version >= 8
        else offset_fetch.KafkaOffsetFetchRequest(
            "g", [offset_fetch.KafkaOffsetFetchRequestTopic("t", [0])]
        ),
        KafkaFindCoordinatorRequest(
            coordinator_keys=["g"] if many else [], key="" if many else "g"
        ),
        join_group.KafkaJoinGroupRequest(
            "joined",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=1000,
            protocol_type="consumer",
            protocols=[join_group.KafkaJoinGroupRequestProtocol("range", b"\0\0" + bytes(8))],
        ),
        KafkaLeaveGroupRequest("g", members=[KafkaLeaveGroupRequestMemberIdentity("nobody")])
        if version >= 3
        else KafkaLeaveGroupRequest("g", "nobody"),
        *of_groups(),
        KafkaApiVersionsRequest("raw", "1"),
        create_topics.KafkaCreateTopicsRequest(
            [create_topics.KafkaCreateTopicsRequestCreatableTopic("t", 1, 1)]
        ),
        delete_topics.KafkaDeleteTopicsRequest(
            topics=[delete_topics.KafkaDeleteTopicsRequestDeleteTopicState("gone")]
        )
        if version >= 6
        else delete_topics.KafkaDeleteTopicsRequest(topic_names=["gone"]),
        KafkaInitProducerIdRequest(transactional_id=None),
        a_produce(BATCH),
        *admin_requests(),
    ]
    return {each.api_key: each for each in asked}


def of_transactions() -> list[KafkaRequest]:
    part = KafkaTxnOffsetCommitRequestPartition(0, 5)
    topics = [KafkaTxnOffsetCommitRequestTopic("t", [part])]
    marker = write_txn_markers.KafkaWriteTxnMarkersRequestWritableTxnMarker
    where = write_txn_markers.KafkaWriteTxnMarkersRequestWritableTxnMarkerTopic("t", [0])
    producers = describe_producers.KafkaDescribeProducersRequestTopicRequest("t", [0])
    return [
        write_txn_markers.KafkaWriteTxnMarkersRequest([marker(1, 1, topics=[where])]),
        describe_producers.KafkaDescribeProducersRequest([producers]),
        KafkaDescribeTransactionsRequest(["nobody"]),
        KafkaListTransactionsRequest(),
        KafkaEndTxnRequest("nobody", 1, 1, True),
        KafkaTxnOffsetCommitRequest("nobody", "g", 1, 1, topics=topics),
        KafkaAddPartitionsToTxnRequest(
            v3_and_below_transactional_id="nobody",
            v3_and_below_producer_id=1,
            v3_and_below_topics=[KafkaAddPartitionsToTxnRequestTopic("t", [0])],
        ),
        KafkaAddOffsetsToTxnRequest("nobody", 1, 1, "g"),
    ]


def admin_requests() -> list[KafkaRequest]:
    """Return those requests that look alike in every version."""
    records = delete_records.KafkaDeleteRecordsRequestPartition(0, 0)
    epoch = offset_for_leader_epoch.KafkaOffsetForLeaderEpochRequestOffsetForLeaderPartition(0)
    place = alter_replica_log_dirs.KafkaAlterReplicaLogDirsRequestAlterReplicaLogDirTopic("t", [0])
    move = alter_partition_reassignments.KafkaAlterPartitionReassignmentsRequestReassignableTopic
    wish = incremental_alter_configs.KafkaIncrementalAlterConfigsRequestAlterConfigsResource
    setting = incremental_alter_configs.KafkaIncrementalAlterConfigsRequestAlterableConfig
    offsets = offset_delete.KafkaOffsetDeleteRequestTopic
    return [
        *of_transactions(),
        *of_security(),
        delete_records.KafkaDeleteRecordsRequest(
            [delete_records.KafkaDeleteRecordsRequestTopic("t", [records])], 5000
        ),
        offset_for_leader_epoch.KafkaOffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.KafkaOffsetForLeaderEpochRequestOffsetForLeaderTopic(
                    "t", [epoch]
                )
            ]
        ),
        describe_configs.KafkaDescribeConfigsRequest(
            [describe_configs.KafkaDescribeConfigsRequestResource(2, "t", None)]
        ),
        alter_replica_log_dirs.KafkaAlterReplicaLogDirsRequest(
            [
                alter_replica_log_dirs.KafkaAlterReplicaLogDirsRequestAlterReplicaLogDir(
                    "/x", [place]
                )
            ]
        ),
        describe_log_dirs.KafkaDescribeLogDirsRequest(None),
        create_partitions.KafkaCreatePartitionsRequest(
            [create_partitions.KafkaCreatePartitionsRequestTopic("t", 1, None)], 5000
        ),
        delete_groups.KafkaDeleteGroupsRequest(["none"]),
        elect_leaders.KafkaElectLeadersRequest(
            topic_partitions=[elect_leaders.KafkaElectLeadersRequestTopicPartitions("t", [0])]
        ),
        incremental_alter_configs.KafkaIncrementalAlterConfigsRequest(
            [wish(2, "t", [setting("retention.ms", 0, "1000000")])]
        ),
        alter_partition_reassignments.KafkaAlterPartitionReassignmentsRequest(
            topics=[move("t", [KafkaAlterPartitionReassignmentsRequestReassignablePartition(0)])]
        ),
        list_partition_reassignments.KafkaListPartitionReassignmentsRequest(),
        offset_delete.KafkaOffsetDeleteRequest(
            "g", [offsets("u", [offset_delete.KafkaOffsetDeleteRequestPartition(0)])]
        ),
        describe_cluster.KafkaDescribeClusterRequest(),
        describe_topic_partitions.KafkaDescribeTopicPartitionsRequest(
            [describe_topic_partitions.KafkaDescribeTopicPartitionsRequestTopicRequest("t")]
        ),
    ]


BATCH = a_batch([b"one", None, b"three"])


def test_every_offered_api_has_its_translation() -> None:
    assert set(TRANSLATIONS) == set(WITH_NUMBERS) - {ApiKey.API_VERSIONS}
    assert set(requests_of(3)) == set(WITH_NUMBERS)


@pytest.mark.slow
async def test_every_api_is_answered_in_every_version(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=True) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        await eventually_coordinated(client)
        for api_key, (first, last) in WITH_NUMBERS.items():
            if api_key in ENDS_THE_CONNECTION:
                continue
            for version in range(first, last + 1):
                request = requests_of(version)[api_key]
                payload = [BATCH] if api_key == ApiKey.PRODUCE else []
                answer = await client.ask(request, version, payload)
                assert type(answer) is REQUESTS[api_key].response, (api_key, version)
                assert codes_in(answer) <= MAY_SAY.get(api_key, {0}), (api_key, version)
        client.close()


ENDS_THE_CONNECTION = {KafkaSaslHandshakeRequest.api_key, ApiKey.AUTHENTICATE}
"""So ends a client that wants to authenticate where nobody does: ``test_sasl_apis.py``."""

MAY_SAY: dict[int, set[int]] = {
    ApiKey.DESCRIBE_ACLS: {54},  # SECURITY_DISABLED
    ApiKey.DESCRIBE_QUOTAS: {54},
    ApiKey.DESCRIBE_USERS: {54},
    ApiKey.CREATE_ACLS: set(),  # nothing was asked for
    ApiKey.DELETE_ACLS: set(),
    ApiKey.ALTER_QUOTAS: set(),
    ApiKey.ALTER_USERS: set(),
    ApiKey.HEARTBEAT: {25},  # UNKNOWN_MEMBER_ID
    ApiKey.LEAVE_GROUP: {0, 25},
    ApiKey.SYNC_GROUP: {25},
    ApiKey.JOIN_GROUP: {0, 79},  # MEMBER_ID_REQUIRED
    ApiKey.CREATE_TOPICS: {36},  # TOPIC_ALREADY_EXISTS
    ApiKey.DELETE_TOPICS: {3},  # UNKNOWN_TOPIC_OR_PARTITION
    ApiKey.END_TXN: {14, 15, 16, 49},  # INVALID_PRODUCER_ID_MAPPING, or nobody coordinates yet
    ApiKey.WRITE_TXN_MARKERS: {48},  # INVALID_TXN_STATE
    ApiKey.DESCRIBE_TRANSACTIONS: {14, 15, 16, 105},  # TRANSACTIONAL_ID_NOT_FOUND
    ApiKey.LIST_TRANSACTIONS: {0, 14},
    ApiKey.TXN_OFFSET_COMMIT: {14, 15, 16, 49},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {57},  # LOG_DIR_NOT_FOUND
    ApiKey.CREATE_PARTITIONS: {37},  # INVALID_PARTITIONS
    ApiKey.DELETE_GROUPS: {69},  # GROUP_ID_NOT_FOUND
    ApiKey.ELECT_LEADERS: {0, 84},  # ELECTION_NOT_NEEDED
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {0, 85},  # NO_REASSIGNMENT_IN_PROGRESS
    ApiKey.OFFSET_DELETE: {0, 3},
    ApiKey.ADD_PARTITIONS_TO_TXN: {0, 14, 15, 16, 49},
    ApiKey.ADD_OFFSETS_TO_TXN: {14, 15, 16, 49},
}


def codes_in(message: Any) -> set[int]:
    """Return all error codes of an answer."""
    if isinstance(message, list):
        return {code for each in message for code in codes_in(each)}
    if not hasattr(message, "__dataclass_fields__"):
        return set()
    found = {message.error_code} if hasattr(message, "error_code") else set()
    for name in message.__dataclass_fields__:
        found |= codes_in(getattr(message, name))
    return found


async def eventually_coordinated(client: RawClient) -> None:
    """Wait until the group "g" has its coordinator."""
    asked = KafkaFindCoordinatorRequest(coordinator_keys=["g"])

    async def found() -> bool:
        answer = await client.ask(asked, 4)
        if answer.coordinators[0].error_code:
            return False
        described = await client.ask(KafkaDescribeGroupsRequest(["g"]), 5)
        code: int = described.groups[0].error_code
        return not code

    async with asyncio.timeout(WAIT_S):
        while not await found():
            await asyncio.sleep(0.05)


# ---- exchange.py: one request is served by our handlers


async def test_records_come_back_as_they_were_sent(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        answer = await client.ask(a_produce(BATCH), 9, [BATCH])
        assert answer.responses[0].partition_responses[0].base_offset == 0
        stats = cluster.brokers[1].dispatcher.stats.of(ApiKey.PRODUCE)
        assert (stats.answered, stats.errors) == (1, {})
        bad = BATCH[:-1] + b"?"
        answer = await client.ask(a_produce(bad), 9, [bad])
        assert answer.responses[0].partition_responses[0].error_code == 2  # CORRUPT_MESSAGE
        assert stats.errors == {2: 1}
        client.close()


async def test_a_client_that_poses_as_a_replica_is_refused(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        offsets = requests_of(3)[ApiKey.LIST_OFFSETS]
        assert isinstance(offsets, list_offsets.KafkaListOffsetsRequest)
        offsets.replica_id = 1
        for request, version in ((a_fetch(replica_id=1), 11), (offsets, 3)):
            client = await connected(cluster)
            with pytest.raises(EOFError):
                await client.ask(request, version)
            client.close()


# ---- data_apis.py: batches of both formats


@pytest.mark.parametrize("magic_first", [1, 2])
async def test_readers_get_both_formats_in_theirs(tmp_path: Path, magic_first: int) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        channel = await cluster.channel(1)
        for magic in (magic_first, 3 - magic_first):
            if magic == KAFKA_MAGIC:
                await client.ask(a_produce(BATCH), 9, [BATCH])
            else:
                await produce_natively(channel, "t", 0, [b"native"])
        channel.close()
        answer = await client.ask(a_fetch(), 12)
        part = answer.responses[0].partitions[0]
        assert (part.error_code, part.high_watermark) == (0, 4)
        assert part.records.length > 0
        client.close()


async def test_a_batch_of_our_format_is_not_taken_there(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        native = bytearray(BATCH)
        native[16] = 1
        answer = await client.ask(a_produce(bytes(native)), 9, [bytes(native)])
        assert answer.responses[0].partition_responses[0].error_code in (2, 43)
        client.close()


async def test_produce_without_acknowledgement_has_no_answer(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        client.send(a_produce(BATCH, acks=0), 9, [BATCH])
        async with asyncio.timeout(WAIT_S):
            end = 0
            while not end:  # nobody waits until it is committed
                answer = await client.ask(requests_of(3)[ApiKey.LIST_OFFSETS], 3)
                end = answer.topics[0].partitions[0].offset
        assert end == 3
        client.close()


def of_time(timestamp: int) -> KafkaRequest:
    request = requests_of(3)[ApiKey.LIST_OFFSETS]
    assert isinstance(request, list_offsets.KafkaListOffsetsRequest)
    request.topics[0].partitions[0].timestamp = timestamp
    return request


async def test_offsets_that_have_names(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        await client.ask(a_produce(BATCH), 9, [BATCH])
        told = {}
        for timestamp in (-1, -2, -3, -4, -5):
            answer = await client.ask(of_time(timestamp), 9)
            part = answer.topics[0].partitions[0]
            assert part.error_code == 0
            told[timestamp] = (part.offset, part.timestamp)
        assert told == {
            -1: (3, -1), -2: (0, -1), -3: (0, 1_700_000_000_000), -4: (0, -1), -5: (-1, -1),
        }  # fmt: skip
        refused = await client.ask(of_time(-6), 9)
        assert refused.topics[0].partitions[0].error_code == 42  # INVALID_REQUEST
        client.close()


# ---- metadata_apis.py: topics by names and ids


async def test_topics_are_found_by_their_ids(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        by_name = await client.ask(requests_of(12)[ApiKey.METADATA], 12)
        topic_id = by_name.topics[0].topic_id
        assert topic_id != NO_UUID
        asked = [metadata.KafkaMetadataRequestTopic(each, None) for each in (topic_id, b"?" * 16)]
        found = await client.ask(metadata.KafkaMetadataRequest(asked), 12)
        assert [(each.name, each.error_code) for each in found.topics] == [("t", 0), (None, 100)]
        everything = await client.ask(metadata.KafkaMetadataRequest(None), 12)
        assert "t" in {each.name for each in everything.topics}
        none = await client.ask(metadata.KafkaMetadataRequest([]), 12)
        assert none.topics == []
        assert [(each.host, each.port) for each in none.brokers] == [
            cluster.brokers[1].addresses["kafka"]
        ]
        client.close()


# ---- topic_ids.py: text here, sixteen bytes there


def test_ids_of_topics() -> None:
    text = "00112233-4455-4677-8899-aabbccddeeff"
    assert id_bytes(text) == bytes.fromhex("00112233445546778899aabbccddeeff")
    assert id_bytes("") == NO_UUID


# ---- group_apis.py: two kinds of clients


async def test_a_group_speaks_one_protocol_at_a_time(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        await eventually_coordinated(client)
        joined = await client.ask(requests_of(3)[ApiKey.JOIN_GROUP], 3)
        assert (joined.error_code, joined.leader) == (0, joined.member_id)
        ours = [GroupProtocol("range", encode_subscription(ConsumerSubscription(("t",))))]
        request = JoinGroupRequest("joined", 10_000, 1000, "", None, "consumer", ours)
        refused = await cluster.call(1, request)
        assert refused.error_code == 23  # INCONSISTENT_GROUP_PROTOCOL
        left = await client.ask(KafkaLeaveGroupRequest("joined", joined.member_id), 2)
        assert left.error_code == 0
        taken = await cluster.call(1, request)
        assert taken.error_code == 79  # MEMBER_ID_REQUIRED: it may come
        client.close()


async def test_what_members_of_both_kinds_read_is_known(tmp_path: Path) -> None:
    """A client of Kafka sees what clients of ours have told. Topics that members read keep their
    offsets, whoever reads them."""
    told = ConsumerSubscription(("t",))
    gets = ConsumerAssignment((TopicPartition("t", 0),))
    offers = {
        "ours": encode_subscription(told),
        "kafkas": encode_kafka_subscription(told),
    }
    shares = {"ours": encode_assignment(gets), "kafkas": encode_kafka_assignment(gets)}
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        await eventually_coordinated(client)
        for group, offer in offers.items():
            await a_member(cluster, group, offer, shares[group])
            described = await client.ask(KafkaDescribeGroupsRequest([group]), 5)
            (member,) = described.groups[0].members
            assert decode_subscription(member.member_metadata) == told
            assert decode_assignment(member.member_assignment) == gets
            assert member.member_metadata[:1] == b"\0"
            topics = [OffsetFetchTopic("t", [0]), OffsetFetchTopic("u", [0])]
            deleted = await cluster.call(1, OffsetDeleteRequest(group, topics))
            codes = [topic.partitions[0].error_code for topic in deleted.topics]
            assert codes == [86, 3]  # GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION
        client.close()


async def a_member(cluster: KafkaCluster, group: str, offer: bytes, share: bytes) -> None:
    """Have a group of one member, which gets ``share``."""
    protocols = [GroupProtocol("range", offer)]
    join = JoinGroupRequest(group, 30_000, 1000, "", None, "consumer", protocols)
    join.member_id = (await cluster.call(1, join)).member_id
    joined = await cluster.call(1, join)
    assert joined.error_code == 0
    shares = [MemberAssignment(joined.member_id, share)]
    sync = SyncGroupRequest(
        group, joined.generation_id, joined.member_id, None, "consumer", "range", shares
    )
    assert (await cluster.call(1, sync)).error_code == 0


# ---- offset_apis.py: committed offsets


async def test_offsets_are_common_to_both_kinds_of_clients(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        await eventually_coordinated(client)
        await client.ask(requests_of(8)[ApiKey.OFFSET_COMMIT], 8)
        native = await cluster.call(1, OffsetFetchRequest("g", None))
        assert native.topics[0].partitions[0].offset == 5
        for version in (1, 7, 8):
            answer = await client.ask(requests_of(version)[ApiKey.OFFSET_FETCH], version)
            topics = answer.groups[0].topics if version >= 8 else answer.topics
            assert topics[0].partitions[0].committed_offset == 5
        client.close()


# ---- admin_apis.py: topics


async def test_topics_are_created_and_deleted(tmp_path: Path) -> None:
    def new(name: str, *partitions: int) -> create_topics.KafkaCreateTopicsRequest:
        rows = [
            create_topics.KafkaCreateTopicsRequestCreatableReplicaAssignment(each, [1])
            for each in partitions
        ]
        topic = create_topics.KafkaCreateTopicsRequestCreatableTopic(name, -1, -1, rows)
        return create_topics.KafkaCreateTopicsRequest([topic], 10_000)

    async with KafkaCluster(tmp_path, 1) as cluster:
        client = await connected(cluster)
        made = await client.ask(new("made", 0, 1), 7)
        assert (made.topics[0].error_code, made.topics[0].num_partitions) == (0, 2)
        refused = await client.ask(new("gaps", 0, 2), 7)
        assert refused.topics[0].error_code == 39  # INVALID_REPLICA_ASSIGNMENT
        state = delete_topics.KafkaDeleteTopicsRequestDeleteTopicState
        both = [state(None, made.topics[0].topic_id), state(None, b"?" * 16)]
        await eventually(lambda: "made" in cluster.brokers[1].image.topics)
        gone = await client.ask(delete_topics.KafkaDeleteTopicsRequest(both, [], 10_000), 6)
        assert [each.error_code for each in gone.responses] == [0, 100]
        client.close()


# ---- error_codes.py: a client must know the code


def test_every_error_is_one_that_clients_of_its_version_know() -> None:
    newest = max(code for code in ERRORS if code < OWN_CODES_FROM)
    for api_key, (first, last) in WITH_NUMBERS.items():
        for version in range(first, last + 1):
            for code in ERRORS:
                told = kafka_code(api_key, version, code)
                assert -1 <= told <= newest
                assert told == code or told in ERRORS or told == -1
                if told != code:
                    assert kafka_code(api_key, version, told) == told


@pytest.mark.parametrize(
    ("api", "code", "older", "since"),
    [
        (ApiKey.INIT_PID, 90, 47, 4),  # PRODUCER_FENCED
        (ApiKey.INIT_PID, 120, 48, 5),  # TRANSACTION_ABORTABLE
        (ApiKey.PRODUCE, 120, 48, 11),
        (ApiKey.END_TXN, 90, 47, 2),
        (ApiKey.END_TXN, 120, 48, 4),
        (ApiKey.TXN_OFFSET_COMMIT, 120, 48, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 90, 47, 2),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 120, 48, 5),
        (ApiKey.ADD_OFFSETS_TO_TXN, 90, 47, 2),
        (ApiKey.ADD_OFFSETS_TO_TXN, 120, 48, 4),
        (ApiKey.PRODUCE, 51, 19, 12),  # CONCURRENT_TRANSACTIONS
    ],
)
def test_codes_that_came_later(api: ApiKey, code: int, older: int, since: int) -> None:
    assert kafka_code(api, since, code) == code
    assert kafka_code(api, since - 1, code) == older


def test_a_coordinator_that_did_not_write_in_time_is_asked_again() -> None:
    """Kafka's coordinators say so, and franz-go gives up on the other code (TestTxnEtl, with
    brokers killed)."""
    asked = "OFFSET_COMMIT TXN_OFFSET_COMMIT JOIN_GROUP SYNC_GROUP INIT_PID END_TXN"
    for name in [*asked.split(), "ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN"]:
        api = ApiKey[name]
        for version in range(*WITH_NUMBERS[api]):
            assert kafka_code(api, version, 7) == 15
    assert kafka_code(ApiKey.PRODUCE, 11, 7) == 7
    assert kafka_code(ApiKey.CREATE_TOPICS, 5, 7) == 7


# ---- versions.py: what is told of the table


def test_what_is_offered_is_in_the_schemas() -> None:
    for api_key, (first, last) in WITH_NUMBERS.items():
        request = REQUESTS[api_key]
        assert request.versions[0] <= first <= last <= request.versions[1]
    rows = {each.api_key: (each.min_version, each.max_version) for each in api_versions().api_keys}
    assert rows == {**OFFERED, ApiKey.PRODUCE: (0, 12)}
    told = api_versions(numbers=True).api_keys
    rows = {each.api_key: (each.min_version, each.max_version) for each in told}
    assert rows == {**WITH_NUMBERS, ApiKey.PRODUCE: (0, 12)}


@pytest.mark.parametrize(("version", "least"), [(3, 1), (4, 0)])
def test_transactions_with_epochs_of_their_own_are_told(version: int, least: int) -> None:
    told = api_versions(version=version)
    supported, finalized = told.supported_features[0], told.finalized_features[0]
    assert supported.name == finalized.name == "transaction.version"
    assert (supported.min_version, supported.max_version) == (least, 2)
    assert finalized.max_version_level == 2
    assert told.finalized_features_epoch >= 0  # without it clients do not look


# ---------------------------------------------------------------------------- its configuration


def test_a_listener_between_brokers_speaks_ours(tmp_path: Path) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text(
        f'broker_id = 1\nlog_dirs = ["{tmp_path}"]\nzookeeper_connect = "127.0.0.1:2181"\n'
        'listeners = [{name = "internal", protocol = "kafka"}, {name = "external"}]\n'
    )
    with pytest.raises(ConfigError, match="speaks the protocol of Kafka"):
        load(str(settings), environment={})
