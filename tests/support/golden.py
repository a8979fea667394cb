"""Transcripts of commands are what a shell shows, without what differs from run to run.

A ``Case`` is one command line; it is run in several formats, and all that it leaves behind becomes
a text that is compared with a file in ``tests/cli/golden``. ``REWRITE=1`` writes the file instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog import Admin, Producer
from oncelog_protocol.messages.groups import (
    COORDINATOR_GROUP,
    COORDINATOR_TRANSACTION,
    FindCoordinatorRequest,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.channel import RequestChannel
from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.shell import Shown, oncelog
from support.waiting import eventually

__all__ = ["Case", "World", "infer", "merge", "nowhere", "real_cluster", "run_case", "scrubbed"]

FORMATS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "table": (),
    "json": ("--json",),
    "tsv": ("--format", "tsv"),
}
BLIND = "127.0.0.1:1"
"""Nobody listens there."""
TOPICS = ("bills", "orders")
"""Those of the real cluster."""
FIRST_TIMESTAMP_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Case:
    """It is one command line, as typed after ``oncelog``; ``{dir}`` is a directory of the test."""

    line: str
    where: str = "real"
    """"real": brokers that all cases share; "fake": scripted ones, new for every run; "none"."""
    prepare: Callable[[World], Awaitable[None]] | None = None
    """Done before every run."""
    stdin: bytes = b""
    formats: Sequence[str] = ("table", "json", "tsv")
    code: int = 0
    head: int | None = None
    """Only so many lines are kept: the rest is a file that lies elsewhere in the repository."""
    asks: bool = True
    """Whether it asks the cluster at all: a command that can may not have to."""
    volatile: Sequence[tuple[str, str]] = ()
    """More patterns that differ from run to run, and what stands for them."""
    maps: Sequence[str] = ()
    """Paths in the document whose keys are data, such as ``brokers[].listeners``."""

    @property
    def words(self) -> list[str]:
        """Return the arguments."""
        return shlex.split(self.line)


@dataclass
class World:
    """A case meets a directory, and the cluster it talks to, if any."""

    directory: Path
    real: Cluster | None = None
    fake: AdminCluster | None = None

    @property
    def cluster(self) -> Cluster:
        """Return the real one."""
        assert self.real is not None
        return self.real

    @property
    def scripted(self) -> AdminCluster:
        """Return the fake one."""
        assert self.fake is not None
        return self.fake

    @property
    def bootstrap(self) -> str:
        """Return where the command finds it."""
        if self.fake is not None:
            return self.fake.bootstrap
        return self.real.bootstrap if self.real is not None else ""


@asynccontextmanager
async def real_cluster(directory: Path) -> AsyncIterator[Cluster]:
    """Two brokers, the first is controller; topic orders has two partitions and three records."""
    settings: dict[str, Any] = {
        "offsets_topic_num_partitions": 1,
        "offsets_topic_replication_factor": 1,
        "transaction_state_log_num_partitions": 1,
        "transaction_state_log_replication_factor": 1,
        # There are users, and whoever asks may alter them.
        "authorizer": "acl",
        "super_users": ["User:ANONYMOUS"],
        # However busy the machine is, nobody is taken for dead here.
        "zookeeper_session_timeout_ms": 60_000,
        "replica_lag_time_max_ms": 60_000,
    }
    async with Cluster(directory, rack="cellar", **settings) as cluster:
        await cluster.start_broker(2)
        await cluster.converged()
        await cluster.create_topic("orders", partitions=2, replication_factor=2, retention_ms=-1)
        await cluster.create_topic("bills")
        async with Producer(cluster.bootstrap) as producer:
            for number, value in enumerate((b"apples", b"pears\t\xff", None)):
                await producer.send(
                    "orders",
                    value,
                    key=b"k%d" % number,
                    partition=0,
                    headers=[("who", b"me")],
                    timestamp_ms=FIRST_TIMESTAMP_MS + number,
                )
        # What the first use of groups and transactions makes is there for every case.
        channel = await cluster.channel(1)
        for key_type in (COORDINATOR_GROUP, COORDINATOR_TRANSACTION):
            await _found(channel, key_type)
        channel.close()
        await channel.wait_closed()
        yield cluster


async def _found(channel: RequestChannel, key_type: int) -> None:
    async def asked() -> bool:
        reply = await channel.call(FindCoordinatorRequest("any", key_type), timeout_s=15)
        return bool(reply.message.error_code == 0)

    async with asyncio.timeout(15):
        while not await asked():
            await asyncio.sleep(0.02)


@contextmanager
def nowhere(directory: Path) -> Iterator[None]:
    """Pretend that nobody has set anything on this machine, and that no command becomes another
    one: it says which, and ends."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ONCELOG_")]:
            patch.delenv(name)
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "ONCELOG_DIR"):
            patch.setenv(name, str(directory / name.lower()))
        patch.setattr(os, "execve", _become)
        patch.setattr("oncelog_cli.commands.dump_log.subprocess", SimpleNamespace(run=_run_another))
        yield


