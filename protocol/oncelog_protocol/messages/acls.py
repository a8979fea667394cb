"""ACLs are listed, made and taken back by these messages; any broker but the controller answers
NOT_CONTROLLER.

Whole-request errors of all: CLUSTER_AUTHORIZATION_FAILED, and SECURITY_DISABLED where nobody can
authenticate and brokers do not decide by ACLs. A change that not all brokers have acknowledged in
time is REQUEST_TIMED_OUT: it is made, and they will be told it until they do. ``version`` counts
the changes of what the cluster has for its security.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.acls import AclBinding, AclBindingFilter
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Text, message

ACKNOWLEDGE_TIMEOUT_MS = 30_000
"""A change is answered when all brokers decide by it, or after so long, if nobody says else."""


@message
class DescribeAclsResponse:
    """Its errors, besides, are INVALID_REQUEST."""

    error_code: Int16 = 0
    error_message: Text | None = None
    entries: list[AclBinding] = field(default_factory=list)
    version: Int64 = 0


@message
class DescribeAclsRequest(Request):
    """It asks for the ACLs that a filter chooses."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_ACLS
    response: ClassVar[type] = DescribeAclsResponse

    wanted: AclBindingFilter


@message
class CreatedAcl:
    """Its errors are INVALID_REQUEST (the entry could not do what it says), POLICY_VIOLATION (too
    many). One that is there already is no error."""

    error_code: Int16 = 0
    error_message: Text | None = None


@message
class CreateAclsResponse:
    """It has a result for each entry, in order."""

    error_code: Int16 = 0
    results: list[CreatedAcl] = field(default_factory=list)
    version: Int64 = 0
    unacknowledged: list[Int32] = field(default_factory=list)
    """Brokers that had not acknowledged it when the time was over (REQUEST_TIMED_OUT)."""


@message
class CreateAclsRequest(Request):
    """It adds ACLs; ``validate_only`` only says what would be refused."""

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    response: ClassVar[type] = CreateAclsResponse

    entries: list[AclBinding]
    validate_only: bool = False
    timeout_ms: Int32 = ACKNOWLEDGE_TIMEOUT_MS


@message
class DeletedAcls:
    """It lists what a filter has chosen. Its errors are INVALID_REQUEST."""

    error_code: Int16 = 0
    error_message: Text | None = None
    entries: list[AclBinding] = field(default_factory=list)


@message
class DeleteAclsResponse:
    """It has a result for each filter, in order. An entry that two of them choose is listed with
    the first."""

    error_code: Int16 = 0
    results: list[DeletedAcls] = field(default_factory=list)
    version: Int64 = 0
    unacknowledged: list[Int32] = field(default_factory=list)
    """Brokers that had not acknowledged it when the time was over (REQUEST_TIMED_OUT)."""


@message
class DeleteAclsRequest(Request):
    """It takes back the ACLs that filters choose; ``validate_only`` only says which."""

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    response: ClassVar[type] = DeleteAclsResponse

    filters: list[AclBindingFilter]
    validate_only: bool = False
    timeout_ms: Int32 = ACKNOWLEDGE_TIMEOUT_MS
