"""The groups that this broker coordinates are put together here: engine, internal topic, service.

Beside the wiring it owns one rule: when a topic is deleted, or made anew under its name, the
offsets that groups have committed for it are dropped (by each coordinator, of its own groups).
"""

from __future__ import annotations

from functools import partial

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.coordinator.group.shard import GroupShard
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.controller_channel import BrokerConnector
from oncelog_broker.server.end_offsets import EndOffsets
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.partition_gateway import PartitionGateway
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.tasks import Tasks

DELETED_IDS_MAX = 10_000
"""So many deleted topics are remembered, the last ones."""


class GroupCoordination:
    """It is made before the first order of the controller arrives; call ``stop`` before replication
    stops.

    :param commit_timeout_ms: how long an answer waits for the replicas of what it has written.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        config: GroupConfig,
        topics: InternalTopics,
        commit_timeout_ms: int,
        replicas: ReplicaManager,
        image: MetadataImage,
        connector: BrokerConnector,
        clock: CautiousClock,
        entropy: Entropy,
        tasks: Tasks,
        safeguards: CoordinatorSafeguards = SAFE,
    ) -> None:
        self._image = image
        self.assertions_failed = 0
        """So many groups had to begin anew because what was known of them contradicted itself."""
        self._deleted_ids: dict[str, None] = {}
        """They are kept for shards that are loaded later: they did not hear of it."""
        self.gateway = PartitionGateway(replicas, clock)
        self.engine: CoordinatorEngine[GroupShard] = CoordinatorEngine(
            name="groups",
            topic=GROUP_TOPIC,
            writer=self.gateway,
            make_shard=partial(
                GroupShard,
                config=config,
                clock=clock,
                entropy=entropy,
                safeguards=safeguards,
                on_broken=self._assertion_failed,
                deleted_ids=self._deleted_ids,
            ),
            tasks=tasks,
            commit_timeout_ms=commit_timeout_ms,
            safeguards=safeguards,
        )
        self.gateway.attach(self.engine)
        self._unfollow = topics.follow(self.engine)
        self.end_offsets = EndOffsets(broker_id, image, replicas, connector)
        self.groups = GroupCoordinator(self.engine)
        self._topic_ids: dict[str, str] = {}
        self._topics_version = image.topics_version
        image.on_change.append(self._look_for_deletions)

    def _assertion_failed(self, _: Exception) -> None:
        self.assertions_failed += 1

    def _look_for_deletions(self) -> None:
        if self._image.topics_version == self._topics_version:
            return
        self._topics_version = self._image.topics_version
        before = self._topic_ids
        self._topic_ids = {name: topic.topic_id for name, topic in self._image.topics.items()}
        now = self._topic_ids
        gone = {name: before[name] for name in sorted(before) if now.get(name) != before[name]}
        if gone:
            self._deleted_ids |= dict.fromkeys(gone.values())
            for oldest in list(self._deleted_ids)[:-DELETED_IDS_MAX]:
                del self._deleted_ids[oldest]
            self.groups.topics_deleted(gone)

    async def stop(self) -> None:
        """Give up all groups; every member that waits is told to look for the next coordinator."""
        self.engine.close()
        self._unfollow()
        self._image.on_change.remove(self._look_for_deletions)
        self.end_offsets.close()
