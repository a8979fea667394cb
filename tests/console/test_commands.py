"""Each command line that the console shows is one that the real command tree takes."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from oncelog_cli.group_offsets import read_csv
from oncelog_cli.record_text import InputRecord, parse_json_line
from oncelog_console import commands
from oncelog_console.commands import CommandLine, command
from support.command_words import parsed

ODD = '-it\'s $HOME; "x" `y`\n'
"""A group or an id may be called so."""


CHANGES: list[tuple[CommandLine, dict[str, Any]]] = [
    (
        commands.produce("orders", InputRecord(b"v", b"k", (("h", b"1"),), 2), "all"),
        {"path": "produce", "topic": "orders", "json_lines": True, "acks": "all"},
    ),
    (
        commands.create_topic("orders", 3, -1, {"retention_ms": "-1"}),
        {
            "path": "topics create",
            "topics": ("orders",),
            "partitions": 3,
            "config": ("retention_ms=-1",),
        },
    ),
    (
        commands.add_partitions("-orders", 9),
        {"path": "topics alter", "topics": ("-orders",), "partitions": 9},
    ),
    (commands.delete_topic("a.b"), {"path": "topics delete", "topics": ("a.b",), "yes": True}),
    (
        commands.delete_records({("orders", 2): 7, ("orders", 0): 7}),
        {"path": "delete-records", "topics": ("orders:0,2",), "before": "7", "yes": True},
    ),
    (
        commands.alter_configs({"a": "1 2", "b": None}, topic="orders"),
        {
            "path": "configs alter",
            "topic": ("orders",),
            "assignments": ("a=1 2",),
            "delete": ("b",),
        },
    ),
    (
        commands.alter_configs({"a": ""}, broker=3),
        {"path": "configs alter", "broker": (3,), "assignments": ("a=",)},
    ),
    (
        commands.alter_configs({"a": "1"}),
        {"path": "configs alter", "default": True, "assignments": ("a=1",)},
    ),
    (
        commands.elect_leaders([("b", 1), ("a", 2), ("a", 0)]),
        {"path": "elect-leaders", "topic": ("a:0,2", "b:1")},
    ),
    (
        commands.elect_leaders([("a", 2)], unclean=True),
        {"path": "elect-leaders", "topic": ("a:2",), "unclean": True, "yes": True},
    ),
    (
        commands.reset_offsets("g", "shift_by", -5, ["a:0", "b"]),
        {
            "path": "groups reset-offsets",
            "group": "g",
            "topic": ("a:0", "b"),
            "shift_by": -5,
            "execute": True,
        },
    ),
    (
        commands.reset_offsets(ODD, "to_latest", True, []),
        {
            "path": "groups reset-offsets",
            "group": ODD,
            "all_topics": True,
            "to_latest": True,
            "execute": True,
        },
    ),
    (
        commands.reset_offsets("g", "to_group", "-x", []),
        {"path": "groups reset-offsets", "group": "g", "to_group": "-x", "execute": True},
    ),
    (
        commands.clone_group(ODD, "--"),
        {"path": "groups clone", "source": ODD, "target": "--"},
    ),
    (
        commands.delete_group("--yes"),
        {"path": "groups delete", "groups": ("--yes",), "yes": True},
    ),
    (
        commands.delete_offsets("g", ["orders:0,1"]),
        {
            "path": "groups delete-offsets",
            "group": "g",
            "topic": ("orders:0,1",),
            "yes": True,
        },
    ),
    (
        commands.abort_transaction("-t", 1, 7, 0),
        {
            "path": "transactions abort",
            "topic": "-t",
            "partition": 1,
            "producer_id": 7,
            "start_offset": 0,
            "yes": True,
        },
    ),
    (
        commands.fence(ODD),
        {"path": "transactions fence", "transactional_ids": (ODD,), "yes": True},
    ),
]


@pytest.mark.parametrize(("line", "wanted"), CHANGES, ids=[wanted["path"] for _, wanted in CHANGES])
def test_the_real_command_takes_it(line: CommandLine, wanted: dict[str, Any]) -> None:
    words = shlex.split(line.text("-prod").rpartition("| ")[2])
    assert words[0] == "oncelog"
    assert parsed(tuple(words[1:])) == {**wanted, "profile": "-prod"}
    assert parsed(line.words) == wanted


def test_what_is_read_from_standard_input_is_what_was_meant() -> None:
    offsets = {("orders", 10): 5, ("orders", 2): 0, ("a", 1): 7}
    for line in (commands.delete_records(offsets), commands.reset_to_file("g", offsets)):
        assert read_csv(line.stdin.splitlines(), "g") == offsets
        assert str(parsed(line.words)["from_file"]) == "-"
    record = InputRecord(b"\xff'\n", None, (("h", None),), 3, 9)
    line = commands.produce("orders", record, "1")
    assert parse_json_line(line.stdin.encode()) == record
    first, pipe, rest = shlex.split(line.text())[:3], "|", shlex.split(line.text())[4:]
    assert first == ["printf", "%s", line.stdin]
    assert shlex.split(line.text())[3] == pipe
    assert rest == ["oncelog", *line.words]


def test_options_are_words() -> None:
    assert command("topics list", internal=True, state=None, regex=False) == (
        "topics",
        "list",
        "--internal",
    )
    assert command("cluster health", to_offset=0) == ("cluster", "health", "--to-offset", "0")
    assert command("groups describe", "g", format="") == ("groups", "describe", "g", "--format=")
