"""The house is measured here: ``make house-report`` ends with one JSON line.

``--list`` prints every finding, ``--only PACKAGE`` those of some modules.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.house_measures import defaults, docstrings, rules  # noqa: E402
from tools.house_measures.cycles import cycles, modules  # noqa: E402
from tools.house_measures.ownership import measure  # noqa: E402
from tools.house_measures.statements import statements  # noqa: E402

ROOMS = (
    "protocol", "runtime", "controller", "broker", "client", "cli", "console", "bench", "pipeline",
    "testing",
)  # fmt: skip
PACKAGES = ("oncelog", "pyspark_oncelog")
CACHE = ROOT / ".mypy_cache" / "house"

EXCEPTIONS = {
    "oncelog_broker.live_config: setattr(target)": (
        "It owns the rooms' settings, which are plain data; rooms read them and change none."
    ),
    "pyspark_oncelog.runner.run: spark._jvm": (
        "PySpark has no public way to the process id of its JVM, which the view reports."
    ),
}
"""Writes and private reads that stay, each with its reason. One that is not needed is a finding."""

_FACES = (
    "Admin", "Consumer", "Delivery", "Producer", "SharedTransaction", "SharedWriter",
    "TracedConsumer", "TracedProducer", "Transaction",
)  # fmt: skip
NAMED_TWICE = dict.fromkeys(
    _FACES, "Its face without a loop has the same name, as users import it from another module."
) | {"TlsError": "A connection raises one; users catch the client's, which is of its own tree."}
"""Names that two classes have, and no more, each with its reason. One that is not needed is a
finding."""


def main() -> None:
    """Print the findings that are asked for, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print every finding")
    parser.add_argument("--only", default="", metavar="PACKAGE", help="of these modules alone")
    given = parser.parse_args()
    known = modules(ROOT / room for room in ROOMS)
    groups = [group for group in cycles(known) if any(n.startswith(given.only) for n in group)]
    owned = measure(ROOT, list(ROOMS), PACKAGES, cache=CACHE)
    needless = sorted(EXCEPTIONS.keys() - {each.key for each in owned.all})
    owned = owned.without(EXCEPTIONS)
    writes = [f for f in owned.writes + owned.unknown if f.module.startswith(given.only)]
    reads = [f for f in owned.private_reads if f.module.startswith(given.only)]
    cited = rules.citations(ROOT, rules.modules(ROOT), rules.load(ROOT)[1])
    without_rule = [*cited.unknown, *cited.old]
    second = defaults.measure(ROOT)
    same_named = _same_named(list(known.values()))
    fragments = docstrings.measure(ROOT, [*ROOMS, "tests", "tools"])
    fragments = [f for f in fragments if given.only.replace(".", "/") in f.path]
    if given.list:
        for group in groups:
            print(f"cycle of {len(group)}: {' '.join(group)}")
        _print({"write": writes, "private read": reads})
        for key, reason in sorted(EXCEPTIONS.items()):
            print(f"exception{' without need' if key in needless else ''}: {key}: {reason}")
        _print({"second default": second, "citation without rule": without_rule})
        _print({"bad docstring": fragments, "same-named class": same_named})
    counts = {
        "cycles": len(groups),
        "foreign_writes": len(writes),
        "private_reads": len(reads),
        "needless_exceptions": len(needless),
        "citations_without_rule": len(without_rule),
        "double_defaults": len(second),
        "bad_docstrings": len(fragments),
        "same_named_classes": len(same_named),
        "product_lines": _lines(list(known.values())),
        "test_lines": _lines(sorted((ROOT / "tests").rglob("*.py"))),
    }
    print(json.dumps(counts))


def _print(findings: Mapping[str, Sequence[object]]) -> None:
    for kind, found in findings.items():
        for each in found:
            print(f"{kind}: {each}")


def _same_named(paths: list[Path]) -> list[str]:
    """Return the names that more than one class of the modules has, and needless exceptions."""
    names = Counter(
        node.name
        for path in paths
        for node in statements(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    return sorted(
        name for name in names.keys() | NAMED_TWICE if names[name] != 1 + (name in NAMED_TWICE)
    )


def _lines(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


if __name__ == "__main__":
    main()
