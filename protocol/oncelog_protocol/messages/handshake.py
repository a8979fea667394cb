"""ApiVersions: the first exchange on every connection, and the only one with a frozen version 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Name


@dataclass(slots=True)
class ApiVersionRange:
    """One API that the broker speaks, and from which to which version."""

    api_key: Int16
    version_min: Int16
    version_max: Int16


@dataclass(slots=True)
class ApiVersionsResponse:
    """Errors: UNSUPPORTED_VERSION when the request's own version is not spoken; the list is
    filled all the same, so that the client can choose."""

    error_code: Int16 = 0
    apis: list[ApiVersionRange] = field(default_factory=list)


@dataclass(slots=True)
class ApiVersionsRequest(Request):
    """Which software asks, for the broker's log."""

    api_key: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    response: ClassVar[type] = ApiVersionsResponse

    software_name: Name = "oncelog-python"
    software_version: Name = ""
