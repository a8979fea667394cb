"""YAML: every JSON value comes back from a reader that is not ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from oncelog_cli.yaml_text import to_yaml

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_a_document_as_people_read_it() -> None:
    document = {
        "_command": "topics list",
        "_version": 1,
        "topics": [{"topic": "orders", "isr": [1, 2], "empty": [], "rack": None}, []],
        "nested": {"a": {"b": True}},
        "text": "two\nlines",
        "no": "yes",
    }
    assert to_yaml(document).splitlines() == [
        "_command: topics list",
        "_version: 1",
        "topics:",
        "  - topic: orders",
        "    isr:",
        "      - 1",
        "      - 2",
        "    empty: []",
        "    rack: null",
        "  - []",
        "nested:",
        "  a:",
        "    b: true",
        'text: "two\\nlines"',
        '"no": "yes"',
    ]


MISTAKEN = ["", " a", "a ", "a: b", "a #b", "- a", "a\tb", "\x85", "\u2028", "\x7f", "\ufeff"]
MISTAKEN += ["1", "1e3", "0x1f", "true", "No", "null", "~", "-", "a:", "*a", "&a", "!a", "|", "="]
MISTAKEN += ["2001-01-01", "12:30:45", "<<"]


@pytest.mark.parametrize("text", MISTAKEN)
def test_what_could_be_mistaken_is_quoted(text: str) -> None:
    written = to_yaml(text)
    assert written[0] == written[-1] == '"'
    assert json.loads(written) == text
    assert written.isprintable()


@pytest.mark.parametrize(
    ("number", "written"),
    [(1e16, "1.0e+16"), (1e-7, "1.0e-07"), (1.5e300, "1.5e+300"), (1.0, "1.0")],
)
def test_numbers_are_numbers_to_every_reader(number: float, written: str) -> None:
    assert to_yaml(number) == written
    assert float(written) == number


@given(VALUES)
def test_a_reader_finds_what_was_written(value: Any) -> None:
    assert yaml.safe_load(to_yaml(value)) == value
