"""ARCHITECTURE.md has one line for every source file, and it is the file's own."""

from __future__ import annotations

import subprocess
import sys

from support.house import ROOT, sources


def test_the_file_map_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, "tools/file_map.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_source_file_is_on_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    missing = []
    for path in sources():
        _, _, section = text.partition(f"### {path.parent.relative_to(ROOT)}/\n")
        section = section.partition("\n### ")[0]
        if path.name != "__init__.py" and f"| `{path.name}` |" not in section:
            missing.append(str(path.relative_to(ROOT)))
    assert not missing, "make docs"
