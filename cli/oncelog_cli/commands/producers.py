"""``oncelog producers`` shows what partitions know of those who write to them (KIP-664).

Rules: a partition that fails does not stop the others; each failure is a line on stderr, and the
exit code is then 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.group_offsets import Chosen, parse_partitions
from oncelog_cli.options import RegexOption, complete_topics, parsed
from oncelog_cli.render import PARTITION_NAME, Column, Output, fields_of, human_time

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.transaction_results import PartitionProducers

app = typed.App(help="Show what partitions know of their producers.")

COLUMNS = (
    *PARTITION_NAME,
    Column("PRODUCER", "producer_id", right=True),
    Column("EPOCH", "producer_epoch", right=True),
    Column("LAST SEQUENCE", "last_sequence", right=True),
    Column("LAST WRITE", "last_timestamp_ms", show=human_time),
    Column("TXN START", "txn_start_offset", right=True),
    Column("COORDINATOR EPOCH", "coordinator_epoch", right=True, wide=True),
)


FIELDS = (
    "producer_id producer_epoch last_sequence last_timestamp_ms coordinator_epoch txn_start_offset"
)


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    topics: Annotated[
        list[str],
        typed.Argument(metavar="TOPIC[:N,...]...", autocompletion=complete_topics),
    ],
    regex: RegexOption = False,
    only_open: Annotated[
        bool, typed.Option("--open", help="Only producers with an open transaction there.")
    ] = False,
    producer_id: Annotated[
        list[int] | None,
        typed.Option("--producer-id", min=0, metavar="N", help="Only this one; repeatable."),
    ] = None,
) -> None:
    """Show the producers of partitions: epoch, last sequence and write, open transaction.

    The leaders are asked. A producer that has written nothing for long is forgotten. TXN START is
    where its open transaction begins: readers at read_committed get no further than the first.
    """
    chosen = Chosen() if regex else parsed("", parse_partitions, topics)

    async def look(admin: Admin) -> Sequence[PartitionProducers]:
        from oncelog import TopicPartition

        partitions = [TopicPartition(*item) for item in chosen.partitions]
        names: Sequence[str] = chosen.topics
        if regex:
            names = await clients.topics_named(admin, topics, regex=True)
        for topic in await admin.describe_topics(names) if names else ():
            if topic.error is not None:
                output.fail(topic.topic, topic.error)
            partitions += [TopicPartition(topic.topic, p.partition) for p in topic.partitions]
        return await admin.describe_producers(partitions)

    rows: list[dict[str, Any]] = []
    for answer in cluster.ask(look):
        if answer.error is not None:
            output.fail(str(answer.partition), answer.error)
        rows += [
            {**answer.partition._asdict(), **fields_of(item, FIELDS)}
            for item in answer.producers
            if (item.txn_start_offset is not None or not only_open)
            and (not producer_id or item.producer_id in producer_id)
        ]
    output.show(COLUMNS, {"producers": rows})
