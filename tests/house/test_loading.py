"""Text from outside is never taken as a module, a class or an expression to run.

Kafka's clients load the class that a setting names; so a setting was a way to run somebody else's
code (CVE-2023-25194, CVE-2025-27818). Here modules are loaded by names that stand in the source.
"""

from __future__ import annotations

import ast

import pytest

from support.house import name_of, sources, tree

LOADERS = {
    *("import_module", "__import__", "eval", "exec", "compile", "ImportString", "run_module"),
    *("run_path", "spec_from_file_location", "entry_points", "unsafe_load"),
}
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
FIXED_NAMES = {
    "protocol/oncelog_protocol/records/compression.py": "the codec's module, by a table",
    "client/oncelog/__init__.py": "public names, by a table",
    "testing/oncelog_testing/__init__.py": "public names, by a table",
    "cli/oncelog_cli/command_table.py": "the module of a command, by a table",
    "pipeline/pyspark_oncelog/runner/functions.py": "the function of a job, whose code it is",
}
"""These load modules, and so do no others."""


def loads(module: ast.Module) -> bool:
    """Return whether a module loads or runs what is named at run time."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in LOADERS:
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in LOADERS:
                if not (isinstance(value, ast.Name) and value.id == "re"):
                    return True
            case ast.Name(id="ImportString"):
                return True
            case ast.Import(names=names) if {each.name.partition(".")[0] for each in names} & (
                UNPICKLERS
            ):
                return True
            case ast.ImportFrom(module=str(name)) if name.partition(".")[0] in UNPICKLERS:
                return True
    return False


@pytest.mark.cve("2023-25194", "2025-27818")
def test_modules_are_loaded_by_names_that_stand_in_the_source() -> None:
    found = {name_of(path) for path in sources() if loads(tree(path))}
    assert found == FIXED_NAMES.keys()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("importlib.import_module(name)", True),
        ("eval(text)", True),
        ("import pickle", True),
        ("from yaml import load", True),
        ("x: ImportString", True),
        ("re.compile(text)", False),
        ("import json", False),
    ],
)
def test_loading_is_found(source: str, found: bool) -> None:
    assert loads(ast.parse(source)) is found
