"""Producers with an identity: producer ids, and where they come from.

A producer id is given once and never again, in the whole cluster. Brokers hand them out from blocks
that the controller gives them, so that asking costs no write to the metadata store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text


@dataclass(slots=True)
class InitPidResponse:
    """Errors: COORDINATOR_NOT_AVAILABLE (the controller could not be asked for a block; nothing
    happened), INVALID_REQUEST."""

    error_code: Int16 = 0
    error_message: Text | None = None
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


@dataclass(slots=True)
class InitPidRequest(Request):
    """A new producer id, at epoch 0. Any broker answers. ``transactional_id`` is None until
    transactions are served."""

    api_key: ClassVar[ApiKey] = ApiKey.INIT_PID
    response: ClassVar[type] = InitPidResponse

    transactional_id: Name | None = None
    transaction_timeout_ms: Int32 = 0


@dataclass(slots=True)
class AllocateProducerIdsResponse:
    """Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH, STORAGE_ERROR (the znode is damaged). The block
    is ``first_producer_id`` and the ``count - 1`` after it."""

    error_code: Int16 = 0
    first_producer_id: Int64 = -1
    count: Int32 = 0


@dataclass(slots=True)
class AllocateProducerIdsRequest(Request):
    """A broker wants a block of producer ids (KIP-730). A repeated request gets another block: ids
    may stay unused, never be given twice."""

    api_key: ClassVar[ApiKey] = ApiKey.ALLOCATE_PRODUCER_IDS
    response: ClassVar[type] = AllocateProducerIdsResponse
    between_brokers: ClassVar[bool] = True

    broker_id: Int32
    broker_epoch: Int64
