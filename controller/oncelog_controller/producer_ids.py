"""AllocateProducerIds gives blocks of producer ids, each id once in the cluster (KIP-730). Pure.

The node is written before the block is given, by its version: of two controllers one fails. A block
whose answer is lost is never used; there are 2^63 ids.
"""

from __future__ import annotations

from oncelog_controller import znodes
from oncelog_controller.core import Core
from oncelog_controller.state import UNKNOWN_PRODUCER_IDS
from oncelog_controller.store import SetData
from oncelog_protocol.errors import NotControllerError, StaleBrokerEpochError, StorageError
from oncelog_protocol.messages.transactions import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

BLOCK_COUNT = 1000
"""Kafka's: a broker that restarts for ever wastes a thousand ids each time."""


def allocate_producer_ids(core: Core, request_id: int, request: AllocateProducerIdsRequest) -> None:
    """Write down the next block as given, then give it."""
    broker = core.cluster.brokers.get(request.broker_id)
    if broker is not None and request.broker_epoch > broker.broker_epoch:
        # We have yet to hear of its new registration; nothing was done, it may ask again.
        core.reply(request_id, AllocateProducerIdsResponse(NotControllerError.code))
        return
    if broker is None or request.broker_epoch < broker.broker_epoch:
        core.reply(request_id, AllocateProducerIdsResponse(StaleBrokerEpochError.code))
        return
    cluster = core.cluster
    first = cluster.next_producer_id
    if first == UNKNOWN_PRODUCER_IDS:
        core.reply(request_id, AllocateProducerIdsResponse(StorageError.code))
        return

    def written() -> None:
        cluster.give_producer_ids(BLOCK_COUNT)
        logger.info(
            "producer_ids_given",
            broker_id=request.broker_id,
            first=first,
            last=first + BLOCK_COUNT - 1,
        )
        core.reply(request_id, AllocateProducerIdsResponse(0, first, BLOCK_COUNT))

    data = znodes.encode_producer_ids(first + BLOCK_COUNT)
    core.write([SetData(znodes.PRODUCER_IDS, data, cluster.producer_ids_version)], written)
