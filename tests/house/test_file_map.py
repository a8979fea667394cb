"""Generated documents are fresh; the file map has one line for every source file."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.house import ROOT, sources


@pytest.mark.parametrize("tool", ["file_map", "wire_docs", "cli_docs"])
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
    text = (ROOT / "ARCHITECTURE.md").read_text()
    missing = []
    for path in sources():
        _, _, section = text.partition(f"### {path.parent.relative_to(ROOT)}/\n")
        section = section.partition("\n### ")[0]
        if path.name != "__init__.py" and f"| `{path.name}` |" not in section:
            missing.append(str(path.relative_to(ROOT)))
    assert not missing, "make docs"
