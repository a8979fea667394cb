"""Five jars from a Maven repository, fetched once, are a whole ZooKeeper server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from oncelog_cli.local.maven import Jar, jars_in
from oncelog_cli.places import cache_directory

VERSION = "3.9.5"

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


def zookeeper_jars(environment: Mapping[str, str], report: Callable[[str], None]) -> list[Path]:
    """Return the jars' files; those that are missing or damaged are fetched.

    :param environment: ``ONCELOG_MAVEN_REPOSITORY`` in it names a mirror.
    :param report: told before anything is fetched.
    :raises LocalClusterError: one cannot be had, or is not what it must be.
    """
    return jars_in(jars_directory(), JARS, f"ZooKeeper {VERSION}", environment, report)
