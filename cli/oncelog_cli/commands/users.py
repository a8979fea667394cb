"""``oncelog users`` makes, lists, changes and deletes users.

Rules: a password comes from a file or from standard input, never as an argument, which everybody on
the machine could see. It does not leave this process: brokers get what proves it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.options import DryRunOption, UsageError, YesOption, confirm
from oncelog_cli.render import Column, Output

if TYPE_CHECKING:
    from oncelog import UserAlteration

app = typed.App(help="Make, list, disable and delete users; set passwords.")

PASSWORD_CHARS_MAX = 64 * 1024
"""No more is read from standard input; what a password may be is said by the SDK."""


def _show_mechanisms(value: Any) -> str:
    return ", ".join(f"{each['mechanism']} ({each['iterations']})" for each in value) or "none"


COLUMNS = (
    Column("USER", "name"),
    Column("MECHANISMS", "mechanisms", show=_show_mechanisms),
    Column("DISABLED", "disabled"),
)
ALTERED_COLUMNS = (Column("USER", "name"), Column("ALTERED", "altered"))

NameArgument = Annotated[str, typed.Argument(metavar="USER")]
NamesArgument = Annotated[list[str], typed.Argument(metavar="USER...")]
PasswordOption = Annotated[
    str,
    typed.Option(
        "--password-file",
        metavar="FILE",
        help="The password is in this file, which only its owner may read; - is stdin.",
    ),
]
MechanismsOption = Annotated[
    list[str] | None,
    typed.Option(
        "--mechanism",
        metavar="NAME",
        help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable. Default: both.",
    ),
]


@app.command("list")
def list_users(
    output: Output,
    cluster: NamedCluster,
    names: Annotated[list[str] | None, typed.Argument(metavar="[USER...]")] = None,
) -> None:
    """Show users, and the mechanisms that they have passwords for, with their iterations."""
    rows = []
    for user in cluster.ask(lambda admin: admin.describe_users(names or None)):
        if user.error is not None:
            output.fail(user.name, user.error)
            continue
        mechanisms = [
            {"mechanism": mechanism, "iterations": iterations}
            for mechanism, iterations in user.mechanisms.items()
        ]
        rows.append({"name": user.name, "mechanisms": mechanisms, "disabled": user.disabled})
    output.show(COLUMNS, {"users": rows})


@app.command()
def add(
    output: Output,
    cluster: NamedCluster,
    user: NameArgument,
    password_file: PasswordOption,
    mechanism: MechanismsOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Make a user with a password."""
    from oncelog.admin.users import MECHANISMS, UserAlteration

    wish = UserAlteration.create(user, _password(password_file), mechanisms=mechanism or MECHANISMS)
    _alter(output, cluster, [wish], "add", "added", dry_run)


@app.command()
def password(
    output: Output,
    cluster: NamedCluster,
    user: NameArgument,
    password_file: PasswordOption,
    mechanism: MechanismsOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Give a user another password; the old one is good for nothing any more."""
    from oncelog.admin.users import MECHANISMS, UserAlteration

    wish = UserAlteration.set_password(
        user, _password(password_file), mechanisms=mechanism or MECHANISMS
    )
    _alter(output, cluster, [wish], "change the password of", "changed the password of", dry_run)


@app.command()
def delete(
    output: Output,
    cluster: NamedCluster,
    users: NamesArgument,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete users; their connections end."""
    if not dry_run:
        confirm(f"Delete {', '.join(users)}?", yes)
    _alter(output, cluster, _each(users, "delete"), "delete", "deleted", dry_run)


@app.command()
def disable(
    output: Output, cluster: NamedCluster, users: NamesArgument, dry_run: DryRunOption = False
) -> None:
    """Let nobody authenticate as these users; their connections end, their passwords are kept."""
    _alter(output, cluster, _each(users, "disable"), "disable", "disabled", dry_run)


@app.command()
def enable(
    output: Output, cluster: NamedCluster, users: NamesArgument, dry_run: DryRunOption = False
) -> None:
    """Let disabled users authenticate again."""
    _alter(output, cluster, _each(users, "enable"), "enable", "enabled", dry_run)


def _each(users: Sequence[str], action: str) -> list[UserAlteration]:
    from oncelog import UserAlteration

    make: Callable[[str], UserAlteration] = getattr(UserAlteration, action)
    return [make(name) for name in dict.fromkeys(users)]


def _alter(
    output: Output,
    cluster: NamedCluster,
    wishes: Sequence[UserAlteration],
    would: str,
    did: str,
    dry_run: bool,
) -> None:
    rows = []
    for outcome in cluster.ask(lambda admin: admin.alter_users(wishes, validate_only=dry_run)):
        row: dict[str, Any] = {
            "name": outcome.name,
            "altered": outcome.error is None and not dry_run,
        }
        if outcome.error is None:
            output.line(f"would {would} {outcome.name}" if dry_run else f"{did} {outcome.name}")
        else:
            output.fail(outcome.name, outcome.error)
            row["error"] = outcome.error.name
        rows.append(row)
    output.finish({"dry_run": dry_run, "users": rows}, ALTERED_COLUMNS)


def _password(file: str) -> str:
    """Return the password in a file, or from standard input, without the line break at its end.

    :raises UsageError: there is none, or others may read the file.
    """
    from oncelog.admin.users import password_in
    from oncelog.errors import ConfigurationError

    if file != "-":
        try:
            return password_in(file)
        except ConfigurationError as error:
            raise UsageError(f"--password-file: {error}") from None
    text = sys.stdin.read(PASSWORD_CHARS_MAX).rstrip("\r\n")
    if not text:
        raise UsageError("--password-file: standard input is empty")
    return text