def _become(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    print("becomes:", shlex.join(["python", *arguments[1:]]))
    raise SystemExit(0)


def _run_another(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    print("runs:", shlex.join(["python", *command[1:]]))
    sys.stdout.flush()
    return subprocess.CompletedProcess(command, 0)


async def run_case(case: Case, form: str, world: World, *, bootstrap: str | None = None) -> Shown:
    """Run a case once. A fake cluster is made for it; what ``prepare`` does is done first."""
    if case.where == "fake":
        async with AdminCluster(2) as fake:
            return await _run(case, form, World(world.directory, fake=fake), bootstrap)
    if case.where == "none":
        return await _run(case, form, World(world.directory), bootstrap)
    try:
        return await _run(case, form, world, bootstrap)
    finally:
        await _tidied(world)


async def _tidied(world: World) -> None:
    """Remove what a case has made of topics, so that it does not matter which ran before."""
    async with Admin(world.cluster.bootstrap) as admin:
        made = [topic for topic in await admin.list_topics() if topic not in TOPICS]
        if made:
            (await admin.delete_topics(made)).raise_for_errors()
    await eventually(
        lambda: all(
            sorted(name for name in broker.image.topics if not name.startswith("__")) == [*TOPICS]
            for broker in world.cluster.brokers.values()
        ),
        what="the topics that all cases share, alone",
    )


async def _run(case: Case, form: str, world: World, bootstrap: str | None) -> Shown:
    if case.prepare is not None:
        await case.prepare(world)
    arguments = [word.replace("{dir}", str(world.directory)) for word in case.words]
    arguments += FORMATS[form]
    servers = world.bootstrap if bootstrap is None else bootstrap
    return await oncelog(*arguments, stdin=case.stdin, bootstrap=servers)


# ------------------------------------------------------------------------------ transcripts


def transcript(case: Case, form: str, shown: Shown, world: World) -> str:
    """Return what is typed, and what comes: standard output, errors behind ``!``, the exit code."""
    typed = shlex.join(["oncelog", *case.words, *FORMATS[form]])
    lines = [f"$ {typed}"]
    out, err = scrubbed(shown.out, world), scrubbed(shown.err, world)
    for pattern, replacement in case.volatile:
        out, err = re.sub(pattern, replacement, out), re.sub(pattern, replacement, err)
    printed = out.splitlines()
    if case.head is not None and len(printed) > case.head:
        printed = [*printed[: case.head], "..."]
    lines += printed
    lines += [f"! {line}" for line in err.splitlines()]
    return "\n".join([*lines, f"exit code {shown.code}"]) + "\n"


def scrubbed(text: str, world: World) -> str:
    """Drop what differs from run to run: addresses, ids, times, sizes of this machine; and leave
    two blanks between columns, since these have other widths then."""
    text = text.replace(str(world.directory), "<dir>")
    for exact, name in sorted(_known(world), key=lambda pair: -len(pair[0])):
        text = re.sub(rf"(?<![\w.-]){re.escape(exact)}(?![\w-])", name, text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return "\n".join(_blanks(line) for line in text.splitlines()) + ("\n" if text else "")


_PATTERNS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r'("(?:free|total)_bytes": )\d+', r"\1<bytes>"),
        (r'("(?:disk_)?free(?:_percent)?": )[\d.]+', r"\1<free>"),
        (r"\b\d+(\.\d)? [KMGT]iB", "<size>"),
        (r"\b\d{10,12}\b", "<bytes>"),
        (r'("broker_epoch": )\d+', r"\1<epoch>"),
        (r"(?<=127\.0\.0\.1:)\d{4,5}\b", "<port>"),
    )
]


