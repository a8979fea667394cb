"""Five jars from a Maven repository, fetched once, are a whole ZooKeeper server.

Rules: a jar is used only when its size and its SHA-512 are those pinned here, however it came and
however often it was used before. A jar is written beside its place and moved there when it is
whole. What is there already is not fetched again.
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
from oncelog_cli.places import cache_directory

VERSION = "3.9.5"
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


JARS = (
    Jar(
        f"org/apache/zookeeper/zookeeper/{VERSION}/zookeeper-{VERSION}.jar",
        1_367_207,
        "84d4b23d332081115e4c68b454a70a1421047277d4c22f238563ab25d769cc86"
        "45e3cff5ae7bdbc367816853e4f5a4e60d4eb85eaab14266b97eb1af50305614",
    ),
    Jar(
        f"org/apache/zookeeper/zookeeper-jute/{VERSION}/zookeeper-jute-{VERSION}.jar",
        260_263,
        "e55a4d488af0621bdd30292a915377d6cba0a663cde3ce3c7c9ae57cef9314ef"
        "b7a53b1853c240dd9a9da9475e30f9319c6e0c6ebd32f2649bd8ffaf7c12e1f1",
    ),
    Jar(
        "org/slf4j/slf4j-api/2.0.17/slf4j-api-2.0.17.jar",
        69_908,
        "9a3e79db6666a6096a3021bb2e1d918f30f589d8de51d6b600f8ebd92515a510"
        "ae2d8f87919cc2dfa8365d64f10194cac8dfa0fb950160eef0e9da06f6caaeb9",
    ),
    Jar(
        "io/dropwizard/metrics/metrics-core/4.2.37/metrics-core-4.2.37.jar",
        131_928,
        "33a1d1ffe5d18e8d87762cc2c1f2fcff3bb044449225db6815b7e2ea74ac0a1c"
        "a6bba1b9f744e8bf261c5f7bfac585cfb4ff500a4609a0f27ae2607175cd7491",
    ),
    Jar(
        "org/xerial/snappy/snappy-java/1.1.10.8/snappy-java-1.1.10.8.jar",
        2_445_419,
        "c7133f726f366b9f06df98d94b4dd7c91c7702c543e1a318055a886af5e625d8"
        "231b0a6728250596181bc20a6c4147855eeb02ed55c447fe13ff2156e29985a9",
    ),
)
"""The jars that a standalone server loads of ZooKeeper's dependencies (Netty serves TLS and
clients)."""


def jars_directory() -> Path:
    """Return the directory of the jars: in the user's cache, by version."""
    return cache_directory() / f"zookeeper-{VERSION}"


def zookeeper_jars(
    environment: Mapping[str, str],
    report: Callable[[str], None],
    *,
    directory: Path | None = None,
    jars: Sequence[Jar] = JARS,
) -> list[Path]:
    """Return the jars' files; those that are missing or damaged are fetched.

    :param environment: ``ONCELOG_MAVEN_REPOSITORY`` in it names a mirror.
    :param report: told before anything is fetched.
    :raises LocalClusterError: one cannot be had, or is not what it must be.
    """
    place = jars_directory() if directory is None else directory
    missing = [jar for jar in jars if not _is_whole(place / jar.name, jar)]
    if missing:
        base = (environment.get(REPOSITORY_VARIABLE) or REPOSITORY).rstrip("/")
        if not base.startswith(_SCHEMES):
            raise LocalClusterError(
                f"{REPOSITORY_VARIABLE}={base!r} is no address. Remedy: give one that begins with "
                + " or ".join(_SCHEMES)
            )
        megabytes = sum(jar.size for jar in missing) / 1e6
        report(f"fetching ZooKeeper {VERSION} once: {megabytes:.1f} MB from {base} to {place}")
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
