"""The admin client changes and describes topics, configs, brokers, elections and log directories.

Groups, transactions, users, ACLs, quotas, moves of partitions, plans of them and the service of
brokers have parts of their own: see ``groups.py``, ``transactions.py``, ``users.py``, ``acls.py``,
``quotas.py``, ``reassignments.py``, ``balancing.py`` and ``broker_states.py``.

Rules
-----
* What changes the cluster goes to the controller; when it has moved, metadata says where to.
* A call ends by its ``timeout_ms``. When a request got no answer, nobody knows whether it was
  carried out: it is sent again, and "exists already" may then be our own work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncelog import defaults
from oncelog.admin.acls import AclAdmin
from oncelog.admin.balancing import BalanceAdmin
from oncelog.admin.broker_states import BrokerStateAdmin
from oncelog.admin.calls import TIMEOUT_MS, BrokerError, broker_error, item_error, known
from oncelog.admin.events import EventAdmin
from oncelog.admin.groups import GroupAdmin
from oncelog.admin.logs import LogAdmin
from oncelog.admin.offset_listing import HIGH_WATERMARK, OffsetSpec, list_offsets
from oncelog.admin.quotas import QuotaAdmin
from oncelog.admin.reassignments import ReassignmentAdmin
from oncelog.admin.record_deletion import DeletionQuestion
from oncelog.admin.results import (
    BrokerApiVersions,
    BrokerDescription,
    ClusterDescription,
    ConfigOutcome,
    ConfigSetting,
    ElectionOutcome,
    FutureReplicaDescription,
    ListedOffset,
    LogDirDescription,
    NewTopic,
    PartitionDescription,
    RecordDeletionOutcome,
    ReplicaDescription,
    ReplicaMoveOutcome,
    Results,
    TopicDescription,
    TopicOutcome,
    WhoAmI,
)
from oncelog.admin.transactions import TransactionAdmin
from oncelog.admin.users import UserAdmin
from oncelog.config import BootstrapServers, ConnectionOptions, IsolationOption
from oncelog.core.closing import Closing
from oncelog.core.cluster import topic_error
from oncelog.core.router import Failure, Router
from oncelog.errors import (
    ApiError,
    BrokerNotAvailableError,
    BrokerUnreachableError,
    ConfigurationError,
    CorruptMessageError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    error_for,
)
from oncelog.observability.metrics import ClientMetrics, client_metrics
from oncelog.security import Security
from oncelog_protocol.connection import recognition_in
from oncelog_protocol.messages import admin as wire
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.handshake import ApiVersionsRequest
from oncelog_protocol.messages.metadata import DescribeClusterRequest
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy, SystemEntropy

NOT_ALIVE_S = 1.0
"""A listed broker may refuse us for this long before it counts as not alive."""
KINDS = {wire.RESOURCE_TOPIC: "topic", wire.RESOURCE_BROKER: "broker"}


class Admin(
    GroupAdmin,
    TransactionAdmin,
    UserAdmin,
    AclAdmin,
    QuotaAdmin,
    EventAdmin,
    LogAdmin,
    ReassignmentAdmin,
    BalanceAdmin,
    BrokerStateAdmin,
):
    """An admin client changes and describes a cluster.

    Use it as ``async with Admin("localhost:9092") as admin: ...``.
    """

    def __init__(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        client_id: str = defaults.ADMIN_CLIENT_ID,
        request_timeout_ms: int = defaults.REQUEST_TIMEOUT_MS,
        connect_timeout_ms: int = defaults.CONNECT_TIMEOUT_MS,
        retry_backoff_ms: int = defaults.RETRY_BACKOFF_MS,
        retry_backoff_max_ms: int = defaults.RETRY_BACKOFF_MAX_MS,
        security: Security | None = None,
        entropy: Entropy | None = None,
        clock: WallClock | None = None,
    ) -> None:
        options = ConnectionOptions(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            security=security,
        )
        entropy = (entropy or SystemEntropy()).fork("admin")
        super().__init__(Router(options, entropy=entropy), clock, entropy.fork("salts"))
        self._closing = Closing(client_id)

    # ------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Connect to the cluster and learn its brokers. ``async with`` does it.

        :raises NoBrokersAvailableError: at once, naming the addresses tried.
        """
        await self._router.start()
        self._closing = Closing(self._router.options.client_id)

    async def close(self) -> None:
        """Close the connections. When another call is closing them already, wait for that one."""
        self._router.home.check()
        await self._closing.once(self._router.close)

    def metrics(self) -> ClientMetrics:
        """Return a snapshot of the client's counters, without asking the cluster."""
        return client_metrics(self._router)

    async def __aenter__(self) -> Admin:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.close()

    # ------------------------------------------------------------------------------ topics

    async def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[TopicOutcome]:
        """Create topics, and return when their partitions have leaders or the time is up.

        A bare name takes the broker's defaults. Errors of items: TOPIC_ALREADY_EXISTS,
        INVALID_TOPIC, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT,
        INVALID_CONFIG, REQUEST_TIMED_OUT.
        """
        request = wire.CreateTopicsRequest(
            [_new_topic(topic) for topic in topics], timeout_ms, validate_only
        )
        return await self._change_topics(request, timeout_ms)

    async def delete_topics(
        self, topics: Iterable[str], *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[TopicOutcome]:
        """Delete topics with all their records. Errors of items: UNKNOWN_TOPIC_OR_PARTITION."""
        request = wire.DeleteTopicsRequest(list(topics), timeout_ms)
        return await self._change_topics(request, timeout_ms)

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[TopicOutcome]:
        """Grow topics to the given partition counts. A key may belong to another partition
        afterwards.

        ``assignments`` lists the replicas of the new partitions only. Errors of items:
        INVALID_PARTITIONS, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT.
        """
        growths = [
            wire.PartitionGrowth(topic, count, _lists((assignments or {}).get(topic)))
            for topic, count in counts.items()
        ]
        request = wire.CreatePartitionsRequest(growths, timeout_ms, validate_only)
        return await self._change_topics(request, timeout_ms)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[str]:
        """Return the names of all topics, sorted."""
        response = await self._metadata(None, self._deadline(timeout_ms))
        return sorted(
            topic.topic for topic in response.topics if include_internal or not topic.internal
        )

    async def describe_topics(
        self, topics: Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[TopicDescription]:
        """Return partitions, leaders and replicas of topics (default: of all topics)."""
        names = None if topics is None else list(topics)
        response = await self._metadata(names, self._deadline(timeout_ms))
        found = {topic.topic: _describe_topic(topic) for topic in response.topics}
        order = sorted(found) if names is None else [name for name in names if name in found]
        return Results(found[name] for name in order)

    # ------------------------------------------------------------------------------ configs

    async def describe_configs(
        self,
        *,
        topics: Iterable[str] = (),
        brokers: Iterable[int | None] = (),
        keys: Iterable[str] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[ConfigOutcome]:
        """Return the settings in force, each with its source. ``keys`` None asks for all settings.

        Broker None returns only what is set for all brokers while they run. A broker that is not
        alive is an item with BROKER_NOT_AVAILABLE, after 2 s at most.
        """
        wanted = None if keys is None else list(keys)
        deadline = self._deadline(timeout_ms)
        outcomes: list[ConfigOutcome] = []
        named = [wire.ConfigResource(wire.RESOURCE_TOPIC, topic, wanted) for topic in topics]
        if named:
            request = wire.DescribeConfigsRequest(named)
            response = await self._router.call_any(request, deadline)
            outcomes += self._config_outcomes(request, response)
        for broker_id in brokers:
            resource = wire.ConfigResource(wire.RESOURCE_BROKER, _broker_name(broker_id), wanted)
            request = wire.DescribeConfigsRequest([resource])
            if broker_id is None:
                response = await self._router.call_any(request, deadline)
            else:
                answer = await self._on_broker(broker_id, request, deadline)
                if isinstance(answer, BrokerNotAvailableError):
                    outcomes.append(ConfigOutcome("broker", str(broker_id), answer))
                    continue
                response = answer
            outcomes += self._config_outcomes(request, response)
        return Results(outcomes)

    async def alter_configs(
        self,
        configs: Mapping[str, Mapping[str, str | None]],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[ConfigOutcome]:
        """Give keys of topics new values; the value None takes a key back to its default.

        Keys that are not named stay as they are (KIP-339). Errors of items: INVALID_CONFIG,
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        return await self._alter(wire.RESOURCE_TOPIC, configs, timeout_ms, validate_only)

    async def alter_broker_configs(
        self,
        configs: Mapping[int | None, Mapping[str, str | None]],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[ConfigOutcome]:
        """Change the dynamic settings of a broker; the broker None stands for all brokers.

        They hold at once, and override files and environments (KIP-226). The value None takes a
        setting back. Keys that are not named stay as they are. Errors of items: INVALID_CONFIG,
        also for a setting that needs a restart; INVALID_REQUEST.
        """
        named = {_broker_name(broker_id): entries for broker_id, entries in configs.items()}
        return await self._alter(wire.RESOURCE_BROKER, named, timeout_ms, validate_only)

    # ------------------------------------------------------------------------------ cluster

    async def describe_cluster(self, *, timeout_ms: int = TIMEOUT_MS) -> ClusterDescription:
        """Return the live brokers with their listeners and states, and the controller."""
        request = DescribeClusterRequest()
        response = await self._router.call_any(request, self._deadline(timeout_ms))
        with self._explaining(request):
            _raise_for(response.error_code, response.error_message)
        brokers = tuple(
            BrokerDescription(
                broker.broker_id,
                broker.broker_epoch,
                broker.rack,
                {listener.name: (listener.host, listener.port) for listener in broker.listeners},
                broker.state or None,
                broker.http if broker.state else None,
            )
            for broker in sorted(response.brokers, key=lambda item: item.broker_id)
        )
        return ClusterDescription(
            response.cluster_id, response.controller_id, response.controller_epoch, brokers
        )

    async def whoami(self, *, timeout_ms: int = TIMEOUT_MS) -> WhoAmI:
        """Return as whom one of the brokers knows this client, and by what; anybody may ask.

        :raises UnsupportedVersionError: the broker is of a release that does not say it.
        """
        deadline = self._deadline(timeout_ms)
        answer = await self._router.call_any(ApiVersionsRequest(), deadline)
        known = recognition_in(answer)
        if not known.principal:
            raise UnsupportedVersionError("the broker does not say as whom it knows its clients")
        broker = self._router.cluster.brokers.get(answer.broker_id)
        return WhoAmI(
            known.principal,
            known.authenticated_by,
            answer.cluster_id,
            answer.broker_id,
            "" if broker is None else str(broker.address),
            known.listener,
            known.authorizer,
        )

    async def describe_api_versions(
        self, brokers: Iterable[int] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> list[BrokerApiVersions]:
        """Return which APIs brokers (default: all) speak, and in which versions.

        A broker that does not answer is one entry with its error.
        """
        names = {key.value: key.name for key in ApiKey}
        return [
            BrokerApiVersions(
                broker_id,
                error,
                {
                    names.get(each.api_key, f"API_{each.api_key}"): (
                        each.version_min,
                        each.version_max,
                    )
                    for each in (response.apis if error is None else ())
                },
            )
            for broker_id, response, error in await self._of_each(
                brokers, ApiVersionsRequest(), timeout_ms
            )
        ]

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        topics: Iterable[str] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[LogDirDescription]:
        """Return the log directories of brokers (default: all), with the replicas in them.

        A broker that does not answer is one entry with its error.
        """
        request = wire.DescribeLogDirsRequest(None if topics is None else list(topics))
        described: list[LogDirDescription] = []
        for broker_id, response, error in await self._of_each(brokers, request, timeout_ms):
            if error is not None:
                described.append(LogDirDescription(broker_id, "", error))
                continue
            rotten = [d for d in response.log_dirs if d.error_code == CorruptMessageError.code]
            described += [
                _describe_log_dir(broker_id, log_dir, [d for d in rotten if d.path == log_dir.path])
                for log_dir in response.log_dirs
                if log_dir not in rotten
            ]
        return described

    async def alter_replica_log_dirs(
        self,
        broker_id: int,
        places: Mapping[TopicPartition, str],
        *,
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[ReplicaMoveOutcome]:
        """Move replicas of one broker to other directories of it, named as in its ``log_dirs``.

        Returns when the broker has accepted the moves; ``describe_log_dirs`` shows how far they
        are. A place where a replica is already ends its move. Errors of items: LOG_DIR_NOT_FOUND,
        REPLICA_NOT_AVAILABLE (if the broker gets such a replica, it is made there), STORAGE_ERROR.
        """
        wishes = [wire.ReplicaPlace(tp.topic, tp.partition, path) for tp, path in places.items()]
        request = wire.AlterReplicaLogDirsRequest(wishes, validate_only)
        response = await self._on_broker(broker_id, request, self._deadline(timeout_ms))
        with self._explaining(request):
            _raise_for(response.error_code)
        return Results(
            ReplicaMoveOutcome(
                TopicPartition(item.topic, item.partition),
                item_error(item.error_code, item.error_message),
                known(item.size_bytes),
            )
            for item in response.results
        )

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[ElectionOutcome]:
        """Give the leadership of partitions (default: all) to their preferred replicas.

        With ``unclean`` leaderless partitions get any live replica, and may lose records. Errors of
        items: ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION.
        """
        targets = (
            None
            if partitions is None
            else [wire.ElectionTarget(topic, number) for topic, number in partitions]
        )
        response = await self._on_controller(wire.ElectLeadersRequest(unclean, targets), timeout_ms)
        return Results(
            ElectionOutcome(
                TopicPartition(item.topic, item.partition),
                item_error(item.error_code, item.error_message),
            )
            for item in response.partitions
        )

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int = TIMEOUT_MS
    ) -> Results[RecordDeletionOutcome]:
        """Delete the records below an offset of each partition; -1 deletes all committed ones.

        The call returns when all in-sync replicas have that on disk. Errors of items:
        OFFSET_OUT_OF_RANGE (above what is committed), POLICY_VIOLATION (a topic that is only
        compacted), INVALID_TOPIC (internal), UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS,
        REQUEST_TIMED_OUT. After an error that is not definite the records may yet be deleted.
        """
        return Results(
            await DeletionQuestion(self._router, offsets, self._deadline(timeout_ms)).ask()
        )

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: OffsetSpec = "latest",
        *,
        isolation_level: IsolationOption = HIGH_WATERMARK,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Results[ListedOffset]:
        """Return one offset of each partition, as its leader knows it, in the order of asking.

        :param at: "earliest" is the first offset there is. "latest" is the high watermark, and at
            ``read_committed`` the last stable offset: the next committed record is there or later.
            A number is a time in ms since 1970, and asks for the first record from then on.

        Partitions whose leader moves, or does not answer, are asked about until the time is up.
        Errors of items: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED,
        LEADER_NOT_AVAILABLE, OFFSET_NOT_AVAILABLE (a new leader that does not know the end yet),
        STORAGE_ERROR, REQUEST_TIMED_OUT.

        :raises ConfigurationError: ``at`` or ``isolation_level`` is none; nobody was asked.
        """
        deadline = self._deadline(timeout_ms)
        return Results(await list_offsets(self._router, partitions, at, isolation_level, deadline))

    # ------------------------------------------------------------------------------ calls

    async def _change_topics(self, request: Request, timeout_ms: int) -> Results[TopicOutcome]:
        response = await self._on_controller(request, timeout_ms)

        def error_of(item: wire.TopicResult) -> ApiError | None:
            error = item_error(item.error_code, item.error_message, item.topic)
            return None if error is None else self._explained(error, request, item.topic)

        return Results(
            TopicOutcome(
                item.topic,
                error_of(item),
                item.topic_id,
                item.partition_count,
                item.replication_factor,
            )
            for item in response.topics
        )

    async def _alter(
        self,
        resource_type: int,
        configs: Mapping[str, Mapping[str, str | None]],
        timeout_ms: int,
        validate_only: bool,
    ) -> Results[ConfigOutcome]:
        alterations = [
            wire.ConfigAlteration(resource_type, name, _entries(entries))
            for name, entries in configs.items()
        ]
        request = wire.AlterConfigsRequest(alterations, validate_only)
        response = await self._on_controller(request, timeout_ms)
        return Results(self._config_outcomes(request, response))

    def _config_outcomes(self, request: Request, response: Any) -> list[ConfigOutcome]:
        _raise_for(response.error_code)

        def error_of(item: Any) -> ApiError | None:
            error = _config_error(item)
            return None if error is None else self._explained(error, request, item.resource_name)

        return [
            ConfigOutcome(
                KINDS.get(item.resource_type, str(item.resource_type)),
                item.resource_name,
                error_of(item),
                {
                    value.key: ConfigSetting(
                        value.key, value.value, value.source, value.read_only, value.documentation
                    )
                    for value in item.values
                },
            )
            for item in response.resources
        ]

    async def _of_each(
        self, brokers: Iterable[int] | None, request: Request, timeout_ms: int
    ) -> list[tuple[int, Any, BrokerError | None]]:
        """Ask brokers (None: all) the same, and return the id of each with its answer or error."""
        deadline = self._deadline(timeout_ms)
        await self._router.refresh_now()
        ids = sorted(self._router.cluster.brokers) if brokers is None else list(brokers)

        async def one(broker_id: int) -> tuple[int, Any, BrokerError | None]:
            try:
                response = await self._router.call_broker(broker_id, request, deadline)
                with self._explaining(request):
                    _raise_for(response.error_code)
            except Failure as error:
                return broker_id, None, broker_error(broker_id, error)
            return broker_id, response, None

        return await asyncio.gather(*(one(broker_id) for broker_id in ids))

    async def _on_broker(self, broker_id: int, request: Request, deadline: float) -> Any:
        """Return one broker's answer, or BrokerNotAvailableError for a broker that is not alive.
        Metadata are refreshed when they lack the broker. A listed one is tried for NOT_ALIVE_S."""
        loop = asyncio.get_running_loop()
        patience = min(deadline, loop.time() + NOT_ALIVE_S)
        if broker_id not in self._router.cluster.brokers:
            await self._router.refresh_by(deadline)

        async def attempt() -> Any:
            alive = self._router.cluster.brokers
            if broker_id not in alive:
                others = ", ".join(map(str, sorted(alive))) or "none"
                return BrokerNotAvailableError(
                    f"broker {broker_id} is not alive; brokers that are: {others}"
                )
            try:
                return await self._router.call_broker(broker_id, request, deadline)
            except BrokerUnreachableError as error:
                if loop.time() < patience:
                    raise
                return BrokerNotAvailableError(f"broker {broker_id} is not alive: {error}")

        return await self._router.retry(attempt, deadline, type(request).__name__)


def _raise_for(error_code: int, message: str | None = None) -> None:
    error = item_error(error_code, message)
    if error is not None:
        raise error


def _new_topic(topic: NewTopic | str) -> wire.CreatableTopic:
    spec = NewTopic(topic) if isinstance(topic, str) else topic
    if spec.assignment is not None and (spec.partitions, spec.replication_factor) != (-1, -1):
        raise ConfigurationError(
            f"{spec.topic!r}: an assignment stands instead of partitions and replication_factor"
        )
    return wire.CreatableTopic(
        spec.topic,
        spec.partitions,
        spec.replication_factor,
        _lists(spec.assignment),
        _entries(spec.configs),
    )


def _lists(assignment: Sequence[Sequence[int]] | None) -> list[list[int]] | None:
    return None if assignment is None else [list(replicas) for replicas in assignment]


def _entries(configs: Mapping[str, str | None]) -> list[wire.ConfigEntry]:
    return [wire.ConfigEntry(key, value) for key, value in configs.items()]


def _describe_topic(topic: Any) -> TopicDescription:
    if topic.error_code:
        return TopicDescription(topic.topic, topic_error(topic.topic, topic.error_code))
    partitions = tuple(
        PartitionDescription(
            partition.partition,
            partition.leader,
            partition.leader_epoch,
            tuple(partition.replicas),
            tuple(partition.isr),
            tuple(partition.offline_replicas),
            tuple(partition.elr),
            tuple(partition.last_known_elr),
        )
        for partition in sorted(topic.partitions, key=lambda item: int(item.partition))
    )
    return TopicDescription(topic.topic, None, topic.topic_id, topic.internal, partitions)


def _broker_name(broker_id: int | None) -> str:
    """Return the name of a broker on the wire; "" stands for all brokers."""
    return "" if broker_id is None else str(broker_id)


def _config_error(item: Any) -> ApiError | None:
    """Return the error of a resource with the topic or the broker named in it, or None."""
    name, message = item.resource_name, item.error_message
    if not item.error_code or not name or (message and name in message):
        return item_error(item.error_code, message)
    unknown = item.error_code == UnknownTopicOrPartitionError.code
    if item.resource_type == wire.RESOURCE_TOPIC and (unknown or not message):
        return topic_error(name, item.error_code)
    kind = KINDS.get(item.resource_type, "resource")
    error = error_for(item.error_code, message or "")
    named = repr(name) if item.resource_type == wire.RESOURCE_TOPIC else name
    return type(error)(f"{kind} {named}: {error}")


def _describe_log_dir(
    broker_id: int, log_dir: wire.DescribedLogDir, rotten: Sequence[wire.DescribedLogDir]
) -> LogDirDescription:
    damaged = [replica for entry in rotten for replica in entry.replicas]
    replicas = tuple(
        ReplicaDescription(
            TopicPartition(replica.topic, replica.partition),
            replica.size_bytes,
            replica.log_start_offset,
            replica.log_end_offset,
            replica.high_watermark,
        )
        for replica in (*log_dir.replicas, *damaged)
        if not replica.is_future
    )
    future = tuple(
        FutureReplicaDescription(
            TopicPartition(replica.topic, replica.partition),
            replica.size_bytes,
            replica.offset_lag,
        )
        for replica in log_dir.replicas
        if replica.is_future
    )
    return LogDirDescription(
        broker_id,
        log_dir.path,
        item_error(log_dir.error_code, None, log_dir.path),
        log_dir.total_bytes,
        log_dir.free_bytes,
        replicas,
        future,
        tuple(TopicPartition(replica.topic, replica.partition) for replica in damaged),
    )
