"""What partitions know of those who write to them is shown here (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Failures, fields_of, waiting
from oncelog_cli.documents.names import topics_named
from oncelog_cli.group_offsets import Chosen

if TYPE_CHECKING:
    from oncelog import Admin

FIELDS = (
    "producer_id producer_epoch last_sequence last_timestamp_ms coordinator_epoch txn_start_offset"
)


async def described_producers(
    admin: Admin,
    where: Chosen | Sequence[str],
    *,
    only_open: bool = False,
    producer_ids: Collection[int] = (),
    timeout_ms: int | None = None,
) -> Answer:
    """Return the document of ``producers describe``: a row a partition and producer.

    Topics that cannot be described, and partitions whose leaders do not answer, are failures.

    :param where: topics and partitions, or expressions for the names of topics.
    :param only_open: only with a transaction that is open there.
    :param producer_ids: only these; else all.
    :param timeout_ms: None: as long as the admin client waits.
    :raises CommandError: no topic is meant.
    """
    from oncelog import TopicPartition

    failures = Failures()
    if isinstance(where, Chosen):
        partitions = [TopicPartition(*item) for item in where.partitions]
        names: Sequence[str] = where.topics
    else:
        partitions, names = [], await topics_named(admin, where, regex=True)
    described = await admin.describe_topics(names, **waiting(timeout_ms)) if names else ()
    for topic in failures.sound(described, lambda topic: topic.topic):
        partitions += [TopicPartition(topic.topic, p.partition) for p in topic.partitions]
    rows = [
        {**answer.partition._asdict(), **fields_of(item, FIELDS)}
        for answer in failures.sound(
            await admin.describe_producers(partitions, **waiting(timeout_ms)),
            lambda answer: str(answer.partition),
        )
        for item in answer.producers
        if (item.txn_start_offset is not None or not only_open)
        and (not producer_ids or item.producer_id in producer_ids)
    ]
    return Answer({"producers": rows}, failures)