def _known(world: World) -> Iterator[tuple[str, str]]:
    """Return texts that are different each time, and what stands for them."""
    if world.real is None:
        return
    for broker_id, broker in sorted(world.real.brokers.items()):
        for listener, (_, port) in broker.addresses.items():
            yield str(port), f"<{listener}-{broker_id}>"
    image = world.real.brokers[min(world.real.brokers)].image
    yield image.cluster_id, "<cluster-id>"
    for name, topic in image.topics.items():
        yield topic.topic_id, f"<id-of-{name}>"


def _blanks(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip(" "))]
    return indent + re.sub(r" {2,}", "  ", line[len(indent) :])


# ------------------------------------------------------------------------------ schemas


def infer(value: Any, maps: Sequence[str] = (), path: str = "") -> Any:
    """Return what a JSON value looks like, as ``oncelog_cli.schemas`` has it."""
    if isinstance(value, dict):
        if path in maps:
            inner = [infer(item, maps, f"{path}.*") for item in value.values()]
            return {"*": _merged(inner)} if inner else {}
        prefix = f"{path}." if path else ""
        return {key: infer(item, maps, prefix + key) for key, item in value.items()}
    if isinstance(value, list):
        inner = [infer(item, maps, f"{path}[]") for item in value]
        return [_merged(inner)] if inner else []
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return names[type(value)]


def _merged(schemas: Sequence[Any]) -> Any:
    whole = schemas[0]
    for schema in schemas[1:]:
        whole = merge(whole, schema)
    return whole


def merge(one: Any, other: Any) -> Any:
    """Return what both may look like."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        keys = dict.fromkeys([*one, *other])
        return {k: merge(one.get(k, other.get(k)), other.get(k, one.get(k))) for k in keys}
    if isinstance(one, list) and isinstance(other, list):
        return [merge(one[0], other[0])] if one and other else one or other
    if isinstance(one, str) and isinstance(other, str):
        kinds = dict.fromkeys([*one.split(" or "), *other.split(" or ")])
        return " or ".join([*(k for k in kinds if k != "null"), *(k for k in kinds if k == "null")])
    # An object or a list that may also be missing.
    return other if one == "null" else one


ERRORS = [{"item": "string", "error": "string", "message": "string", "definite": "boolean"}]
"""Every document ends with these; ``definite`` only where it is known."""


def completed(schema: dict[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a whole document, with what no case has shown from ``hints``, by field.

    :raises LookupError: no case and no hint says what a field holds.
    """
    plain = {key: item for key, item in schema.items() if key != "errors"}
    return {**_completed(plain, hints, ""), "errors": ERRORS}


def _completed(schema: Any, hints: Mapping[str, Any], name: str) -> Any:
    if schema in ("null", []):
        if name not in hints:
            raise LookupError(f"what is {name!r}? Add a case that shows it, or a hint")
        return hints[name]
    if isinstance(schema, dict):
        return {key: _completed(item, hints, key) for key, item in schema.items()}
    if isinstance(schema, list):
        return [_completed(schema[0], hints, name)]
    return schema


def dumped(document: Any) -> str:
    """Return it as it stands in a file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def tp(topic: str, number: int = 0) -> TopicPartition:
    """Return a partition, shortly."""
    return TopicPartition(topic, number)
