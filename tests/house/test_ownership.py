"""The measures of ``make house-report`` are tried on code of which one knows who writes what."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.house import ROOT

OWNER = """
class Base:
    inherited = 0

class Owner(Base):
    value = 0
    _hidden = 0
    def touch(self) -> None:
        self.value = 1
        self._hidden = 2

def of_the_same_module(owner: Owner) -> None:
    owner.value = owner._hidden

def _quiet() -> None: ...
"""

WRITES = {
    "an assignment": "owner.value = 1",
    "one of an inherited attribute": "owner.inherited = 1",
    "an augmented one": "owner.value += 1",
    "one of several targets": "a, owner.value = 1, 2",
    "the target of a loop": "for owner.value in range(3): ...",
    "a deletion": "del owner.value",
    "one under another name": "mine = owner\n    mine.value = 1",
    "one through a list": "[owner][0].value = 1",
    "one through what may be None": "maybe = owner if owner.value else None\n"
    "    if maybe is not None:\n        maybe.value = 1",
    "one of the class": "Owner.value = 1",
    "one by name": "setattr(owner, 'value', 1)",
    "one past the class": "object.__setattr__(owner, 'value', 1)",
    "one in a function inside": "def inner() -> None:\n        owner.value = 1",
}

READS = {
    "an attribute": "print(owner._hidden)",
    "a write of one": "owner._hidden = 1",
    "a name of a module": "print(pkg.owner._quiet)",
    "an imported name": "from pkg.owner import _quiet",
}

ALLOWED = {
    "what the function has made": "made = Owner()\n    made.value = 1",
    "a method of the owner": "owner.touch()",
    "a read of what is public": "print(owner.value)",
    "a local name": "value = owner.value",
    "what the function has made, by name": "made = Owner()\n    setattr(made, 'value', 1)",
}


def tool(name: str) -> ModuleType:
    path = ROOT / f"tools/house_measures/{name}.py"
    spec = importlib.util.spec_from_file_location(f"house_measures_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def package(folder: Path, **modules: str) -> Path:
    (folder / "room/pkg").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.mypy]\nmypy_path = "room"\n')
    for name, text in {"__init__": "", **modules}.items():
        (folder / f"room/pkg/{name}.py").write_text(text)
    return folder


def user(body: str) -> str:
    head = "import pkg.owner\nfrom pkg.owner import Owner\n\ndef use(owner: Owner) -> None:"
    return f"{head}\n    {body}\n"


def test_what_reaches_into_an_object_is_found_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [*WRITES.values(), *READS.values(), *ALLOWED.values()]
    users = {f"user{number}": user(body) for number, body in enumerate(cases)}
    root = package(tmp_path, owner=OWNER, **users)
    monkeypatch.chdir(root)
    report = tool("ownership").measure(root, ["room"], ("pkg",))
    writing = {found.module for found in report.writes}
    reading = {found.module for found in report.private_reads}
    for number, body in enumerate(cases):
        name = f"pkg.user{number}"
        writes = body in WRITES.values() or "_hidden = 1" in body
        assert (name in writing) is writes, body
        assert (name in reading) is (body in READS.values()), body
    assert not {"pkg.owner"} & (writing | reading)
    assert not report.unknown


def test_an_object_of_which_nobody_knows_the_class_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from typing import Any\n\ndef use(thing: Any) -> None:\n    thing.value = 1\n"
    root = package(tmp_path, user=text)
    monkeypatch.chdir(root)
    report = tool("ownership").measure(root, ["room"], ("pkg",))
    assert [found.text for found in report.unknown] == ["thing.value"]


def test_what_did_not_change_is_remembered_and_what_did_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = {"user0": user("owner.value = 1"), "user1": user("owner.touch()")}
    root = package(tmp_path, owner=OWNER, **users)
    monkeypatch.chdir(root)
    measure, cache = tool("ownership").measure, root / "cache"

    def writing() -> list[str]:
        found = measure(root, ["room"], ("pkg",), cache=cache)
        assert found == measure(root, ["room"], ("pkg",))
        return [each.module for each in found.writes]

    assert writing() == ["pkg.user0"]
    assert writing() == ["pkg.user0"], "nothing has changed"
    (root / "room/pkg/user1.py").write_text(user("owner.inherited = 1"))
    assert writing() == ["pkg.user0", "pkg.user1"]
    (root / "room/pkg/user0.py").unlink()
    assert writing() == ["pkg.user1"]
    for kept in cache.rglob("findings.json"):
        kept.write_text("{")
    assert writing() == ["pkg.user1"], "what was remembered is lost"


def test_an_exception_takes_out_what_it_names_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = package(tmp_path, owner=OWNER, user=user("owner.value = owner._hidden = 1"))
    monkeypatch.chdir(root)
    found = tool("ownership").measure(root, ["room"], ("pkg",))
    left = found.without({"pkg.user: owner.value": "a reason"})
    assert [each.key for each in left.writes] == ["pkg.user: owner._hidden"]
    assert [each.key for each in left.private_reads] == ["pkg.user: owner._hidden"]


def test_circles_are_found_however_they_are_imported(tmp_path: Path) -> None:
    root = package(
        tmp_path,
        a="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.b import thing\n",
        b="def work():\n    from pkg import c\n",
        c="from . import a\n",
        d="import pkg.a\n",
    )
    cycles = tool("cycles")
    found = cycles.cycles(cycles.modules([root / "room"]))
    assert found == [["pkg.a", "pkg.b", "pkg.c"]]
