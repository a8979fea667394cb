"""Every API gets its handler from this table, which the application gives to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server import api_table
from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.client_quotas import NO_QUOTAS, Quotas
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.event_history import EventHistory
from oncelog_broker.server.group_coordination import GroupCoordination
from oncelog_broker.server.handlers.abort_transaction import AbortTransactionHandler
from oncelog_broker.server.handlers.add_offsets_to_txn import AddOffsetsToTxnHandler
from oncelog_broker.server.handlers.add_partitions_to_txn import AddPartitionsToTxnHandler
from oncelog_broker.server.handlers.alter_configs import AlterConfigsHandler
from oncelog_broker.server.handlers.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from oncelog_broker.server.handlers.alter_users import AlterUsersHandler, GuardedUsers
from oncelog_broker.server.handlers.api_versions import ApiVersionsHandler
from oncelog_broker.server.handlers.authenticate import AuthenticateHandler
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.handlers.delete_groups import DeleteGroupsHandler
from oncelog_broker.server.handlers.delete_records import DeleteRecordsHandler
from oncelog_broker.server.handlers.describe_cluster import DescribeClusterHandler
from oncelog_broker.server.handlers.describe_configs import DescribeConfigsHandler, Settings
from oncelog_broker.server.handlers.describe_events import DescribeEventsHandler
from oncelog_broker.server.handlers.describe_groups import DescribeGroupsHandler
from oncelog_broker.server.handlers.describe_log import DescribeLogHandler
from oncelog_broker.server.handlers.describe_log_dirs import DescribeLogDirsHandler
from oncelog_broker.server.handlers.describe_producers import DescribeProducersHandler
from oncelog_broker.server.handlers.describe_transactions import DescribeTransactionsHandler
from oncelog_broker.server.handlers.fetch import FetchHandler
from oncelog_broker.server.handlers.find_coordinator import FindCoordinatorHandler
from oncelog_broker.server.handlers.handed_on import HandedOn, HandedOnWithPeer
from oncelog_broker.server.handlers.init_pid import InitPidHandler
from oncelog_broker.server.handlers.leader_and_isr import LeaderAndIsrHandler
from oncelog_broker.server.handlers.metadata import MetadataHandler
from oncelog_broker.server.handlers.offset_commit import OffsetCommitHandler
from oncelog_broker.server.handlers.offset_delete import OffsetDeleteHandler
from oncelog_broker.server.handlers.offset_fetch import OffsetFetchHandler
from oncelog_broker.server.handlers.offsets import ListOffsetsHandler, OffsetForLeaderEpochHandler
from oncelog_broker.server.handlers.produce import ProduceHandler
from oncelog_broker.server.handlers.stop_replica import StopReplicaHandler
from oncelog_broker.server.handlers.txn_offset_commit import TxnOffsetCommitHandler
from oncelog_broker.server.handlers.update_metadata import UpdateMetadataHandler
from oncelog_broker.server.handlers.update_security import UpdateSecurityHandler
from oncelog_broker.server.handlers.write_txn_markers import WriteTxnMarkersHandler
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_broker.server.known_quotas import KnownQuotas
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.producer_ids import ProducerIds
from oncelog_broker.server.request_dispatcher import RequestDispatcher
from oncelog_broker.server.safeguards import SAFE, SecuritySafeguards
from oncelog_broker.server.topic_creation import TopicCreation
from oncelog_broker.server.transaction_coordination import TransactionCoordination
from oncelog_broker.server.users import Users
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.replication import BrokerOverrides
from oncelog_runtime.files import Files


def install_handlers(
    dispatcher: RequestDispatcher,
    *,
    broker_id: int,
    files: Files,
    logs: LogManager,
    replicas: ReplicaManager,
    image: MetadataImage,
    events: EventHistory,
    fence: ControllerFence,
    requests: ControllerRequests,
    creation: TopicCreation | None,
    topics: InternalTopics,
    coordination: GroupCoordination,
    transactions: TransactionCoordination,
    producer_ids: ProducerIds,
    settings: Settings,
    take_settings: Callable[[list[BrokerOverrides]], None],
    authorizer: Authorizer,
    acls: AclAuthorizer,
    users: Users,
    known_quotas: KnownQuotas,
    guarded: GuardedUsers,
    authenticate: AuthenticateHandler,
    quotas: Quotas = NO_QUOTAS,
    takes_kafka: Callable[[], bool] = lambda: False,
    identity: Identity = UNKNOWN,
    authorizer_name: str = "none",
    safeguards: SecuritySafeguards = SAFE,
) -> None:
    """Give ``.dispatcher`` a handler for every API of the registry."""
    _install_controller_handlers(dispatcher, requests, authorizer)
    produce = ProduceHandler(replicas, authorizer, transactions.verifier, quotas, takes_kafka)
    dispatcher.install(
        {
            ApiKey.API_VERSIONS: ApiVersionsHandler(identity, authorizer_name),
            ApiKey.PRODUCE: produce,
            ApiKey.FETCH: _fetch_handler(replicas, authorizer, acls, quotas, safeguards),
            ApiKey.METADATA: MetadataHandler(image, authorizer, creation),
            ApiKey.DESCRIBE_CLUSTER: DescribeClusterHandler(image, authorizer, broker_id, fence),
            ApiKey.DESCRIBE_EVENTS: DescribeEventsHandler(events, authorizer),
            ApiKey.DESCRIBE_CONFIGS: DescribeConfigsHandler(
                broker_id=broker_id, image=image, settings=settings, authorizer=authorizer
            ),
            ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsHandler(files, logs, replicas, authorizer),
        },
        {
            ApiKey.LEADER_AND_ISR: LeaderAndIsrHandler(fence, image, replicas),
            ApiKey.UPDATE_METADATA: UpdateMetadataHandler(fence, image, replicas, take_settings),
            ApiKey.STOP_REPLICA: StopReplicaHandler(fence, replicas),
            ApiKey.INIT_PID: InitPidHandler(producer_ids, transactions.transactions, authorizer),
        },
    )
    _install_log_handlers(dispatcher, logs, replicas, authorizer)
    updates = UpdateSecurityHandler(fence, acls, users, known_quotas)
    _install_security_handlers(dispatcher, requests, updates, guarded, authenticate)
    _install_group_handlers(dispatcher, coordination, image, authorizer, acls)
    _install_txns(dispatcher, transactions, coordination, image, topics, replicas, authorizer)


def _install_log_handlers(
    dispatcher: RequestDispatcher,
    logs: LogManager,
    replicas: ReplicaManager,
    authorizer: Authorizer,
) -> None:
    dispatcher.install(
        {
            ApiKey.ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsHandler(logs.moves, authorizer),
            ApiKey.LIST_OFFSETS: ListOffsetsHandler(replicas, authorizer),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochHandler(replicas, authorizer),
            ApiKey.DELETE_RECORDS: DeleteRecordsHandler(replicas, authorizer),
        },
        {ApiKey.DESCRIBE_LOG: DescribeLogHandler(replicas, authorizer)},
    )


def _install_controller_handlers(
    dispatcher: RequestDispatcher, requests: ControllerRequests, authorizer: Authorizer
) -> None:
    dispatcher.install({}, api_table.handlers(api_table.CONTROLLER, requests, authorizer))
    dispatcher.install({}, {ApiKey.ALTER_CONFIGS: AlterConfigsHandler(requests)})


def _install_security_handlers(
    dispatcher: RequestDispatcher,
    requests: ControllerRequests,
    updates: UpdateSecurityHandler,
    guarded: GuardedUsers,
    authenticate: AuthenticateHandler,
) -> None:
    dispatcher.install(
        {},
        {
            ApiKey.AUTHENTICATE: authenticate,
            ApiKey.UPDATE_SECURITY: updates,
            ApiKey.ALTER_USERS: AlterUsersHandler(requests, guarded),
        },
    )


def _fetch_handler(
    replicas: ReplicaManager,
    authorizer: Authorizer,
    acls: AclAuthorizer,
    quotas: Quotas,
    safeguards: SecuritySafeguards,
) -> FetchHandler:
    handler = FetchHandler(replicas, authorizer, quotas, safeguards)
    acls.on_change(handler.look_again)
    return handler


def _install_group_handlers(
    dispatcher: RequestDispatcher,
    coordination: GroupCoordination,
    image: MetadataImage,
    authorizer: Authorizer,
    acls: AclAuthorizer,
) -> None:
    groups = coordination.groups
    served = api_table.handlers(api_table.GROUPS, groups, authorizer)
    for handler in served.values():
        if isinstance(handler, HandedOn | HandedOnWithPeer):
            acls.on_change(handler.look_again)
    dispatcher.install(served, {})
    dispatcher.install(
        {
            ApiKey.OFFSET_COMMIT: OffsetCommitHandler(groups, authorizer, image),
            ApiKey.OFFSET_FETCH: OffsetFetchHandler(groups, authorizer),
            ApiKey.OFFSET_DELETE: OffsetDeleteHandler(groups, authorizer),
            ApiKey.DELETE_GROUPS: DeleteGroupsHandler(groups, authorizer),
        },
        {
            ApiKey.DESCRIBE_GROUPS: DescribeGroupsHandler(
                groups, authorizer, coordination.end_offsets
            ),
        },
    )


def _install_txns(
    dispatcher: RequestDispatcher,
    coordination: TransactionCoordination,
    groups: GroupCoordination,
    image: MetadataImage,
    topics: InternalTopics,
    replicas: ReplicaManager,
    authorizer: Authorizer,
) -> None:
    transactions, writer = coordination.transactions, coordination.marker_writer
    dispatcher.install(api_table.handlers(api_table.TRANSACTIONS, transactions, authorizer), {})
    dispatcher.install(
        {
            ApiKey.FIND_COORDINATOR: FindCoordinatorHandler(image, topics, authorizer),
            ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnHandler(
                transactions, authorizer, image, replicas.deadlines
            ),
            ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnHandler(transactions, authorizer, topics),
            ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitHandler(
                groups.groups, authorizer, image, coordination.verifier
            ),
            ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersHandler(writer),
            ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsHandler(transactions, authorizer),
            ApiKey.DESCRIBE_PRODUCERS: DescribeProducersHandler(
                replicas, groups.groups, authorizer
            ),
            ApiKey.ABORT_TRANSACTION: AbortTransactionHandler(replicas, writer, authorizer),
        },
        {},
    )
