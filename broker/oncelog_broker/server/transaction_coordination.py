"""The transactions that this broker coordinates are put together here, with the work for others'.

Beside the wiring it owns nothing. The coordinator (engine and service) decides, ``MarkerSender``
tells the leaders, ``MarkerWriter`` writes what they are told, ``TransactionVerifier`` asks before a
leader or a group's coordinator takes anything of a transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.coordinator.transaction.producer_ids import ProducerIdRequests
from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.coordinator.transaction.shard import TransactionShard
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.broker_calls import BrokerCalls
from oncelog_broker.server.controller_channel import BrokerConnector
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.partition_gateway import PartitionGateway
from oncelog_broker.server.producer_ids import ProducerIds
from oncelog_broker.transactions.marker_sender import MarkerSender
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_broker.transactions.txn_verification import TransactionVerifier
from oncelog_protocol.coordinators import TRANSACTION_TOPIC
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.tasks import Tasks


class TransactionCoordination:
    """It is made before the first order of the controller arrives; call ``stop`` before replication
    stops.

    :param commit_timeout_ms: how long an answer waits for the replicas of what it has written.
    :param is_deleted: see ``MarkerSender``.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        config: TransactionConfig,
        topics: InternalTopics,
        commit_timeout_ms: int,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        image: MetadataImage,
        connector: BrokerConnector,
        clock: CautiousClock,
        tasks: Tasks,
        is_deleted: Callable[[TopicPartition], Awaitable[bool]],
        safeguards: CoordinatorSafeguards = SAFE,
    ) -> None:
        self._calls = BrokerCalls(connector)
        self.marker_writer = MarkerWriter(replicas, groups)
        self.markers = MarkerSender(
            broker_id=broker_id,
            image=image,
            calls=self._calls,
            writer=self.marker_writer,
            tasks=tasks,
            is_deleted=safeguards.asks_deleted(is_deleted),
        )
        self.gateway = PartitionGateway(replicas, clock)
        self.engine: CoordinatorEngine[TransactionShard] = CoordinatorEngine(
            name="transactions",
            topic=TRANSACTION_TOPIC,
            writer=self.gateway,
            make_shard=partial(
                TransactionShard,
                config=config,
                clock=clock,
                markers=self.markers,
                producer_ids=ProducerIdRequests(producer_ids, tasks),
                safeguards=safeguards,
            ),
            tasks=tasks,
            commit_timeout_ms=commit_timeout_ms,
            safeguards=safeguards,
        )
        self.gateway.attach(self.engine)
        self._unfollow = topics.follow(self.engine)
        self.transactions = TransactionCoordinator(self.engine, config)
        self.verifier = TransactionVerifier(
            broker_id=broker_id,
            image=image,
            topics=topics,
            calls=self._calls,
            transactions=self.transactions,
            tasks=tasks,
        )

    async def stop(self) -> None:
        """Give up all transactions; callers that wait are told to look for the next coordinator."""
        self.engine.close()
        self._unfollow()
        self.verifier.close()
        self.markers.close()
        self._calls.close()
