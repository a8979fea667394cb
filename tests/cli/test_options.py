"""Shared options say where a cluster is found, and what KEY=VALUE means."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from oncelog_cli import typed
from oncelog_cli.options import (
    Format,
    UsageError,
    bootstrap_servers,
    complete_formats,
    complete_groups,
    complete_topics,
    complete_transactional_ids,
    confirm,
    key_values,
    local_directory,
    parse_format,
    typed_values,
)
from oncelog_cli.render import Output
from oncelog_protocol.messages.transaction_admin import DescribedTransaction
from support.admin_cluster import AdminCluster, KnownGroup, KnownTransaction
from support.cluster import Cluster
from support.shell import COMMAND, environment


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that nothing is set on this machine."""
    monkeypatch.delenv("ONCELOG_BOOTSTRAP", raising=False)
    monkeypatch.setenv("ONCELOG_DIR", str(tmp_path))
    return tmp_path


def test_the_directory_of_the_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELOG_DIR", "/somewhere")
    assert local_directory(None) == Path("/somewhere")
    assert local_directory(Path("/named")) == Path("/named")
    monkeypatch.delenv("ONCELOG_DIR")
    monkeypatch.setenv("HOME", "/home/me")
    assert local_directory(None) == Path("/home/me/.oncelog/local")


def test_the_option_goes_before_the_environment_and_that_before_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "cluster.json").write_text(json.dumps({"bootstrap": "file:1"}))
    assert bootstrap_servers(None) == "file:1"
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", "environment:1")
    assert bootstrap_servers(None) == "environment:1"
    assert bootstrap_servers("option:1") == "option:1"


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"bootstrap": 7}', '{"version": 1}'])
def test_a_file_that_says_nothing_is_no_cluster(home: Path, text: str | None) -> None:
    if text is not None:
        (home / "cluster.json").write_text(text)
    with pytest.raises(UsageError, match="oncelog up"):
        bootstrap_servers(None)


def test_key_values() -> None:
    assert key_values("--config", ["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("items", [["a"], ["=1"], ["a=1", "a=2"]])
def test_wrong_key_values(items: list[str]) -> None:
    with pytest.raises(UsageError, match="--config"):
        key_values("--config", items)


def test_typed_values() -> None:
    given = ["a=1", "b=true", "c=some words", 'd="1"', "e.f=[1, 2]", "e.g=x"]
    assert typed_values("--set", given) == {
        "a": 1,
        "b": True,
        "c": "some words",
        "d": "1",
        "e": {"f": [1, 2], "g": "x"},
    }
    with pytest.raises(UsageError, match="has a value already"):
        typed_values("--set", ["a=1", "a.b=2"])


def test_nobody_is_there_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    confirm("Really?", True)
    with pytest.raises(UsageError, match="--yes"):
        confirm("Really?", False)


def test_output_takes_the_format() -> None:
    assert Output("x", Format.JSON).is_json


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("oncelog topics describe or", ["orders", "orders-dead"]),
        ("oncelog consume b", ["bills"]),
        ("oncelog top", ["topics"]),
    ],
)
async def test_the_shell_completes_topics(tmp_path: Path, typed: str, offered: list[str]) -> None:
    async with Cluster(tmp_path) as cluster:
        for name in ("orders", "orders-dead", "bills"):
            await cluster.create_topic(name)
        await until_completed(typed, cluster.bootstrap, offered)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("oncelog groups describe bil", ["billing", "billing-2"]),
        ("oncelog groups reset-offsets m", ["mail"]),
        ("oncelog consume t --group m", ["mail"]),
    ],
)
async def test_the_shell_completes_groups(typed: str, offered: list[str]) -> None:
    async with AdminCluster() as cluster:
        cluster.known_groups = {name: KnownGroup(1) for name in ("mail", "billing", "billing-2")}
        await until_completed(typed, cluster.bootstrap, offered)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("oncelog transactions describe bil", ["billing"]),
        ("oncelog shared begin n", ["nightly"]),
        ("oncelog produce t --transactional-id n", ["nightly"]),
    ],
)
async def test_the_shell_completes_transactional_ids(typed: str, offered: list[str]) -> None:
    async with AdminCluster() as cluster:
        cluster.known_transactions = {
            name: KnownTransaction(1, DescribedTransaction(0, name, "Empty", 1))
            for name in ("billing", "nightly")
        }
        await until_completed(typed, cluster.bootstrap, offered)


async def until_completed(typed: str, bootstrap: str, offered: list[str]) -> None:
    """Wait for an offer. A shell is offered nothing when names do not come at once, so that a busy
    machine may need another look."""
    deadline = asyncio.get_running_loop().time() + 60
    while (found := await completed(typed, bootstrap)) != offered:
        assert found == [], f"offered {found}"
        assert asyncio.get_running_loop().time() < deadline, "nothing is offered"


async def completed(typed: str, bootstrap: str) -> list[str]:
    """Return what the shell offers for the last word."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        env=environment(
            _ONCELOG_COMPLETE="bash_complete",
            COMP_WORDS=typed,
            COMP_CWORD=str(len(typed.split()) - 1),
            ONCELOG_BOOTSTRAP=bootstrap,
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return [line.partition(",")[2] for line in out.decode().split()]


async def test_names_are_asked_for_once_in_a_few_seconds(bare_home: Path) -> None:
    async with AdminCluster() as cluster:
        cluster.create_topic("orders")
        typed = "oncelog topics describe or"
        await until_completed(typed, cluster.bootstrap, ["orders"])
        asked = len(cluster.requests)
        assert await completed(typed, cluster.bootstrap) == ["orders"]
        assert len(cluster.requests) == asked
        (kept,) = (bare_home / "cache" / "oncelog").iterdir()
        kept.write_text(kept.read_text().replace('"at": 1', '"at": 0'))
        await until_completed(typed, cluster.bootstrap, ["orders"])
        assert len(cluster.requests) > asked


def test_the_shell_completes_formats() -> None:
    assert complete_formats("t") == ["table", "tsv"]


def test_unknown_formats_are_named() -> None:
    with pytest.raises(typed.BadParameter, match="'xml' is not one of table, wide, json"):
        parse_format("xml")
    assert parse_format("text") is parse_format("table") is Format.TABLE


def test_no_cluster_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", "127.0.0.1:1")
    command = typed.command_of(lambda: None, "x")
    assert complete_topics(typed.Context(command), "or") == []
    assert complete_groups(typed.Context(command), "or") == []
    assert complete_transactional_ids(typed.Context(command), "or") == []
