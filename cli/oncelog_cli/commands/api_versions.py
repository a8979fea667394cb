"""``oncelog api-versions`` tells the APIs that the brokers speak, with their versions."""

from __future__ import annotations

from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.cluster import spoken_apis
from oncelog_cli.options import OnlyBrokersOption
from oncelog_cli.render import Column, Output

COLUMNS = (
    Column("API", "api"),
    Column("MIN", "version_min", right=True),
    Column("MAX", "version_max", right=True),
    Column("BROKERS", "brokers"),
)


def api_versions(
    output: Output,
    cluster: NamedCluster,
    broker: OnlyBrokersOption = None,
) -> None:
    """Show the APIs that brokers speak; after an upgrade, those that differ stand in rows of
    their own."""
    answer = cluster.ask(lambda admin: spoken_apis(admin, broker))
    output.show(COLUMNS, output.document_of(answer))
