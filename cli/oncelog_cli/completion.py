"""A shell completes by a script, which is made here, and is put where the shell looks for it.

The scripts are click's, which call ``oncelog`` itself with ``_ONCELOG_COMPLETE``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import get_completion_class

from oncelog_cli.exits import UsageError

VARIABLE = "_ONCELOG_COMPLETE"


class CompletionPlace(NamedTuple):
    """A shell finds completion at this place, below the home directory."""

    script: str
    startup: str | None = None
    """The file that has to read the script, where the shell does not by itself."""
    line: str = ""
    """The line that goes into that file; ``{script}`` is the script's path."""


PLACES = {
    "bash": CompletionPlace(".bash_completions/oncelog.sh", ".bashrc", "source '{script}'"),
    "zsh": CompletionPlace(
        ".zfunc/_oncelog",
        ".zshrc",
        "fpath+=('{folder}'); autoload -Uz compinit && compinit && source '{script}'",
    ),
    "fish": CompletionPlace(".config/fish/completions/oncelog.fish"),
}


def shell_name() -> str:
    """Return the name of this user's shell.

    :raises UsageError: there is no completion for it.
    """
    named = os.environ.get("SHELL", "")
    name = Path(named).name
    if name not in PLACES:
        raise UsageError(
            f"completion is for {', '.join(PLACES)}, and $SHELL is {named!r}. Remedy: set SHELL"
        )
    return name


def script(command: click.Command) -> str:
    """Return the script that this user's shell has to read.

    :raises UsageError: there is no completion for it.
    """
    kind = get_completion_class(shell_name())
    assert kind is not None
    return kind(command, {}, "oncelog", VARIABLE).source()


def install(command: click.Command) -> str:
    """Put the script where the shell of this user finds it; returns what was done, in a line.

    :raises UsageError: there is no completion for it.
    """
    place = PLACES[shell_name()]
    text = script(command)
    file = Path.home() / place.script
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if place.startup is not None:
        startup = Path.home() / place.startup
        line = place.line.format(script=file, folder=file.parent)
        there = startup.read_text(encoding="utf-8") if startup.exists() else ""
        if line not in there.splitlines():
            gap = "" if there.endswith("\n") or not there else "\n"
            startup.write_text(f"{there}{gap}{line}\n", encoding="utf-8")
    return f"completion is in {file}; it works in shells that start from now on"
