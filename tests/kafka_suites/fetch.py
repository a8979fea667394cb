"""Suites of others come from the registries of their languages, into the user's cache.

Each is pinned: a version, and a checksum that what came must have. What is there already is not
fetched or built again. ``NotAvailableError`` says what cannot be had here, and why.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelog_cli.local.maven import Jar, jars_in
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.places import cache_directory

Report = Callable[[str], None]

KAFKA_VERSION = "4.1.0"
KAFKA_JARS = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}-jars.txt")
FETCH_S = 600.0
BUILD_S = 1800.0
CARGO = """[package]
name = "judges"
version = "0.0.0"
edition = "2021"

[dependencies]
{name} = "={version}"
"""


class NotAvailableError(Exception):
    """Something that a suite needs cannot be had on this machine; the message says what and why."""


def cache() -> Path:
    """Return the directory in which all of it is kept."""
    return cache_directory() / "kafka-suites"


def jars(listed: Path, what: str, report: Report) -> str:
    """Return a class path of the jars that a file lists, a line each: path, bytes, SHA-512.

    :param listed: its name, without ``.txt``, is that of the directory that keeps them.
    :raises NotAvailableError: one cannot be had, or is another, or there is no Java.
    """
    need("java")
    wanted = [
        Jar(path, int(size), digest)
        for path, size, digest in (line.split() for line in listed.read_text().splitlines())
    ]
    try:
        files = jars_in(cache() / listed.stem, wanted, what, os.environ, report)
    except LocalClusterError as error:
        raise NotAvailableError(str(error)) from error
    return os.pathsep.join(map(str, files))


def kafka_jars(report: Report) -> str:
    """Return a class path with Kafka's clients, tools and Connect, and its file connectors.

    :raises NotAvailableError: see ``jars``.
    """
    return jars(KAFKA_JARS, f"Kafka {KAFKA_VERSION}", report)


@dataclass(frozen=True, slots=True)
class Edit:
    """One line of a Go module reads otherwise in a program of its tests."""

    file: str
    """Its path in the module."""
    before: str
    """This stands there once."""
    after: str

    def apply(self, module: Path) -> None:
        """Change a copy of the module.

        :raises NotAvailableError: the line is not there, or not once.
        """
        path = module / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise NotAvailableError(f"{path} is not what it was: {self.before!r} is not there once")
        path.write_text(text.replace(self.before, self.after), encoding="utf-8")


def go_tests(
    module: str,
    version: str,
    checksum: str,
    package: str,
    report: Report,
    edits: Sequence[Edit] = (),
) -> Path:
    """Return the program of a package's tests, built from a Go module.

    :param checksum: the module's, as ``go.sum`` has it (``h1:...``).
    :raises NotAvailableError: it cannot be had, is another, or does not build.
    """
    need("go")
    name = f"{module.rpartition('/')[2]}-{version}-{Path(package).name}"
    mark = f"-{hashlib.sha256(repr(edits).encode()).hexdigest()[:12]}" if edits else ""
    program = cache() / f"{name}{mark}.test"
    if program.exists():
        return program
    report(f"fetching {module} {version} once, and building the tests of {package}")
    got = json.loads(run(["go", "mod", "download", "-json", f"{module}@{version}"], FETCH_S))
    if got["Sum"] != checksum:
        raise NotAvailableError(f"{module} {version} is not what it was: its sum is {got['Sum']}")
    program.parent.mkdir(parents=True, exist_ok=True)
    new = program.with_suffix(".new")
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        source = Path(got["Dir"])
        if edits:
            source = shutil.copytree(source, Path(folder, "module"), copy_function=shutil.copyfile)
        for edit in edits:
            edit.apply(source)
        run(["go", "test", "-C", str(source), "-c", "-o", str(new), package], BUILD_S)
    new.replace(program)
    return program


def crate(name: str, version: str, checksum: str, report: Report) -> Path:
    """Return the directory of a crate's source.

    :param checksum: the SHA-256 that the registry's index has.
    :raises NotAvailableError: it cannot be had, or is another.
    """
    place = cache() / f"{name}-{version}"
    if place.exists():
        return place
    need("cargo")
    report(f"fetching the crate {name} {version} once")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        Path(folder, "Cargo.toml").write_text(CARGO.format(name=name, version=version))
        Path(folder, "src").mkdir()
        Path(folder, "src/lib.rs").touch()
        run(["cargo", "vendor", "--quiet", "--versioned-dirs", "vendor"], FETCH_S, cwd=folder)
        source = Path(folder, "vendor", f"{name}-{version}")
        found = json.loads((source / ".cargo-checksum.json").read_text())["package"]
        if found != checksum:
            raise NotAvailableError(f"{name} {version} is not what it was: its SHA-256 is {found}")
        source.rename(place)
    return place


def sdist(name: str, version: str, checksum: str, report: Report) -> Path:
    """Return the directory of a source distribution from PyPI, unpacked.

    :param checksum: the SHA-256 of its file.
    :raises NotAvailableError: it cannot be had, or is another.
    """
    place = cache() / f"{name}-{version}"
    if place.exists():
        return place
    report(f"fetching the source of {name} {version} once")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        options = ["--no-deps", "--no-binary", name, "--dest", folder]
        run([*pip, *options, f"{name}=={version}"], FETCH_S)
        (file,) = Path(folder).glob("*.tar.gz")
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != checksum:
            raise NotAvailableError(f"{file.name} is not what it was: its SHA-256 is {found}")
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
        Path(folder, file.name.removesuffix(".tar.gz")).rename(place)
    return place


def environment(listed: Path, report: Report) -> Path:
    """Return the directory of the programs in an environment of Python of its own.

    pip has installed there what a file of requirements lists, which gives each package a version.

    :param listed: what it holds and its name, without ``.txt``, are in the name of the directory.
    :raises NotAvailableError: something of it cannot be had, or does not build.
    """
    digest = hashlib.sha256(listed.read_bytes()).hexdigest()[:12]
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = cache() / f"{listed.stem}-{python}-{digest}"
    whole = place / "whole"
    if whole.exists():
        return place / "bin"
    report(f"installing {listed.stem} and what it needs once")
    shutil.rmtree(place, ignore_errors=True)  # what was not ended
    run([sys.executable, "-m", "venv", "--without-pip", str(place)], FETCH_S)
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install"]
    options = ["--quiet", "--disable-pip-version-check", "--requirement", str(listed)]
    run([*pip, *options], BUILD_S)
    whole.touch()
    return place / "bin"


def debian(packages: Sequence[str], report: Report) -> Path:
    """Return a directory in which Debian's packages are unpacked; nothing is installed.

    :raises NotAvailableError: there is no apt, no network, or no such package.
    """
    place = cache() / f"debian-{packages[0]}"
    if place.exists():
        return place
    need("apt-get", "dpkg")
    report(f"fetching Debian's {', '.join(packages)} once")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        try:
            run(["apt-get", "download", "-qq", *packages], FETCH_S, cwd=folder)
        except NotAvailableError:  # lists may be old, or missing
            run(["apt-get", "update", "-qq"], FETCH_S)
            run(["apt-get", "download", "-qq", *packages], FETCH_S, cwd=folder)
        for package in Path(folder).glob("*.deb"):
            run(["dpkg", "-x", str(package), f"{folder}/unpacked"], FETCH_S)
        Path(folder, "unpacked").rename(place)
    return place


def need(*programs: str) -> None:
    """Be sure that programs are on the PATH.

    :raises NotAvailableError: one is not.
    """
    for program in programs:
        if shutil.which(program) is None:
            raise NotAvailableError(f"there is no {program} on the PATH")


def run(
    command: Sequence[str | Path],
    seconds: float,
    *,
    cwd: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program that fetches or builds, at the lowest priority; return what it printed.

    :param environment: over this program's own.
    :raises NotAvailableError: it fails, or takes longer than ``seconds``.
    """
    words = list(map(str, command))
    try:
        done = subprocess.run(
            ["nice", "-n", "19", *words],
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailableError(f"{' '.join(words)}: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-400:]
        raise NotAvailableError(f"{' '.join(words)}: {said}")
    return done.stdout
