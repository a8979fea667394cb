"""Generated documents are fresh; the file map has one line for every source file."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from support.house import ROOT, sources


@pytest.mark.parametrize("tool", ["file_map", "wire_docs", "cli_docs", "kafka_messages"])
def test_generated_documents_are_fresh(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, f"tools/{tool}.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "protocol")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"make docs: {done.stdout}{done.stderr}"


def test_every_source_file_is_on_the_map() -> None:
    text = (ROOT / "docs/file-map.md").read_text()
    missing = []
    for path in sources():
        _, _, section = text.partition(f"## {path.parent.relative_to(ROOT)}/\n")
        section = section.partition("\n## ")[0]
        if path.name != "__init__.py" and f"| `{path.name}` |" not in section:
            missing.append(str(path.relative_to(ROOT)))
    assert not missing, "make docs"


def test_every_file_that_the_architecture_names_is_there() -> None:
    pages = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs/decisions").glob("*.md"))]
    named = {
        name
        for page in pages
        for name in re.findall(r"`([a-z]\w*/[\w./-]+\.py)`", page.read_text())
    }
    assert len(named) > 30
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []


def test_the_architecture_is_read_in_fifteen_minutes() -> None:
    """What grows has a page of its own: docs/rules.md, docs/file-map.md, docs/decisions."""
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 300
