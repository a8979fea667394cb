"""Topics are created, grown and altered here. Pure.

Rules
-----
* A topic exists when its znode exists. The first multi makes it with its settings and as many
  partition states as fit; the rest follow, and a controller that dies between is followed by one
  that makes what is missing.
* CreateTopics and CreatePartitions are answered when every new partition has a leader that took
  its order, or when the time is up (REQUEST_TIMED_OUT: the effect may still come).
* Several topics of one request do not hang together: each has its own result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oncelog_controller import request_checks, znodes
from oncelog_controller.core import WRITE_PARTITIONS_MAX, Core, at_once, chunks
from oncelog_controller.events import RequestReceived
from oncelog_controller.leadership import Leadership
from oncelog_controller.order_sizes import OrderSizes
from oncelog_controller.placement import place_replicas, start_at
from oncelog_controller.state import ClusterPartition, Topic
from oncelog_controller.store import Create, Op, SetData
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import LeaderAndIsrRequest, ReplicaResult
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

FIRST_WRITE_PARTITIONS_MAX = 100
"""Partitions made together with their topic; each takes two nodes."""

PartitionKey = tuple[str, int]
"""(topic id, partition)."""


@dataclass(slots=True)
class DelayedTopicRequest:
    """It is an answer that waits for leaders to take their orders."""

    request_id: int
    response: admin.CreateTopicsResponse | admin.CreatePartitionsResponse
    deadline: float
    waiting: dict[PartitionKey, admin.TopicResult] = field(default_factory=dict)


class TopicRequests:
    """It serves CreateTopics and CreatePartitions, and alters settings of topics."""

    def __init__(self, core: Core, leadership: Leadership) -> None:
        self._core = core
        self._leadership = leadership
        self._delayed: list[DelayedTopicRequest] = []

    # ---- create

    def create(self, event: RequestReceived, request: admin.CreateTopicsRequest) -> None:
        """Create topics."""
        twice = request_checks.check_once([new.topic for new in request.topics])
        response = admin.CreateTopicsResponse()
        made: list[Topic] = []
        names, sizes = sorted(self._core.cluster.topics), OrderSizes(self._core.cluster)
        for position, new in enumerate(request.topics):
            result = admin.TopicResult(new.topic)
            response.topics.append(result)
            try:
                request_checks.refuse_twice(new.topic, twice)
                request_checks.check_new_name(new.topic, names, internal=event.internal)
                topic = self._design(new, event.topic_ids[position])
                sizes.take(new.topic, topic.assignment())
            except ApiError as error:
                _fail(result, error)
                continue
            names.append(new.topic)
            result.partition_count = len(topic.partitions)
            result.replication_factor = len(topic.partitions[0].replicas)
            if not request.validate_only:
                result.topic_id = topic.topic_id
                made.append(topic)
                self._write_topic(topic)
        self._delay(event.request_id, response, request.timeout_ms, _keys(made, response.topics))

    def _design(self, new: admin.CreatableTopic, topic_id: str) -> Topic:
        """Return the topic as it will be. :raises ApiError: what is wrong with the wish."""
        core, cluster = self._core, self._core.cluster
        able = sum(not cluster.retires(b) for b in cluster.brokers)
        count, factor = request_checks.sizes(new, core.config, able)
        if new.assignment is not None:
            request_checks.check_assignment(new.assignment, cluster)
            assignment = [list(replicas) for replicas in new.assignment]
        else:
            brokers = self._places(factor)
            assignment = place_replicas(
                brokers, first=0, count=count, replication_factor=factor, start=self._start()
            )
        overrides = request_checks.altered({}, new.configs)
        settings = request_checks.check_settings(overrides, core.config.defaults(), factor)
        stray = cluster.stray_configs.get(new.topic)
        config_version = 0 if stray is None else stray + 1
        topic = Topic(new.topic, topic_id, settings, overrides, config_version)
        _extend(core, topic, assignment)
        return topic

    def _places(self, factor: int) -> list[tuple[int, str | None]]:
        """Return the brokers to place replicas on, with their racks."""
        cluster = self._core.cluster
        return [(b, cluster.brokers[b].rack) for b in cluster.places(factor)]

    def _start(self) -> int:
        """Return where the partitions so far would have gone on, so that starts rotate."""
        return sum(len(topic.partitions) for topic in self._core.cluster.topics.values())

    def _write_topic(self, topic: Topic) -> None:
        core = self._core
        stray = core.cluster.stray_configs.get(topic.name)
        path, data = znodes.config_path(topic.name), znodes.encode_config(topic.overrides)
        config: Op = Create(path, data) if stray is None else SetData(path, data, stray)
        head: list[Op] = [
            config,
            Create(
                znodes.topic_path(topic.name),
                znodes.encode_topic(topic.topic_id, topic.assignment()),
            ),
            Create(znodes.partitions_path(topic.name), b""),
        ]

        def exists() -> None:
            core.cluster.topics[topic.name] = topic
            core.cluster.stray_configs.pop(topic.name, None)
            logger.info(
                "topic_created",
                topic=topic.name,
                partitions=len(topic.partitions),
                topic_id=topic.topic_id,
            )

        self._write_states(head, exists, topic.partitions)

    def _write_states(
        self, head: list[Op], exists: Callable[[], None], partitions: Sequence[ClusterPartition]
    ) -> None:
        """Write first states for new partitions; ``head`` goes into the first multi with them."""
        first = partitions[:FIRST_WRITE_PARTITIONS_MAX]
        rest = partitions[FIRST_WRITE_PARTITIONS_MAX:]
        for number, chunk in enumerate([first, *chunks(rest, WRITE_PARTITIONS_MAX)]):
            found = [(each, self._leadership.first_state(each)) for each in chunk]
            states = [(partition, state) for partition, state in found if state is not None]
            if number == 0:
                self._leadership.write(states, head=head, written=exists)
            elif states:
                self._leadership.write(states)

    # ---- grow

    def grow(self, event: RequestReceived, request: admin.CreatePartitionsRequest) -> None:
        """Add partitions to topics."""
        twice = request_checks.check_once([growth.topic for growth in request.topics])
        response = admin.CreatePartitionsResponse()
        keys: dict[PartitionKey, admin.TopicResult] = {}
        sizes = OrderSizes(self._core.cluster)
        for growth in request.topics:
            result = admin.TopicResult(growth.topic)
            response.topics.append(result)
            try:
                request_checks.refuse_twice(growth.topic, twice)
                request_checks.check_name(growth.topic, internal=event.internal)
                topic = self._known(growth.topic)
                added = self._design_growth(topic, growth)
                sizes.take(topic.name, added)
            except ApiError as error:
                _fail(result, error)
                continue
            before = len(topic.partitions)
            result.topic_id = topic.topic_id
            result.partition_count = before + len(added)
            result.replication_factor = len(added[0])
            if not request.validate_only:
                self._write_growth(topic, added)
                for index in range(before, before + len(added)):
                    keys[topic.topic_id, index] = result
        self._delay(event.request_id, response, request.timeout_ms, keys)

    def _known(self, name: str) -> Topic:
        topic = self._core.cluster.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"topic {name!r} does not exist")
        return topic

    def _design_growth(self, topic: Topic, growth: admin.PartitionGrowth) -> list[list[int]]:
        """Return the replicas of the new partitions. :raises ApiError: what is wrong with the
        wish."""
        before = len(topic.partitions)
        request_checks.check_partition_count(growth.partition_count)
        count = growth.partition_count - before
        if count <= 0:
            raise InvalidPartitionsError(
                f"topic {topic.name!r} has {before} partitions; "
                f"{growth.partition_count} would not be a growth"
            )
        placement = topic.partitions[0].placement
        factor = len(placement.target or placement.replicas)
        if growth.assignment is None:
            brokers = self._places(factor)
            return place_replicas(
                brokers,
                first=before,
                count=count,
                replication_factor=factor,
                start=start_at(brokers, topic.partitions[0].replicas[0]),
            )
        if len(growth.assignment) != count:
            raise InvalidReplicaAssignmentError(
                f"{count} new partitions, but {len(growth.assignment)} entries in the assignment"
            )
        request_checks.check_assignment(
            growth.assignment, self._core.cluster, replication_factor=factor
        )
        return [list(replicas) for replicas in growth.assignment]

    def _write_growth(self, topic: Topic, added: list[list[int]]) -> None:
        scratch = Topic(topic.name, topic.topic_id, topic.settings, partitions=[*topic.partitions])
        fresh = _extend(self._core, scratch, added, owner=topic)
        head: list[Op] = [
            SetData(
                znodes.topic_path(topic.name),
                znodes.encode_topic(topic.topic_id, scratch.assignment()),
                topic.version,
            )
        ]

        def exists() -> None:
            topic.grow(fresh)
            logger.info("topic_grew", topic=topic.name, partitions=len(topic.partitions))

        self._write_states(head, exists, fresh)

    # ---- settings

    def alter(self, event: RequestReceived, wish: admin.ConfigAlteration, *, write: bool) -> None:
        """Alter settings of one topic, key by key; or only check, without ``write``.

        :raises ApiError: what is wrong with the wish.
        """
        core = self._core
        if wish.resource_type != admin.RESOURCE_TOPIC:
            raise InvalidRequestError("only settings of topics and brokers can be altered")
        request_checks.check_name(wish.resource_name, internal=event.internal)
        topic = self._known(wish.resource_name)
        overrides = request_checks.altered(topic.overrides, wish.entries)
        factor = len(topic.partitions[0].replicas)
        settings = request_checks.check_settings(overrides, core.config.defaults(), factor)
        if not write or overrides == topic.overrides:
            return

        def applied() -> None:
            topic.alter(overrides, settings)
            core.order_config(topic)
            if settings.unclean_leader_election_enable:
                self.elect_offline(topic)

        # First, in the order of the wire: a smaller min.insync.replicas lets the high watermark
        # move without the ELR, which must be gone from the store by then.
        self._leadership.end_elr(topic, settings.min_insync_replicas)
        path = znodes.config_path(topic.name)
        core.write([SetData(path, znodes.encode_config(overrides), topic.config_version)], applied)

    def elect_offline(self, topic: Topic) -> None:
        """Its partitions without a leader may have one now: elect, when all is written."""

        def elect() -> None:
            at_once(self._leadership.reconsider([p for p in topic.partitions if p.leader < 0]))

        self._core.when_settled(elect)

    # ---- answers that wait

    def _delay(
        self,
        request_id: int,
        response: admin.CreateTopicsResponse | admin.CreatePartitionsResponse,
        timeout_ms: int,
        waiting: dict[PartitionKey, admin.TopicResult],
    ) -> None:
        if not waiting:
            self._core.reply(request_id, response)
            return
        patience_ms = min(max(timeout_ms, 0), limits.ACK_TIMEOUT_MS_MAX)
        deadline = self._core.now + patience_ms / 1000
        delayed = DelayedTopicRequest(request_id, response, deadline, waiting)
        # Not before the writes are through: until then the request counts as interrupted.
        self._core.when_settled(lambda: self._delayed.append(delayed))

    @property
    def deadline(self) -> float | None:
        """Return when the first answer that waits is due, on the loop's clock."""
        return min((delayed.deadline for delayed in self._delayed), default=None)

    def expire(self) -> None:
        """Answer what has waited long enough."""
        for delayed in [p for p in self._delayed if p.deadline <= self._core.now]:
            text = "the topic is made, but not every partition has a leader that took its order yet"
            for result in delayed.waiting.values():
                _fail(result, RequestTimedOutError(text))
            self._finish(delayed)

    def order_taken(
        self, broker_id: int, request: LeaderAndIsrRequest, results: Sequence[ReplicaResult]
    ) -> None:
        """A broker answered: the partitions it leads by that order are ready."""
        if not self._delayed:
            return
        failed = {(r.topic, r.partition) for r in results if r.error_code != NO_ERROR}
        taken = [
            (state.topic_id, state.partition)
            for state in request.partitions
            if state.leader == broker_id and (state.topic, state.partition) not in failed
        ]
        for delayed in list(self._delayed):
            for key in taken:
                delayed.waiting.pop(key, None)
            if not delayed.waiting:
                self._finish(delayed)

    def forget_topics(self) -> None:
        """Topics that are gone can get no leader any more: answers do not wait for them."""
        known = {topic.topic_id for topic in self._core.cluster.topics.values()}
        for delayed in list(self._delayed):
            for key in [key for key in delayed.waiting if key[0] not in known]:
                error = UnknownTopicOrPartitionError("the topic was deleted meanwhile")
                _fail(delayed.waiting.pop(key), error)
            if not delayed.waiting:
                self._finish(delayed)

    def _finish(self, delayed: DelayedTopicRequest) -> None:
        self._delayed.remove(delayed)
        self._core.reply(delayed.request_id, delayed.response)


def _extend(
    core: Core, topic: Topic, assignment: Sequence[Sequence[int]], owner: Topic | None = None
) -> list[ClusterPartition]:
    """Append partitions to ``topic``; they belong to ``owner``, or to it."""
    fresh = []
    for replicas in assignment:
        index, phases = len(topic.partitions), core.cluster.first_phases(replicas)
        partition = ClusterPartition(owner or topic, index, tuple(replicas), replica_phases=phases)
        topic.partitions.append(partition)
        fresh.append(partition)
    return fresh


def _keys(
    topics: Sequence[Topic], results: Sequence[admin.TopicResult]
) -> dict[PartitionKey, admin.TopicResult]:
    by_name = {result.topic: result for result in results}
    return {
        (topic.topic_id, partition.index): by_name[topic.name]
        for topic in topics
        for partition in topic.partitions
    }


def _fail(result: admin.TopicResult, error: ApiError) -> None:
    result.error_code, result.error_message = error.code, str(error)
