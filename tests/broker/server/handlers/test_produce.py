"""Produce: what is refused, what is parked, and that every request is answered exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_NAME,
    IDEMPOTENT_WRITE,
    AllowAllAuthorizer,
)
from oncelog_broker.server.client_quotas import ClientQuotas
from oncelog_broker.server.handlers.key_checks import WORK_A_TURN
from oncelog_broker.server.handlers.produce import ProduceHandler
from oncelog_broker.server.peer_identity import ANONYMOUS
from oncelog_broker.server.request import ConnectionState, RequestContext
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    CorruptMessageError,
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
)
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from oncelog_protocol.quotas import PRODUCER_BYTE_RATE, QuotaEntity
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import TopicPartition
from support.logs import topic_config
from support.replicas import NOW_MS, batch_of
from support.replication_cluster import Answer, Cluster, call, make_context
from support.room_settings import replica_settings
from support.server import DenyAll
from support.turns import Turns
from support.waiting import eventually

TP = TopicPartition("t", 0)


def produce(
    handler: ProduceHandler,
    *batches: tuple[str, int, bytes],
    acks: int = -1,
    timeout_ms: int = 5000,
    internal: bool = False,
    transactional_id: str | None = None,
    connection: ConnectionState | None = None,
    principal: str = "User:test",
) -> Answer:
    payload = b""
    topics: dict[str, ProduceTopic] = {}
    for topic, partition, batch in batches:
        group = topics.setdefault(topic, ProduceTopic(topic, []))
        group.partitions.append(ProducePartition(partition, Span(len(payload), len(batch))))
        payload += batch
    request = ProduceRequest(transactional_id, acks, timeout_ms, list(topics.values()))
    context = make_context(internal=internal, connection=connection, principal=principal)
    return call(handler, request, payload=payload, context=context)


def codes(message: ProduceResponse) -> dict[tuple[str, int], int]:
    return {(t.topic, p.partition): p.error_code for t in message.topics for p in t.partitions}


GOOD = bytes(batch_of(b"v"))


async def test_one_request_many_partitions_one_answer() -> None:
    async with Cluster() as cluster:
        for number in range(3):
            cluster.lead(TopicPartition("t", number), 1)
        cluster.lead(TopicPartition("u", 0), 2)
        answer = produce(
            cluster[1].produce,
            ("t", 0, GOOD),
            ("t", 1, GOOD[:-1] + b"\x00"),
            ("u", 0, GOOD),
            ("t", 2, GOOD),
            ("x", 0, GOOD),
        )
        message = await answer.wait()
        assert codes(message) == {
            ("t", 0): 0,
            ("t", 1): CorruptMessageError.code,
            ("t", 2): 0,
            ("u", 0): NotLeaderOrFollowerError.code,
            ("x", 0): UnknownTopicOrPartitionError.code,
        }
        assert [t.topic for t in message.topics] == ["t", "u", "x"]
        assert message.topics[0].partitions[1].error_message


@pytest.mark.parametrize("acks", [2, -2, 127])
async def test_acks_must_be_one_of_three(acks: int) -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        with pytest.raises(InvalidRequiredAcksError):
            produce(cluster[1].produce, ("t", 0, GOOD), acks=acks)
        assert cluster[1].partition(TP).log.log_end_offset == 0


async def test_a_partition_twice_is_refused_whole() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        with pytest.raises(InvalidRequestError):
            produce(cluster[1].produce, ("t", 0, GOOD), ("t", 0, GOOD))
        assert cluster[1].partition(TP).log.log_end_offset == 0


async def test_two_batches_in_one_span_are_refused() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        message = await produce(cluster[1].produce, ("t", 0, GOOD + GOOD)).wait()
        assert codes(message)["t", 0] != 0
        assert cluster[1].partition(TP).log.log_end_offset == 0


async def test_an_empty_span_is_refused() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        message = await produce(cluster[1].produce, ("t", 0, b"")).wait()
        assert codes(message) == {("t", 0): CorruptMessageError.code}


async def test_a_batch_above_the_topics_limit_is_refused() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1, configs={"max.message.bytes": "100"})
        batch = bytes(batch_of(b"v" * 200))
        message = await produce(cluster[1].produce, ("t", 0, batch)).wait()
        assert codes(message) == {("t", 0): MessageTooLargeError.code}


async def test_internal_topics_are_not_for_clients() -> None:
    topic = "__consumer_offsets"
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TopicPartition(topic, 0), 1)
        message = await produce(cluster[1].produce, (topic, 0, GOOD)).wait()
        assert codes(message) == {(topic, 0): InvalidTopicError.code}
        message = await produce(cluster[1].produce, (topic, 0, GOOD), internal=True).wait()
        assert codes(message) == {(topic, 0): 0}


async def test_without_the_right_to_write_nothing_is_written() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler = ProduceHandler(cluster[1].replicas, DenyAll(), cluster[1].verifier)
        message = await produce(handler, ("t", 0, GOOD)).wait()
        assert codes(message) == {("t", 0): TopicAuthorizationFailedError.code}
        assert cluster[1].partition(TP).log.log_end_offset == 0


def kafka_context(errors: dict[TopicPartition, Sequence[int]] | None = None) -> RequestContext:
    return replace(make_context(), magic=KAFKA_MAGIC, record_errors=errors)


KAFKAS = bytes(encode_batch([b"v", b"w"], keys=[b"k", None], timestamps=1, magic=KAFKA_MAGIC))


async def test_kafkas_batches_are_taken_where_they_belong_once_all_brokers_read_them() -> None:
    request = ProduceRequest(
        None, -1, 5000, [ProduceTopic("t", [ProducePartition(0, Span(0, len(KAFKAS)))])]
    )
    refused = {("t", 0): UnsupportedForMessageFormatError.code}
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        known = [False]
        handler = ProduceHandler(
            node.replicas, AllowAllAuthorizer(), node.verifier, takes_kafka=lambda: known[0]
        )
        for context in (kafka_context(), make_context()):
            message = await call(handler, request, payload=KAFKAS, context=context).wait()
            assert codes(message) == refused
        known[0] = True
        message = await call(handler, request, payload=KAFKAS, context=kafka_context()).wait()
        assert codes(message) == {("t", 0): 0}
        assert node.partition(TP).log.log_end_offset == 2
        # By the listener of either, the other's batches are refused.
        message = await call(handler, request, payload=KAFKAS, context=make_context()).wait()
        assert codes(message) == refused
        message = await produce(handler, ("t", 0, GOOD)).wait()
        assert codes(message) == {("t", 0): 0}
        assert node.partition(TP).log.log_end_offset == 3


async def test_who_wants_to_know_is_told_which_records_lack_a_key() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        node.partition(TP).log.reconfigure(topic_config(cleanup_policy="compact"))
        handler = ProduceHandler(
            node.replicas, AllowAllAuthorizer(), node.verifier, takes_kafka=lambda: True
        )
        errors: dict[TopicPartition, Sequence[int]] = {}
        request = ProduceRequest(
            None, -1, 5000, [ProduceTopic("t", [ProducePartition(0, Span(0, len(KAFKAS)))])]
        )
        context = kafka_context(errors)
        message = await call(handler, request, payload=KAFKAS, context=context).wait()
        assert codes(message) == {("t", 0): InvalidRecordError.code}
        assert {tp: list(records) for tp, records in errors.items()} == {TP: [1]}


LARGE = 20 * WORK_A_TURN
"""To look at so many records takes many turns of the loop."""


def produced_by_kafka(*batches: bytes, topic: str = "t", acks: int = -1) -> ProduceRequest:
    parts: list[ProducePartition] = []
    end = 0
    for number, batch in enumerate(batches):
        parts.append(ProducePartition(number, Span(end, len(batch))))
        end += len(batch)
    return ProduceRequest(None, acks, 5000, [ProduceTopic(topic, parts)])


def large_batch(*, keyless: int | None = None) -> bytes:
    keys: list[bytes | None] = [b"k"] * LARGE
    if keyless is not None:
        keys[keyless] = None
    return bytes(encode_batch([b"v"] * LARGE, keys=keys, timestamps=1, magic=KAFKA_MAGIC))


@asynccontextmanager
async def compacted() -> AsyncIterator[tuple[ProduceHandler, PartitionLog, PartitionLog]]:
    """Give a handler, and the logs of two partitions of a compacted topic."""
    async with Cluster(brokers=1) as cluster:
        node = cluster[1]
        logs: list[PartitionLog] = []
        for number in range(2):
            cluster.lead(TopicPartition("t", number), 1)
            log = node.partition(TopicPartition("t", number)).log
            log.reconfigure(topic_config(cleanup_policy="compact", max_message_bytes=1 << 22))
            logs.append(log)
        handler = ProduceHandler(
            node.replicas, AllowAllAuthorizer(), node.verifier, takes_kafka=lambda: True
        )
        yield handler, logs[0], logs[1]


async def test_a_large_batch_is_looked_at_in_turns_and_nothing_appended_before() -> None:
    async with compacted() as (handler, log, other), Turns() as turns:
        small = bytes(encode_batch([b"v"], keys=[b"k"], timestamps=1, magic=KAFKA_MAGIC))
        request = produced_by_kafka(large_batch(), small)
        kept: list[int] = []

        def keep_behind(size: int) -> Callable[[], None]:
            kept.append(size)
            return kept.clear

        context = kafka_context({})
        context.connection.keep_behind = keep_behind
        answer = call(handler, request, payload=large_batch() + small, context=context)
        assert kept == [len(large_batch()) + len(small)]
        while not turns.count > LARGE // WORK_A_TURN - 2:
            assert (log.log_end_offset, other.log_end_offset) == (0, 0)
            assert kept
            await asyncio.sleep(0)
        message = await answer.wait()
        assert codes(message) == {("t", 0): 0, ("t", 1): 0}
        assert (log.log_end_offset, other.log_end_offset) == (LARGE, 1)
        assert not kept


async def test_a_record_without_a_key_is_found_in_a_large_batch() -> None:
    async with compacted() as (handler, log, _):
        errors: dict[TopicPartition, Sequence[int]] = {}
        batch = large_batch(keyless=LARGE - 1)
        request = produced_by_kafka(batch)
        message = await call(handler, request, payload=batch, context=kafka_context(errors)).wait()
        assert codes(message) == {("t", 0): InvalidRecordError.code}
        assert list(errors[TP]) == [LARGE - 1]
        assert log.log_end_offset == 0


async def test_a_large_batch_whose_connection_goes_is_not_appended() -> None:
    async with compacted() as (handler, log, _), Turns() as turns:
        batch = large_batch()
        context = kafka_context({})
        answer = call(handler, produced_by_kafka(batch), payload=batch, context=context)
        await eventually(lambda: turns.count > 3)
        context.connection.close()
        # One that comes later and is as large is done, so the first would be too.
        later = await call(
            handler, produced_by_kafka(batch), payload=batch, context=kafka_context({})
        ).wait()
        assert codes(later) == {("t", 0): 0}
        assert log.log_end_offset == LARGE
        assert not answer.count


class NoNumbers(AllowAllAuthorizer):
    """It denies IDEMPOTENT_WRITE on the cluster."""

    def denies(self, context: RequestContext, operation: str, *resource: str) -> bool:
        return (operation, *resource) == (IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)


@pytest.mark.cve("2018-17196")
async def test_batches_are_numbered_unless_that_is_denied() -> None:
    numbered = encode_batch([b"v"], timestamps=1, producer_id=7, producer_epoch=0, base_sequence=0)
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler = ProduceHandler(cluster[1].replicas, NoNumbers(), cluster[1].verifier)
        with pytest.raises(ClusterAuthorizationFailedError):
            produce(handler, ("t", 1, GOOD), ("t", 0, bytes(numbered)))
        assert cluster[1].partition(TP).log.log_end_offset == 0
        for batch, code in ((GOOD, 0), (bytes(numbered)[:43], CorruptMessageError.code)):
            message = await produce(handler, ("t", 0, batch)).wait()
            assert codes(message) == {("t", 0): code}


async def test_time_runs_out_for_those_that_still_wait() -> None:
    patient = replica_settings(replica_lag_time_max_ms=1500)
    async with Cluster(brokers=2, config=patient) as cluster:
        cluster.lead(TP, 1, isr=[1, 2])
        cluster.lead(TopicPartition("t", 1), 1, isr=[1])
        cluster[2].cut()
        answer = produce(cluster[1].produce, ("t", 0, GOOD), ("t", 1, GOOD), timeout_ms=500)
        message = await answer.wait()
        assert codes(message) == {("t", 0): RequestTimedOutError.code, ("t", 1): 0}
        await cluster.isr_is(TP, 1)  # committed after all, and answered only once
        await eventually(lambda: cluster[1].partition(TP).high_watermark == 1)
        assert len(cluster[1].replicas.deadlines) == 0


async def test_no_acks_no_answer_but_appended() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        answer = produce(cluster[1].produce, ("t", 0, GOOD), ("x", 0, GOOD), acks=0)
        assert answer.count == 1
        assert answer.message is None
        assert cluster[1].partition(TP).log.log_end_offset == 1


async def test_topics_that_stamp_records_answer_with_the_time() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1, configs={"message.timestamp.type": "LogAppendTime"})
        message = await produce(cluster[1].produce, ("t", 0, GOOD)).wait()
        assert message.topics[0].partitions[0].log_append_time_ms > 0


async def test_an_empty_request_is_answered() -> None:
    async with Cluster(brokers=1) as cluster:
        message = await produce(cluster[1].produce).wait()
        assert message.topics == []
        await asyncio.sleep(0)


async def test_each_partition_hears_what_is_wrong_with_a_batchs_place() -> None:
    partitions = [TopicPartition("t", number) for number in range(5)]
    async with Cluster(brokers=1) as cluster:
        for each in partitions:
            cluster.lead(each, 1)
            log = cluster[1].partition(each).log
            for sequence in range(6):
                log.append_as_leader(batch_of(b"v", producer=(7, 3, sequence)), 0)
        places = [(7, 3, 9), (7, 3, 0), (7, 2, 6), (7, 3, 4), (7, 3, 6)]
        batches = [
            ("t", n, bytes(batch_of(b"v", producer=place))) for n, place in enumerate(places)
        ]
        message = await produce(cluster[1].produce, *batches).wait()
        assert [code for _, code in sorted(codes(message).items())] == [
            OutOfOrderSequenceNumberError.code,
            DuplicateSequenceNumberError.code,
            InvalidProducerEpochError.code,
            0,
            0,
        ]
        offsets = [answer.base_offset for answer in message.topics[0].partitions]
        assert offsets == [-1, -1, -1, 4, 6]
        ends = [cluster[1].partition(each).log.log_end_offset for each in partitions]
        assert ends == [6, 6, 6, 6, 7]


def transactional(sequence: int = 0, *, pid: int = 7, epoch: int = 1, bit: bool = True) -> bytes:
    return bytes(
        encode_batch(
            [b"v"],
            timestamps=NOW_MS,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=bit,
        )
    )


async def test_the_first_batch_of_a_transaction_is_verified() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        for sequence in range(3):
            answer = produce(node.produce, ("t", 0, transactional(sequence)), transactional_id="a")
            message = await answer.wait()
            assert codes(message) == {("t", 0): 0}
            assert message.topics[0].partitions[0].base_offset == sequence
        assert node.verifier.asked == [("a", 7, 1, TP)]
        assert node.partition(TP).last_stable_offset == 0


async def test_what_waits_is_a_copy_and_in_order() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        node.verifier.holds = True
        answers = [
            produce(node.produce, ("t", 0, transactional(n)), transactional_id="a", timeout_ms=1)
            for n in range(3)
        ]
        await asyncio.sleep(0.03)
        assert [answer.count for answer in answers] == [0, 0, 0], "the time is for the replicas"
        assert node.partition(TP).log.log_end_offset == 0
        node.verifier.held.pop()(0)
        for number, answer in enumerate(answers):
            message = await answer.wait()
            assert message.topics[0].partitions[0].base_offset in (number, -1)
        assert node.partition(TP).log.log_end_offset == 3


async def test_partitions_of_one_request_are_verified_each() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        cluster.lead(TopicPartition("t", 1), 1)
        node = cluster[1]
        node.verifier.holds = True
        answer = produce(
            node.produce,
            ("t", 0, transactional()),
            ("t", 1, transactional()),
            ("x", 0, transactional()),
            transactional_id="a",
        )
        node.verifier.held[1](0)
        assert answer.count == 0
        node.verifier.held[0](ProducerFencedError.code)
        assert codes(await answer.wait()) == {
            ("t", 0): ProducerFencedError.code,
            ("t", 1): 0,
            ("x", 0): UnknownTopicOrPartitionError.code,
        }


async def test_time_runs_out_after_the_verification() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1, isr=[1, 2])
        cluster[2].cut()
        node = cluster[1]
        node.verifier.holds = True
        answer = produce(
            node.produce, ("t", 0, transactional()), transactional_id="a", timeout_ms=30
        )
        node.verifier.held.pop()(0)
        assert codes(await answer.wait()) == {("t", 0): RequestTimedOutError.code}
        await cluster.isr_is(TP, 1)


@pytest.mark.hostile(45)
async def test_nobody_writes_with_the_producer_id_of_another() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler = cluster[1].produce
        batches = [bytes(batch_of(b"v", producer=(7, 0, number))) for number in range(3)]
        for batch, principal, code in (
            (batches[0], ANONYMOUS, 0),
            (batches[1], "User:app", 0),
            (batches[2], "User:other", InvalidProducerIdMappingError.code),
            (batches[2], ANONYMOUS, InvalidProducerIdMappingError.code),
            (batches[2], "User:app", 0),
            (GOOD, "User:other", 0),
        ):
            answer = produce(handler, ("t", 0, batch), principal=principal)
            assert codes(await answer.wait()) == {("t", 0): code}


@pytest.mark.hostile(45)
@pytest.mark.cve("2018-17196")
async def test_a_transaction_needs_an_id_the_bit_and_all_acks() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        refused = {("t", 0): InvalidRequestError.code}
        message = await produce(node.produce, ("t", 0, transactional())).wait()
        assert codes(message) == refused
        for batch in (transactional(bit=False), GOOD, b"", b"x" * 22):
            answer = produce(node.produce, ("t", 0, batch), transactional_id="a")
            assert codes(await answer.wait()) == refused
        short = produce(node.produce, ("t", 0, transactional()[:50]), transactional_id="a")
        assert codes(await short.wait()) == {("t", 0): CorruptMessageError.code}
        for acks in (0, 1):
            with pytest.raises(InvalidRequiredAcksError):
                produce(node.produce, ("t", 0, transactional()), transactional_id="a", acks=acks)
        for name in ("", "__ordinals"):
            with pytest.raises(InvalidRequestError):
                produce(node.produce, ("t", 0, transactional()), transactional_id=name)
        nobody = ProduceHandler(node.replicas, DenyAll(), node.verifier)
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            produce(nobody, ("t", 0, transactional()), transactional_id="a")
        assert node.verifier.asked == []
        assert node.partition(TP).log.log_end_offset == 0


async def test_nothing_is_appended_for_a_connection_that_is_gone() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        node.verifier.holds = True
        connection = ConnectionState()
        produce(
            node.produce, ("t", 0, transactional()), transactional_id="a", connection=connection
        )
        connection.close()
        node.verifier.held.pop()(0)
        assert node.partition(TP).log.log_end_offset == 0
        again = produce(node.produce, ("t", 0, transactional()), transactional_id="a")
        node.verifier.held.pop()(0)
        assert codes(await again.wait()) == {("t", 0): 0}


async def test_the_transaction_ends_while_its_batch_is_verified() -> None:
    """[K13]: the guard is void, and what the coordinator says the second time counts."""
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        node = cluster[1]
        node.verifier.holds = True
        answer = produce(node.produce, ("t", 0, transactional()), transactional_id="a")
        node.partition(TP).append_marker(False, 7, 2, 0, node.replicas.now())
        node.verifier.held.pop()(0)
        assert codes(await answer.wait()) == {("t", 0): InvalidProducerEpochError.code}
        assert node.partition(TP).log.log_end_offset == 1


# ---- quotas


def bound(cluster: Cluster, value: float) -> ProduceHandler:
    """Return a handler with a ``producer_byte_rate``."""
    quotas = ClientQuotas(lambda: 50.0)
    quotas.take({QuotaEntity("test"): {PRODUCER_BYTE_RATE: value}})
    node = cluster[1]
    return ProduceHandler(node.replicas, AllowAllAuthorizer(), node.verifier, quotas)


async def test_what_exceeds_a_quota_is_written_and_the_connection_held() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler, connection = bound(cluster, len(GOOD)), ConnectionState()
        for held_until in (0.0, 51.0, 52.0):
            answer = produce(handler, ("t", 0, GOOD), connection=connection)
            assert codes(await answer.wait()) == {("t", 0): 0}
            assert connection.held_until == held_until
        assert cluster[1].partition(TP).log.log_end_offset == 3


async def test_a_quota_of_0_refuses_to_write() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler, connection = bound(cluster, 0), ConnectionState()
        with pytest.raises(ThrottlingQuotaExceededError):
            produce(handler, ("t", 0, GOOD), connection=connection)
        assert connection.held_until == 80.0
        assert cluster[1].partition(TP).log.log_end_offset == 0


async def test_what_cannot_be_refused_is_written_whatever_the_quota_is() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        connection = ConnectionState()
        await produce(bound(cluster, 0), ("t", 0, GOOD), acks=0, connection=connection).done.wait()
        assert connection.held_until == 80.0
        assert cluster[1].partition(TP).log.log_end_offset == 1


async def test_brokers_write_without_a_quota() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        answer = produce(bound(cluster, 0), ("t", 0, GOOD), internal=True)
        assert codes(await answer.wait()) == {("t", 0): 0}
