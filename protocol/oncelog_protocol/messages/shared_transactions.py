"""Several writers share one transaction under one transactional id, and one commit ends it.

The owner gets an *ordinal* (BeginSharedTxn), greater than all before it in the whole cluster, and
hands it with a *tag* (what is written: a batch number) to writers, who join and get a producer id
each. The commit names its winners: the producer ids whose records become visible. The last
committed tag is kept: a tag at or below it is refused as already committed, so that work that is
done again cannot be committed again.
"""

from __future__ import annotations

from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message

ORDINAL_KEY = "__ordinals"
"""The coordinator of this key gives out the ordinals; no transactional id may be called so."""

LAST_TAG = 2**63 - 1
"""Nothing can be committed under an id behind it: such an id, once idle for the time after which
ordinary ones expire, is forgotten. For ids that serve one transaction."""


@message
class BeginSharedTxnResponse:
    """Its errors are COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
    REQUEST_TIMED_OUT (an ordinal may be lost by that, no more)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    ordinal: Int64 = -1


@message
class BeginSharedTxnRequest(Request):
    """It asks the coordinator of ``__ordinals`` for an ordinal. Nothing is bound to it yet."""

    api_key: ClassVar[ApiKey] = ApiKey.BEGIN_SHARED_TXN
    response: ClassVar[type] = BeginSharedTxnResponse


@message
class JoinTxnResponse:
    """Its errors are those of the coordinator; TRANSACTION_ALREADY_COMMITTED (the tag is at or
    below the last committed one: nothing is to be written), PRODUCER_FENCED (a newer ordinal is
    bound, or the transaction of this one has ended), INVALID_TXN_STATE (another tag than the one it
    is bound to; an id of ordinary transactions), CONCURRENT_TRANSACTIONS,
    INVALID_TRANSACTION_TIMEOUT, INVALID_REQUEST, POLICY_VIOLATION (too many writers),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    error_message: Text | None = None
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
    last_committed_tag: Int64 = -1


@message
class JoinTxnRequest(Request):
    """A writer (one attempt at a part of the work) joins with it. The first join of a newer ordinal
    binds the transaction to the tag, and aborts and fences an older open one. A repeat by the same
    ``writer`` name gets the same producer id."""

    api_key: ClassVar[ApiKey] = ApiKey.JOIN_TXN
    response: ClassVar[type] = JoinTxnResponse

    transactional_id: Name
    ordinal: Int64
    tag: Int64
    writer: Name
    transaction_timeout_ms: Int32


@message
class EndSharedTxnResponse:
    """Its errors are those of the coordinator; PRODUCER_FENCED (a newer ordinal is bound; or it was
    aborted), INVALID_TXN_STATE (a commit of what never had a writer), INVALID_REQUEST (a winner
    that did not join), TRANSACTIONAL_ID_AUTHORIZATION_FAILED. ``already``: this is a repeat of what
    was decided before, or an abort of what is committed: nothing happened now."""

    error_code: Int16 = 0
    error_message: Text | None = None
    committed: bool = False
    already: bool = False


@message
class EndSharedTxnRequest(Request):
    """Commit what the winners wrote and abort what others did; or abort all. Answered when that is
    decided for good."""

    api_key: ClassVar[ApiKey] = ApiKey.END_SHARED_TXN
    response: ClassVar[type] = EndSharedTxnResponse

    transactional_id: Name
    ordinal: Int64
    tag: Int64
    commit: bool
    winners: list[Int64]
