"""Error codes of ours become those that a client of Kafka knows in its version. Pure.

Our numbers are Kafka's, so nearly all stay. The exceptions are codes that came to an API with a
later version, those above 999, which are ours alone, and REQUEST_TIMED_OUT of a coordinator.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortableError,
    UnknownServerError,
)
from oncelog_protocol.messages.base import ApiKey

OWN_CODES_FROM: Final = 1000
"""Codes from here on are not of Kafka."""

_KNOWN_SINCE: Final[dict[tuple[int, int], tuple[int, int]]] = {
    (ApiKey.INIT_PID, ProducerFencedError.code): (4, InvalidProducerEpochError.code),
    (ApiKey.INIT_PID, TransactionAbortableError.code): (5, InvalidTxnStateError.code),
    (ApiKey.END_TXN, ProducerFencedError.code): (2, InvalidProducerEpochError.code),
    (ApiKey.END_TXN, TransactionAbortableError.code): (4, InvalidTxnStateError.code),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ProducerFencedError.code): (2, InvalidProducerEpochError.code),
    (ApiKey.ADD_PARTITIONS_TO_TXN, TransactionAbortableError.code): (5, InvalidTxnStateError.code),
    (ApiKey.ADD_OFFSETS_TO_TXN, ProducerFencedError.code): (2, InvalidProducerEpochError.code),
    (ApiKey.ADD_OFFSETS_TO_TXN, TransactionAbortableError.code): (4, InvalidTxnStateError.code),
    (ApiKey.TXN_OFFSET_COMMIT, TransactionAbortableError.code): (4, InvalidTxnStateError.code),
    (ApiKey.PRODUCE, TransactionAbortableError.code): (11, InvalidTxnStateError.code),
    **{
        (ApiKey.PRODUCE, error.code): (12, NotEnoughReplicasError.code)
        for error in (
            ConcurrentTransactionsError,
            CoordinatorLoadInProgressError,
            CoordinatorNotAvailableError,
            NotCoordinatorError,
        )
    },
}
"""(API, code): (clients know it from this version on, what older ones are told)."""

_OF_COORDINATORS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.INIT_PID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
    }
)
"""A coordinator of Kafka never says that its write was not committed in time: it says
COORDINATOR_NOT_AVAILABLE (``CoordinatorOperationExceptionHelper``, and the transaction state
manager: "to let client retry"). A client may know no way on from the other: franz-go does not."""


def kafka_code(api_key: int, version: int, code: int) -> int:
    """Return the code that tells a client of this version of the API the same as ``code``."""
    if code >= OWN_CODES_FROM:
        return UnknownServerError.code
    if code == RequestTimedOutError.code and api_key in _OF_COORDINATORS:
        return CoordinatorNotAvailableError.code
    since, instead = _KNOWN_SINCE.get((api_key, code), (0, code))
    return code if version >= since else instead
