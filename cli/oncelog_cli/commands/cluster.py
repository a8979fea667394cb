"""``oncelog cluster`` and ``log-dirs`` tell of brokers, their health and their disks.

``oncelog cluster`` alone is ``oncelog cluster describe``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.cluster_events import events
from oncelog_cli.commands.cluster_health import health
from oncelog_cli.documents.cluster import described_cluster, described_log_dirs
from oncelog_cli.options import OnlyBrokersOption, RegexOption, SomeTopicsArgument
from oncelog_cli.render import PARTITION_NAME, Column, Output, address_text, human_bytes


def _show_listeners(listeners: Mapping[str, Mapping[str, Any]]) -> str:
    return "  ".join(f"{name}={address_text(**item)}" for name, item in listeners.items())


BROKER_COLUMNS = (
    Column("BROKER", "broker_id", right=True),
    Column("RACK", "rack"),
    Column("CONTROLLER", "is_controller"),
    Column("LISTENERS", "listeners", show=_show_listeners),
    Column("EPOCH", "broker_epoch", wide=True, right=True),
    Column("STATE", "state"),
    Column("HTTP", "http", wide=True, show=lambda value: value or "-"),
)
DIRECTORY_COLUMNS = (
    BROKER_COLUMNS[0],
    Column("DIRECTORY", "path"),
    Column("REPLICAS", "replica_count", right=True),
    Column("SIZE", "size_bytes", right=True, show=human_bytes),
    Column("FREE", "free_bytes", right=True, show=human_bytes),
    Column("TOTAL", "total_bytes", right=True, show=human_bytes),
)
REPLICA_COLUMNS = (
    BROKER_COLUMNS[0],
    *PARTITION_NAME,
    Column("SIZE", "size_bytes", right=True, show=human_bytes),
    Column("START", "log_start_offset", right=True),
    Column("END", "log_end_offset", right=True),
    Column("HIGH WATERMARK", "high_watermark", right=True),
    Column("DIRECTORY", "path", wide=True),
)


class DescribesByDefault(typed.CommandGroup):
    """The group describes when it is not told what else to do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Options alone are those of ``describe``; ``--help`` is the group's own."""
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["describe", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typed.App(
    cls=DescribesByDefault,
    help="Show brokers, racks, listeners and the controller, and whether the cluster is healthy.",
)
app.command("health")(health)
app.command("events")(events)


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
) -> None:
    """Show the cluster's brokers with racks, listeners and states, and who is controller.

    HTTP, with --format wide, is where a broker's metrics and probes are.
    """
    document = cluster.ask(described_cluster)
    controller = document["controller_id"]
    leader = controller if controller >= 0 else "none"
    output.line(f"cluster     {document['cluster_id']}")
    output.line(f"controller  {leader}, epoch {document['controller_epoch']}")
    output.line()
    output.table(BROKER_COLUMNS, document["brokers"])
    output.finish(document)


def log_dirs(
    output: Output,
    cluster: NamedCluster,
    topics: SomeTopicsArgument = None,
    regex: RegexOption = False,
    broker: OnlyBrokersOption = None,
    replicas: Annotated[
        bool, typed.Option("--replicas", help="Every replica, not only sums.")
    ] = False,
) -> None:
    """Show log directories, how full they are, and what replicas take."""
    answer = cluster.ask(
        lambda admin: described_log_dirs(admin, topics, regex=regex, brokers=broker)
    )
    document = output.document_of(answer)
    directories = document["log_dirs"]
    if replicas:
        rows = [
            {"broker_id": row["broker_id"], "path": row["path"], **replica}
            for row in directories
            for replica in row["replicas"]
        ]
        output.table(REPLICA_COLUMNS, rows)
    else:
        output.table(DIRECTORY_COLUMNS, directories)
    output.finish(document)
