"""A broker of the fake cluster answers like this when nothing goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oncelog_broker.server.event_history import EventHistory
from oncelog_protocol.errors import (
    ApiError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    LogDirNotFoundError,
    NotControllerError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import (
    admin,
    balance,
    broker_states,
    events,
    fetch,
    groups,
    handshake,
    log_description,
    metadata,
    moves,
    offsets,
    produce,
    transaction_admin,
    transactions,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import parse_header
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.registry import supported_ranges
from oncelog_protocol.schema import Span
from oncelog_protocol.types import IsolationLevel, TopicPartition

if TYPE_CHECKING:
    from support.fake_cluster import FakeCluster, FakePartition

__all__ = ["Handlers", "error_answer"]

Answer = tuple[Any, list[bytes]]


class Handlers:
    """Each API has one method."""

    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    async def handle(self, request: Any, payload: memoryview) -> Answer:
        """Return (response, payload)."""
        if isinstance(request, fetch.FetchRequest):
            return await self._fetch(request)
        handler = getattr(self, f"_{ApiKey(request.api_key).name.lower()}")
        answer = handler(request, payload) if request.api_key == 0 else handler(request)
        return answer, []

    def _led(self, topic: str, number: int, epoch: int = -1) -> FakePartition:
        """Return a partition that this broker leads."""
        partitions = self._cluster.topics.get(topic)
        if partitions is None or not 0 <= number < len(partitions):
            raise UnknownTopicOrPartitionError
        partition = partitions[number]
        if partition.leader != self._broker_id:
            raise NotLeaderOrFollowerError
        if epoch != -1 and epoch < partition.leader_epoch:
            raise FencedLeaderEpochError
        if epoch > partition.leader_epoch:
            raise UnknownLeaderEpochError
        return partition

    def _api_versions(self, request: Any) -> Any:
        me = self._cluster.cluster_id, self._broker_id
        answer = handshake.ApiVersionsResponse(0, supported_ranges(), *me)
        if not self._cluster.security.mechanisms:
            answer.principal, answer.listener = "User:ANONYMOUS", "fake"
            answer.authorizer = self._cluster.authorizer
        return answer

    def _metadata(self, request: metadata.MetadataRequest) -> Any:
        stale = self._cluster.stale_metadata.get(self._broker_id)
        return stale or self._cluster.metadata(request)

    def _produce(self, request: produce.ProduceRequest, payload: memoryview) -> Any:
        answers = []
        for topic in request.topics:
            items = []
            for item in topic.partitions:
                answer = produce.ProducePartitionResponse(item.partition)
                try:
                    partition = self._led(topic.topic, item.partition)
                    span = item.batch
                    batch = payload[span.offset : span.offset + span.length]
                    if partition.needs_transaction(batch):
                        header = parse_header(batch)
                        self._cluster.transactions.add(
                            request.transactional_id,
                            (header.producer_id, header.producer_epoch),
                            TopicPartition(topic.topic, item.partition),
                        )
                    answer.base_offset = partition.append(batch)
                except ApiError as error:
                    answer.error_code = error.code
                items.append(answer)
            answers.append(produce.ProduceTopicResponse(topic.topic, items))
        self._cluster.announce()
        return produce.ProduceResponse(0, answers)

    def _init_pid(self, request: transactions.InitPidRequest) -> Any:
        if request.transactional_id is not None:
            return self._coordinated(request)
        return transactions.InitPidResponse(0, None, self._cluster.next_id(), 0)

    def _coordinated(self, request: Any) -> Any:
        return self._cluster.transactions.handle(self._broker_id, request)

    _end_txn = _txn_offset_commit = _coordinated
    _begin_shared_txn = _join_txn = _end_shared_txn = _coordinated

    def _find_coordinator(self, request: groups.FindCoordinatorRequest) -> Any:
        return groups.FindCoordinatorResponse(0, None, self._cluster.transactions.broker_id)

    async def _fetch(self, request: fetch.FetchRequest) -> Answer:
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        while True:
            event = self._cluster.new_data
            response, data, urgent = self._fetch_now(request)
            if urgent or sum(map(len, data)) >= max(request.min_bytes, 1):
                return response, data
            try:
                async with asyncio.timeout_at(deadline):
                    await event.wait()
            except TimeoutError:
                return response, data

    def _fetch_now(self, request: fetch.FetchRequest) -> tuple[Any, list[bytes], bool]:
        answers, data, size, urgent = [], [], 0, False
        for topic in request.topics:
            items = []
            for item in topic.partitions:
                answer = fetch.FetchPartitionResponse(item.partition)
                try:
                    if topic.topic_id not in ("", self._cluster.topic_ids.get(topic.topic)):
                        raise InconsistentTopicIdError
                    found = self._read(topic.topic, item, answer, request.isolation_level)
                    answer.records = Span(size, len(found))
                    data.append(found)
                    size += len(found)
                    urgent = urgent or answer.diverging is not None
                except ApiError as error:
                    answer.error_code = error.code
                    urgent = True
                items.append(answer)
            answers.append(fetch.FetchTopicResponse(topic.topic, items))
        return fetch.FetchResponse(0, answers), data, urgent

    def _read(
        self,
        topic: str,
        item: fetch.FetchPartition,
        answer: fetch.FetchPartitionResponse,
        isolation_level: int,
    ) -> bytes:
        partition = self._led(topic, item.partition, item.leader_epoch)
        if partition.diverging is not None:
            answer.diverging = fetch.EpochEnd(*partition.diverging)
            partition.diverging = None
            return b""
        if not partition.log_start_offset <= item.fetch_offset <= partition.next_offset:
            raise OffsetOutOfRangeError
        answer.high_watermark = partition.next_offset
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = partition.log_start_offset
        if isolation_level == IsolationLevel.READ_UNCOMMITTED:
            return partition.read(item.fetch_offset, item.max_bytes)
        end = partition.last_stable_offset
        if item.fetch_offset >= end:
            return b""
        answer.aborted = [
            fetch.AbortedTransaction(producer_id, first)
            for producer_id, first, last in sorted(partition.aborted, key=lambda each: each[1])
            if last >= item.fetch_offset and first < end
        ]
        return partition.read(item.fetch_offset, item.max_bytes, end)

    def _list_offsets(self, request: offsets.ListOffsetsRequest) -> Any:
        answers = []
        for topic in request.topics:
            items = []
            for item in topic.partitions:
                answer = offsets.ListOffsetsPartitionResponse(item.partition)
                try:
                    partition = self._led(topic.topic, item.partition, item.leader_epoch)
                    _find_offset(partition, item.timestamp, answer, request.isolation_level)
                except ApiError as error:
                    answer.error_code = error.code
                items.append(answer)
            answers.append(offsets.ListOffsetsTopicResponse(topic.topic, items))
        return offsets.ListOffsetsResponse(0, answers)

    # ------------------------------------------------------------------------------ admin

    def _topic_results(
        self, names: list[str], act: Callable[[str], object]
    ) -> list[admin.TopicResult]:
        results = []
        for name in names:
            result = admin.TopicResult(name)
            try:
                if self._cluster.controller_id != self._broker_id:
                    raise NotControllerError
                act(name)
                result.topic_id = self._cluster.topic_ids.get(name, "")
                result.partition_count = len(self._cluster.topics.get(name, []))
            except ApiError as error:
                result.error_code, result.error_message = error.code, str(error)
            results.append(result)
        return results

    def _create_topics(self, request: admin.CreateTopicsRequest) -> Any:
        specs = {topic.topic: topic for topic in request.topics}

        def create(name: str) -> None:
            if name in self._cluster.topics:
                raise TopicAlreadyExistsError(f"topic {name!r} exists")
            self._cluster.create_topic(name, max(specs[name].partition_count, 1))

        return admin.CreateTopicsResponse(0, self._topic_results(list(specs), create))

    def _delete_topics(self, request: admin.DeleteTopicsRequest) -> Any:
        def delete(name: str) -> None:
            if self._cluster.topics.pop(name, None) is None:
                raise UnknownTopicOrPartitionError

        return admin.DeleteTopicsResponse(0, self._topic_results(request.topics, delete))

    def _create_partitions(self, request: admin.CreatePartitionsRequest) -> Any:
        counts = {topic.topic: topic.partition_count for topic in request.topics}

        def grow(name: str) -> None:
            old = self._cluster.topics[name]
            new = self._cluster.create_topic(name, counts[name])
            new[: len(old)] = old

        return admin.CreatePartitionsResponse(0, self._topic_results(list(counts), grow))

    def _describe_configs(self, request: admin.DescribeConfigsRequest) -> Any:
        value = admin.ConfigValue("retention_ms", "1000", "topic", False, "how long")
        results = [
            admin.ConfigResourceResult(r.resource_type, r.resource_name, 0, None, [value])
            for r in request.resources
        ]
        return admin.DescribeConfigsResponse(0, results)

    def _alter_configs(self, request: admin.AlterConfigsRequest) -> Any:
        code = 0 if self._cluster.controller_id == self._broker_id else NotControllerError.code
        results = [
            admin.ConfigResourceResult(r.resource_type, r.resource_name, code)
            for r in request.resources
        ]
        return admin.AlterConfigsResponse(0, results)

    def _describe_cluster(self, request: Any) -> Any:
        brokers = [
            metadata.DescribedBroker(
                number,
                10 + number,
                [metadata.ListenerAddress("external", "127.0.0.1", broker.port)],
                state=self._cluster.services.state_of(number),
                http="" if number == 1 else f"127.0.0.1:{9640 + number}",
            )
            for number, broker in self._cluster.brokers.items()
        ]
        return metadata.DescribeClusterResponse(
            0, None, self._cluster.cluster_id, self._cluster.controller_id, 1, brokers
        )

    def _describe_events(self, request: events.DescribeEventsRequest) -> Any:
        history = self._cluster.events.setdefault(self._broker_id, EventHistory(1))
        begin = request.from_sequence if request.started_ms == history.started_ms else 0
        page = history.page(begin, request.names, self._cluster.events_page, 1_000_000)
        return events.DescribeEventsResponse(
            0,
            None,
            history.started_ms,
            page.first_sequence,
            page.next_sequence,
            page.more,
            page.events,
        )

    def _describe_log(self, request: log_description.DescribeLogRequest) -> Any:
        tell = self._cluster.logs.get(self._broker_id)
        if tell is not None:
            return tell(request)
        return log_description.DescribeLogResponse(NotLeaderOrFollowerError.code)

    def _describe_log_dirs(self, request: Any) -> Any:
        replicas = [
            admin.ReplicaSize(name, number, 10, 0, partition.next_offset, partition.next_offset)
            for name, partitions in self._cluster.topics.items()
            for number, partition in enumerate(partitions)
        ]
        dirs = [admin.DescribedLogDir(0, "/data", *self._cluster.disk, replicas)]
        if self._broker_id == 1 and self._cluster.futures:
            dirs.append(admin.DescribedLogDir(0, "/data2", 1000, 500, self._cluster.futures))
        return admin.DescribeLogDirsResponse(0, dirs)

    def _alter_replica_log_dirs(self, request: admin.AlterReplicaLogDirsRequest) -> Any:
        results = []
        for wish in request.replicas:
            result = admin.ReplicaPlaceResult(wish.topic, wish.partition, size_bytes=10)
            if wish.path not in ("/data", "/data2"):
                result.error_code, result.size_bytes = LogDirNotFoundError.code, -1
            results.append(result)
        return admin.AlterReplicaLogDirsResponse(0, results)

    def _elect_leaders(self, request: admin.ElectLeadersRequest) -> Any:
        if self._cluster.controller_id != self._broker_id:
            return admin.ElectLeadersResponse(NotControllerError.code)
        targets = request.partitions or []
        results = [admin.ElectionResult(t.topic, t.partition) for t in targets]
        return admin.ElectLeadersResponse(0, results)

    def _alter_partition_reassignments(
        self, request: moves.AlterPartitionReassignmentsRequest
    ) -> Any:
        if self._cluster.controller_id != self._broker_id:
            return moves.AlterPartitionReassignmentsResponse(NotControllerError.code)
        known = {
            TopicPartition(name, number)
            for name, partitions in self._cluster.topics.items()
            for number in range(len(partitions))
        }
        return self._cluster.moves.altered(known, request)

    def _balance(self, request: balance.BalanceRequest) -> Any:
        if self._cluster.controller_id != self._broker_id:
            return balance.BalanceResponse(NotControllerError.code)
        self._cluster.moves.asked_for.append(request)
        return self._cluster.moves.balance

    def _alter_broker_states(self, request: broker_states.AlterBrokerStatesRequest) -> Any:
        if self._cluster.controller_id != self._broker_id:
            return broker_states.AlterBrokerStatesResponse(NotControllerError.code)
        return self._cluster.services.altered(self._cluster.brokers, request)

    def _list_partition_reassignments(
        self, request: moves.ListPartitionReassignmentsRequest
    ) -> Any:
        if self._cluster.controller_id != self._broker_id:
            return moves.ListPartitionReassignmentsResponse(NotControllerError.code)
        return self._cluster.moves.listed(request)


def _find_offset(
    partition: FakePartition,
    timestamp: int,
    answer: offsets.ListOffsetsPartitionResponse,
    isolation_level: int,
) -> None:
    answer.leader_epoch = partition.leader_epoch
    if timestamp == -2:
        answer.offset = partition.log_start_offset
    elif timestamp == -1:
        committed = isolation_level == IsolationLevel.READ_COMMITTED
        answer.offset = partition.last_stable_offset if committed else partition.next_offset
    else:
        for batch in partition.batches:
            columns = decode_batch(batch)
            pairs = zip(columns.offsets(), columns.timestamp_list(), strict=True)
            for offset, stamped in pairs:
                if stamped >= timestamp:
                    answer.offset, answer.timestamp = offset, stamped
                    return


def error_answer(request: Any, code: int) -> Any:
    """Return the answer to ``request`` in which every part has failed with ``code``."""
    families: dict[type, tuple[type, type, type]] = {
        produce.ProduceRequest: (
            produce.ProduceResponse,
            produce.ProduceTopicResponse,
            produce.ProducePartitionResponse,
        ),
        fetch.FetchRequest: (
            fetch.FetchResponse,
            fetch.FetchTopicResponse,
            fetch.FetchPartitionResponse,
        ),
        offsets.ListOffsetsRequest: (
            offsets.ListOffsetsResponse,
            offsets.ListOffsetsTopicResponse,
            offsets.ListOffsetsPartitionResponse,
        ),
    }
    if type(request) in families:
        whole, of_topic, of_partition = families[type(request)]
        return whole(
            0,
            [
                of_topic(t.topic, [of_partition(p.partition, code) for p in t.partitions])
                for t in request.topics
            ],
        )
    if isinstance(request, transaction_admin.DescribeProducersRequest):
        failed = transaction_admin.DescribeProducersPartition
        named = transaction_admin.DescribeProducersTopic
        return transaction_admin.DescribeProducersResponse(
            0,
            [
                named(t.topic, [failed(number, code) for number in t.partitions])
                for t in request.topics
            ],
        )
    if isinstance(request, metadata.MetadataRequest):
        return metadata.MetadataResponse("", -1, [], [], code)
    return request.response(code)
