"""``oncelog api-versions`` tells the APIs that the brokers speak, with their versions."""

from __future__ import annotations

from oncelog_cli.cluster import NamedCluster
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
    speakers: dict[tuple[str, int, int], list[int]] = {}
    answers = cluster.ask(lambda admin: admin.describe_api_versions(broker or None))
    for answer in output.sound(answers, lambda answer: f"broker {answer.broker_id}"):
        for name, (low, high) in answer.versions.items():
            speakers.setdefault((name, low, high), []).append(answer.broker_id)
    rows = [
        {"api": name, "version_min": low, "version_max": high, "brokers": brokers}
        for (name, low, high), brokers in sorted(speakers.items())
    ]
    output.show(COLUMNS, {"apis": rows})
