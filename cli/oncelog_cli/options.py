"""Many commands share these options, which also find a cluster when none is named.

Order: ``--bootstrap`` (or ``-X bootstrap_servers``), the profile of ``--profile``,
``ONCELOG_BOOTSTRAP``, the profile of ``ONCELOG_PROFILE`` or the one in use, and last the brokers of
the local cluster in the default directory. Annotated types only: the SDK is not imported here.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

from oncelog_cli import typed
from oncelog_cli.exits import EXIT_OK
from oncelog_cli.exits import UsageError as UsageError
from oncelog_cli.invocation import CURRENT, invocation_of, invoked
from oncelog_cli.profiles import chosen_profile

if TYPE_CHECKING:
    from oncelog import Admin

T = TypeVar("T")
COMPLETION_S = 1.5
"""How long a shell waits for names."""


class Isolation(StrEnum):
    """A reader takes these records of transactions."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Format(StrEnum):
    """A command shows what it found in this format."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    TSV = "tsv"
    HELP = "help"
    """This format shows nothing but what the command's JSON looks like."""

    @property
    def is_document(self) -> bool:
        """Return whether one document is printed, and nothing else."""
        return self in (Format.JSON, Format.YAML)


def parse_format(text: str) -> Format:
    """Return the format of that name; ``text`` is the old name of ``table``.

    :raises typed.BadParameter: there is none.
    """
    try:
        return Format("table" if text == "text" else text)
    except ValueError:
        names = ", ".join(item.value for item in Format)
        raise typed.BadParameter(f"{text!r} is not one of {names}") from None


def show_schema(context: typed.Context, chosen: Format) -> Format:
    """Print what the JSON of the command looks like and leave, for ``--format help``."""
    if chosen is Format.HELP and not context.resilient_parsing:
        from oncelog_cli.schemas import schema_text

        print(schema_text(context.command_path.partition(" ")[2]))
        raise typed.Exit(EXIT_OK)
    return chosen


def complete_formats(incomplete: str) -> list[str]:
    """Return names of formats for the shell."""
    return [item.value for item in Format if item.value.startswith(incomplete)]


