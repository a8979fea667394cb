"""An API needs an operation on a resource, and its request names the resource: both as data.

The table of APIs (``api_table``) holds an ``Access`` for each row. Handlers ask the authorizer
by it, and so can whoever is put in front of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DESCRIBE,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Authorizer,
)
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acl_state import NOT_ALLOWED, AclDecision
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)

MAY_WRITE = AclDecision(True, None, "the principal may WRITE some topic")


@dataclass(frozen=True, slots=True)
class Access:
    """It is one operation on the resources of one type that a message names."""

    operation: str
    resource_type: str
    name: str = ""
    """It says where the names are: ``group_id`` is a field, ``topics[].topic`` is a field of each
    item of a list, ``topics[]`` are the items themselves; empty for the cluster, which has one
    name."""
    or_cluster: bool = False
    """Whether the same operation on the cluster lets all of them pass that are not denied."""
    or_broker: bool = False
    """Whether brokers may as well: they ask for their own work, and have nothing but
    CLUSTER_ACTION."""
    or_writer: bool = False
    """Whether who may write to some topic may as well, unless it is denied (KIP-679)."""

    def allows(
        self, authorizer: Authorizer, context: RequestContext, name: str = CLUSTER_NAME
    ) -> bool:
        """Return whether the principal of ``context`` may do the operation to the resource
        ``name``; if not, that goes on record."""
        if self.decision(authorizer, context, name).allowed:
            return True
        return authorizer.authorize(context, self.operation, self.resource_type, name)

    def demand(self, authorizer: Authorizer, context: RequestContext) -> None:
        """Let the principal of ``context`` pass if it may do the operation to the cluster.

        :raises ApiError: it may not; the error is :attr:`refusal`.
        """
        if not self.allows(authorizer, context):
            raise self.refusal

    def decision(
        self, authorizer: Authorizer, context: RequestContext, name: str = CLUSTER_NAME
    ) -> AclDecision:
        """Return whether the principal of ``context`` may do the operation to the resource
        ``name``, and what decides it. What else lets it pass never wins over a DENY of the
        operation."""
        if self.or_broker and context.is_broker:
            of_brokers = authorizer.decision(context, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
            if of_brokers.allowed:
                return of_brokers
        decision = authorizer.decision(context, self.operation, self.resource_type, name)
        if decision.allowed or not (self.or_cluster or self.or_writer):
            return decision
        implied = NOT_ALLOWED
        if self.or_cluster:
            implied = authorizer.decision(context, self.operation, CLUSTER, CLUSTER_NAME)
        if (
            not implied.allowed
            and self.or_writer
            and authorizer.authorize_any(context, WRITE, TOPIC)
        ):
            implied = MAY_WRITE
        denied = authorizer.denies(context, self.operation, self.resource_type, name)
        return implied if implied.allowed and not denied else decision

    @property
    def items(self) -> str:
        """Return the field with the list, or an empty text when the message names one resource."""
        field, is_list, _ = self.name.partition("[]")
        return field if is_list else ""

    def one(self) -> Callable[[Any], str]:
        """Return what reads the resource's name from a message."""
        if not self.name:
            return lambda message: CLUSTER_NAME
        return attrgetter(self.name)

    def each(self) -> Callable[[Any], str]:
        """Return what reads a resource's name from one item of the list."""
        field = self.name.partition("[].")[2]
        if not field:
            return str
        return attrgetter(field)

    @property
    def refusal(self) -> type[ApiError]:
        """Return the error for who may not."""
        return _REFUSALS[self.resource_type]


PRODUCER_ID = Access(IDEMPOTENT_WRITE, CLUSTER, or_writer=True)
"""A producer id needs it, and so does a shared transaction: both make durable records."""

CREATE_TOPIC = Access(CREATE, TOPIC, "topics[].topic", or_cluster=True, or_broker=True)

SEE_TOPIC = Access(DESCRIBE, TOPIC, or_broker=True)
"""It is needed to see a topic, which looks to all others as if it were not there."""

READ_TOPIC = Access(READ, TOPIC, or_broker=True)

SEE_CLUSTER = Access(DESCRIBE, CLUSTER, or_broker=True)

BETWEEN_BROKERS = Access(CLUSTER_ACTION, CLUSTER)
"""The dispatcher asks for it before any handler, for every API between brokers."""

_REFUSALS: dict[str, type[ApiError]] = {
    CLUSTER: ClusterAuthorizationFailedError,
    GROUP: GroupAuthorizationFailedError,
    TOPIC: TopicAuthorizationFailedError,
    TRANSACTIONAL_ID: TransactionalIdAuthorizationFailedError,
}
