"""The matrix of rights has its rows here, a real request for each, and what its answer says.

``orders`` is the topic that is asked about; ``open`` stands beside it, and everybody may use it, so
that an answer shows whether only the one is refused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from oncelog_protocol.acls import AclBindingFilter
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import (
    acls,
    admin,
    authentication,
    balance,
    broker_reports,
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
    quotas,
    replication,
    security,
    shared_transactions,
    transaction_admin,
    transactions,
    users,
)
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.quotas import QuotaFilter
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span

__all__ = [
    "BROKER",
    "CODES",
    "FRESH",
    "PRODUCER_ID",
    "ROWS",
    "MatrixRow",
    "Need",
    "codes_of",
    "is_allowed",
    "is_refused",
    "of_api",
    "outcome",
    "renamed",
    "request_of",
]

BROKER = 2
"""Requests between brokers come in its name."""

ABSENT = UnknownTopicOrPartitionError.code

CODES = {
    "CLUSTER": ClusterAuthorizationFailedError.code,
    "TOPIC": TopicAuthorizationFailedError.code,
    "GROUP": GroupAuthorizationFailedError.code,
    "TRANSACTIONAL_ID": TransactionalIdAuthorizationFailedError.code,
}

FRESH = re.compile(r"fresh-\d+")
"""So topics are called that are not there yet; rows call all of them fresh."""

# ---- rows


@dataclass(frozen=True)
class Need:
    """It is met by one of ``any``."""

    any: tuple[str, ...]
    refused: str
    """See the head of matrix.toml."""
    resource_type: str
    name: str

    @property
    def code(self) -> int:
        return CODES[self.resource_type]


@dataclass(frozen=True)
class MatrixRow:
    """It is one request and what it needs."""

    api: ApiKey
    case: str
    from_broker: bool
    needs: tuple[Need, ...]
    denied_by: str

    def __str__(self) -> str:
        words = [self.api.name, self.case, "by a broker" if self.from_broker else ""]
        return " ".join(filter(None, words))


def _rows() -> list[MatrixRow]:
    """Return the rows of matrix.toml, in order."""
    path = Path(__file__).parents[1] / "broker/server/matrix.toml"
    return [
        MatrixRow(
            ApiKey[row["api"]],
            row.get("case", ""),
            row.get("from") == "broker",
            tuple(_need(need) for need in row["needs"]),
            row.get("denied_by", ""),
        )
        for row in tomllib.loads(path.read_text())["row"]
    ]


def _need(given: dict[str, Any]) -> Need:
    _, resource_type, *name = given["any"][0].split()
    return Need(
        tuple(given["any"]),
        given["refused"],
        given.get("type", resource_type),
        given.get("of", "".join(name)),
    )


ROWS = _rows()


def of_api(api: int) -> list[MatrixRow]:
    """Return the rows of an API."""
    return [row for row in ROWS if row.api == api]


# ---- requests

TOPICS = ("orders", "open")
PRODUCER_ID = 1 << 40
"""It stands for the id that payer has."""

TXN = ("payer", PRODUCER_ID, 0)
AT = replication.LeaderAndIsrPartition("orders", "", 0, 1, 0, [1], 0, [1], False)


def _produce(numbered: bool, name: str | None) -> tuple[Request, list[bytes]]:
    given: dict[str, Any] = {}
    if numbered:
        given = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": 0}
    batch = bytes(encode_batch([b"v"], timestamps=1, transactional=name is not None, **given))
    size = len(batch)
    asked = [
        produce.ProduceTopic(topic, [produce.ProducePartition(0, Span(n * size, size))])
        for n, topic in enumerate(TOPICS)
    ]
    return produce.ProduceRequest(name, -1, 5000, asked), [batch, batch]


def _fetch(replica: int) -> Request:
    asked = [fetch.FetchTopic(topic, [fetch.FetchPartition(0, 0, 1 << 16)]) for topic in TOPICS]
    session = -1 if replica < 0 else 0
    return fetch.FetchRequest(replica, -1, 0, 0, 1 << 20, 0, session, asked)


def _list_offsets() -> Request:
    asked = [offsets.ListOffsetsPartition(0, -2)]
    return offsets.ListOffsetsRequest(0, [offsets.ListOffsetsTopic(t, asked) for t in TOPICS])


def _epochs() -> Request:
    asked = [offsets.EpochQuery(0, -1, 0)]
    return offsets.OffsetForLeaderEpochRequest(
        [offsets.EpochQueryTopic(topic, asked) for topic in TOPICS]
    )


def _create(topic: str) -> Request:
    asked = [admin.CreatableTopic(name, 1, 1) for name in (topic, "open-too")]
    return admin.CreateTopicsRequest(asked, 5000, True)


def _delete_records() -> Request:
    asked = [admin.DeleteRecordsPartition(0, 0)]
    return admin.DeleteRecordsRequest(
        [admin.DeleteRecordsTopic(topic, asked) for topic in TOPICS], 5000
    )


def _configs(kind: int, *names: str) -> Request:
    return admin.DescribeConfigsRequest([admin.ConfigResource(kind, name) for name in names])


def _alter_configs(kind: int, *names: str) -> Request:
    return admin.AlterConfigsRequest(
        [admin.ConfigAlteration(kind, name, []) for name in names], True
    )


def _add(*names: str) -> Request:
    return transactions.AddPartitionsToTxnRequest(
        [
            transactions.AddedTransaction(
                name, *TXN[1:], [transactions.TxnTopic(topic, [0]) for topic in TOPICS]
            )
            for name in names
        ]
    )


def _commit() -> Request:
    asked = [groups.OffsetCommitPartition(0, 0)]
    return groups.OffsetCommitRequest(
        "team", -1, "", None, [groups.OffsetCommitTopic(topic, asked) for topic in TOPICS]
    )


def _commit_in_txn() -> Request:
    asked = [transactions.TxnOffsetCommitPartition(0, 0)]
    named = [transactions.TxnOffsetCommitTopic(topic, asked) for topic in TOPICS]
    return transactions.TxnOffsetCommitRequest(*TXN, "team", named)


def _named() -> list[groups.OffsetFetchTopic]:
    return [groups.OffsetFetchTopic(topic, [0]) for topic in TOPICS]


def _txn_topics() -> list[transactions.TxnTopic]:
    return [transactions.TxnTopic(topic, [0]) for topic in TOPICS]


Built = Request | tuple[Request, list[bytes]]

REQUESTS: dict[tuple[str, str], Callable[[], Built]] = {
    ("API_VERSIONS", ""): lambda: handshake.ApiVersionsRequest("test", "1"),
    ("AUTHENTICATE", ""): lambda: authentication.AuthenticateRequest("PLAIN", b""),
    ("PRODUCE", ""): lambda: _produce(False, None),
    ("PRODUCE", "idempotent"): lambda: _produce(True, None),
    ("PRODUCE", "transactional"): lambda: _produce(True, "payer"),
    ("FETCH", ""): lambda: _fetch(-1),
    ("FETCH", "replica"): lambda: _fetch(BROKER),
    ("LIST_OFFSETS", ""): _list_offsets,
    ("OFFSET_FOR_LEADER_EPOCH", ""): _epochs,
    ("DELETE_RECORDS", ""): _delete_records,
    ("METADATA", ""): lambda: metadata.MetadataRequest([*TOPICS]),
    ("METADATA", "all"): lambda: metadata.MetadataRequest(None),
    ("METADATA", "creation"): lambda: metadata.MetadataRequest(["fresh", "open"], True),
    ("DESCRIBE_CLUSTER", ""): metadata.DescribeClusterRequest,
    ("DESCRIBE_EVENTS", ""): events.DescribeEventsRequest,
    ("DESCRIBE_LOG", ""): lambda: log_description.DescribeLogRequest("orders", 0),
    ("CREATE_TOPICS", ""): lambda: _create("fresh"),
    ("CREATE_TOPICS", "there already"): lambda: _create("orders"),
    ("DELETE_TOPICS", ""): lambda: admin.DeleteTopicsRequest(["orders", "open-too"], 5000),
    ("CREATE_PARTITIONS", ""): lambda: admin.CreatePartitionsRequest(
        [admin.PartitionGrowth(topic, 3) for topic in TOPICS], 5000, True
    ),
    ("DESCRIBE_CONFIGS", ""): lambda: _configs(admin.RESOURCE_TOPIC, *TOPICS),
    ("DESCRIBE_CONFIGS", "broker"): lambda: _configs(admin.RESOURCE_BROKER, "1"),
    ("ALTER_CONFIGS", ""): lambda: _alter_configs(admin.RESOURCE_TOPIC, *TOPICS),
    ("ALTER_CONFIGS", "broker"): lambda: _alter_configs(admin.RESOURCE_BROKER, "1"),
    ("DESCRIBE_LOG_DIRS", ""): lambda: admin.DescribeLogDirsRequest(None),
    ("ALTER_REPLICA_LOG_DIRS", ""): lambda: admin.AlterReplicaLogDirsRequest([]),
    ("ELECT_LEADERS", ""): lambda: admin.ElectLeadersRequest(False, []),
    ("ALTER_PARTITION_REASSIGNMENTS", ""): lambda: moves.AlterPartitionReassignmentsRequest([]),
    ("LIST_PARTITION_REASSIGNMENTS", ""): moves.ListPartitionReassignmentsRequest,
    ("DESCRIBE_ACLS", ""): lambda: acls.DescribeAclsRequest(AclBindingFilter()),
    ("CREATE_ACLS", ""): lambda: acls.CreateAclsRequest([]),
    ("DELETE_ACLS", ""): lambda: acls.DeleteAclsRequest([]),
    ("DESCRIBE_USERS", ""): users.DescribeUsersRequest,
    ("ALTER_USERS", ""): lambda: users.AlterUsersRequest([]),
    ("BALANCE", ""): lambda: balance.BalanceRequest("balance"),
    ("ALTER_BROKER_STATES", ""): lambda: broker_states.AlterBrokerStatesRequest(1, "idle"),
    ("DESCRIBE_QUOTAS", ""): lambda: quotas.DescribeQuotasRequest(QuotaFilter()),
    ("ALTER_QUOTAS", ""): lambda: quotas.AlterQuotasRequest([]),
    ("INIT_PID", ""): transactions.InitPidRequest,
    ("INIT_PID", "transactional"): lambda: transactions.InitPidRequest("payer", 60_000),
    ("ADD_PARTITIONS_TO_TXN", ""): lambda: _add("payer"),
    ("ADD_PARTITIONS_TO_TXN", "many"): lambda: _add("payer", "other"),
    ("ADD_OFFSETS_TO_TXN", ""): lambda: transactions.AddOffsetsToTxnRequest(*TXN, "team"),
    ("TXN_OFFSET_COMMIT", ""): _commit_in_txn,
    ("END_TXN", ""): lambda: transactions.EndTxnRequest(*TXN, True),
    ("BEGIN_SHARED_TXN", ""): shared_transactions.BeginSharedTxnRequest,
    ("JOIN_TXN", ""): lambda: shared_transactions.JoinTxnRequest("payer", 1, 1, "w", 60_000),
    ("END_SHARED_TXN", ""): lambda: shared_transactions.EndSharedTxnRequest(
        "payer", 1, 1, False, []
    ),
    ("LIST_TRANSACTIONS", ""): transaction_admin.ListTransactionsRequest,
    ("DESCRIBE_TRANSACTIONS", ""): lambda: transaction_admin.DescribeTransactionsRequest(
        ["payer", "open"]
    ),
    ("DESCRIBE_PRODUCERS", ""): lambda: transaction_admin.DescribeProducersRequest(_txn_topics()),
    ("ABORT_TRANSACTION", ""): lambda: transaction_admin.AbortTransactionRequest(
        "orders", 0, *TXN[1:]
    ),
    ("FIND_COORDINATOR", ""): lambda: groups.FindCoordinatorRequest("team"),
    ("FIND_COORDINATOR", "transactional"): lambda: groups.FindCoordinatorRequest(
        "payer", groups.COORDINATOR_TRANSACTION
    ),
    ("FIND_COORDINATOR", "ordinals"): lambda: groups.FindCoordinatorRequest(
        shared_transactions.ORDINAL_KEY, groups.COORDINATOR_TRANSACTION
    ),
    ("JOIN_GROUP", ""): lambda: groups.JoinGroupRequest(
        "team", 10_000, 10_000, "", None, "consumer", [groups.GroupProtocol("range", b"")]
    ),
    ("SYNC_GROUP", ""): lambda: groups.SyncGroupRequest("team", 1, "m", None, None, None),
    ("HEARTBEAT", ""): lambda: groups.HeartbeatRequest("team", 1, "m", None),
    ("LEAVE_GROUP", ""): lambda: groups.LeaveGroupRequest("team", [groups.LeavingMember("m")]),
    ("OFFSET_COMMIT", ""): _commit,
    ("OFFSET_FETCH", ""): lambda: groups.OffsetFetchRequest("team", _named()),
    ("OFFSET_FETCH", "all"): lambda: groups.OffsetFetchRequest("team", None),
    ("DESCRIBE_GROUPS", ""): lambda: groups.DescribeGroupsRequest(["team", "open"], True),
    ("LIST_GROUPS", ""): groups.ListGroupsRequest,
    ("DELETE_GROUPS", ""): lambda: groups.DeleteGroupsRequest(["team", "open"]),
    ("OFFSET_DELETE", ""): lambda: groups.OffsetDeleteRequest("team", _named()),
    ("LEADER_AND_ISR", ""): lambda: replication.LeaderAndIsrRequest(BROKER, 0, 0, False, [AT], []),
    ("STOP_REPLICA", ""): lambda: replication.StopReplicaRequest(BROKER, 0, 0, []),
    ("UPDATE_METADATA", ""): lambda: replication.UpdateMetadataRequest(
        BROKER, 0, 0, False, [AT], []
    ),
    ("UPDATE_SECURITY", ""): lambda: security.UpdateSecurityRequest(BROKER, 0, 0, -1, 1),
    ("CONTROLLED_SHUTDOWN", ""): lambda: replication.ControlledShutdownRequest(BROKER, 0),
    ("ALTER_PARTITION", ""): lambda: replication.AlterPartitionRequest(BROKER, 0, []),
    ("ALLOCATE_PRODUCER_IDS", ""): lambda: transactions.AllocateProducerIdsRequest(BROKER, 0),
    ("BROKER_REPORT", ""): lambda: broker_reports.BrokerReportRequest(BROKER, 0, 1, -1, True),
    ("WRITE_TXN_MARKERS", ""): lambda: transactions.WriteTxnMarkersRequest(
        [transactions.TxnMarker(1, 0, 0, False, [transactions.TxnTopic("none", [0])])]
    ),
}
"""Each case of an API has a real request here, which its handler serves if it may."""


def request_of(row: MatrixRow) -> tuple[Request, list[bytes]]:
    """Return the row's request and its payload."""
    built = REQUESTS[row.api.name, row.case]()
    return built if isinstance(built, tuple) else (built, [])


