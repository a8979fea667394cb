"""Every rule that is cited can be looked up, and what its row names is there."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simulation.ablations import SWITCHES
from support.house import ROOT, generator, tree
from unsafe import controller, coordinators, log, replication, security

RULES = generator("house_measures/rules")
DOCS = generator("rules_docs")
SECTIONS, ROWS = RULES.load(ROOT)
OURS = "test_rules.py"
"""Its examples are no citations."""

CITATIONS = RULES.citations(ROOT, [p for p in RULES.modules(ROOT) if p.name != OURS], ROWS)


def test_the_generated_page_is_up_to_date() -> None:
    for path, text in DOCS.outputs().items():
        assert path.read_text(encoding="utf-8") == text, "make docs"


def test_numbers_are_given_once_and_belong_to_a_section() -> None:
    times = Counter(row.id for row in ROWS)
    assert [id for id, count in times.items() if count > 1] == []
    assert {row.id[0] for row in ROWS} == {section.letter for section in SECTIONS}


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_every_file_and_test_of_a_rule_is_there(row: Any) -> None:
    assert row.rule.endswith(".")
    assert row.source
    assert (ROOT / row.where).is_file(), f"{row.where} is gone"
    assert row.proof or row.id[0] == "N", "nothing proves it"
    for proof in row.proof:
        path, _, name = proof.partition("::")
        assert (ROOT / path).is_file(), f"{path} is gone"
        assert not name or name in functions(ROOT / path), f"{proof} is gone"


def test_what_is_cited_is_a_rule() -> None:
    assert [str(each) for each in CITATIONS.unknown] == [], f"no row in {RULES.DATA}"
    assert [str(each) for each in CITATIONS.old] == [], "write [K5], or the sentence itself"


def test_every_rule_is_cited() -> None:
    """What is not obvious (N) is for people: no module needs to cite it."""
    cited = {each.id for each in CITATIONS.known}
    assert [row.id for row in ROWS if row.id[0] != "N" and row.id not in cited] == []


def test_every_switch_is_of_one_rule() -> None:
    times = Counter(switch for row in ROWS for switch in row.switches)
    assert [switch for switch, count in times.items() if count > 1] == []
    rooms = {
        *replication.UNSAFE,
        *(f"log.{name}" for name in [*log.UNSAFE, *log.UNSAFE_FILES]),
        *(f"controller.{name}" for name in controller.UNSAFE),
        *(f"coordinator.{name}" for name in coordinators.UNSAFE),
        *(f"security.{name}" for name in security.UNSAFE),
    }
    assert {*SWITCHES, *rooms} - set(times) == set()


def functions(path: Path) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree(path)) if isinstance(node, kinds)}


def cites(folder: Path, source: str) -> Any:
    """Return the citations in a module of one file."""
    path = folder / "module.py"
    path.write_text(source)
    return RULES.citations(folder, [path], ROWS)


def test_a_citation_stands_in_brackets(tmp_path: Path) -> None:
    found = cites(tmp_path, '"""By [K5] and [Z4]."""\nx = 1  # see [B6]\n')
    assert [(each.line, each.id) for each in found.known] == [(1, "K5"), (1, "Z4"), (2, "B6")]
    assert found.unknown == found.old == ()


def test_a_string_that_is_a_number_and_nothing_else_cites(tmp_path: Path) -> None:
    found = cites(tmp_path, 'raise Violation("B4", "B5 is not meant")\n')
    assert [each.id for each in found.known] == ["B4"]
    assert found.old == ()


def test_a_number_that_no_rule_has_is_found(tmp_path: Path) -> None:
    assert [each.id for each in cites(tmp_path, '"""By [K999]."""\n').unknown] == ["K999"]


@pytest.mark.parametrize(
    "text", ["By K5.", "(KIP-320, K5)", "Ablation 23.", "RELIABILITY 8.4", "F12"]
)
def test_the_old_form_is_found(tmp_path: Path, text: str) -> None:
    assert len(cites(tmp_path, f'"""{text}"""\n').old) == 1


@pytest.mark.parametrize("text", ["K5 = 1", '"""A7/1, 2.K5 and K55."""', "x = y[A0]", "A1(K5)"])
def test_what_is_no_citation(tmp_path: Path, text: str) -> None:
    found = cites(tmp_path, f"{text}\n")
    assert found.known == found.unknown == found.old == ()
