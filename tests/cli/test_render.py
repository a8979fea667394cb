"""Output is aligned text, the JSON envelope, or one line an error."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from oncelog.errors import TopicAlreadyExistsError
from oncelog_cli import typed
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.options import Format
from oncelog_cli.render import (
    Column,
    Output,
    counted,
    human_bytes,
    human_seconds,
    human_time,
    report,
)

COLUMNS = (
    Column("NAME", "name"),
    Column("COUNT", "count", right=True),
    Column("IDS", "ids"),
    Column("NOTE", "note", wide=True),
)
ROWS: list[dict[str, Any]] = [
    {"name": "a", "count": 7, "ids": [1, 2], "note": True},
    {"name": "longer", "count": 1000, "ids": [], "note": None},
]


def test_a_table_is_aligned_and_has_no_colours_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output("x", Format.TABLE).table(COLUMNS, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "NAME    COUNT  IDS",
        "a           7  1,2",
        "longer   1000  -",
    ]


def test_wide_has_more_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x", Format.WIDE).table(COLUMNS, ROWS)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "a           7  1,2  yes",
        "longer   1000  -    -",
    ]


def test_an_empty_table_shows_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x", Format.TABLE).table(COLUMNS, [])
    assert capsys.readouterr().out == "NAME  COUNT  IDS\n"


def test_a_terminal_gets_a_rich_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    Output("x", Format.TABLE).table(COLUMNS, [{"name": "[red]x[/red]", "count": 1}])
    assert "[red]x[/red]" in capsys.readouterr().out  # names are not markup


def test_json_is_one_document_with_command_and_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output("topics list", Format.JSON)
    output.table(COLUMNS, ROWS)
    output.line("for people")
    output.note("for people")
    output.finish({"rows": ROWS})
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert list(document)[:2] == ["_command", "_version"]
    assert (document["_command"], document["_version"]) == ("topics list", 1)
    assert document["rows"] == ROWS
    assert document["errors"] == []
    assert captured.err == ""


def test_yaml_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    for chosen in (Format.JSON, Format.YAML):
        output = Output("topics list", chosen)
        assert output.is_json
        output.table(COLUMNS, ROWS)
        output.line("for people")
        output.fail("x", "went wrong")
        with pytest.raises(typed.Exit):
            output.finish({"rows": ROWS, "path": Path("/tmp")})
    as_json, as_yaml = re.split(r"(?<=^}\n)", capsys.readouterr().out, flags=re.MULTILINE)
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def tsv(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return what was printed, as columns."""
    return [line.split("\t") for line in capsys.readouterr().out.splitlines()]


