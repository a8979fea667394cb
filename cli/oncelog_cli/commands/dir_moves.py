"""``oncelog partitions move --log-dir`` moves replicas between the directories of one broker."""

from __future__ import annotations

from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.dir_moves import begun_dir_moves, planned_dir_moves
from oncelog_cli.group_offsets import Chosen
from oncelog_cli.options import UsageError, confirm
from oncelog_cli.render import PARTITION_NAME, Column, Output, counted, human_bytes

LogDirOption = Annotated[
    str | None,
    typed.Option(
        "--log-dir",
        metavar="PATH",
        help="Another directory of one --broker instead, as its log_dirs names it.",
    ),
]
HolderOption = Annotated[
    int | None,
    typed.Option("--broker", min=0, metavar="ID", help="With --log-dir: whose replicas move."),
]

COLUMNS = (
    *PARTITION_NAME,
    Column("BROKER", "broker", right=True),
    Column("FROM", "log_dir", show=lambda value: value or "-"),
    Column("TO", "target"),
    Column("BYTES", "bytes_to_copy", right=True, show=human_bytes),
    Column("RESULT", "result"),
)
STATUS_COLUMNS = (
    *PARTITION_NAME,
    Column("BROKER", "broker", right=True),
    Column("FROM", "log_dir", show=lambda value: value or "-"),
    Column("TO", "target"),
    Column("COPIED", "bytes_done", right=True, show=human_bytes),
    Column("OF", "bytes_total", right=True, show=human_bytes),
)


def move_to_directory(
    output: Output,
    cluster: NamedCluster,
    chosen: Chosen,
    place: tuple[int | None, str | None],
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Show what would move to a directory of a broker, ask, and have it moved.

    :param place: the broker, and its directory.
    :raises UsageError: one of the two was not said.
    """
    broker, log_dir = place
    if broker is None or log_dir is None:
        raise UsageError("--log-dir and --broker belong together: say both")
    document = output.document_of(
        cluster.ask(lambda admin: planned_dir_moves(admin, chosen, broker, log_dir))
    )
    rows = document["partitions"]
    moving = [row for row in rows if row["result"] == "would move"]
    if moving and not dry_run:
        if output.is_for_people and not yes:
            output.table(COLUMNS, rows)
        confirm(f"Move {counted(len(moving), 'replica')} of broker {broker} to {log_dir}?", yes)
        document = output.document_of(cluster.ask(lambda admin: begun_dir_moves(admin, rows)))
    output.show(COLUMNS, {**document, "dry_run": dry_run})
