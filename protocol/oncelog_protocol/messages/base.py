"""Every message class declares these things about itself."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ApiKey(IntEnum):
    """API numbers are Kafka's where Kafka has the API, and ours from 1000 on."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_QUOTAS = 48
    ALTER_QUOTAS = 49
    DESCRIBE_USERS = 50
    ALTER_USERS = 51
    ALTER_PARTITION = 56
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    BEGIN_SHARED_TXN = 1000
    JOIN_TXN = 1001
    END_SHARED_TXN = 1002
    ABORT_TRANSACTION = 1003
    BALANCE = 1004
    ALTER_BROKER_STATES = 1005
    BROKER_REPORT = 1006
    UPDATE_SECURITY = 1010
    DESCRIBE_LOG = 1011
    DESCRIBE_EVENTS = 1012


class Request:
    """It is the base of requests: ``api_key``, the versions spoken, the response class."""

    __slots__ = ()
    api_key: ClassVar[ApiKey]
    versions: ClassVar[tuple[int, int]] = (0, 0)
    """Inclusive range of versions that this release speaks."""
    response: ClassVar[type]
    between_brokers: ClassVar[bool] = False
    """Whether the API is refused on listeners that are not internal."""
    asker_field: ClassVar[str] = ""
    """The field with the id of the broker that asks, of an API between brokers; "": none has it."""