def test_tsv_has_every_column_raw_and_no_headings(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("x", Format.TSV)
    columns = (*COLUMNS, Column("SIZE", "size", show=human_bytes))
    odd = {"name": "a\tb\n\\", "count": False, "ids": [], "note": "", "size": 4096}
    output.line("for people")
    output.note("for people")
    output.table(columns, [*ROWS, odd], title="for people")
    output.finish({"rows": ROWS})
    assert tsv(capsys) == [
        ["a", "7", "1,2", "true", "-"],
        ["longer", "1000", "-", "-", "-"],
        ["a\\tb\\n\\\\", "false", "-", "-", "4096"],
    ]


def test_tsv_says_what_rows_belong_to_and_leaves_details_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output("x", Format.TSV)
    for name in ("t", "u"):
        output.table(COLUMNS[:2], ROWS[:1], under={"topic": name})
        output.table(COLUMNS, ROWS, detail=True)
    output.finish({})
    assert tsv(capsys) == [["t", "a", "7"], ["u", "a", "7"]]


def test_tsv_without_a_table_has_the_rows_of_the_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = COLUMNS[:2]
    Output("x", Format.TSV).finish({"dry_run": True, "rows": [*ROWS, {"name": "z"}]}, columns)
    assert tsv(capsys) == [["a", "7"], ["longer", "1000"], ["z", "-"]]
    Output("x", Format.TSV).finish({"name": "alone", "count": {"b": [1]}}, columns)
    assert tsv(capsys) == [["alone", '{"b":[1]}']]
    Output("x", Format.TSV).finish({"a": 1}, columns, [{"name": "given"}])
    assert tsv(capsys) == [["given", "-"]]
    Output("x", Format.TSV).finish({"a": 1, "b": None})
    assert tsv(capsys) == [["1", "-"]]
    Output("x", Format.TSV).finish({"rows": []})
    assert tsv(capsys) == []


def test_a_failed_item_is_a_line_an_entry_and_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output("topics create", Format.JSON)
    output.fail("orders", TopicAlreadyExistsError("it is there"))
    output.fail("line 3", "is no JSON")
    with pytest.raises(typed.Exit) as leaving:
        output.finish({})
    assert leaving.value.exit_code == 1
    captured = capsys.readouterr()
    assert captured.err == "error: orders: it is there\nerror: line 3: is no JSON\n"
    assert json.loads(captured.out)["errors"] == [
        {
            "item": "orders",
            "error": "TOPIC_ALREADY_EXISTS",
            "message": "it is there",
            "definite": True,
        },
        {"item": "line 3", "error": "FAILED", "message": "is no JSON"},
    ]


def test_what_names_its_item_does_not_name_it_twice(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x", Format.TABLE).fail("orders", "topic orders exists")
    assert capsys.readouterr().err == "error: topic orders exists\n"


def test_an_answer_is_told_and_its_document_printed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer({"rows": []}, [Failure("t-1", "is away")], notes=["some is not known"])
    output = Output("x", Format.TABLE)
    assert output.document_of(answer) == answer.document
    output.tell("deleted", ["b", "c"])
    captured = capsys.readouterr()
    assert captured.out == "deleted b\ndeleted c\n"
    assert captured.err == "some is not known\nerror: t-1: is away\n"
    output = Output("x", Format.JSON)
    output.tell("deleted", ["b"])
    with pytest.raises(typed.Exit):
        output.finish(output.document_of(answer))
    captured = capsys.readouterr()
    assert json.loads(captured.out)["errors"] == [answer.failures[0].entry()]
    assert captured.err == "error: t-1: is away\n", "notes are for people"


def test_there_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("x", Format.JSON)
    output.finish({"rows": 1})
    report(ConnectionError("after all"))
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rows"] == 1
    assert captured.err == "error: after all\n"


@pytest.mark.parametrize("chosen", [Format.TABLE, Format.JSON])
def test_a_command_that_fails_as_a_whole(
    chosen: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    Output("cluster", chosen)
    report(ConnectionError("nobody answered"))
    captured = capsys.readouterr()
    assert captured.err == "error: nobody answered\n"
    if chosen is Format.TABLE:
        assert captured.out == ""
    else:
        document = json.loads(captured.out)
        assert document["_command"] == "cluster"
        assert document["errors"][0]["message"] == "nobody answered"


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 * 2**40, "3.0 TiB"),
        (None, "-"),
        (-1, "-"),
    ],
)
def test_human_bytes(size: int | None, shown: str) -> None:
    assert human_bytes(size) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 records"), (1, "1 record"), (2, "2 records"), (1000, "1,000 records")],
)
def test_counted(number: int, shown: str) -> None:
    assert counted(number, "record") == shown


def test_the_tests_look_at_a_pipe() -> None:
    assert not os.isatty(1) or not sys.stdout.isatty()


def test_times_are_dates_and_none_is_a_dash() -> None:
    assert human_time(1_000) == "1970-01-01T00:00:01.000Z"
    assert [human_time(value) for value in (None, -1)] == ["-", "-"]


def test_human_seconds() -> None:
    shown = [human_seconds(value) for value in (None, 0, 90, 1080, 7200, 200_000)]
    assert shown == ["-", "0 s", "90 s", "18 min", "2 h", "2 d"]
