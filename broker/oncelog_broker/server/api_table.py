"""Here is a table of the APIs that a broker only checks and hands on to a method of a service.

Columns: the API; what it needs, which is an operation on a resource and where the message names the
resource; the kind of its handler; the service's method. The services refuse all else, with the
errors that the messages' modules list. An API that does more has a file in ``handlers``, and asks
the authorizer there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.server.access import BETWEEN_BROKERS, CREATE_TOPIC, PRODUCER_ID, Access
from oncelog_broker.server.authorizer import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Authorizer,
)
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.handlers.handed_on import (
    BrokerToController,
    HandedOn,
    HandedOnUnderId,
    HandedOnWithKind,
    HandedOnWithPeer,
    Listed,
    ToController,
    TopicsToController,
)
from oncelog_broker.server.request import AsyncHandler, Handler
from oncelog_protocol.messages.base import ApiKey

S = TypeVar("S")
H = TypeVar("H", covariant=True)


@dataclass(frozen=True, slots=True)
class ApiRow(Generic[S, H]):
    """It is one API, served by a handler of kind ``H`` from a service ``S``."""

    api: ApiKey
    access: Access
    kind: Callable[[Access, Callable[..., Any], Authorizer], H]
    method: Callable[[S], Callable[..., Any]]
    """It picks the method of the service, once, when handlers are made."""


def handlers(rows: Iterable[ApiRow[S, H]], service: S, authorizer: Authorizer) -> dict[ApiKey, H]:
    """Return a handler for each row."""
    return {row.api: row.kind(row.access, row.method(service), authorizer) for row in rows}


_READ_GROUP = Access(READ, GROUP, "group_id")

GROUPS: tuple[ApiRow[GroupCoordinator, Handler], ...] = (
    # Parked until the round is complete.
    ApiRow(ApiKey.JOIN_GROUP, _READ_GROUP, HandedOnWithPeer, lambda groups: groups.join),
    # Parked until the leader's assignments are durable.
    ApiRow(ApiKey.SYNC_GROUP, _READ_GROUP, HandedOn, lambda groups: groups.sync),
    ApiRow(ApiKey.HEARTBEAT, _READ_GROUP, HandedOn, lambda groups: groups.heartbeat),
    # Answered at once, or when a group that is empty now is known to be.
    ApiRow(ApiKey.LEAVE_GROUP, _READ_GROUP, HandedOn, lambda groups: groups.leave),
    # COORDINATOR_LOAD_IN_PROGRESS stands beside what is known already.
    ApiRow(
        ApiKey.LIST_GROUPS,
        Access(DESCRIBE, GROUP, "groups[].group_id", or_cluster=True),
        Listed,
        lambda groups: lambda request: groups.list_groups(request.states),
    ),
)

_WRITE_ID = Access(WRITE, TRANSACTIONAL_ID, "transactional_id")

TRANSACTIONS: tuple[ApiRow[TransactionCoordinator, Handler], ...] = (
    # Answered when the end is decided for good.
    ApiRow(ApiKey.END_TXN, _WRITE_ID, HandedOnWithKind, lambda transactions: transactions.end_txn),
    ApiRow(
        ApiKey.BEGIN_SHARED_TXN,
        PRODUCER_ID,
        HandedOn,
        lambda transactions: transactions.begin_shared,
    ),
    ApiRow(ApiKey.JOIN_TXN, _WRITE_ID, HandedOnUnderId, lambda transactions: transactions.join),
    ApiRow(
        ApiKey.END_SHARED_TXN,
        _WRITE_ID,
        HandedOnUnderId,
        lambda transactions: transactions.end_shared,
    ),
    # COORDINATOR_LOAD_IN_PROGRESS stands beside what is known already.
    ApiRow(
        ApiKey.LIST_TRANSACTIONS,
        Access(DESCRIBE, TRANSACTIONAL_ID, "transactions[].transactional_id"),
        Listed,
        lambda transactions: transactions.list,
    ),
)

CONTROLLER: tuple[ApiRow[ControllerRequests, AsyncHandler], ...] = (
    # Any broker but the controller answers NOT_CONTROLLER.
    ApiRow(
        ApiKey.CREATE_TOPICS,
        CREATE_TOPIC,
        TopicsToController,
        lambda requests: requests.topics,
    ),
    ApiRow(
        ApiKey.DELETE_TOPICS,
        Access(DELETE, TOPIC, "topics[]"),
        TopicsToController,
        lambda requests: requests.topics,
    ),
    ApiRow(
        ApiKey.CREATE_PARTITIONS,
        Access(ALTER, TOPIC, "topics[].topic"),
        TopicsToController,
        lambda requests: requests.topics,
    ),
    ApiRow(
        ApiKey.ELECT_LEADERS,
        Access(ALTER, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.BALANCE,
        Access(DESCRIBE, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    # A broker is taken out of service, or back.
    ApiRow(
        ApiKey.ALTER_BROKER_STATES,
        Access(ALTER, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        Access(ALTER, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        Access(DESCRIBE, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.DESCRIBE_ACLS,
        Access(DESCRIBE, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.CREATE_ACLS,
        Access(ALTER, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.DELETE_ACLS,
        Access(ALTER, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.DESCRIBE_USERS,
        Access(DESCRIBE, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.DESCRIBE_QUOTAS,
        Access(DESCRIBE_CONFIGS, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    ApiRow(
        ApiKey.ALTER_QUOTAS,
        Access(ALTER_CONFIGS, CLUSTER),
        ToController,
        lambda requests: requests.asked,
    ),
    # Partition leaders ask for other ISRs.
    ApiRow(
        ApiKey.ALTER_PARTITION,
        BETWEEN_BROKERS,
        BrokerToController,
        lambda requests: requests.controller.handle,
    ),
    # A broker that stops has its leaderships moved.
    ApiRow(
        ApiKey.CONTROLLED_SHUTDOWN,
        BETWEEN_BROKERS,
        BrokerToController,
        lambda requests: requests.controller.handle,
    ),
    # A broker asks for a block of producer ids.
    ApiRow(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        BETWEEN_BROKERS,
        BrokerToController,
        lambda requests: requests.controller.handle,
    ),
    # A broker tells what it holds.
    ApiRow(
        ApiKey.BROKER_REPORT,
        BETWEEN_BROKERS,
        BrokerToController,
        lambda requests: requests.controller.handle,
    ),
)
