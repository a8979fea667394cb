"""ApiVersions is the first exchange on every connection, and alone has a frozen version 0.

From version 1 on both ends say who they are: the asker names the cluster and the broker that it
means, as far as it knows them, and itself if it is a broker; the answer names the broker that is
there. What does not fit is refused by both ends, with REBOOTSTRAP_REQUIRED, before anything else is
served. An answer with UNSUPPORTED_VERSION is always encoded as version 0; the asker then asks once
more, with the highest version that the answer offers for ApiVersions, or 0. On a listener between
brokers version 0 is refused.

From version 2 on the answer says how the asker is known, once it is: one that authenticates by SASL
asks again afterwards, if it wants to know. Its asker takes ``throttle_ms`` as a third element of
the heads of responses.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Name, message, since
from oncelog_protocol.types import NO_BROKER


@message
class ApiVersionRange:
    """It names one API that the broker speaks, with its first and last version."""

    api_key: Int16
    version_min: Int16
    version_max: Int16


@message
class ApiVersionsResponse:
    """Its error is UNSUPPORTED_VERSION when the request's own version is not spoken; the list is
    filled all the same, so that the client can choose. REBOOTSTRAP_REQUIRED when another broker or
    another cluster was meant than ``broker_id`` and ``cluster_id`` say; the connection ends."""

    error_code: Int16 = 0
    apis: list[ApiVersionRange] = field(default_factory=list)
    cluster_id: Name = since(1, default="")
    broker_id: Int32 = since(1, default=NO_BROKER)
    principal: Name = since(2, default="")
    """The asker is this user; "": nobody knows yet."""
    authenticated_by: Name = since(2, default="")
    """A mechanism of SASL, or CERTIFICATE; "": by nothing."""
    listener: Name = since(2, default="")
    authorizer: Name = since(2, default="")
    """It is "none" or "acl", as the setting; "": not told to a peer that is not known."""


@message
class ApiVersionsRequest(Request):
    """It says which software asks, for the broker's log, and whom it means: ``cluster_id`` ("": not
    known) and ``broker_id`` (-1: not known). ``own_broker_id`` is the asker's (-1: a client)."""

    api_key: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    response: ClassVar[type] = ApiVersionsResponse

    software_name: Name = "oncelog-python"
    software_version: Name = ""
    cluster_id: Name = since(1, default="")
    broker_id: Int32 = since(1, default=NO_BROKER)
    own_broker_id: Int32 = since(1, default=NO_BROKER)
