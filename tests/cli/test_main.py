"""These tests check the help of the whole command, and what a wrong line is answered."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from oncelog_cli.command_table import COMMANDS, LazyCommand
from oncelog_cli.main import run_command
from support.shell import environment

INSTALLED = [
    command
    for command in COMMANDS
    if importlib.util.find_spec(f"oncelog_cli.commands.{command.target.partition(':')[0]}")
]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command.name} " in shown
        assert command.help in shown


MODULES_MAX = 170
"""How many modules help may import on top of a bare interpreter; each costs a third of a
millisecond, and 150 ms is what a person takes for at once."""
HEAVY = frozenset(
    {"asyncio", "oncelog", "oncelog_protocol", "pydantic", "rich", "yaml", "ssl", "socket"}
)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["topics", "--help"], ["topics", "list", "-h"]),
        *(["demo", "--help"], ["pipeline", "--help"]),
    ],
)
def test_help_imports_little_and_no_sdk(arguments: list[str]) -> None:
    """Modules are counted, not milliseconds: those depend on who else uses the machine."""
    script = (
        "import sys; before = set(sys.modules); from oncelog_cli.main import run_command;"
        f"code = run_command({arguments}); new = set(sys.modules) - before;"
        "print(*sorted(new), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.split())
    assert not imported & HEAVY
    kept_away = ("oncelog_cli.local", "oncelog_cli.demo.", "oncelog_bench", "pyspark_oncelog")
    assert not [name for name in imported if name.startswith(kept_away)]
    assert len(imported) <= MODULES_MAX
    commands = {name for name in imported if name.startswith("oncelog_cli.commands.")}
    assert len(arguments) > 1 or not commands
    assert not commands & {
        f"oncelog_cli.commands.{name}" for name in ("groups", "local", "produce")
    }


@pytest.mark.parametrize(
    "command", [c for c in INSTALLED if not c.passes_through], ids=lambda command: command.name
)
def test_every_command_has_help(command: LazyCommand, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([command.name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: oncelog {command.name}")


def test_without_arguments_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out.startswith("oncelog ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["No such command", "oncelog --help"]),
        (["topic", "list"], ["No such command 'topic'", "Did you mean 'topics'"]),
        (["topics", "list", "--nonsense"], ["--nonsense", "oncelog topics list --help"]),
        (["topics", "create"], ["TOPIC", "oncelog topics create --help"]),
        (["topics", "alter", "t", "--partitions", "0"], ["--partitions"]),
        (["produce", "t", "--acks", "2"], ["--acks"]),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert len(captured.err.splitlines()) == 1
    for word in words:
        assert word in captured.err
