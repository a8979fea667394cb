"""It measures how large an installation is, by extra: docs/install.md states it.

A size is that of the files which the packages bring, those packages need included, without what
Python compiles and without pip. Oncelog's own files are those that its wheel would hold.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.house import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = (
    "broker",
    "console",
    "local",
    "demo",
    "spark",
    "arrow",
    "json",
    "lz4",
    "snappy",
    "zstd",
    "testing",
    "oidc",
    "otel",
)
LIGHT = ""
"""The installation without an extra."""


def packages_of(extra: str) -> set[str]:
    """Return the distributions that ``oncelog[extra]`` installs, its own included."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [("oncelog", extra)]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        found.add(name)
        if wanted:
            waiting.append((name, ""))
        for requirement in requirements_of(name, wanted):
            marker = requirement.marker
            if marker is not None and not marker.evaluate({"extra": wanted}):
                continue
            needed = canonicalize_name(requirement.name)
            waiting += [(needed, each) for each in ("", *requirement.extras)]
    return found


def requirements_of(name: str, extra: str) -> list[Requirement]:
    """Return what a distribution says that it needs. Our own says it in the project's file: an
    installation in place does not know what was changed there since."""
    if name != "oncelog":
        return [Requirement(text) for text in distribution(name).requires or ()]
    project = PROJECT["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [Requirement(text) for text in wanted]


def size_of(name: str) -> int:
    """Return the bytes of a distribution's files."""
    if name == "oncelog":
        return sum(file.stat().st_size for file in own_files())
    return sum(file.stat().st_size for file in files_of(distribution(name)))


def files_of(found: Distribution) -> list[Path]:
    """Return what it installed, without what Python compiled since."""
    paths = (Path(str(found.locate_file(file))) for file in found.files or ())
    return [path for path in paths if path.suffix != ".pyc" and path.is_file()]


def own_files() -> list[Path]:
    """Return what the wheel holds."""
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    places = [ROOT / place for place in (*wheel["packages"], *wheel["force-include"])]
    files = (file for place in places for file in place.rglob("*") if file.is_file())
    return [file for file in files if "__pycache__" not in file.parts]


def megabytes(extra: str) -> float:
    """Return all that ``oncelog[extra]`` installs, in millions of bytes."""
    return sum(map(size_of, packages_of(extra))) / 1e6


def stated(page: str) -> dict[str, float]:
    """Return a page's sizes by extra: rows ``| `oncelog[broker]` | ... | 12 MB |``."""
    rows = re.findall(r"^\| `oncelog(?:\[(\w+)\])?` \|.*\| ([\d.]+) MB \|", page, re.MULTILINE)
    return {extra or LIGHT: float(size) for extra, size in rows}
