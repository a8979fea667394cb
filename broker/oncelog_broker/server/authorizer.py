"""The authorizer port decides whether a principal may do something to a resource.

Handlers ask before they act. Operations and resource types carry Kafka's names. The only version
for now allows everything; the one with ACLs comes with authentication.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_broker.server.request import RequestContext
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
        """Return whether the principal of ``context`` may do ``operation`` to the resource."""
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


class AllowAllAuthorizer:
    """It allows everything."""

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return true, always."""
        return True

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
