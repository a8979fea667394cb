"""Who creates and deletes too many partitions is refused before anything is written (KIP-599).

A request is taken topic by topic, in its order, while the asker has anything left: one that is
larger than what is left makes a debt. What a debt refuses is not sent to the controller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog_broker.server.client_quotas import Quotas
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.messages.admin import CreatableTopic, PartitionGrowth
from oncelog_protocol.quotas import CONTROLLER_MUTATION_RATE


class MutationQuota:
    """It counts the partitions that clients create and delete.

    :param default_partitions: how many a topic gets that does not say.
    """

    def __init__(
        self, quotas: Quotas, image: MetadataImage, default_partitions: Callable[[], int]
    ) -> None:
        self._quotas = quotas
        self._image = image
        self._default_partitions = default_partitions

    def refused(self, context: RequestContext, request: Any) -> frozenset[int]:
        """Count what ``request`` changes. Return which of its topics, by index, are not to be
        changed: the asker had nothing left when they came."""
        if getattr(request, "validate_only", False):
            return frozenset()
        return frozenset(
            index
            for index, item in enumerate(request.topics)
            if not self._quotas.admit(context, CONTROLLER_MUTATION_RATE, self._partitions(item))
        )

    def _partitions(self, item: CreatableTopic | PartitionGrowth | str) -> int:
        """Return how many partitions an item creates or deletes."""
        if isinstance(item, str):
            return self._count(item)
        if isinstance(item, PartitionGrowth):
            return max(item.partition_count - self._count(item.topic), 0)
        if item.assignment is not None:
            return len(item.assignment)
        return item.partition_count if item.partition_count > 0 else self._default_partitions()

    def _count(self, topic: str) -> int:
        known = self._image.topics.get(topic)
        return 0 if known is None else len(known.partitions)
