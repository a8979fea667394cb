"""The price of security: what is encrypted or judged is measured beside what is not, in turns.

Rules
-----
* Four clusters run at a time, of three brokers each, and take turns: a noisy minute hits all alike.
* *Judged*: ``authorizer=acl`` with ACLs and quotas on plain listeners. *For clients*: their
  listener speaks TLS, that between brokers does not. *Everywhere*: ``oncelog up --secure``.
* Where the question is what brokers do more, their CPU time is told, since that is less noisy.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import uvloop

from oncelog import AclBinding, Admin
from oncelog_bench import latency, throughput
from oncelog_bench.cluster import BenchCluster, make_certificates
from oncelog_bench.cpu import cpu_seconds
from oncelog_bench.report import Report, quantile
from oncelog_bench.storm import storm
from oncelog_protocol.acl_state import AclState
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WILDCARD,
)
from oncelog_protocol.sasl.credential import SALT_BYTES, KeptKeys, Mechanism, ScramCredential
from oncelog_protocol.sasl.outcomes import Continue, Failed
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.scram_messages import NONCE_BYTES
from oncelog_protocol.sasl.scram_server import ScramServer

ANONYMOUS = "User:ANONYMOUS"
RECORD_BYTES = 1000
PREFIXES = 2000
GENEROUS = 10**12
"""A quota that nobody reaches: it is counted, and holds nobody."""


@dataclass(frozen=True, slots=True)
class SecurityScale:
    """Each figure does so much work."""

    repeats: int
    turns: int
    """The repeats of the row about ACLs and quotas, whose difference is small."""
    records: int
    latency_seconds: float
    clients: int


FULL = SecurityScale(3, 10, 300_000, 10.0, 1000)
QUICK = SecurityScale(1, 1, 50_000, 2.0, 50)


def run(report: Report, scale: SecurityScale, home: Path) -> None:
    """Measure the group "security" into ``report``."""
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(BenchCluster(home / "plain"))
        judged = stack.enter_context(_judged(home / "judged"))
        _judging(report, scale, plain, judged)
    with contextlib.ExitStack() as stack:
        # Another one: what the first has written must not weigh on one of three.
        plain = stack.enter_context(BenchCluster(home / "plain-again"))
        for_clients = stack.enter_context(_for_clients(home / "for-clients"))
        everywhere = stack.enter_context(_everywhere(home / "everywhere"))
        where = {
            "plain": plain.bootstrap,
            "TLS for clients": _by_certificate(home / "for-clients", for_clients),
            "TLS everywhere": _by_password(everywhere),
        }
        _records(report, scale, where)
        _latency(report, scale, where)
        _storm(report, scale, where["TLS for clients"], for_clients)
    _decisions(report, scale)
    _refusals(report, scale)


# ---- clusters


@contextlib.contextmanager
def _judged(directory: Path) -> Iterator[BenchCluster]:
    """Yield a plain cluster that judges every request by ACLs, and counts by quotas."""
    acl = {"authorizer": "acl", "super_users": json.dumps([ANONYMOUS])}
    with BenchCluster(directory, configs=acl) as first:
        uvloop.run(_allow(first.bootstrap))
        _quotas(first)
    # Who is a super user is not judged, so that ends.
    nobody = {"authorizer": "acl", "super_users": "[]"}
    with BenchCluster(directory, configs=nobody) as cluster:
        yield cluster


async def _allow(bootstrap: str) -> None:
    names = {TOPIC: WILDCARD, GROUP: WILDCARD, CLUSTER: CLUSTER_NAME}
    entries = [
        AclBinding(kind, LITERAL, name, ANONYMOUS, "*", ALL, ALLOW) for kind, name in names.items()
    ]
    async with Admin(bootstrap) as admin:
        (await admin.create_acls(entries)).raise_for_errors()


def _quotas(cluster: BenchCluster) -> None:
    for option in ("--produce", "--consume", "--requests"):
        cluster.command("quotas", "set", "--user", "ANONYMOUS", option, str(GENEROUS))


@contextlib.contextmanager
def _for_clients(directory: Path) -> Iterator[BenchCluster]:
    """Yield a cluster whose clients speak TLS and may show a certificate."""
    place = make_certificates(_tls_directory(directory))
    listener = {
        "tls_certificate_file": place / "broker.pem",
        "tls_key_file": place / "broker.key",
        "tls_client_ca_file": place / "ca.pem",
        "tls_client_auth": "optional",
    }
    configs = {f"listeners.external.{name}": str(value) for name, value in listener.items()}
    with BenchCluster(directory, configs=configs) as cluster:
        yield cluster


@contextlib.contextmanager
def _everywhere(directory: Path) -> Iterator[BenchCluster]:
    with BenchCluster(directory, secure=True) as cluster:
        yield cluster


def _tls_directory(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}-tls")


def _by_certificate(directory: Path, cluster: BenchCluster) -> str:
    place = _tls_directory(directory)
    files = {
        "ca_file": place / "ca.pem",
        "certificate_file": place / "app.pem",
        "key_file": place / "app.key",
    }
    return f"oncelogs://{cluster.bootstrap}?{urlencode(files)}"


def _by_password(cluster: BenchCluster) -> str:
    files = {
        "ca_file": cluster.directory / "tls" / "ca.pem",
        "password_file": cluster.directory / "admin.password",
    }
    return f"oncelogs://admin@{cluster.bootstrap}?{urlencode(files)}"


# ---- rows


def _judging(
    report: Report, scale: SecurityScale, plain: BenchCluster, judged: BenchCluster
) -> None:
    """Measure the CPU time of brokers with ACLs and quotas, and without."""
    name = "broker CPU, 100 B produced and consumed, RF 3, "
    clusters = {f"{name}nobody asked": plain, f"{name}ACLs and quotas": judged}
    taken: dict[str, list[float]] = {each: [] for each in clusters}
    for each in clusters.values():
        _broker_cpu(each, scale.records)
    for _ in range(scale.turns):
        for label, cluster in clusters.items():
            taken[label].append(_broker_cpu(cluster, scale.records))
    first, second = clusters
    report.add(first, taken[first], "s/M rows")
    report.add(second, taken[second], "s/M rows", against=first)


def _broker_cpu(cluster: BenchCluster, records: int) -> float:
    """Return the CPU seconds of all brokers for a million records, once in and once out."""

    async def work(bootstrap: str, topic: str) -> float:
        count = records * 5
        await throughput.produce_many(bootstrap, topic, size=100, count=count, acks="all")
        await throughput.consume_columns(bootstrap, topic, count=count)
        return count / 1e6

    pids = list(cluster.pids().values())
    before = cpu_seconds(pids)
    millions = throughput.on_topic(cluster.bootstrap, work)
    return (cpu_seconds(pids) - before) / millions


def _records(report: Report, scale: SecurityScale, where: dict[str, str]) -> None:
    produced: dict[str, list[float]] = {label: [] for label in where}
    consumed: dict[str, list[float]] = {label: [] for label in where}

    async def both(label: str, bootstrap: str, topic: str) -> float:
        count = scale.records
        rate = await throughput.produce_many(
            bootstrap, topic, size=RECORD_BYTES, count=count, acks="all"
        )
        produced[label].append(rate)
        consumed[label].append(await throughput.consume_columns(bootstrap, topic, count=count))
        return 0.0

    for turn in range(scale.repeats + 1):
        for label, bootstrap in where.items():
            throughput.on_topic(bootstrap, partial(both, label))
            if turn == 0:  # code is loaded, and memory has been touched once
                produced[label].clear()
                consumed[label].clear()
    for verb, taken in (("produce", produced), ("consume by column batch", consumed)):
        name = f"{verb} 1 KB, RF 3, "
        for label in where:
            against = None if label == "plain" else f"{name}plain"
            report.add(f"{name}{label}", taken[label], "rec/s", against=against)


def _latency(report: Report, scale: SecurityScale, where: dict[str, str]) -> None:
    taken: dict[str, list[float]] = {label: [] for label in where}

    async def work(label: str, bootstrap: str, topic: str) -> float:
        values = await latency.end_to_end_ms(
            bootstrap, topic, rate=1000, seconds=scale.latency_seconds
        )
        taken[label].append(quantile(values, 0.99))
        return 0.0

    for _ in range(scale.repeats):
        for label, bootstrap in where.items():
            throughput.on_topic(bootstrap, partial(work, label))
    name = "end to end at 1,000 rec/s, p99, "
    for label in where:
        against = None if label == "plain" else f"{name}plain"
        report.add(f"{name}{label}", taken[label], "ms", against=against)


def _storm(report: Report, scale: SecurityScale, bootstrap: str, cluster: BenchCluster) -> None:
    found = [uvloop.run(storm(bootstrap, scale.clients)) for _ in range(scale.repeats)]
    name = f"{scale.clients:,} clients come at once, mutual TLS"
    report.add(f"{name}: all are served", [each.seconds for each in found], "s")
    report.add(f"{name}: replicas out of sync at worst", [each.lagging for each in found], "")
    report.add(f"{name}: starts that were repeated", [each.repeated for each in found], "")


def _decisions(report: Report, scale: SecurityScale) -> None:
    """Measure one decision among many prefixes of one user, by names that were not asked before."""
    entries = [
        AclBinding(TOPIC, PREFIXED, f"team-{index}-", "User:app", "*", READ, ALLOW)
        for index in range(PREFIXES)
    ]
    state = AclState.made_of(1, entries)
    names = [f"team-{index % (2 * PREFIXES)}-orders" for index in range(20_000)]
    taken: list[float] = []
    for _ in range(max(3, scale.repeats)):
        began = time.perf_counter()
        for name in names:
            state.decide("User:app", "127.0.0.1", READ, TOPIC, name)
        taken.append((time.perf_counter() - began) / len(names) * 1000)
    report.add(f"an ACL decision among {PREFIXES:,} prefixes", taken, "ms")


def _refusals(report: Report, scale: SecurityScale) -> None:
    """Measure the server's work for a user that it does not know, beside a wrong password.

    The times must not tell which names are users (row 25 of hostile input).
    """
    mechanism, secret = Mechanism.SCRAM_SHA_256, os.urandom(32)
    credential = ScramCredential.make(mechanism, "right", os.urandom(SALT_BYTES), 4096)
    users = {"known": credential}
    taken: dict[str, list[float]] = {"known": [], "unknown": []}
    kept = {name: KeptKeys() for name in taken}
    for _ in range(200 * scale.repeats):
        for name, times in taken.items():
            server = ScramServer(
                mechanism, lambda _, who: users.get(who), secret, os.urandom(NONCE_BYTES)
            )
            client = ScramClient(mechanism, name, "wrong", os.urandom(NONCE_BYTES), kept[name])
            times.append(_refusal_ms(server, client))
    name = "the server's work to refuse by SCRAM, "
    report.add(f"{name}wrong password", taken["known"], "ms")
    report.add(f"{name}unknown user", taken["unknown"], "ms", against=f"{name}wrong password")


def _refusal_ms(server: ScramServer, client: ScramClient) -> float:
    """Return the CPU time that the server takes to refuse, in ms."""
    data, total = client.start(), 0.0
    while True:
        began = time.process_time()
        outcome = server.step(data)
        total += time.process_time() - began
        if isinstance(outcome, Failed):
            return total * 1000
        assert isinstance(outcome, Continue)
        answer = client.step(outcome.data)
        assert isinstance(answer, Continue)
        data = answer.data


__all__ = ["FULL", "QUICK", "SecurityScale", "run"]
