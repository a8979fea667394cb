"""Jars are fetched from a Maven repository once, and used only if they are those that are pinned.

Rules: a jar is used only when its size and its SHA-512 are those that were asked for, however it
came and however often it was used before. A jar is written beside its place and moved there when
it is whole. What is there already is not fetched again.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from oncelog_cli.local.process import LocalClusterError

REPOSITORY = "https://repo.maven.apache.org/maven2"
REPOSITORY_VARIABLE = "ONCELOG_MAVEN_REPOSITORY"
"""A mirror of Maven Central instead of it."""
SILENCE_S = 20.0
"""So long a repository may say nothing."""
_SCHEMES = ("https://", "http://", "file://")


class Jar(NamedTuple):
    """A jar is a file of a Maven repository, with the size and hash that it must have."""

    path: str
    """The path below the repository's root."""
    size: int
    """The size in bytes."""
    sha512: str

    @property
    def name(self) -> str:
        """Return the file's name."""
        return self.path.rpartition("/")[2]


def jars_in(
    place: Path,
    jars: Sequence[Jar],
    what: str,
    environment: Mapping[str, str],
    report: Callable[[str], None],
) -> list[Path]:
    """Return the jars' files in a directory; those that are missing or damaged are fetched.

    :param place: the directory that keeps them; made when missing.
    :param what: they are this, as in "ZooKeeper 3.9.5".
    :param environment: ``ONCELOG_MAVEN_REPOSITORY`` in it names a mirror.
    :param report: told before anything is fetched.
    :raises LocalClusterError: one cannot be had, or is not what it must be.
    """
    missing = [jar for jar in jars if not _is_whole(place / jar.name, jar)]
    if missing:
        base = (environment.get(REPOSITORY_VARIABLE) or REPOSITORY).rstrip("/")
        if not base.startswith(_SCHEMES):
            raise LocalClusterError(
                f"{REPOSITORY_VARIABLE}={base!r} is no address. Remedy: give one that begins with "
                + " or ".join(_SCHEMES)
            )
        megabytes = sum(jar.size for jar in missing) / 1e6
        report(f"fetching {what} once: {megabytes:.1f} MB from {base} to {place}")
        for jar in missing:
            _fetch(base, jar, place)
    return [place / jar.name for jar in jars]


def _is_whole(file: Path, jar: Jar) -> bool:
    try:
        return file.stat().st_size == jar.size and _matches(file.read_bytes(), jar)
    except OSError:
        return False


def _matches(content: bytes, jar: Jar) -> bool:
    return len(content) == jar.size and hashlib.sha512(content).hexdigest() == jar.sha512


def _fetch(base: str, jar: Jar, place: Path) -> None:
    address = f"{base}/{jar.path}"
    beside = place / f".{jar.name}.{os.getpid()}.new"
    try:
        with urllib.request.urlopen(address, timeout=SILENCE_S) as answer:
            content: bytes = answer.read(jar.size + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise LocalClusterError(f"{address} cannot be fetched: {error}") from error
    if not _matches(content, jar):
        raise LocalClusterError(
            f"{address} is not the file that belongs there: its size or its SHA-512 is another. "
            "It was not used"
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(place / jar.name)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise LocalClusterError(f"{jar.name} cannot be kept in {place}: {error}") from error
