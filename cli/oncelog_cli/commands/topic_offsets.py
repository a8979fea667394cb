"""``oncelog topics offsets`` shows where partitions begin and end, or which record is the first at
a time.

Rules: a partition that fails does not stop the others; each failure is a line on stderr, and the
exit code is then 1.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.offsets import listed_offsets
from oncelog_cli.offset_range import parse_time
from oncelog_cli.options import (
    Isolation,
    OnlyPartitionsOption,
    RegexOption,
    TopicsArgument,
    parsed,
)
from oncelog_cli.render import PARTITION_NAME, Column, Output, human_time

if TYPE_CHECKING:
    from oncelog.admin.offset_listing import OffsetSpec

COLUMNS = (
    *PARTITION_NAME,
    Column("OFFSET", "offset", right=True),
    Column("TIMESTAMP", "timestamp_ms", show=human_time),
    Column("EPOCH", "leader_epoch", right=True, wide=True),
)


def offsets(
    output: Output,
    cluster: NamedCluster,
    topics: TopicsArgument,
    regex: RegexOption = False,
    partition: OnlyPartitionsOption = None,
    at: Annotated[
        str,
        typed.Option(
            "--at",
            metavar="earliest|latest|TIME",
            help="The first offset, the end, or the first record from a time on: a date,"
            " seconds or milliseconds since 1970, or a duration back from now.",
        ),
    ] = "latest",
    isolation: Annotated[
        Isolation,
        typed.Option(
            "--isolation-level",
            metavar="read_committed|read_uncommitted",
            help="Whether latest is the last stable offset or the high watermark.",
        ),
    ] = Isolation.READ_UNCOMMITTED,
) -> None:
    """Show an offset of each partition, as its leader knows it; by default the end."""
    place = parsed("--at", parse_place, at, int(time.time() * 1000))
    answer = cluster.ask(
        lambda admin: listed_offsets(
            admin,
            topics,
            place,
            regex=regex,
            partitions=partition or (),
            isolation_level=isolation.value,
        )
    )
    output.show(COLUMNS, output.document_of(answer))


def parse_place(text: str, now_ms: int) -> OffsetSpec:
    """Parse the place in a partition that a person wrote; durations count back from ``now_ms``.

    :raises ValueError: it is none; the text says what is allowed.
    """
    match text:
        case "earliest" | "start":
            return "earliest"
        case "latest" | "end":
            return "latest"
    # Where it stands among offsets, a time begins with an at sign; here it may.
    found = parse_time(text.removeprefix("@"), now_ms)
    if found is None:
        raise ValueError(
            f"{text!r} is none of earliest, latest, a time (2026-01-31T09:00:00Z; 10 digits: "
            "seconds since 1970, 13: milliseconds) and a duration back from now (1h30m)"
        )
    return found
