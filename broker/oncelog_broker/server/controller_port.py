"""The server sees the controller through this port: a request in, a response out.

The server may not import the controller's package; the application hands in the controller's
runner, which has this shape. A runner that is not the active controller answers with NOT_CONTROLLER
inside the response.
"""

from __future__ import annotations

from typing import Any, Protocol

from oncelog_protocol.messages.base import ApiKey, Request

CONTROLLER_APIS = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.BALANCE,
    ApiKey.ALTER_BROKER_STATES,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_USERS,
    ApiKey.ALTER_USERS,
    ApiKey.ALTER_PARTITION,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.BROKER_REPORT,
)
"""The port serves these."""


class ControllerPort(Protocol):
    """It is the controller of this process, active or not."""

    async def handle(self, request: Request, *, internal: bool = False, asker: str = "") -> Any:
        """Serve one of :data:`CONTROLLER_APIS` and return its response message. ``internal`` means
        that it came from a broker, which may touch internal topics. ``asker`` is the principal that
        asks, for what is kept with the name of whoever wanted it; "": a part of this process."""
        ...
