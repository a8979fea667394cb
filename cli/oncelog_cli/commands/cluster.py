"""``oncelog cluster`` and ``log-dirs`` tell of brokers, their health and their disks.

``oncelog cluster`` alone is ``oncelog cluster describe``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.cluster_health import health
from oncelog_cli.options import OnlyBrokersOption, RegexOption, SomeTopicsArgument
from oncelog_cli.render import PARTITION_NAME, Column, Output, address_text, fields_of, human_bytes

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import LogDirDescription


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


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
) -> None:
    """Show the cluster's brokers with racks, listeners and states, and who is controller.

    HTTP, with --format wide, is where a broker's metrics and probes are.
    """
    found = cluster.ask(lambda admin: admin.describe_cluster())
    rows = [
        {
            **fields_of(broker, "broker_id broker_epoch rack"),
            "is_controller": broker.broker_id == found.controller_id,
            "listeners": {
                name: {"host": host, "port": port}
                for name, (host, port) in sorted(broker.listeners.items())
            },
            **fields_of(broker, "state http"),
        }
        for broker in found.brokers
    ]
    output.line(f"cluster     {found.cluster_id}")
    leader = found.controller_id if found.controller_id >= 0 else "none"
    output.line(f"controller  {leader}, epoch {found.controller_epoch}")
    output.line()
    output.table(BROKER_COLUMNS, rows)
    whole = fields_of(found, "cluster_id controller_id controller_epoch")
    output.finish({**whole, "brokers": rows})


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

    async def look(admin: Admin) -> Sequence[LogDirDescription]:
        names = await clients.topics_named(admin, topics, regex=regex) if topics else None
        return await admin.describe_log_dirs(broker or None, topics=names)

    sound = output.sound(
        cluster.ask(look), lambda item: f"broker {item.broker_id} {item.path}".rstrip()
    )
    directories = [_directory(item) for item in sound]
    if replicas:
        rows = [
            {"broker_id": row["broker_id"], "path": row["path"], **replica}
            for row in directories
            for replica in row["replicas"]
        ]
        output.table(REPLICA_COLUMNS, rows)
    else:
        output.table(DIRECTORY_COLUMNS, directories)
    output.finish({"log_dirs": directories})


def _directory(item: LogDirDescription) -> dict[str, Any]:
    held = sorted(item.replicas, key=lambda replica: replica.partition)
    fields = "size_bytes log_start_offset log_end_offset high_watermark"
    return {
        **fields_of(item, "broker_id path total_bytes free_bytes"),
        "size_bytes": sum(replica.size_bytes for replica in held),
        "replica_count": len(held),
        "replicas": [
            {**replica.partition._asdict(), **fields_of(replica, fields)} for replica in held
        ],
    }
