"""Browsers load others' files only as they are named, and templates run nothing they should not."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support.house import ROOT
from support.tools import tool

PACKAGE = ROOT / "console/oncelog_console"
STATIC = PACKAGE / "static"
TEMPLATES = PACKAGE / "templates"

FORBIDDEN = {
    "hx-on": r"hx-on[:\-=]",
    "a filter of a trigger": r"""hx-trigger\s*=\s*["'][^"']*\[""",
    "js:": r"""["'\s](?:js|javascript):""",
    "style=": r"<[^>]*\sstyle\s*=",
    "<style>": r"<style\b",
    "<script> without src": r"<script\b(?![^>]*\bsrc\s*=)[^>]*>",
    "an event's attribute": r"<[^>]*\son\w+\s*=",
    "|safe": r"\|\s*safe\b",
    "autoescape off": r"\bautoescape\s+false\b",
    "an address elsewhere": r"""(?:src|href|action|hx-\w+)\s*=\s*["'](?:https?:)?//""",
}
"""These regular expressions fit nothing in a template. The policy of contents refuses most of it;
the rest would be a hole."""


def vendored() -> list[dict[str, Any]]:
    return list(tomllib.loads((STATIC / "VENDORED.toml").read_text())["file"])


def forbidden_in(text: str) -> list[str]:
    """Return the names of what a template may not have and has."""
    without_comments = re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)
    return [
        name
        for name, pattern in FORBIDDEN.items()
        if re.search(pattern, without_comments, re.IGNORECASE | re.DOTALL)
    ]


@pytest.mark.parametrize("row", vendored(), ids=lambda row: str(row["name"]))
def test_files_of_others_are_unchanged(row: dict[str, Any]) -> None:
    text = (STATIC / row["name"]).read_bytes()
    assert hashlib.sha256(text).hexdigest() == row["sha256"]
    assert row["version"].encode() in text
    assert row["licence"]


def test_every_minified_file_is_named() -> None:
    named = {row["name"] for row in vendored()}
    assert {path.name for path in STATIC.rglob("*.min.*")} == named


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('<p hx-on:click="go()">', "hx-on"),
        ('<p hx-trigger="click[ctrlKey]">', "a filter of a trigger"),
        ("<p hx-vals='js:{a: 1}'>", "js:"),
        ('<p style="color: red">', "style="),
        ("<style>p {}</style>", "<style>"),
        ("<script>alert(1)</script>", "<script> without src"),
        ('<p onclick="go()">', "an event's attribute"),
        ("<p>{{ name | safe }}", "|safe"),
        ("{% autoescape false %}", "autoescape off"),
        ('<img src="//example.com/a.png">', "an address elsewhere"),
    ],
)
def test_what_is_forbidden_is_found(text: str, name: str) -> None:
    assert forbidden_in(text) == [name]


def test_what_is_allowed_is_not_found() -> None:
    text = (
        '<script src="/static/a.js" type="module"></script> <p hx-trigger="every 5s">'
        '<a href="/topics/on">{{ style }}</a> {# "js:" is not used #}'
    )
    assert forbidden_in(text) == []


def test_templates_run_nothing() -> None:
    found = {
        str(path.relative_to(TEMPLATES)): names
        for path in sorted(Path(TEMPLATES).rglob("*.html"))
        if (names := forbidden_in(path.read_text()))
    }
    assert not found


WORDS_ON = (
    ("text", "track"), ("text", "raised"), ("text", "ground"),
    ("quiet", "ground"), ("quiet", "raised"), ("link", "ground"),
)  # fmt: skip


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``, as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_words_in_pictures_stand_out_in_both_schemes() -> None:
    """Axe does not judge the text of SVG: labels of the log page stand on these colours."""
    css = (STATIC / "console.css").read_text()
    schemes = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in css.split("}")]
    schemes = [each for each in schemes if "ground" in each]
    assert len(schemes) == 3
    for scheme in schemes:
        for word, below in WORDS_ON:
            dark, light = sorted((luminance(scheme[word]), luminance(scheme[below])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (word, below)


def test_a_mistake_in_a_type_is_found(tmp_path: Path) -> None:
    checker = tool("check_js")
    (tmp_path / "good.js").write_text(
        "/** @param {string} text */\nexport function size(text) { return text.length; }\n"
    )
    (tmp_path / "bad.js").write_text(
        'import { size } from "./good.js";\nsize(1);\ndocument.body.dataset.size = size("a");\n'
    )
    (tmp_path / "others.min.js").write_text("this is no script")
    files = checker.scripts(tmp_path)
    assert [path.name for path in files] == ["bad.js", "good.js"]
    try:
        said = checker.check(files)
    except checker.NotAvailableError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
    assert "bad.js(2,6): error TS2345" in said
    assert "bad.js(3,1): error TS2322" in said
    assert "good.js" not in said
    assert checker.check([tmp_path / "good.js"]) == ""
