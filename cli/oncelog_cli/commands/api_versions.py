"""``oncelog api-versions`` tells the APIs that the brokers speak, with their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.options import (
    BootstrapOption,
    Format,
    FormatOption,
    JsonOption,
    bootstrap_servers,
    chosen_format,
)
from oncelog_cli.render import Column, Output
from oncelog_cli.runner import run

if TYPE_CHECKING:
    from oncelog.admin.results import BrokerApiVersions

COLUMNS = (
    Column("API", "api"),
    Column("MIN", "version_min", right=True),
    Column("MAX", "version_max", right=True),
    Column("BROKERS", "brokers"),
)


def api_versions(
    broker: Annotated[
        list[int] | None,
        typed.Option("--broker", min=0, metavar="ID", help="Only this one; repeatable."),
    ] = None,
    bootstrap: BootstrapOption = None,
    output_format: FormatOption = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Show the APIs that brokers speak; after an upgrade, those that differ stand in rows of
    their own."""
    output = Output("api-versions", chosen_format(output_format, as_json))
    servers = bootstrap_servers(bootstrap)

    async def work() -> list[BrokerApiVersions]:
        async with clients.admin(servers) as admin:
            return await admin.describe_api_versions(broker or None)

    speakers: dict[tuple[str, int, int], list[int]] = {}
    for answer in run(work()):
        if answer.error is not None:
            output.fail(f"broker {answer.broker_id}", answer.error)
        for name, (low, high) in answer.versions.items():
            speakers.setdefault((name, low, high), []).append(answer.broker_id)
    rows: list[dict[str, Any]] = [
        {"api": name, "version_min": low, "version_max": high, "brokers": brokers}
        for (name, low, high), brokers in sorted(speakers.items())
    ]
    output.table(COLUMNS, rows)
    output.finish({"apis": rows})
