"""The commands of the guide are found, and a difference is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_suites import guide
from kafka_suites.guide import Shown, difference, shown
from kafka_suites.kit import Kit
from oncelog_cli.local.cluster import LocalCluster


@pytest.mark.parametrize(("suite", "program"), [("kcat.py", "kcat"), ("kafka_tools.py", "kafka-")])
def test_a_suite_has_commands_in_the_guide(suite: str, program: str) -> None:
    commands = shown(suite)
    assert len(commands) >= 3
    assert all(program in each.command for each in commands)
    assert all(guide.SERVERS in each.command for each in commands)
    assert any(each.output for each in commands)


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        ([Shown("echo a; echo b", "a\nb"), Shown("echo localhost:9192", "there:1")], ""),
        ([Shown("echo a", "a"), Shown("echo b", "c")], "echo b: b"),
        ([Shown("echo a; exit 3", "a")], "echo a; exit 3: a"),
        ([], "docs/kafka.md shows no command"),
    ],
)
def test_what_is_otherwise_is_told(
    commands: list[Shown], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guide, "shown", lambda suite: commands)
    kit = Kit("there:1", "here:1", tmp_path, print, LocalCluster(tmp_path))
    assert difference(kit, "kcat.py", {"PATH": os.environ["PATH"]}) == told


@pytest.mark.parametrize(
    ("suite", "name"),
    [("faststream.py", "till.py"), ("faust.py", "stars.py"), ("spark_connector.py", "shout.py")],
)
def test_a_program_of_the_guide_is_found(suite: str, name: str) -> None:
    found, text = guide.program(suite)
    assert found == name
    assert guide.SERVERS in text
    compile(text, name, "exec")
    (command,) = (each.command for each in shown(suite))
    assert name.removesuffix(".py") in command
