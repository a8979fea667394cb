"""The docs state true sizes, and the light installation needs no more than it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from docs.sizes import EXTRAS, LIGHT, PROJECT, megabytes, packages_of, stated
from support.house import ROOMS, ROOT

PAGE = (ROOT / "docs/install.md").read_text()
LIGHT_PACKAGES = {"oncelog", "click", "crc32c", "msgpack", "xxhash"}
TOLERANCE = 0.25
"""Packages grow from release to release."""


def test_the_page_states_a_size_for_every_extra() -> None:
    assert set(stated(PAGE)) == {LIGHT, *EXTRAS}
    assert set(PROJECT["project"]["optional-dependencies"]) == {
        *EXTRAS,
        "browser",
        "dev",
        "peers",
        "unit",
    }


@pytest.mark.parametrize("extra", [LIGHT, *EXTRAS])
def test_a_stated_size_is_true(extra: str) -> None:
    said, measured = stated(PAGE)[extra], megabytes(extra)
    assert abs(measured - said) <= TOLERANCE * said, (
        f"oncelog[{extra}] takes {measured:.0f} MB, and docs/install.md says {said:.0f} MB"
    )


def test_the_light_installation_is_five_packages() -> None:
    assert packages_of(LIGHT) == LIGHT_PACKAGES


def test_an_extra_for_one_machine_has_no_spark() -> None:
    for extra in ("broker", "local", "demo", "testing"):
        assert not packages_of(extra) & {"pyspark", "py4j"}


def test_the_light_installation_needs_nothing_else(tmp_path: Path) -> None:
    """The SDK can be imported, and every command can be described, for which all of them are."""
    done = in_light_installation(
        tmp_path,
        "import oncelog, oncelog.blocking, oncelog.errors, sys;"
        "from oncelog_cli.main import run_command; sys.exit(run_command(['--help-json']))",
    )
    assert done.returncode == 0, done.stderr
    paths = {" ".join(command["path"]) for command in json.loads(done.stdout)["commands"]}
    assert {"produce", "consume", "topics list", "up", "demo", "pipeline run"} <= paths


@pytest.mark.parametrize(
    ("command", "extra"),
    [(["demo"], "demo"), (["pipeline", "demo"], "demo,spark"), (["bench"], "local")],
)
def test_demos_and_benchmarks_name_their_extra_and_load_nothing(
    tmp_path: Path, command: list[str], extra: str
) -> None:
    done = in_light_installation(
        tmp_path,
        f"import sys; from oncelog_cli.main import run_command; code = run_command({command});"
        "print(*sys.modules, sep='\\n'); sys.exit(code)",
    )
    assert done.returncode == 2
    assert f"Remedy: pip install 'oncelog[{extra}]'" in done.stderr
    theirs = ("oncelog_cli.demo.", "oncelog_bench", "pyspark_oncelog")
    assert not [name for name in done.stdout.split() if name.startswith(theirs)]


def in_light_installation(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with its packages alone, without those that are installed here as well."""
    for name in LIGHT_PACKAGES - {"oncelog"}:
        for top in tops(name):
            (folder / top.name).symlink_to(top)
    rooms = [str(ROOT / room) for room in ROOMS]
    return subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *rooms])},
        capture_output=True,
        text=True,
        check=False,
    )


def tops(name: str) -> set[Path]:
    """Return what a distribution puts at the top of a folder of packages."""
    found = distribution(name)
    root = Path(str(found.locate_file("")))
    inside = [file for file in found.files or () if ".." not in file.parts]
    return {root / file.parts[0] for file in inside}