BootstrapOption = Annotated[
    str | None,
    typed.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        help="Brokers to ask first. Default: $ONCELOG_BOOTSTRAP, the profile's, the local cluster.",
    ),
]
FormatOption = Annotated[
    Format,
    typed.Option(
        "--format",
        "-f",
        metavar="table|wide|json|yaml|tsv|help",
        help="wide has more columns than table, tsv fixed ones and no headings; help shows what"
        " the JSON looks like.",
        parser=parse_format,
        callback=show_schema,
        is_eager=True,
        autocompletion=complete_formats,
    ),
]
JsonOption = Annotated[bool, typed.Option("--json", help="The same as --format json.")]
DirectoryOption = Annotated[
    Path | None,
    typed.Option(
        "--dir",
        "-d",
        metavar="PATH",
        help="Directory of the local cluster. Default: $ONCELOG_DIR, else ~/.oncelog/local.",
    ),
]
YesOption = Annotated[bool, typed.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[
    bool, typed.Option("--dry-run", help="Only check and say what would be done.")
]
OnlyBrokersOption = Annotated[
    list[int] | None,
    typed.Option("--broker", min=0, metavar="ID", help="Only this one; repeatable."),
]
OnlyPartitionsOption = Annotated[
    list[int] | None,
    typed.Option("--partition", "-p", min=0, metavar="N", help="Only this one; repeatable."),
]
RegexOption = Annotated[
    bool, typed.Option("--regex", "-r", help="Names are regular expressions that match whole.")
]


def confirm(question: str, yes: bool) -> None:
    """Ask a person; a program has to say ``--yes``.

    :raises UsageError: nobody is there to answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody is there to ask: say --yes")
    typed.confirm(question, abort=True, err=True)


def parsed(option: str, parse: Callable[..., T], *given: Any) -> T:
    """Return what a parser makes of an option's value.

    :raises UsageError: it makes nothing of it; the text names the option.
    """
    try:
        return parse(*given)
    except ValueError as error:
        raise UsageError(f"{option} {error}".lstrip()) from None


def read_named_file(path: Path, parse: Callable[[TextIO], T]) -> T:
    """Return what a parser makes of the file of ``--from-file``; ``-`` is standard input.

    :raises UsageError: it cannot be read, or the parser makes nothing of it.
    """
    try:
        if str(path) == "-":
            return parse(sys.stdin)
        with path.open(encoding="utf-8", newline="") as lines:
            return parse(lines)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--from-file {path}: {reason}") from None


def local_directory(named: Path | None) -> Path:
    """Return the directory of the local cluster."""
    if named is not None:
        return named
    environment = os.environ.get("ONCELOG_DIR")
    return Path(environment) if environment else Path.home() / ".oncelog" / "local"


def bootstrap_servers(named: str | None) -> str:
    """Return addresses of the cluster's brokers.

    :raises UsageError: no cluster is named; the text says how to name one.
    """
    invocation = CURRENT.get()
    by_option = invocation.options.get("bootstrap_servers")
    if named and by_option:
        raise UsageError("--bootstrap and -X bootstrap_servers say the same thing: give one")
    found = named or by_option
    if not found and invocation.profile is not None:
        found = _profile_bootstrap(invocation.profile)
    found = found or os.environ.get("ONCELOG_BOOTSTRAP") or _profile_bootstrap(invocation.profile)
    found = found or _local_bootstrap()
    if not found:
        raise UsageError(
            "which cluster? Give --bootstrap HOST:PORT or set ONCELOG_BOOTSTRAP, choose a profile"
            " with 'oncelog profile use', or start a cluster on this machine with 'oncelog up'"
        )
    return found


def _profile_bootstrap(named: str | None) -> str | None:
    chosen = chosen_profile(named)
    return None if chosen is None else chosen[1].bootstrap


def _local_bootstrap() -> str | None:
    """Return addresses in the local cluster's state file. The SDK finds out whether they answer."""
    try:
        text = (local_directory(None) / "cluster.json").read_text(encoding="utf-8")
        state = json.loads(text)
    except (OSError, ValueError):
        return None
    found = state.get("bootstrap") if isinstance(state, dict) else None
    return found if isinstance(found, str) else None


def _completer(
    kind: str, ask: Callable[[Admin], Awaitable[list[str]]]
) -> Callable[[typed.Context, str], list[str]]:
    """Make a function that gives a shell the names of a kind that the cluster has.

    It may be those of some seconds ago; there are none when the cluster does not answer at once.
    """

    def complete(ctx: typed.Context, incomplete: str) -> list[str]:
        from oncelog_cli import name_cache

        try:
            with invoked(invocation_of(ctx.params)):
                servers = bootstrap_servers(ctx.params.get("bootstrap"))
                found = name_cache.recall(servers, kind)
                if found is None:
                    found = _asked(servers, ask)
                    name_cache.keep(servers, kind, found)
        except UsageError:
            return []
        return [name for name in found if name.startswith(incomplete)]

    return complete


async def _topics(admin: Admin) -> list[str]:
    return await admin.list_topics()


async def _groups(admin: Admin) -> list[str]:
    return [group.group_id for group in await admin.list_groups()]


async def _transactional_ids(admin: Admin) -> list[str]:
    return [item.transactional_id for item in await admin.list_transactions()]


complete_topics = _completer("topics", _topics)
complete_groups = _completer("groups", _groups)
complete_transactional_ids = _completer("transactional-ids", _transactional_ids)


def _asked(servers: str, names: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    """Return the cluster's answer; the list is empty when it gives none."""
    import asyncio

    from oncelog import OncelogError
    from oncelog_cli import clients

    async def ask() -> list[str]:
        async with asyncio.timeout(COMPLETION_S), clients.admin(servers) as admin:
            return await names(admin)

    try:
        return asyncio.run(ask())
    except (OncelogError, OSError):
        return []


def key_values(option: str, items: Iterable[str]) -> dict[str, str]:
    """Parse ``["a=1", "b=x=y"]`` into a dictionary.

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


def set_and_deleted(assignments: Iterable[str], deleted: Iterable[str]) -> dict[str, str | None]:
    """Return the settings of ``--config``, and None for those of ``--delete-config``.

    :raises UsageError: an item without '=', a key that is named twice, or a contradiction.
    """
    entries: dict[str, str | None] = {**key_values("--config", assignments)}
    for key in deleted:
        if key in entries:
            raise UsageError(f"{key!r} is set and deleted at once")
        entries[key] = None
    return entries


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


TopicArgument = Annotated[str, typed.Argument(metavar="TOPIC", autocompletion=complete_topics)]
TopicsArgument = Annotated[
    list[str], typed.Argument(metavar="TOPIC...", autocompletion=complete_topics)
]
SomeTopicsArgument = Annotated[
    list[str] | None, typed.Argument(metavar="[TOPIC...]", autocompletion=complete_topics)
]
GroupArgument = Annotated[str, typed.Argument(metavar="GROUP", autocompletion=complete_groups)]
IdsArgument = Annotated[
    list[str], typed.Argument(metavar="ID...", autocompletion=complete_transactional_ids)
]
SomeIdsArgument = Annotated[
    list[str] | None, typed.Argument(metavar="[ID...]", autocompletion=complete_transactional_ids)
]
