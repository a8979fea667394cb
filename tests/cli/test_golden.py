"""Every command prints what its golden file says, and keeps the contract of its output.

The commands are found from the command tree: one that has no case in ``support.golden_cases``, or
no file, fails. ``make golden REWRITE=1`` writes files and schemas from what came.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog_cli.command_tree import Leaf, leaves
from oncelog_cli.exits import EXIT_FAILED, EXIT_OK, EXIT_UNHEALTHY, EXIT_USAGE, MEANINGS
from oncelog_cli.render import JSON_VERSION
from oncelog_cli.schemas import SCHEMAS_FILE, load_schemas
from support.golden import (
    BLIND,
    Case,
    World,
    completed,
    dumped,
    infer,
    merge,
    nowhere,
    real_cluster,
    run_case,
    transcript,
)
from support.golden_cases import CASES, HINTS, SAME_DOCUMENT
from support.house import ROOT
from support.shell import Shown, oncelog

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOLDEN = Path(__file__).parent / "golden"
REWRITE = bool(os.environ.get("REWRITE"))
LEAVES = {leaf.path: leaf for leaf in leaves()}
PATHS = list(LEAVES)
WITH_DOCUMENT = [
    path
    for path, leaf in LEAVES.items()
    if {"output_format"} <= {p.name for p in leaf.click.params}
]
"""Commands that print one document; the others print lines, or become another program."""


@pytest.fixture(autouse=True)
def bare_home() -> None:
    """Not that of other tests: ``world`` says where things are."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """All cases share this cluster, and a machine on which nothing is set."""
    directory = tmp_path_factory.mktemp("golden")
    with nowhere(directory):
        async with real_cluster(directory / "cluster") as cluster:
            yield World(directory, cluster)


def file_of(path: str) -> Path:
    return GOLDEN / f"{path.replace(' ', '_')}.txt"


def cases_of(path: str) -> tuple[Case, ...]:
    assert path in CASES, f"'oncelog {path}' has no case in tests/support/golden_cases.py"
    return CASES[path]


@pytest.mark.parametrize("path", PATHS)
async def test_the_golden_file(path: str, world: World) -> None:
    texts: list[str] = []
    schema: Any = None
    for case in cases_of(path):
        for form in case.formats:
            shown = await run_case(case, form, world)
            assert shown.code == case.code, shown.err or shown.out
            texts.append(transcript(case, form, shown, world))
            if form == "json" and path in WITH_DOCUMENT:
                document = checked_document(path, shown)
                seen = infer(document, case.maps)
                schema = seen if schema is None else merge(schema, seen)
            elif form == "tsv":
                check_columns(shown)
    compare(file_of(path), "\n".join(texts))
    if schema is not None:
        compare_schema(path, completed(schema, HINTS))


def checked_document(path: str, shown: Shown) -> dict[str, Any]:
    """Return the document of a run, if it keeps the contract."""
    document: dict[str, Any] = shown.document
    assert list(document)[:2] == ["_command", "_version"]
    assert (document["_command"], document["_version"]) == (path, JSON_VERSION)
    assert list(document)[-1] == "errors"
    assert all(
        {"item", "error", "message"} <= set(error) and error["message"]
        for error in document["errors"]
    )
    assert shown.code in MEANINGS
    assert bool(document["errors"]) == (shown.code in (EXIT_FAILED, EXIT_USAGE))
    for error in document["errors"]:
        assert " ".join(error["message"].split()) in " ".join(shown.err.split())
    return document


def check_columns(shown: Shown) -> None:
    """Every line of TSV has the same columns, and none is empty."""
    lines = [line.split("\t") for line in shown.out.splitlines()]
    assert len({len(line) for line in lines}) <= 1, shown.out
    assert all(cell for line in lines for cell in line)


def compare(file: Path, text: str) -> None:
    if REWRITE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    known = file.read_text(encoding="utf-8") if file.exists() else ""
    assert text == known, f"{file.name} differs: if it should, make golden REWRITE=1"


def compare_schema(path: str, seen: dict[str, Any]) -> None:
    schema = SAME_DOCUMENT.get(path, seen)
    if REWRITE:
        schemas = {**load_schemas(), path: schema}
        kept = {known: schemas[known] for known in PATHS if known in schemas}
        file = ROOT / "cli/oncelog_cli" / SCHEMAS_FILE
        file.write_text(dumped(kept), encoding="utf-8")
    assert load_schemas().get(path) == schema, f"the schema of '{path}': make golden REWRITE=1"


async def test_nothing_is_written_down_of_commands_that_are_not_there() -> None:
    assert set(CASES) == set(PATHS)
    assert {file.name for file in GOLDEN.iterdir()} == {file_of(path).name for path in PATHS}
    assert set(load_schemas()) == set(WITH_DOCUMENT)


@pytest.mark.parametrize("path", WITH_DOCUMENT)
async def test_help_shows_the_schema(path: str, world: World) -> None:
    shown = await oncelog(*path.split(), "--format", "help")
    assert (shown.code, shown.err) == (EXIT_OK, "")
    assert shown.out.startswith("_command: string\n_version: integer\n")


@pytest.mark.parametrize("path", WITH_DOCUMENT)
async def test_a_wrong_command_line_has_its_document(path: str, world: World) -> None:
    for form in (["--json"], ["--format=yaml"], ["-fjson"]):
        shown = await oncelog(*path.split(), *form, "--nonsense")
        assert shown.code == EXIT_USAGE
        assert shown.err.startswith("error: ")
        assert len(shown.err.splitlines()) == 1
        assert f'"_command": "{path}"' in shown.out or f"_command: {path}\n" in shown.out
        if form != ["--format=yaml"]:
            assert shown.document["errors"][0]["error"] == "USAGE"


def asks_a_cluster(leaf: Leaf) -> bool:
    return "bootstrap" in {parameter.name for parameter in leaf.click.params}


@pytest.mark.parametrize(
    ("path", "case"),
    [
        (path, next(case for case in CASES[path] if case.asks))
        for path in WITH_DOCUMENT
        if asks_a_cluster(LEAVES[path]) and any(case.asks for case in CASES.get(path, ()))
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_cluster_that_does_not_answer_has_its_document(
    path: str, case: Case, world: World
) -> None:
    shown = await run_case(case, "json", world, bootstrap=BLIND)
    assert shown.code == EXIT_FAILED
    document = checked_document(path, shown)
    assert document["errors"][-1]["error"] == "NoBrokersAvailableError"
    assert BLIND in shown.err


@pytest.mark.parametrize("path", [path for path in PATHS if asks_a_cluster(LEAVES[path])])
async def test_every_command_that_asks_a_cluster_takes_the_shared_options(path: str) -> None:
    assert {"profile", "client_options"} <= {p.name for p in LEAVES[path].click.params}


async def test_an_unhealthy_cluster_is_no_failure() -> None:
    assert len({EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_UNHEALTHY}) == 4


async def test_a_document_is_json(world: World) -> None:
    """The checks of this file would find a document that is none."""
    with pytest.raises(json.JSONDecodeError):
        checked_document("x", Shown(0, b'{"_command": "x"', ""))
    for broken in ('{"_command": "x"}', '{"_command": "y", "_version": 1, "errors": []}'):
        with pytest.raises((AssertionError, KeyError)):
            checked_document("x", Shown(0, broken.encode(), ""))
