"""The table of commands is quiet about what is not installed."""

from __future__ import annotations

import pytest

from oncelog_cli.command_table import LazyCommand, load
from oncelog_cli.exits import UsageError


def test_a_command_that_is_not_installed_harms_no_other() -> None:
    missing = LazyCommand("later", "oncelog_cli.not_there:later", "")
    with pytest.raises(UsageError, match="oncelog later"):
        load(missing)


def test_a_defect_inside_a_command_is_not_called_missing() -> None:
    with pytest.raises(AttributeError):
        load(LazyCommand("broken", "oncelog_cli.main:not_there", ""))
