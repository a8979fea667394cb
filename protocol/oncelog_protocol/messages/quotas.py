"""Quotas are listed and changed by these messages; any broker but the controller answers
NOT_CONTROLLER.

They are Kafka's DescribeClientQuotas and AlterClientQuotas (KIP-546). Whole-request errors of all:
CLUSTER_AUTHORIZATION_FAILED, and SECURITY_DISABLED where nobody can authenticate and brokers do
not decide by ACLs. A change that not all brokers have acknowledged in time is REQUEST_TIMED_OUT: it
is made, and they will be told it until they do. ``version`` counts the changes of what the cluster
has for its security.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.acls import ACKNOWLEDGE_TIMEOUT_MS
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.quotas import EntityQuotas, QuotaFilter
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message


@message
class DescribeQuotasResponse:
    """It lists the quotas of the entities that the filter chooses."""

    error_code: Int16 = 0
    error_message: Text | None = None
    quotas: list[EntityQuotas] = field(default_factory=list)
    version: Int64 = 0


@message
class DescribeQuotasRequest(Request):
    """It asks for the quotas of the entities that a filter chooses."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_QUOTAS
    response: ClassVar[type] = DescribeQuotasResponse

    wanted: QuotaFilter


@message
class QuotaChange:
    """It says what one quota is to be; nil takes it away, also when there is none."""

    user: Name | None
    client_id: Name | None
    address: Name | None
    key: Name
    value: float | None


@message
class AlteredQuota:
    """It says what became of one change. Its errors are INVALID_REQUEST (there can be no such
    entity, key or value) and POLICY_VIOLATION (too many quotas)."""

    error_code: Int16 = 0
    error_message: Text | None = None


@message
class AlterQuotasResponse:
    """It has a result for each change, in order."""

    error_code: Int16 = 0
    results: list[AlteredQuota] = field(default_factory=list)
    version: Int64 = 0
    unacknowledged: list[Int32] = field(default_factory=list)
    """Brokers that had not acknowledged it when the time was over (REQUEST_TIMED_OUT)."""


@message
class AlterQuotasRequest(Request):
    """It changes quotas; ``validate_only`` only says what would be refused."""

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_QUOTAS
    response: ClassVar[type] = AlterQuotasResponse

    changes: list[QuotaChange]
    validate_only: bool = False
    timeout_ms: Int32 = ACKNOWLEDGE_TIMEOUT_MS
