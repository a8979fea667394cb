"""Documents that are made from the code are up to date, and complete."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from oncelog_protocol.errors import ERRORS
from oncelog_protocol.registry import REQUESTS
from oncelog_protocol.topic_config import TOPIC_SETTINGS
from support.house import ROOT


def generator(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


WIRE_DOCS = generator("wire_docs")
CLI_DOCS = generator("cli_docs")
OUTPUTS: dict[str, str] = {
    path.name: text for tool in (WIRE_DOCS, CLI_DOCS) for path, text in tool.outputs().items()
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_generated_documents_are_up_to_date(name: str) -> None:
    current = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert current == OUTPUTS[name], "make docs"


def test_every_api_error_and_setting_is_described() -> None:
    for cls in REQUESTS.values():
        assert f"#### {cls.__name__}\n" in OUTPUTS["wire.md"]
        assert f"#### {cls.response.__name__}\n" in OUTPUTS["wire.md"]
    for error in ERRORS.values():
        assert f"| {error.code} | `{error.name}` |" in OUTPUTS["wire.md"]
    for name in TOPIC_SETTINGS:
        assert f"| `{name}` |" in OUTPUTS["topic-configs.md"]


def test_every_command_and_option_is_described() -> None:
    for command in CLI_DOCS.every_command():
        assert f"## oncelog {command.path}\n" in OUTPUTS["cli.md"]
        for parameter in command.click.params:
            if parameter.param_type_name == "option":
                assert parameter.opts[0] in OUTPUTS["cli.md"], command.path


def test_links_within_the_page_lead_somewhere() -> None:
    text = OUTPUTS["wire.md"]
    titles = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    anchors = {
        "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        for title in titles
    }
    targets = {part.split(")")[0] for part in text.split("](#")[1:]}
    assert targets <= anchors


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("One ``thing``.", "One `thing`."),
        ("See :class:`~a.b.Thing`.", "See `Thing`."),
        ("Rules\n-----\n* one", "**Rules**\n\n* one"),
        ("It is::\n\n    a := b\n\nAnd on.", "It is:\n\n```\na := b\n```\n\nAnd on."),
        ("Last.\n\n::\n\n    a", "Last.\n\n```\na\n```"),
    ],
)
def test_docstrings_in_markdown(docstring: str, expected: str) -> None:
    assert WIRE_DOCS.markdown(docstring) == expected
