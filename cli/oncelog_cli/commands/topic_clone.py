"""``oncelog topics clone`` makes a topic like another one, empty or with its records.

Rules: partitions, replication factor and the topic's own settings are those of the source, unless
said otherwise. Copied are the committed records between the first one and what is the end when the
command begins: keys, values, headers and timestamps, each into the partition of its number. A copy
that fails half-way leaves what it has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.options import DryRunOption, UsageError, complete_topics, key_values
from oncelog_cli.render import Column, Output
from oncelog_cli.runner import run

if TYPE_CHECKING:
    from oncelog import Admin, Consumer, Producer, TopicPartition

RECORDS_AT_ONCE = 5000

COLUMNS = (
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partition_count", right=True),
    Column("REPLICAS", "replication_factor", right=True),
    Column("SETTINGS", "config_count", right=True),
    Column("RECORDS", "records", right=True),
)


def clone(
    output: Output,
    cluster: NamedCluster,
    source: Annotated[str, typed.Argument(metavar="SOURCE", autocompletion=complete_topics)],
    target: Annotated[str, typed.Argument(metavar="TARGET")],
    records: Annotated[
        bool, typed.Option("--records", help="Copy what is committed in it as well.")
    ] = False,
    partitions: Annotated[
        int | None,
        typed.Option("--partitions", "-p", min=1, metavar="N", help="Not as many as the source."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typed.Option("--replication-factor", min=1, metavar="N", help="Not that of the source."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typed.Option("--config", "-c", metavar="KEY=VALUE", help="A setting of it; repeatable."),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Create a topic with partitions and settings of another one; copy its records if asked.

    Records keep their partition and order; with another number of partitions they are not copied.
    """
    if records and partitions is not None:
        raise UsageError("--records keeps each record in its partition: not with --partitions")
    entries = key_values("--config", config or ())
    wanted = (target, partitions, replication_factor, entries)
    row = cluster.ask(lambda admin: _clone(admin, source, *wanted, dry_run=dry_run))
    if records and not dry_run:
        row["records"] = run(_copy(cluster.servers, source, target))
    output.table(COLUMNS, [row])
    output.finish({"dry_run": dry_run, "source": source, **row})


async def _clone(
    admin: Admin,
    source: str,
    target: str,
    partitions: int | None,
    replication_factor: int | None,
    entries: Mapping[str, str],
    *,
    dry_run: bool,
) -> dict[str, Any]:
    from oncelog import NewTopic

    (found,) = (await admin.describe_topics([source])).raise_for_errors()
    (settings,) = (await admin.describe_configs(topics=[source])).raise_for_errors()
    own: dict[str, str | None] = {
        each.key: each.value for each in settings.settings.values() if each.source == "topic"
    }
    configs = own | {key.replace(".", "_"): value for key, value in entries.items()}
    count = partitions or len(found.partitions)
    factor = replication_factor or max((len(p.replicas) for p in found.partitions), default=1)
    new = NewTopic(target, count, factor, configs)
    (await admin.create_topics([new], validate_only=dry_run)).raise_for_errors()
    return {
        "topic": target,
        "partition_count": count,
        "replication_factor": factor,
        "config_count": len(configs),
        "configs": [{"key": key, "value": configs[key]} for key in sorted(configs)],
        "records": 0,
    }


async def _copy(servers: str, source: str, target: str) -> int:
    """Send all that is committed now to the new topic, and return the number of records."""
    own = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with (
        clients.consumer(servers, source, max_poll_records=RECORDS_AT_ONCE, **own) as consumer,
        clients.producer(servers) as producer,
    ):
        partitions = consumer.assignment()
        ends = await consumer.end_offsets(partitions)
        starts = await consumer.beginning_offsets(partitions)
        for tp in partitions:
            consumer.seek(tp, starts[tp])
        left = {tp: end for tp, end in ends.items() if starts[tp] < end}
        consumer.pause(*(tp for tp in partitions if tp not in left))
        count = 0
        while left:
            count += await _copy_some(consumer, producer, target, left)
            for tp in [tp for tp in left if await consumer.position(tp) >= left[tp]]:
                del left[tp]
                consumer.pause(tp)
    return count


async def _copy_some(
    consumer: Consumer, producer: Producer, target: str, ends: Mapping[TopicPartition, int]
) -> int:
    answer = await consumer.getmany(max_records=RECORDS_AT_ONCE, timeout_ms=500)
    deliveries = [
        await producer.enqueue(
            target,
            record.value,
            key=record.key,
            headers=record.headers,
            partition=tp.partition,
            timestamp_ms=record.timestamp,
        )
        for tp, records in answer.items()
        for record in records
        if record.offset < ends.get(tp, 0)
    ]
    for delivery in deliveries:
        await delivery
    return len(deliveries)
