"""``oncelog dump-log`` shows what files of a log hold, or how a broker's log lies on its disk.

Files are read by a program of the brokers, run as a process: the command line never imports the
broker. A broker is asked over the network, and tells nothing of what records say.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from oncelog_cli import extras, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.answer import Document
from oncelog_cli.documents.logs import described_log, segment_file, steps
from oncelog_cli.local.broker import broker_environment
from oncelog_cli.options import Format, UsageError, parsed
from oncelog_cli.render import Column, Output, human_bytes, human_time

if TYPE_CHECKING:
    from oncelog import TopicPartition

SEGMENTS = (
    Column("SEGMENT", "base_offset", show=lambda value: segment_file(value)),
    Column("NEXT", "next_offset", right=True),
    Column("SIZE", "size_bytes", right=True, show=human_bytes),
    Column("RECORDS", "record_count", right=True),
    Column("CREATED", "created_ms", show=human_time),
    Column("NEWEST", "max_timestamp_ms", show=human_time),
    Column("RETENTION FROM", "retention_timestamp_ms", wide=True, show=human_time),
    Column("FIRST EPOCH", "first_epoch", right=True),
    Column("LAST EPOCH", "last_epoch", right=True),
    Column("INDEX ENTRIES", "index_entries", right=True),
)
EPOCHS = (
    Column("EPOCH", "leader_epoch", right=True),
    Column("FROM OFFSET", "start_offset", right=True),
)
ABORTED = (
    Column("ABORTED PRODUCER", "producer_id", right=True),
    Column("FROM OFFSET", "first_offset", right=True),
    Column("MARKER AT", "marker_offset", right=True),
)
BATCHES = (
    Column("POSITION", "position", right=True),
    Column("BASE OFFSET", "base_offset", right=True),
    Column("LAST OFFSET", "last_offset", right=True),
    Column("RECORDS", "record_count", right=True),
    Column("BYTES", "size_bytes", right=True),
    Column("EPOCH", "leader_epoch", right=True),
    Column("CODEC", "codec"),
    Column("TIMESTAMPS", "timestamp_type", wide=True),
    Column("OLDEST", "base_timestamp_ms", wide=True, show=human_time),
    Column("NEWEST", "max_timestamp_ms", show=human_time),
    Column("PRODUCER", "producer_id", right=True),
    Column("PRODUCER EPOCH", "producer_epoch", right=True, wide=True),
    Column("SEQUENCE", "base_sequence", right=True, wide=True),
    Column("TXN", "transactional"),
    Column("MARKER", "marker"),
    Column("SEGMENT", "segment", right=True, wide=True),
)


RemoteOption = Annotated[
    str | None,
    typed.Option(
        "--remote",
        metavar="TOPIC-PARTITION",
        help="No files: ask the leader of this partition, such as orders-3.",
    ),
]
ReplicaOption = Annotated[
    int | None,
    typed.Option("--broker", min=0, metavar="ID", help="Remote: ask this one's replica."),
]
OffsetOption = Annotated[
    int | None,
    typed.Option("--offset", min=0, metavar="N", help="Remote: show the way to this offset."),
]
BeginOption = Annotated[
    int | None,
    typed.Option(
        "--from",
        min=0,
        metavar="N",
        help="Remote: begin --batches here. Default: at the log's start.",
    ),
]
BatchesOption = Annotated[
    int, typed.Option("--batches", min=0, metavar="N", help="Remote: show so many batches.")
]


def dump_log(
    output: Output,
    cluster: NamedCluster,
    files: Annotated[
        list[Path] | None,
        typed.Argument(
            metavar="[PATH...]",
            help="A partition's directory, or .log, .index, .timeindex and others.",
        ),
    ] = None,
    records: Annotated[
        bool, typed.Option("--records", help="Of files: show the records of each batch as well.")
    ] = False,
    remote: RemoteOption = None,
    broker: ReplicaOption = None,
    offset: OffsetOption = None,
    begin: BeginOption = None,
    batches: BatchesOption = 0,
) -> None:
    """Show what segment, index and checkpoint files hold; the broker need not run.

    With --remote a running broker tells how its replica lies on disk: segments, leader epochs,
    aborted transactions, headers of batches. It never tells what records say. The JSON of files is
    a line an item, that of --remote one document.
    """
    if remote is None:
        if batches or not broker is offset is begin is None:
            raise UsageError("--broker, --offset, --from and --batches are for --remote")
        _dump_files(files or [], records, output.format)
        return
    if files or records:
        raise UsageError("--remote reads no files and shows no records: without PATH and --records")
    partition = parsed("--remote", parse_partition, remote)
    if begin is not None and offset is not None:
        raise UsageError("--offset says where batches begin: give it or --from")
    if begin is None and offset is None:
        begin = 0
    answer = cluster.ask(
        lambda admin: described_log(
            admin, partition, broker, offset=offset, batches_from=begin, batches=batches
        )
    )
    _show(output, output.document_of(answer), wants_batches=bool(batches) or offset is not None)


def parse_partition(text: str) -> TopicPartition:
    """Return the partition that a text such as ``orders-3`` names.

    :raises ValueError: it names none.
    """
    from oncelog import TopicPartition

    topic, _, number = text.rpartition("-")
    if not topic or not (number.isascii() and number.isdigit()):
        raise ValueError(f"{text!r}: must be TOPIC-PARTITION, such as orders-3")
    return TopicPartition(topic, int(number))


def _dump_files(files: list[Path], records: bool, shown: Format) -> None:
    if not files:
        raise UsageError("nothing to show: name files or directories, or a partition by --remote")
    if shown not in (Format.TABLE, Format.JSON):
        raise UsageError("what files hold is lines: as words, or with --json as JSON")
    extras.need("broker", extras.BROKER, "dump-log")
    command = [sys.executable, "-m", "oncelog_broker.tools.dump_log", *map(str, files)]
    command += ["--records"] * records + ["--json"] * (shown is Format.JSON)
    sys.stdout.flush()
    done = subprocess.run(command, env=broker_environment(), check=False)
    if done.returncode:
        raise typed.Exit(done.returncode if done.returncode > 0 else 1)


def _show(output: Output, document: Document, *, wants_batches: bool) -> None:
    role = "leads" if document["is_leader"] else "follows"
    size = human_bytes(document["size_bytes"])
    damaged = ", is damaged and is to be fetched again" if document["is_damaged"] else ""
    output.line(
        f"{document['topic']}-{document['partition']} at broker {document['broker_id']}:"
        f" {role} in epoch {document['leader_epoch']}, {size}{damaged}"
    )
    output.line(
        f"start {document['log_start_offset']}, LSO {document['last_stable_offset']},"
        f" HW {document['high_watermark']}, synced {document['synced_offset']},"
        f" end {document['log_end_offset']}"
    )
    snapshots = ", ".join(map(str, document["producer_snapshots"]))
    output.line(f"producer snapshots: {snapshots or 'none'}")
    output.table(SEGMENTS, document["segments"], detail=wants_batches)
    output.table(EPOCHS, document["epochs"], detail=True)
    if document["aborted"]:
        output.table(ABORTED, document["aborted"], detail=True)
    if document["found"] is not None:
        for line in steps(document["found"]):
            output.line(line)
    if wants_batches:
        output.table(BATCHES, document["batches"])
    if document["unreadable"]:
        output.note(document["unreadable"])
    output.finish(document)
