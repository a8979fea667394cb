"""``oncelog profile`` names clusters, and chooses the one that is meant when none is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from oncelog_cli import typed
from oncelog_cli.documents.answer import fields_of
from oncelog_cli.exits import CommandError, UsageError
from oncelog_cli.invocation import ClientOptions, parse_client_options
from oncelog_cli.options import DryRunOption, YesOption, confirm
from oncelog_cli.profiles import (
    Profile,
    Profiles,
    chosen_profile,
    complete_profiles,
    load_profiles,
    profiles_path,
    save_profiles,
)
from oncelog_cli.render import Column, Output

app = typed.App(help="Name clusters, with options for their clients, and choose one.")

Name = Annotated[str, typed.Argument(metavar="NAME", autocompletion=complete_profiles)]
Server = Annotated[
    str, typed.Option("--server", "-s", metavar="HOST:PORT,...", help="Brokers to ask first.")
]


def _show_options(options: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items()) or "-"


SECRETS = ("password", "token")
"""Options of security whose values are shown to nobody."""
MASK = "***"
LIST_COLUMNS = (
    Column("PROFILE", "profile"),
    Column("CURRENT", "current"),
    Column("SERVERS", "bootstrap", show=lambda value: value or "-"),
    Column("DESCRIPTION", "description", show=lambda value: value or "-"),
    Column("OPTIONS", "options", wide=True, show=_show_options),
    Column("SECURITY", "security", wide=True, show=_show_options),
)
CHANGE_COLUMNS = (Column("PROFILE", "profile"), Column("CURRENT", "current"))


@app.command("list")
def list_profiles(output: Output) -> None:
    """List the profiles, and which one is in use."""
    profiles = load_profiles()
    rows = [_row(profiles, name) for name in sorted(profiles.profiles)]
    output.table(LIST_COLUMNS, rows)
    output.finish({"profiles": rows, "file": str(profiles_path())})


@app.command()
def show(
    output: Output,
    name: Annotated[
        str | None,
        typed.Argument(metavar="[NAME]", autocompletion=complete_profiles),
    ] = None,
) -> None:
    """Show one profile: of that name, or the one in force.

    That is the one of $ONCELOG_PROFILE, else the one in use.
    """
    found = chosen_profile(name)
    if found is None:
        raise CommandError("no profile is in use: 'oncelog profile use NAME' chooses one")
    profiles = load_profiles()
    row = _row(profiles, found[0])
    output.table(LIST_COLUMNS[:-2], [row])
    for option, value in (row["options"] | row["security"]).items():
        output.line(f"{option}={value}")
    output.finish(row)


@app.command()
def use(
    output: Output,
    name: Annotated[
        str,
        typed.Argument(
            metavar="NAME",
            help="'-' for the one before.",
            autocompletion=complete_profiles,
        ),
    ],
) -> None:
    """Choose the profile of commands that name none; '-' goes back to the one before."""
    profiles = load_profiles().used(name)
    save_profiles(profiles)
    output.line(f"using {profiles.current}")
    output.finish(_row(profiles, profiles.current or ""), CHANGE_COLUMNS)


@app.command()
def create(
    output: Output,
    name: Name,
    server: Server = "",
    client_options: ClientOptions = None,
    description: Annotated[
        str, typed.Option("--description", metavar="TEXT", help="What it is, for people.")
    ] = "",
    replace: Annotated[
        bool, typed.Option("--replace", help="In place of one of that name.")
    ] = False,
    chosen: Annotated[bool, typed.Option("--use", help="Use it from now on.")] = False,
) -> None:
    """Write a profile down: where a cluster is, and options for its clients."""
    options, security = _checked(server, client_options or [])
    profiles = load_profiles()
    if name in profiles.profiles and not replace:
        raise CommandError(f"there is a profile {name!r} already: say --replace")
    profiles = profiles.with_profile(name, Profile(server, description, options, security))
    if chosen:
        profiles = profiles.used(name)
    save_profiles(profiles)
    output.line(f"created {name}{', and using it' if chosen else ''}")
    output.finish(_row(profiles, name), CHANGE_COLUMNS)


@app.command()
def delete(
    output: Output,
    name: Name,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Forget a profile; the cluster is not touched."""
    profiles = load_profiles()
    left = profiles.without(name)
    if dry_run:
        output.line(f"would delete {name}")
    else:
        confirm(f"Delete the profile {name}?", yes)
        save_profiles(left)
        output.line(f"deleted {name}")
    row = {"profile": name, "current": name == profiles.current, "deleted": not dry_run}
    output.finish({"dry_run": dry_run, **row}, (*CHANGE_COLUMNS, Column("DELETED", "deleted")))


def _checked(server: str, items: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return client options, with values as the clients want them, and those of security.

    :raises UsageError: nothing that a client could be made with.
    """
    from oncelog.config import parse_addresses
    from oncelog.security_settings import combined, parted
    from oncelog_cli import clients

    if not server and not items:
        raise UsageError("a profile says something: give --server, or options with -X")
    if server:
        parse_addresses(server)
    security, others = parted(parse_client_options(items))
    if combined([security]) is None:
        security = {}
    # A profile is used in whatever directory one is.
    paths = {
        name: str(Path(value).expanduser().absolute())
        for name, value in security.items()
        if name.endswith("_file")
    }
    return clients.typed_options(others), security | paths


def _row(profiles: Profiles, name: str) -> dict[str, Any]:
    profile = profiles.named(name)
    return {
        "profile": name,
        "current": name == profiles.current,
        **fields_of(profile, "bootstrap description options"),
        "security": {
            key: MASK if key in SECRETS else value for key, value in profile.security.items()
        },
    }
