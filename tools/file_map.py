"""Rewrites the file map of ARCHITECTURE.md from the first line of every module's docstring.

``python tools/file_map.py`` rewrites it; with ``--check`` nothing is written, and the exit code is
1 when the map is stale. Only the text between the two markers is touched.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.generated import write_or_check  # noqa: E402

DOCUMENT = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- file map: begin (made by tools/file_map.py) -->"
END = "<!-- file map: end -->"
FOLDERS = (
    "protocol", "runtime", "broker", "controller", "client", "cli", "pipeline", "testing",
    "bench",
    "tests/support", "tools",
)  # fmt: skip


def first_line(path: Path) -> str:
    """The first line of a module's docstring, fit for a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return docstring.partition("\n")[0].strip().rstrip(".").replace("|", "\\|")


def sections() -> list[str]:
    """One heading and one table for each folder that holds modules."""
    lines: list[str] = []
    for top in FOLDERS:
        folders: dict[Path, list[Path]] = {}
        for path in sorted((ROOT / top).rglob("*.py")):
            folders.setdefault(path.parent, []).append(path)
        for folder in sorted(folders):
            rows = [
                f"| `{path.name}` | {text} |"
                for path in folders[folder]
                if (text := first_line(path)) or path.name != "__init__.py"
            ]
            if rows:
                lines += [f"### {folder.relative_to(ROOT)}/", "", "| file | what |", "|---|---|"]
                lines += [*rows, ""]
    return lines


def outputs() -> dict[Path, str]:
    """What the document must hold: what it holds, with today's map."""
    head, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{DOCUMENT.name} lacks the markers of the file map")
    return {DOCUMENT: "\n".join([head + BEGIN, "", *sections(), END + tail])}


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, outputs))
