"""The metadata store, and nobody else, says whether a partition is in the cluster.

What a controller has told a broker may be old: a broker that was told last of all does not know a
topic that others write to already. Where it matters whether a topic is *gone*, or only not heard of
yet, the store is asked. A plain read of ZooKeeper may be answered by a server that lags behind; a
check travels as writes do, in order with them, so its answer is true at some moment after asking.
"""

from __future__ import annotations

from oncelog_controller import znodes
from oncelog_controller.store import ANY_VERSION, CheckVersion, MetadataStore, NoNodeError
from oncelog_protocol.types import TopicPartition


async def is_deleted(store: MetadataStore, topic_partition: TopicPartition) -> bool:
    """Return whether a partition that was there once is there no more. Its state is written before
    anybody is told of it, and removed only with its topic.

    :raises StoreError: the store does not say.
    """
    path = znodes.state_path(topic_partition.topic, topic_partition.partition)
    try:
        await store.multi([CheckVersion(path, ANY_VERSION)])
    except NoNodeError:
        return True
    return False
