"""The authorizer port decides whether a principal may do something to a resource.

Handlers ask before they act. Operations and resource types carry Kafka's names. What ``authorize``
refuses goes on record as a denial: it is for what a request names. ``decision`` is for the rest,
such as what is only left out of a list, and for rights that another one may stand in for.

One version allows everything; the one with ACLs is ``acl_authorizer``.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acl_state import NOT_ALLOWED, AclDecision
from oncelog_protocol.acls import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)


class Authorizer(Protocol):
    """It decides; it must be quick, since it is called on the request path."""

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return whether the principal of ``context`` may do ``operation`` to the resource; if not,
        that goes on record."""
        ...

    def decision(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> AclDecision:
        """Return whether the principal of ``context`` may do ``operation`` to the resource, and
        what decides it. Nothing goes on record."""
        ...

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        """Return whether there may be a resource of the type to which the principal may do
        ``operation``, whatever its name is (KIP-679)."""
        ...

    def denies(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return whether an ACL denies ``operation`` to the principal, so that another right must
        not imply it; false where it is only not allowed."""
        ...


WITHOUT_ACLS = AclDecision(True, None, "authorizer=none")


class AllowAllAuthorizer:
    """It allows everything."""

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return true, always."""
        return True

    def decision(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> AclDecision:
        """Return what ``authorize`` does; no ACL decides."""
        allowed = self.authorize(context, operation, resource_type, resource_name)
        return WITHOUT_ACLS if allowed else NOT_ALLOWED

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        """Return true, always."""
        return True

    def denies(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return false, always."""
        return False


__all__ = [
    "ALL",
    "ALTER",
    "ALTER_CONFIGS",
    "CLUSTER",
    "CLUSTER_ACTION",
    "CLUSTER_NAME",
    "CREATE",
    "DELETE",
    "DESCRIBE",
    "DESCRIBE_CONFIGS",
    "GROUP",
    "IDEMPOTENT_WRITE",
    "READ",
    "TOPIC",
    "TRANSACTIONAL_ID",
    "WRITE",
    "AllowAllAuthorizer",
    "Authorizer",
]
