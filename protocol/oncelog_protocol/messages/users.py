"""Users are listed and changed by these messages; any broker but the controller answers
NOT_CONTROLLER.

A password is in none of them: whoever sets it computes what the cluster keeps of it
(``oncelog_protocol.sasl.credential``). No answer has a key.

Whole-request errors of all: CLUSTER_AUTHORIZATION_FAILED, and SECURITY_DISABLED where nobody can
authenticate and brokers do not decide by ACLs. A change that not all brokers have acknowledged in
time is REQUEST_TIMED_OUT: it is made, and they will be told it until they do. ``version`` counts
the changes of what the cluster has for its security.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.acls import ACKNOWLEDGE_TIMEOUT_MS
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.sasl.user import CredentialRow
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message

CREATE = "CREATE"
SET_PASSWORD = "SET_PASSWORD"
DELETE = "DELETE"
DISABLE = "DISABLE"
ENABLE = "ENABLE"


@message
class DescribedMechanism:
    """It says that a user has a password for a mechanism."""

    mechanism: Name
    iterations: Int32


@message
class DescribedUser:
    """It is one user. Its errors are RESOURCE_NOT_FOUND."""

    name: Name
    error_code: Int16 = 0
    error_message: Text | None = None
    mechanisms: list[DescribedMechanism] = field(default_factory=list)
    """None: what the store has of the user cannot be read."""
    disabled: bool = False


@message
class DescribeUsersResponse:
    """It lists users by their names, or in the order in which they were asked for."""

    error_code: Int16 = 0
    error_message: Text | None = None
    users: list[DescribedUser] = field(default_factory=list)
    version: Int64 = 0


@message
class DescribeUsersRequest(Request):
    """It asks for users by their names, or with nil for all."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_USERS
    response: ClassVar[type] = DescribeUsersResponse

    names: list[Name] | None = None


@message
class AlteredUser:
    """It says what became of one wish. Its errors are RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE (there
    is such a user, with another password), UNACCEPTABLE_CREDENTIAL, CLUSTER_AUTHORIZATION_FAILED (a
    user who is as mighty as a super user or a broker is altered by super users only),
    POLICY_VIOLATION (too many users) and INVALID_REQUEST."""

    name: Name
    error_code: Int16 = 0
    error_message: Text | None = None


@message
class AlterUsersResponse:
    """It has a result for each wish, in order."""

    error_code: Int16 = 0
    results: list[AlteredUser] = field(default_factory=list)
    version: Int64 = 0
    unacknowledged: list[Int32] = field(default_factory=list)
    """Brokers that had not acknowledged it when the time was over (REQUEST_TIMED_OUT)."""


@message
class UserWish:
    """It says what is to become of one user.

    CREATE makes the user, a new password changes one that is there; either way it has these
    credentials from then on, and no others, so that an old password is good for no mechanism.
    DELETE, DISABLE and ENABLE have none.
    """

    name: Name
    action: Name
    credentials: list[CredentialRow] = field(default_factory=list)


@message
class AlterUsersRequest(Request):
    """It changes users; ``validate_only`` only says what would be refused. Whoever may not alter
    the cluster may set its own password."""

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_USERS
    response: ClassVar[type] = AlterUsersResponse

    wishes: list[UserWish]
    validate_only: bool = False
    timeout_ms: Int32 = ACKNOWLEDGE_TIMEOUT_MS
