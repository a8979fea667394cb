"""This table says which of Kafka's APIs are spoken here, and in which versions.

The floor of each is that of Kafka 4.1, which every client in use clears. Produce is advertised from
version 0 all the same, as older clients of librdkafka take compression for missing otherwise; below
version 3 it is not served (KIP-896).
"""

from __future__ import annotations

from typing import Final

from oncelog_broker.kafka.wire.messages.api_versions import (
    KafkaApiVersionsResponse,
    KafkaApiVersionsResponseApiVersion,
    KafkaApiVersionsResponseFinalizedFeatureKey,
    KafkaApiVersionsResponseSupportedFeatureKey,
)
from oncelog_broker.kafka.wire.messages.sasl_handshake import KafkaSaslHandshakeRequest
from oncelog_protocol.messages.base import ApiKey

INCREMENTAL_ALTER_CONFIGS: Final = 44
"""It is what our AlterConfigs does, which has the number of an older one of Kafka."""
DESCRIBE_TOPIC_PARTITIONS: Final = 75
"""We have none: Metadata tells the same."""

OFFERED: Final[dict[int, tuple[int, int]]] = {
    KafkaSaslHandshakeRequest.api_key: (0, 1),
    ApiKey.AUTHENTICATE: (0, 2),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_QUOTAS: (0, 1),
    ApiKey.ALTER_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USERS: (0, 0),
    ApiKey.ALTER_USERS: (0, 0),
    ApiKey.PRODUCE: (3, 12),
    ApiKey.FETCH: (4, 12),
    ApiKey.LIST_OFFSETS: (1, 9),
    ApiKey.METADATA: (0, 12),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 5),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PID: (0, 5),
    ApiKey.END_TXN: (5, 5),
    ApiKey.TXN_OFFSET_COMMIT: (5, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 1),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
    DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}
"""Versions from and to, by API key. Keys are Kafka's and ours alike."""

WITH_NUMBERS: Final[dict[int, tuple[int, int]]] = {
    **OFFERED,
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
}
"""The same where transactions may end by number, for clients from before KIP-890."""

PRODUCE_ADVERTISED_FROM: Final = 0


TRANSACTION_VERSION: Final = "transaction.version"
"""At 2 each transaction has an epoch of its own (KIP-890)."""
TRANSACTION_VERSIONS: Final = (0, 2)
LEAST_FEATURE_SINCE: Final = 4
"""Below this version of ApiVersions clients fail on a feature whose least version is 0."""


def api_versions(
    error_code: int = 0, *, version: int = 0, numbers: bool = False
) -> KafkaApiVersionsResponse:
    """Return what is told of this table in a version of ApiVersions. ``numbers``: transactions may
    end by number."""
    rows = []
    for key, (first, last) in (WITH_NUMBERS if numbers else OFFERED).items():
        told = PRODUCE_ADVERTISED_FROM if key == ApiKey.PRODUCE else first
        rows.append(KafkaApiVersionsResponseApiVersion(int(key), told, last))
    least, most = TRANSACTION_VERSIONS
    least = least if version >= LEAST_FEATURE_SINCE else max(least, 1)
    return KafkaApiVersionsResponse(
        error_code,
        rows,
        supported_features=[
            KafkaApiVersionsResponseSupportedFeatureKey(TRANSACTION_VERSION, least, most)
        ],
        finalized_features_epoch=0,
        finalized_features=[
            KafkaApiVersionsResponseFinalizedFeatureKey(TRANSACTION_VERSION, most, most)
        ],
    )
