"""``oncelog users`` runs against real brokers here; no password is an argument."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog_protocol.sasl.credential import Mechanism
from support.cluster import Cluster
from support.shell import oncelog

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start one broker whose cluster has users."""
    async with Cluster(tmp_path, authorizer="acl", super_users=["User:ANONYMOUS"]) as cluster:
        yield cluster


async def test_users_from_beginning_to_end(cluster: Cluster, tmp_path: Path) -> None:
    servers, users = cluster.bootstrap, cluster.brokers[1].users
    file = tmp_path / "password"
    file.write_text("pencil\n")
    file.chmod(0o600)
    shown = await oncelog(*f"users add app --password-file {file}".split(), bootstrap=servers)
    assert (shown.code, shown.out) == (0, "added app\n"), shown.err
    for mechanism in (SHA_256, SHA_512):
        known = users.look_up(mechanism, "app")
        assert known is not None
        assert known.check("pencil")
    change = "users password app --mechanism SCRAM-SHA-512 --password-file -"
    shown = await oncelog(*change.split(), stdin=b"pen\r\n", bootstrap=servers)
    assert (shown.code, shown.out) == (0, "changed the password of app\n"), shown.err
    known = users.look_up(SHA_512, "app")
    assert known is not None
    assert known.check("pen")
    assert users.look_up(SHA_256, "app") is None
    shown = await oncelog("users", "disable", "app", bootstrap=servers)
    assert (shown.code, users.look_up(SHA_512, "app")) == (0, None)
    shown = await oncelog("users", "enable", "app", "app", bootstrap=servers)
    assert (shown.code, shown.out) == (0, "enabled app\n")
    assert users.look_up(SHA_512, "app") is not None
    shown = await oncelog("users", "delete", "app", "--dry-run", bootstrap=servers)
    assert (shown.code, shown.out) == (0, "would delete app\n")
    shown = await oncelog("users", "delete", "app", bootstrap=servers)
    assert shown.code == 2, "nobody is there to be asked"
    shown = await oncelog("users", "delete", "app", "--yes", bootstrap=servers)
    assert (shown.code, users.look_up(SHA_512, "app")) == (0, None)


@pytest.mark.parametrize("mode", [0o604, 0o600])
async def test_a_password_that_others_may_read_or_that_is_empty(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "password"
    file.write_text("" if mode == 0o600 else "pencil")
    file.chmod(mode)
    shown = await oncelog("users", "add", "app", "--password-file", str(file), bootstrap="x:1")
    assert shown.code == 2
    assert "--password-file: " in shown.err
    assert "pencil" not in shown.err


async def test_standard_input_without_a_password() -> None:
    shown = await oncelog(
        "users", "add", "app", "--password-file", "-", stdin=b"\n", bootstrap="x:1"
    )
    assert shown.code == 2
    assert "standard input is empty" in shown.err


async def test_mechanisms_that_keep_no_password(cluster: Cluster) -> None:
    add = "users add app --mechanism PLAIN --password-file -"
    shown = await oncelog(*add.split(), stdin=b"pencil", bootstrap=cluster.bootstrap)
    assert shown.code != 0
    assert "one or more of SCRAM-SHA-256, SCRAM-SHA-512" in shown.err
