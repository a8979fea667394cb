"""A quota says how much of something a user or a client id may have of each broker in a second.

Names and meanings are Kafka's (KIP-13, KIP-55, KIP-124, KIP-219, KIP-599), with these differences:

* ``request_rate`` stands instead of ``request_percentage``. It counts units of work, by a table of
  prices, and no time.
* A quota of 0 stops what it counts. A number that is none is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_protocol.acls import PRINCIPAL_CHARS_MAX
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.limits import NAME_CHARS_MAX
from oncelog_protocol.messages.base import ApiKey

PRODUCER_BYTE_RATE = "producer_byte_rate"
"""Bytes of batches that are written, in a second."""
CONSUMER_BYTE_RATE = "consumer_byte_rate"
"""Bytes of batches that are read, in a second."""
REQUEST_RATE = "request_rate"
"""Units of work that requests take, in a second."""
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
"""Partitions that are created or deleted, in a second (KIP-599)."""

QUOTA_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_RATE, CONTROLLER_MUTATION_RATE)

DEFAULT_ENTITY = ""
"""As a user or a client id it stands for each one that has no quota of its own."""

QUOTA_VALUE_MAX = 2**63 - 1

NEVER_HELD = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.END_SHARED_TXN,
        ApiKey.ABORT_TRANSACTION,
    }
)
"""These go on while a connection is held: without them a group would lose its member, and a
transaction would hold up its readers."""


@dataclass(frozen=True, slots=True)
class Quota:
    """It is one quota: whose, of what, how much a second.

    ``user`` and ``client_id`` may be a name, ``DEFAULT_ENTITY``, or None: then it does not count.
    """

    user: str | None
    client_id: str | None
    key: str
    value: float

    def checked(self) -> Quota:
        """Return it, as it is one that can be kept.

        :raises InvalidRequestError: it is of nobody, of a name that cannot be, of nothing that is
            counted, or its value is no number from 0 to 2^63 - 1.
        """
        if self.user is None and self.client_id is None:
            raise InvalidRequestError("a quota is of a user, of a client id, or of both")
        _check_name("user", self.user, PRINCIPAL_CHARS_MAX)
        _check_name("client id", self.client_id, NAME_CHARS_MAX)
        if self.key not in QUOTA_KEYS:
            raise InvalidRequestError(f"quota {self.key[:64]!r}: not one of {QUOTA_KEYS}")
        if type(self.value) not in (int, float) or not 0 <= self.value <= QUOTA_VALUE_MAX:
            raise InvalidRequestError(f"{self.key}: the value is not a number from 0 to 2^63 - 1")
        return self


def _check_name(what: str, name: str | None, chars_max: int) -> None:
    if name is not None and (len(name) > chars_max or not name.isprintable()):
        raise InvalidRequestError(f"{what} {name[:64]!r}: not printable text, or too long")
