"""Types are checked by mypy, once for two purposes: ``make types``.

    python tools/check_types.py      quiet when all is well; lists mistakes otherwise

The house report asks mypy for the types of the product (``house_measures.ownership``). What it
remembers of them serves here too: in a fresh clone only the tests and the tools are left to check.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mypy.main import main as mypy

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.house_measures.ownership import measure, remembered_types  # noqa: E402
from tools.house_report import CACHE, PACKAGES, ROOMS  # noqa: E402


def main() -> None:
    """Check everything. The exit code is 1 when there are mistakes."""
    os.chdir(ROOT)
    try:
        measure(ROOT, list(ROOMS), PACKAGES, cache=CACHE)
    except RuntimeError:
        pass  # mypy says below what is wrong, with the tests' mistakes
    folder = remembered_types(CACHE)
    # In the same words as there: mypy knows a module by its path.
    paths = [str(ROOT / room) for room in (*ROOMS, "tests", "tools")]
    mypy(args=["--no-error-summary", f"--cache-dir={folder}", *paths])


if __name__ == "__main__":
    main()
