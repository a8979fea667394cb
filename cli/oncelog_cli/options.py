"""Options that many commands share, and how a cluster is found when none is named.

Order: ``--bootstrap``, then ``ONCELOG_BOOTSTRAP``, then the brokers of the local cluster in the
default directory. Annotated types only: the SDK is not imported here.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from oncelog import Admin

COMPLETION_S = 1.5
"""How long a shell waits for names."""


class Format(StrEnum):
    """How a command shows what it found."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        help="Brokers to ask first. Default: $ONCELOG_BOOTSTRAP, else the local cluster.",
    ),
]
FormatOption = Annotated[
    Format,
    typer.Option(
        "--format", "-f", metavar="text|wide|json", help="wide has more columns than text."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        "-d",
        metavar="PATH",
        help="Directory of the local cluster. Default: $ONCELOG_DIR, else ~/.oncelog/local.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only check and say what would be done.")
]
RegexOption = Annotated[
    bool, typer.Option("--regex", "-r", help="Names are regular expressions that match whole.")
]


class UsageError(Exception):
    """The command line does not make sense: exit code 2."""


def confirm(question: str, yes: bool) -> None:
    """Ask a person; a program has to say ``--yes``.

    :raises UsageError: nobody is there to answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody is there to ask: say --yes")
    typer.confirm(question, abort=True, err=True)


def chosen_format(chosen: Format, as_json: bool) -> Format:
    """``--json`` wins."""
    return Format.JSON if as_json else chosen


def local_directory(named: Path | None) -> Path:
    """The directory of the local cluster."""
    if named is not None:
        return named
    environment = os.environ.get("ONCELOG_DIR")
    return Path(environment) if environment else Path.home() / ".oncelog" / "local"


def bootstrap_servers(named: str | None) -> str:
    """Where to find the cluster.

    :raises UsageError: nowhere; the text says how to name one.
    """
    found = named or os.environ.get("ONCELOG_BOOTSTRAP") or _local_bootstrap()
    if not found:
        raise UsageError(
            "which cluster? Give --bootstrap HOST:PORT or set ONCELOG_BOOTSTRAP, or start one on "
            "this machine with 'oncelog up'"
        )
    return found


def _local_bootstrap() -> str | None:
    """Addresses in the state file of the local cluster; whether they answer, the SDK finds out."""
    try:
        text = (local_directory(None) / "cluster.json").read_text(encoding="utf-8")
        state = json.loads(text)
    except (OSError, ValueError):
        return None
    found = state.get("bootstrap") if isinstance(state, dict) else None
    return found if isinstance(found, str) else None


def matching(names: Iterable[str], patterns: Iterable[str], *, regex: bool) -> list[str]:
    """The names that any pattern matches whole, in order; without ``regex`` the patterns as they
    are, known or not.

    :raises UsageError: a pattern is not a regular expression.
    """
    if not regex:
        return list(dict.fromkeys(patterns))
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
    return [name for name in names if any(item.fullmatch(name) for item in compiled)]


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topic names for the shell; none when the cluster does not answer at once."""

    async def names(admin: Admin) -> list[str]:
        return await admin.list_topics()

    return _complete(ctx, incomplete, names)


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of consumer groups for the shell."""

    async def names(admin: Admin) -> list[str]:
        return [group.group_id for group in await admin.list_groups()]

    return _complete(ctx, incomplete, names)


def complete_transactional_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Transactional ids for the shell."""

    async def names(admin: Admin) -> list[str]:
        return [item.transactional_id for item in await admin.list_transactions()]

    return _complete(ctx, incomplete, names)


def _complete(
    ctx: typer.Context, incomplete: str, names: Callable[[Admin], Awaitable[list[str]]]
) -> list[str]:
    import asyncio

    from oncelog import Admin, OncelogError

    async def ask(servers: str) -> list[str]:
        async with asyncio.timeout(COMPLETION_S), Admin(servers) as admin:
            return await names(admin)

    try:
        found = asyncio.run(ask(bootstrap_servers(ctx.params.get("bootstrap"))))
    except (UsageError, OncelogError, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]


def key_values(option: str, items: Iterable[str]) -> dict[str, str]:
    """``["a=1", "b=x=y"]`` as a dictionary.

    :raises UsageError: an item without '=', or a key that is named twice.
    """
    pairs: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {item!r}: expected KEY=VALUE")
        if key in pairs:
            raise UsageError(f"{option} {key!r} is given twice")
        pairs[key] = value
    return pairs


def typed_values(option: str, items: Iterable[str]) -> dict[str, Any]:
    """Like :func:`key_values`, values as TOML: numbers and booleans become such, the rest text.

    A dotted key is one of a table: ``topic_defaults.segment_bytes=1000000``.
    """
    settings: dict[str, Any] = {}
    for key, text in key_values(option, items).items():
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        *tables, last = key.split(".")
        place = settings
        for table in tables:
            place = place.setdefault(table, {})
            if not isinstance(place, dict):
                raise UsageError(f"{option} {key!r}: {table!r} has a value already")
        place[last] = value
    return settings
