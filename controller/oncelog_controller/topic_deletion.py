"""Topics are deleted here, for good. Pure.

Rules
-----
* A tombstone with the topic's id and everybody who may have data is written first, with everything
  else where that fits into one multi. From then on the topic is deleted, whoever is controller.
* The topic's znodes go at once, so its name is free again; topic ids keep the new one's replicas
  apart from the old one's (KIP-516).
* Every replica gets StopReplica with delete, now or when its broker is back [Z16]. The tombstone
  goes when all have confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_controller import request_checks, znodes
from oncelog_controller.core import Core, chunks
from oncelog_controller.events import RequestReceived
from oncelog_controller.state import Tombstone, Topic
from oncelog_controller.store import Create, Delete, Op
from oncelog_controller.transitions import (
    ReplicaCause,
    ReplicaPhase,
    next_replica_phase,
)
from oncelog_protocol.errors import NO_ERROR, ApiError, UnknownTopicOrPartitionError
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import ReplicaResult, StopPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

DELETE_OPS_MAX = 256
"""Operations of one multi; each names a path of at most 300 bytes."""


class TopicDeletion:
    """It serves DeleteTopics and sees deletions through."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def delete(self, event: RequestReceived, request: admin.DeleteTopicsRequest) -> None:
        """Delete topics; answered when they are gone from the store."""
        twice = request_checks.check_once(request.topics)
        results: list[admin.TopicResult] = []
        for name in request.topics:
            result = admin.TopicResult(name)
            results.append(result)
            try:
                request_checks.refuse_twice(name, twice)
                request_checks.check_name(name, internal=event.internal)
                topic = self._core.cluster.topics.get(name)
                if topic is None:
                    raise UnknownTopicOrPartitionError(f"topic {name!r} does not exist")
            except ApiError as error:
                result.error_code, result.error_message = error.code, str(error)
            else:
                result.topic_id = topic.topic_id
                self._bury(topic)
        self._core.reply_when_settled(
            event.request_id, admin.DeleteTopicsResponse(NO_ERROR, results)
        )

    def _bury(self, topic: Topic) -> None:
        """Write the tombstone first, then the rest."""
        path = znodes.tombstone_path(topic.name, topic.topic_id)
        data = znodes.encode_tombstone(topic.name, topic.topic_id, topic.holders())
        tombstone: list[Op] = [Create(path, data)]
        removal = _removal(topic)
        if len(removal) < DELETE_OPS_MAX:
            self._core.write([*tombstone, *removal], lambda: self._gone(topic))
        else:
            self._core.write(tombstone, lambda: self.remove(topic))

    def remove(self, topic: Topic) -> None:
        """Remove the znodes of a topic whose tombstone is written. What a controller that died
        meanwhile has removed is not there any more: partitions without a state are left out."""
        pieces = list(chunks(_removal(topic), DELETE_OPS_MAX))
        for number, ops in enumerate(pieces):
            last = number == len(pieces) - 1
            self._core.write(ops, (lambda: self._gone(topic)) if last else (lambda: None))

    def _gone(self, topic: Topic) -> None:
        """The topic is out of the store."""
        core = self._core
        core.cluster.topics.pop(topic.name, None)
        tombstone = self.entomb(topic.name, topic.topic_id, topic.holders())
        for partition in topic.partitions:
            if partition.state is not None:
                core.order_gone(partition)
            core.leavers.forget(partition.topic_partition)
            partition.remove()
        for (index, broker_id), phase in sorted(tombstone.phases.items()):
            if phase is ReplicaPhase.DELETING:
                core.order_stop(broker_id, topic.name, topic.topic_id, index)
        logger.info("topic_deleted", topic=topic.name, topic_id=topic.topic_id)

    def entomb(self, name: str, topic_id: str, assignment: list[list[int]]) -> Tombstone:
        """Keep track of the replicas that are to be deleted."""
        tombstone = Tombstone(name, topic_id, assignment)
        for index, replicas in enumerate(assignment):
            for broker_id in replicas:
                tombstone.phases[index, broker_id] = next_replica_phase(
                    self._core.cluster.first_phase(broker_id), ReplicaCause.DELETION_ORDERED
                )
        self._core.cluster.tombstones[topic_id] = tombstone
        return tombstone

    def broker_moved(self, broker_id: int, cause: ReplicaCause) -> None:
        """A broker came or went."""
        for tombstone in self._core.cluster.tombstones.values():
            for key, phase in sorted(tombstone.phases.items()):
                if key[1] == broker_id:
                    tombstone.phases[key] = next_replica_phase(phase, cause)

    def replicas_stopped(
        self, broker_id: int, stops: Sequence[StopPartition], results: Sequence[ReplicaResult]
    ) -> None:
        """Note that a broker answered a StopReplica; results are in the order of the request."""
        errors = [result.error_code for result in results]
        if len(errors) != len(stops):
            errors = [NO_ERROR] * len(stops)
        finished: dict[str, Tombstone] = {}
        for stop, error in zip(stops, errors, strict=True):
            tombstone = self._core.cluster.tombstones.get(stop.topic_id)
            key = (stop.partition, broker_id)
            if tombstone is None or key not in tombstone.phases or not stop.delete:
                continue
            failed = error != NO_ERROR
            phase = tombstone.phases[key]
            if failed and phase is not ReplicaPhase.DELETING:
                continue
            cause = ReplicaCause.STORAGE_FAILED if failed else ReplicaCause.DELETION_CONFIRMED
            tombstone.phases[key] = next_replica_phase(phase, cause)
            if tombstone.done:
                finished[stop.topic_id] = tombstone
        for topic_id, tombstone in finished.items():
            self._forget(topic_id, tombstone)

    def _forget(self, topic_id: str, tombstone: Tombstone) -> None:
        path = znodes.tombstone_path(tombstone.topic, topic_id)

        def applied() -> None:
            self._core.cluster.tombstones.pop(topic_id, None)

        self._core.write([Delete(path)], applied)


def _removal(topic: Topic) -> list[Op]:
    ops: list[Op] = []
    for partition in topic.partitions:
        if partition.state is not None:
            ops.append(Delete(znodes.state_path(topic.name, partition.index)))
        if partition.state is not None or partition.bare:
            ops.append(Delete(znodes.partition_path(topic.name, partition.index)))
    ops.append(Delete(znodes.partitions_path(topic.name)))
    ops.append(Delete(znodes.topic_path(topic.name)))
    ops.append(Delete(znodes.config_path(topic.name)))
    return ops
