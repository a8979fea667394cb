"""The router of a Kafka listener finds the translation of a request; our dispatcher serves it.

So everything that holds for our own clients holds here: who may do what, quotas, statistics, the
order of answers. A client of Kafka is never a broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncelog_broker.kafka import (
    acl_apis,
    admin_apis,
    cluster_apis,
    config_apis,
    data_apis,
    group_apis,
    metadata_apis,
    move_apis,
    offset_apis,
    quota_apis,
    sasl_apis,
    transaction_admin_apis,
    transaction_apis,
    user_apis,
)
from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.refused_apis import RefusedApis
from oncelog_broker.kafka.versions import (
    DESCRIBE_TOPIC_PARTITIONS,
    INCREMENTAL_ALTER_CONFIGS,
    OFFERED,
    WITH_NUMBERS,
    api_versions,
)
from oncelog_broker.kafka.wire.connection import KafkaConnection
from oncelog_broker.kafka.wire.messages.sasl_handshake import KafkaSaslHandshakeRequest
from oncelog_broker.kafka.wire.messages.table import REQUESTS
from oncelog_broker.server.connection import ResponseSlot
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext
from oncelog_broker.server.request_dispatcher import RequestDispatcher
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.sasl.credential import Mechanism

SOFTWARE_CHARS_MAX: Final = 100
"""So much is kept of what a client calls itself."""

TRANSLATIONS: Final[dict[int, Callable[[KafkaExchange, Any], None]]] = {
    KafkaSaslHandshakeRequest.api_key: sasl_apis.sasl_handshake,
    ApiKey.AUTHENTICATE: sasl_apis.sasl_authenticate,
    ApiKey.DESCRIBE_ACLS: acl_apis.describe_acls,
    ApiKey.CREATE_ACLS: acl_apis.create_acls,
    ApiKey.DELETE_ACLS: acl_apis.delete_acls,
    ApiKey.DESCRIBE_QUOTAS: quota_apis.describe_client_quotas,
    ApiKey.ALTER_QUOTAS: quota_apis.alter_client_quotas,
    ApiKey.DESCRIBE_USERS: user_apis.describe_user_scram_credentials,
    ApiKey.ALTER_USERS: user_apis.alter_user_scram_credentials,
    ApiKey.PRODUCE: data_apis.produce,
    ApiKey.FETCH: data_apis.fetch,
    ApiKey.LIST_OFFSETS: data_apis.list_offsets,
    ApiKey.METADATA: metadata_apis.metadata,
    ApiKey.OFFSET_COMMIT: offset_apis.offset_commit,
    ApiKey.OFFSET_FETCH: offset_apis.offset_fetch,
    ApiKey.FIND_COORDINATOR: metadata_apis.find_coordinator,
    ApiKey.JOIN_GROUP: group_apis.join_group,
    ApiKey.HEARTBEAT: group_apis.heartbeat,
    ApiKey.LEAVE_GROUP: group_apis.leave_group,
    ApiKey.SYNC_GROUP: group_apis.sync_group,
    ApiKey.DESCRIBE_GROUPS: group_apis.describe_groups,
    ApiKey.LIST_GROUPS: group_apis.list_groups,
    ApiKey.CREATE_TOPICS: admin_apis.create_topics,
    ApiKey.DELETE_TOPICS: admin_apis.delete_topics,
    ApiKey.INIT_PID: transaction_apis.init_producer_id,
    ApiKey.END_TXN: transaction_apis.end_txn,
    ApiKey.TXN_OFFSET_COMMIT: transaction_apis.txn_offset_commit,
    ApiKey.WRITE_TXN_MARKERS: transaction_admin_apis.write_txn_markers,
    ApiKey.DESCRIBE_PRODUCERS: transaction_admin_apis.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_admin_apis.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transaction_admin_apis.list_transactions,
    ApiKey.DELETE_RECORDS: admin_apis.delete_records,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: data_apis.offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: config_apis.describe_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: move_apis.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster_apis.describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: admin_apis.create_partitions,
    ApiKey.DELETE_GROUPS: group_apis.delete_groups,
    ApiKey.ELECT_LEADERS: admin_apis.elect_leaders,
    INCREMENTAL_ALTER_CONFIGS: config_apis.incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: move_apis.alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: move_apis.list_reassignments,
    ApiKey.OFFSET_DELETE: offset_apis.offset_delete,
    ApiKey.DESCRIBE_CLUSTER: cluster_apis.describe_cluster,
    DESCRIBE_TOPIC_PARTITIONS: cluster_apis.describe_topic_partitions,
    ApiKey.ADD_PARTITIONS_TO_TXN: transaction_apis.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transaction_apis.add_offsets_to_txn,
}


class KafkaRouter:
    """It serves what comes in on a listener that speaks Kafka's protocol.

    :param mechanisms: clients authenticate by one of these; empty: they need not.
    :param numbers: whether transactions may end by number now.
    """

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        image: MetadataImage,
        mechanisms: tuple[Mechanism, ...] = (),
        numbers: Callable[[], bool] = lambda: False,
    ) -> None:
        self._numbers = numbers
        self.stats = dispatcher.stats
        self._dispatcher = dispatcher
        self._image = image
        self._mechanisms = mechanisms
        self._refused = RefusedApis()

    def connect(self) -> KafkaConnection:
        """Return the machine of one more connection."""
        offered = WITH_NUMBERS if self._numbers() else OFFERED
        return KafkaConnection(
            REQUESTS,
            offered,
            authenticates=bool(self._mechanisms),
            refused=self._refused.note,
        )

    def dispatch(
        self, context: RequestContext, incoming: IncomingRequest, respond: ResponseSlot
    ) -> None:
        """Serve one request."""
        if incoming.error is not None:
            respond(api_versions(incoming.error.code, numbers=self._numbers()))
            return
        if incoming.api_key == ApiKey.API_VERSIONS:
            asked: Any = incoming.message
            context.connection.names_software(
                asked.client_software_name[:SOFTWARE_CHARS_MAX],
                asked.client_software_version[:SOFTWARE_CHARS_MAX],
            )
            respond(api_versions(version=incoming.api_version, numbers=self._numbers()))
            return
        exchange = KafkaExchange(
            self._dispatcher,
            self._image,
            context,
            incoming,
            respond,
            mechanisms=self._mechanisms,
            numbers=self._numbers(),
        )
        TRANSLATIONS[incoming.api_key](exchange, incoming.message)
