"""``oncelog delete-records``: partitions begin later; ``topics trim-prefix`` is the same.

Rules: what will go is settled first, partition by partition, and shown; nothing goes without a yes.
A partition that cannot be trimmed does not stop the others.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, TextIO

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.record_deletion import (
    WantedDeletion,
    deleted_records,
    planned_deletion,
)
from oncelog_cli.group_offsets import Chosen, Partition, parse_partitions, read_csv
from oncelog_cli.offset_range import parse_range
from oncelog_cli.options import (
    DryRunOption,
    UsageError,
    YesOption,
    complete_topics,
    confirm,
    parsed,
    read_named_file,
)
from oncelog_cli.render import PARTITION_NAME, Column, Output, counted

COLUMNS = (
    *PARTITION_NAME,
    Column("START", "start_offset", right=True),
    Column("END", "end_offset", right=True),
    Column("BEFORE", "before_offset", right=True),
    Column("RECORDS", "offsets", right=True),
    Column("LOW WATERMARK", "low_watermark", right=True),
)


def delete_records(
    output: Output,
    cluster: NamedCluster,
    topics: Annotated[
        list[str] | None,
        typed.Argument(metavar="[TOPIC[:N,...]...]", autocompletion=complete_topics),
    ] = None,
    before: Annotated[
        str | None,
        typed.Option(
            "--before",
            "-o",
            metavar="POINT",
            help="Delete what is below: an offset, end, -N before the end, @TIME or @-DURATION.",
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typed.Option(
            "--from-file",
            metavar="PATH",
            help="Offsets as CSV (topic,partition,offset), or Kafka's JSON; - is stdin.",
        ),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete records below an offset or a time, for good, at all replicas.

    Only what is committed can be deleted. Files go with the next round of retention. Topics that
    are compacted and nothing else keep their records.
    """
    wanted = _wanted(topics or [], before, from_file)
    plan = output.document_of(cluster.ask(lambda admin: planned_deletion(admin, wanted)))
    rows = plan["partitions"]
    doomed = [row for row in rows if row["offsets"]]
    if not dry_run and doomed:
        count = sum(row["offsets"] for row in doomed)
        confirm(
            f"Delete {counted(count, 'offset')} in {counted(len(doomed), 'partition')} for good?",
            yes,
        )
        plan = output.document_of(cluster.ask(lambda admin: deleted_records(admin, rows)))
    output.show(COLUMNS, {**plan, "dry_run": dry_run})


def _wanted(topics: list[str], before: str | None, from_file: Path | None) -> WantedDeletion:
    """Return the partitions that the command line or the file names.

    :raises UsageError: not said, or said twice.
    """
    if from_file is not None:
        if topics or before is not None:
            raise UsageError("--from-file names partitions and offsets itself")
        offsets = _read_file(from_file)
        return WantedDeletion(Chosen(partitions=tuple(offsets)), None, offsets)
    if not topics or before is None:
        raise UsageError("say which topics, and --before what; or give --from-file")
    chosen = parsed("", parse_partitions, topics)
    asked = parsed("", parse_range, before, int(time.time() * 1000))
    if asked.end is not None:
        raise UsageError(f"--before {before!r} is a range: give one point")
    return WantedDeletion(chosen, asked.start, {})


def _read_file(path: Path) -> dict[Partition, int]:
    found = read_named_file(path, _parse)
    if not found:
        raise UsageError(f"--from-file {path}: no offsets")
    return found


def _parse(lines: TextIO) -> dict[Partition, int]:
    text = lines.read()
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    return read_csv(text.splitlines(), "")


def _parse_json(text: str) -> dict[Partition, int]:
    """Parse Kafka's file: ``{"partitions": [{"topic": "t", "partition": 0, "offset": 5}]}``.

    :raises ValueError: it is no such file.
    """
    document = json.loads(text)
    found: dict[Partition, int] = {}
    rows = document.get("partitions")
    if not isinstance(rows, list):
        raise ValueError('there is no list "partitions"')
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("topic"), str):
            raise ValueError(f"{row!r} names no topic")
        number, offset = row.get("partition"), row.get("offset")
        if type(number) is not int or type(offset) is not int or number < 0 or offset < -1:
            raise ValueError(f"{row!r}: partition and offset must be numbers")
        name = row["topic"], number
        if name in found:
            raise ValueError(f"{name[0]}-{name[1]} is named twice")
        found[name] = offset
    return found
