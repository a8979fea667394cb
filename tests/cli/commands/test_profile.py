"""``oncelog profile`` does what a person wants with clusters by name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog_cli.profiles import Profile, load_profiles, profiles_path
from support.admin_cluster import AdminCluster
from support.shell import COMMAND, Shown, environment, oncelog


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a variable nor a local cluster says where the cluster is."""
    monkeypatch.delenv("ONCELOG_BOOTSTRAP", raising=False)
    monkeypatch.setenv("ONCELOG_DIR", str(tmp_path))


async def profile(*arguments: str, code: int = 0) -> Shown:
    shown = await oncelog("profile", *arguments)
    assert shown.code == code, shown.err
    return shown


async def test_a_cluster_by_name() -> None:
    async with AdminCluster() as cluster:
        cluster.create_topic("orders")
        await profile("create", "here", "--server", cluster.bootstrap)
        await profile("create", "away", "--server", "127.0.0.1:1", "--use")
        shown = await oncelog("topics", "list", "--json")
        assert shown.code == 1
        assert "127.0.0.1:1" in shown.err
        shown = await oncelog("topics", "list", "--json", "--profile", "here")
        assert [row["topic"] for row in shown.document["topics"]] == ["orders"]
        assert (await profile("use", "here")).out == "using here\n"
        assert (await oncelog("topics", "list", "--json")).document["topics"]
        await profile("use", "-")
        assert (await oncelog("topics", "list")).code == 1
        shown = await oncelog("topics", "list", "--json", "--profile", "-")
        assert [row["topic"] for row in shown.document["topics"]] == ["orders"]


async def test_what_is_written_down() -> None:
    await profile("create", "x", "-s", "a:1,b:2", "-X", "request.timeout.ms=5000", "-X", "acks=1")
    assert load_profiles().profiles["x"] == Profile(
        "a:1,b:2", "", {"request_timeout_ms": 5000, "acks": "1"}
    )
    before = profiles_path().read_text()
    for wrong, code, word in (
        (["create", "x", "-s", "a:1"], 1, "--replace"),
        (["create", "y"], 2, "--server"),
        (["create", "y", "-s", "a:nonsense"], 2, "a:nonsense"),
        (["create", "y", "-X", "ack=1"], 2, "did you mean 'acks'"),
        (["create", "-", "-s", "a:1"], 2, "is no name"),
        (["use", "y"], 2, "no profile 'y'"),
        (["delete", "y", "--yes"], 2, "no profile 'y'"),
        (["delete", "x"], 2, "--yes"),
        (["show"], 1, "profile use NAME"),
    ):
        shown = await profile(*wrong, code=code)
        assert word in shown.err
        assert profiles_path().read_text() == before
    await profile("create", "x", "-s", "c:3", "--replace", "--description", "other")
    assert load_profiles().profiles["x"] == Profile("c:3", "other")


async def test_list_show_delete() -> None:
    assert (await profile("list", "--json")).document["profiles"] == []
    await profile("create", "a", "-s", "a:1", "--use")
    await profile("create", "b", "-s", "b:1", "-X", "linger_ms=0")
    shown = await profile("list", "--format", "wide")
    assert [line.split() for line in shown.out.splitlines()[1:]] == [
        ["a", "yes", "a:1", "-", "-", "-"],
        ["b", "no", "b:1", "-", "linger_ms=0", "-"],
    ]
    assert (await profile("show", "--json")).document["profile"] == "a"
    assert "linger_ms=0" in (await profile("show", "b")).out
    assert (await profile("delete", "a", "--dry-run")).out == "would delete a\n"
    assert "a" in load_profiles().profiles
    await profile("delete", "a", "--yes")
    assert load_profiles().current is None


async def test_security_is_written_down_with_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = ["-X", "security.protocol=SSL", "-X", "ssl.ca.location=ca.pem", "-X", "linger_ms=0"]
    await profile("create", "a", "-s", "a:1", *own)
    made = load_profiles().profiles["a"]
    assert made.security == {"tls": True, "ca_file": str(tmp_path / "ca.pem")}
    assert made.options == {"linger_ms": 0}
    assert f"ca_file={tmp_path}/ca.pem" in (await profile("show", "a")).out
    await profile("create", "b", "-s", "a:1", "-X", "security.protocol=PLAINTEXT")
    assert load_profiles().profiles["b"] == Profile("a:1")
    shown = await profile("create", "c", "-X", "key_file=k", code=2)
    assert "key_file without certificate_file" in shown.err


async def test_secrets_are_kept_and_not_shown() -> None:
    await profile(
        "create", "a", "-s", "a:1", "-X", "sasl.username=app", "-X", "sasl.password=s3cret"
    )
    assert load_profiles().profiles["a"].security == {"username": "app", "password": "s3cret"}
    for words in (["show", "a"], ["show", "a", "--json"], ["list", "--format", "wide"], ["list"]):
        assert "s3cret" not in (await profile(*words)).out
    assert "password=***" in (await profile("show", "a")).out


async def test_a_wrong_file_is_said_where_it_is_needed() -> None:
    profiles_path().parent.mkdir(parents=True)
    profiles_path().write_text("[profile.x]\n")
    shown = await oncelog("topics", "list")
    assert shown.code == 2
    assert "did you mean profiles" in shown.err
    assert (await oncelog("--help")).code == 0


async def test_the_shell_completes_profiles() -> None:
    await profile("create", "prod", "-s", "a:1")
    for typed in ("oncelog profile use pr", "oncelog topics list --profile pr"):
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            env=environment(
                _ONCELOG_COMPLETE="bash_complete",
                COMP_WORDS=typed,
                COMP_CWORD=str(len(typed.split()) - 1),
            ),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert out.decode().split() == ["plain,prod"]
