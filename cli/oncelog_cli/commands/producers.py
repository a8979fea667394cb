"""``oncelog producers`` shows what partitions know of those who write to them (KIP-664).

Rules: a partition that fails does not stop the others; each failure is a line on stderr, and the
exit code is then 1.
"""

from __future__ import annotations

from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.producers import described_producers
from oncelog_cli.group_offsets import parse_partitions
from oncelog_cli.options import RegexOption, complete_topics, parsed
from oncelog_cli.render import PARTITION_NAME, Column, Output, human_time

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
    where = topics if regex else parsed("", parse_partitions, topics)
    answer = cluster.ask(
        lambda admin: described_producers(
            admin, where, only_open=only_open, producer_ids=producer_id or ()
        )
    )
    output.show(COLUMNS, output.document_of(answer))
