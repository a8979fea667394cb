"""docs/command-map.md: every command and option that it names exists, and every group is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from oncelog_cli.command_tree import leaves
from support.house import ROOT

PAGE = ROOT / "docs" / "command-map.md"
LEAVES = {leaf.path: leaf for leaf in leaves()}
OF_ALL = {"--bootstrap", "--format", "--json", "--profile", "--help", "-X"}
OF_THE_ROOT = {"--help-json", "--version", "--help"}


def named() -> Iterator[tuple[str, list[str]]]:
    """Commands of the right-hand column with the options that stand behind them, in the same cell,
    up to the next command."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        texts = cells[-1:] if line.startswith("|") else [line]
        for text in texts:
            current: tuple[str, list[str]] | None = None
            for code in re.findall(r"`([^`]+)`", text):
                words = code.split()
                if words[0] == "oncelog":
                    if current is not None:
                        yield current
                    options = [word for word in words if word.startswith("-")]
                    current = (" ".join(w for w in words[1:] if not w.startswith("-")), options)
                elif words[0].startswith("--") and current is not None:
                    current[1].extend(word for word in words if word.startswith("--"))
            if current is not None:
                yield current


NAMED = list(named())


@pytest.mark.parametrize(("path", "options"), NAMED, ids=lambda value: str(value))
def test_it_exists(path: str, options: list[str]) -> None:
    if not path:
        assert set(options) <= OF_THE_ROOT
        return
    assert path in LEAVES, f"'oncelog {path}' is not a command"
    known = {
        option
        for parameter in LEAVES[path].click.params
        for option in (*getattr(parameter, "opts", ()), *getattr(parameter, "secondary_opts", ()))
    }
    missing = set(options) - known - OF_ALL
    assert not missing, f"'oncelog {path}' has no {missing}"


def test_every_command_of_others_tools_is_answered() -> None:
    """No row without an answer, and every command that has a counterpart is named."""
    ours = {"pipeline demo", "pipeline run", "pipeline check", "demo"}
    ours |= {path for path in LEAVES if path.startswith(("shared ", "profile ", "broker"))}
    assert set(LEAVES) - ours <= {path for path, _ in NAMED}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| ---", "| elsewhere")):
            there, _, here = line.strip("| ").partition(" | ")
            assert there, line
            assert here, line
