"""The authorizer port decides whether a principal may do something to a resource.

Handlers ask before they act. Operations and resource types carry Kafka's names. The only version
for now allows everything; the one with ACLs comes with authentication.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_broker.server.request import RequestContext

CLUSTER = "CLUSTER"
TOPIC = "TOPIC"
GROUP = "GROUP"
TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
CLUSTER_NAME = "oncelog-cluster"

READ = "READ"
WRITE = "WRITE"
CREATE = "CREATE"
DELETE = "DELETE"
ALTER = "ALTER"
DESCRIBE = "DESCRIBE"
CLUSTER_ACTION = "CLUSTER_ACTION"
DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
ALTER_CONFIGS = "ALTER_CONFIGS"

ANONYMOUS = "User:ANONYMOUS"
"""A connection that did not authenticate has this principal, as in Kafka."""


class Authorizer(Protocol):
    """It decides; it must be quick, since it is called on the request path."""

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return whether the principal of ``context`` may do ``operation`` to the resource."""
        ...


class AllowAllAuthorizer:
    """It allows everything."""

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return true, always."""
        return True
