"""``oncelog broker`` runs one broker in the foreground, and shows or checks its settings.

The command line never imports the broker: it starts it, also to check settings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from oncelog_cli import extras, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.broker_health import health
from oncelog_cli.documents.answer import fields_of
from oncelog_cli.exits import EXIT_OK, EXIT_USAGE, CommandError
from oncelog_cli.local.broker import broker_command, broker_environment, config_arguments
from oncelog_cli.options import UsageError
from oncelog_cli.other_group import OtherGroup
from oncelog_cli.render import Column, Output
from oncelog_cli.runner import become


class BrokerGroup(OtherGroup):
    """Commands of ``oncelog brokers`` are answered with the right line."""

    other = "brokers"
    theirs = ("list", "drain", "decommission", "recommission")


app = typed.App(cls=BrokerGroup, invoke_without_command=True)
config_app = typed.App(help="Check and show the settings of a broker.")
app.add_group(config_app, name="config")
app.command("health")(health)

ConfigOption = Annotated[
    Path | None,
    typed.Option("--config", "-c", metavar="PATH", help="Settings, a TOML file."),
]
SetOption = Annotated[
    list[str] | None,
    typed.Option("--set", metavar="KEY=VALUE", help="A setting, before all others; repeatable."),
]
COLUMNS = (
    Column("KEY", "key"),
    Column("VALUE", "value"),
    Column("ORIGIN", "origin"),
    Column("DYNAMIC", "dynamic"),
    Column("DEFAULT", "default", wide=True),
)


@app.callback()
def broker(
    context: typed.Context,
    config: ConfigOption = None,
    ready_file: Annotated[
        Path | None,
        typed.Option("--ready-file", metavar="PATH", help="Written when the broker serves."),
    ] = None,
    setting: SetOption = None,
) -> None:
    """Run one broker in the foreground until SIGTERM or Ctrl+C, which stop it cleanly.

    Settings come from the file; variables named ONCELOG_ and a setting go over it, and --set over
    both. Without a file the variables must say what is required.
    """
    if context.invoked_subcommand is not None:
        if config is not None or ready_file is not None or setting:
            raise UsageError(f"options of a running broker go after {context.invoked_subcommand!r}")
        return
    extras.need("broker", extras.BROKER, "a broker")
    command = broker_command(config, ready_file, setting or ())
    become(command, broker_environment(keep_settings=True))


@config_app.command("check")
def check(
    output: Output,
    config: ConfigOption = None,
    setting: SetOption = None,
) -> None:
    """Check the settings that a broker would start with here: file, environment, --set.

    Every mistake is named, with its key, where it stands, and what to do. Exit code 2 if there is
    one. Directories and ports are looked at by the broker itself, when it starts.
    """
    found = _ask("check", config, setting or (), output)
    for name in found["ignored"]:
        output.note(f"{name} is set and is no setting of a broker")
    output.line("the settings are valid")
    output.finish({"valid": True, "ignored": found["ignored"]})


@config_app.command("show")
def show(
    output: Output,
    cluster: NamedCluster,
    config: ConfigOption = None,
    setting: SetOption = None,
    every: Annotated[bool, typed.Option("--all", "-a", help="Defaults as well.")] = False,
    broker_id: Annotated[
        int | None,
        typed.Option(
            "--broker", min=0, metavar="ID", help="Ask this running broker, with what is dynamic."
        ),
    ] = None,
) -> None:
    """Show the settings that a broker would start with here, and where each comes from.

    With --broker: those of a running one. Secrets are masked.
    """
    if broker_id is None:
        rows = _ask("show", config, setting or (), output)["settings"]
    elif config is not None or setting:
        raise UsageError("--broker asks a running broker: it has read its file already")
    else:
        rows = _running(broker_id, cluster)
    shown = [row for row in rows if every or row["origin"] != "default"]
    output.show(COLUMNS, {"broker_id": broker_id, "settings": shown})


def _ask(verb: str, config: Path | None, settings: Sequence[str], output: Output) -> dict[str, Any]:
    """Return what a broker process says of the settings; mistakes end the command with 2."""
    extras.need("broker", extras.BROKER, "the model of a broker's settings")
    command = [sys.executable, "-m", "oncelog_broker", "config", verb, "--json"]
    done = subprocess.run(
        [*command, *config_arguments(config, settings)],
        env=broker_environment(keep_settings=True),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in (EXIT_OK, EXIT_USAGE):
        raise CommandError(f"the broker's program ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    if done.returncode == EXIT_OK:
        return found
    for mistake in found["errors"]:
        output.fail(mistake["key"], mistake["message"])
    try:
        output.finish({"mistakes": found["errors"]})
    except typed.Exit:
        pass
    raise typed.Exit(EXIT_USAGE)


def _running(broker_id: int, cluster: NamedCluster) -> list[dict[str, Any]]:
    """Return the settings of a running broker, as it tells them."""
    (outcome,) = cluster.ask(lambda admin: admin.describe_configs(brokers=[broker_id]))
    if outcome.error is not None:
        raise outcome.error
    return [
        {
            **fields_of(setting, "key value"),
            "origin": setting.source,
            "dynamic": not setting.read_only,
            "default": None,
        }
        for setting in outcome.settings.values()
    ]
