"""Which clients of Kafka can have transactions here is told by one function. Pure.

Newer clients give each transaction an epoch of its own (KIP-890, ``transaction.version`` 2), as
ours do. Nothing in a request says so: it is told by the versions that a client speaks. The software
that speaks new ones and ends its transactions in the old way all the same is told by its name
(KIP-511).
"""

from __future__ import annotations

import re
from typing import Final

from oncelog_protocol.errors import TransactionalIdAuthorizationFailedError, UnsupportedVersionError
from oncelog_protocol.messages.base import ApiKey

SPOKEN_SINCE: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.INIT_PID: 5,
    ApiKey.END_TXN: 5,
    ApiKey.TXN_OFFSET_COMMIT: 5,
}
"""Newer clients speak each of these APIs in this version at least, by API key."""

MAJOR_SINCE: Final[dict[str, int | None]] = {"apache-kafka-java": 4, "kafka-python": None}
"""These begin with the newer way in this major version; None: in none yet."""

REFUSAL: Final = "transactions of this client are not served: it does not know KIP-890"

_MAJOR = re.compile(r"\d+")


def ends_by_epoch(api_key: int, version: int, software: tuple[str, str]) -> bool:
    """Return whether a client may give each of its transactions an epoch of its own.

    :param api_key: the API in which it asks, of those that transactions need.
    :param software: the name and version that it has told; both "" if it has not.
    """
    if version < SPOKEN_SINCE[api_key]:
        return False
    name, told = software
    if name not in MAJOR_SINCE:
        return True
    since, major = MAJOR_SINCE[name], _MAJOR.match(told)
    return since is not None and (major is None or int(major[0]) >= since)


def ends_by_number(api_key: int, version: int, software: tuple[str, str]) -> bool:
    """Return whether a request is one of a transaction that leaves its producer's epoch as it is.
    Newer clients never add partitions or groups themselves.

    :param software: as :func:`ends_by_epoch` has it.
    """
    if api_key in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN):
        return True
    return api_key in SPOKEN_SINCE and not ends_by_epoch(api_key, version, software)


def refusal_code(software: tuple[str, str]) -> int:
    """Return the error with which a client gives up at once that cannot have transactions.

    librdkafka asks again and again after any other than this one. Its bindings have names of their
    own, and name it in their version.
    """
    if "rdkafka" in "".join(software):
        return TransactionalIdAuthorizationFailedError.code
    return UnsupportedVersionError.code
