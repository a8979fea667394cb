"""Every row of hostile input and every CVE of Kafka's has a test that says so by its mark; every
safeguard of security that is listed has one, or a switch of the simulator.

``tests/integration/hostile/rows.toml`` has the rows.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator

from integration.hostile.attacks import ATTACKS
from simulation.ablations import SWITCHES
from support.house import ROOT, sources_of_tests, tree

TABLE = tomllib.loads((ROOT / "tests/integration/hostile/rows.toml").read_text())
ROWS = {row["number"] for row in TABLE["row"]}
CVES = {cve["id"] for cve in TABLE["cve"]}
ABLATIONS = {each["name"] for each in TABLE["ablation"]}

ROWS_NOT_YET: set[int] = set()
CVES_NOT_YET: set[str] = set()
"""These are not proved yet; each leaves when it is."""


def marked(module: ast.Module, name: str) -> Iterator[object]:
    """Yield what the marks of a name stand for: ``@pytest.mark.hostile(3, 4)``."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr=found)):
                if found == name:
                    yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def proved(name: str) -> set[object]:
    """Return what the marks of a name stand for in all tests."""
    return {
        each
        for path in sources_of_tests()
        if f"mark.{name}(" in path.read_text()
        for each in marked(tree(path), name)
    }


def test_every_row_has_a_test() -> None:
    assert sorted(ROWS) == list(range(1, 57))
    found = proved("hostile") | {attack.row for attack in ATTACKS}
    assert found <= ROWS
    assert ROWS - found == ROWS_NOT_YET


def test_every_cve_has_a_test() -> None:
    found = proved("cve")
    assert found <= CVES
    assert CVES - found == CVES_NOT_YET


def test_every_safeguard_is_left_out_by_a_test_or_a_switch() -> None:
    by_tests = {f"security.{name}" for name in proved("ablation")}
    by_switches = {name for name in SWITCHES if name.startswith("security.")}
    assert by_tests | by_switches == ABLATIONS


def test_marks_are_found() -> None:
    module = ast.parse("@pytest.mark.hostile(3, 4)\n@pytest.mark.cve('x')\ndef test() -> None: ...")
    assert list(marked(module, "hostile")) == [3, 4]
    assert list(marked(module, "cve")) == ["x"]
