"""The controller tells brokers by UpdateSecurity what they decide by.

It is an order as those of ``replication``, and fenced like them. What it carries has one version,
which grows with each change: of the ACLs, of users, and of quotas.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.acls import AclBinding
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.quotas import EntityQuotas
from oncelog_protocol.sasl.user import Key, UserRow
from oncelog_protocol.schema import Int16, Int32, Int64, Name, message

FULL = -1
"""It stands instead of the version that a change is to: everything is listed."""


@message
class PatternAcls:
    """It has all ACLs of one pattern; none ends it."""

    resource_type: Name
    pattern_type: Name
    name: Name
    entries: list[AclBinding]


@message
class UpdateSecurityResponse:
    """It tells the version that the broker has now, and whether it wants to be told everything: the
    change was to another version than it had. Its errors are STALE_CONTROLLER_EPOCH,
    STALE_BROKER_EPOCH, NOT_CONTROLLER, BROKER_NOT_AVAILABLE, INVALID_REQUEST (a slice without
    those before it, or an ACL or a quota that cannot be) and UNACCEPTABLE_CREDENTIAL."""

    error_code: Int16 = 0
    version: Int64 = -1
    wants_full: bool = False


@message
class UpdateSecurityRequest(Request):
    """It lists what has changed from version ``base`` to ``version``, or with ``base`` -1 all that
    there is, which may come in slices from the ``first`` to the ``last``."""

    api_key: ClassVar[ApiKey] = ApiKey.UPDATE_SECURITY
    response: ClassVar[type] = UpdateSecurityResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "controller_id"

    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    base: Int64
    version: Int64
    acls: list[PatternAcls] = field(default_factory=list)
    first: bool = True
    last: bool = True
    users: list[UserRow] = field(default_factory=list)
    """One without credentials is deleted."""
    secret: Key = field(default=b"", repr=False)
    """It is the cluster's, from which names without a user get their salts; with everything."""
    quotas: list[EntityQuotas] = field(default_factory=list)
    """One without values is deleted."""