def renamed(message: Any, names: Mapping[Any, Any]) -> Any:
    """Return a message with other names, or ids, in place of some."""
    if isinstance(message, str | int):
        return names.get(message, message)
    if isinstance(message, list):
        return [renamed(item, names) for item in message]
    if is_dataclass(message) and not isinstance(message, type):
        changed = {
            each.name: renamed(getattr(message, each.name), names) for each in fields(message)
        }
        return replace(message, **changed)
    return message


# ---- answers


def outcome(message: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield (name of a resource, error code) for each error code in an answer; the whole one's name
    is empty."""
    if isinstance(message, list):
        for item in message:
            yield from outcome(item, name)
    elif is_dataclass(message):
        for field in ("topic", "group_id", "transactional_id", "resource_name"):
            name = getattr(message, field, name) or name
        yield name, getattr(message, "error_code", 0)
        for each in fields(message):
            yield from outcome(getattr(message, each.name), name)


def codes_of(response: Any) -> set[tuple[str, int]]:
    """Return what is refused in an answer: (resource or empty, code)."""
    return {found for found in outcome(response) if found[1] in CODES.values()}


def is_refused(response: Any, need: Need) -> bool:
    """Return whether an answer says that ``need`` is not met, where the row says, and no more."""
    refused = codes_of(response)
    if need.refused == "whole":
        return refused == {("", need.code)}
    if need.refused == "item":
        return refused == {(need.name, need.code)}
    if need.refused == "left out":
        return not refused and repr(need.name) not in repr(response)
    assert need.refused == "absent"
    return not refused and (need.name, ABSENT) in set(outcome(response))


def is_allowed(response: Any, row: MatrixRow) -> bool:
    """Return whether nothing in an answer is refused, left out or absent."""
    if codes_of(response):
        return False
    for need in row.needs:
        if need.refused == "left out" and repr(need.name) not in repr(response):
            return False
        if need.refused == "absent" and (need.name, ABSENT) in set(outcome(response)):
            return False
    return True
