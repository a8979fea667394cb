"""The console of a local cluster is started with what it needs, and says why it cannot start."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing import Cluster
from oncelog_cli.local.console import LocalConsole
from oncelog_cli.local.process import LocalClusterError, free_port

NOBODY = "127.0.0.1:9"
"""No broker answers here."""


@pytest.fixture
def console(tmp_path: Path) -> Iterator[LocalConsole]:
    """Return one that does not run yet; it is ended with the test."""
    made = LocalConsole(tmp_path / "console", free_port())
    yield made
    made.kill()


def arguments(console: LocalConsole) -> list[str]:
    return Path(f"/proc/{console.pid}/cmdline").read_text().split("\0")[1:-1]


def environment(console: LocalConsole) -> dict[str, str]:
    pairs = Path(f"/proc/{console.pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def test_a_console_that_was_never_started(console: LocalConsole) -> None:
    assert (console.pid, console.state) == (None, "stopped")
    assert console.stop()


@pytest.mark.slow
def test_it_may_change_the_cluster_and_knows_nothing_of_profiles(
    console: LocalConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_PROFILE", "production")
    with Cluster() as cluster:
        console.launch(cluster.bootstrap, None)
        assert arguments(console) == [
            *("-m", "oncelog_console", "--host", "127.0.0.1", "--port", str(console.port)),
            *("--allow-changes", "--bootstrap", cluster.bootstrap),
        ]
        assert "ONCELOG_PROFILE" not in environment(console)
        assert not Path(environment(console)["XDG_CONFIG_HOME"]).exists()
        console.wait_ready()
        assert console.state == "running"
        assert f"console listening on {console.url}".rstrip("/") in console.log_path.read_text()
        with pytest.raises(LocalClusterError, match="runs already"):
            console.launch(cluster.bootstrap, None)
        assert console.stop()
    assert console.state == "stopped"


@pytest.mark.slow
def test_a_console_that_cannot_start_shows_its_log(console: LocalConsole) -> None:
    console.launch("127.0.0.1:no-port", None)
    with pytest.raises(LocalClusterError, match="has ended") as caught:
        console.wait_ready()
    assert "no-port" in str(caught.value)


@pytest.mark.slow
def test_who_looks_at_a_secured_cluster_needs_a_token(console: LocalConsole) -> None:
    console.launch(NOBODY, "local")
    assert arguments(console)[-4:] == [
        "--profile",
        "local",
        "--token-file",
        f"{console.token_path}",
    ]
    token = console.token_path.read_text()
    assert len(token.strip()) >= 32
    assert token.strip() not in " ".join(arguments(console))
    assert stat.S_IMODE(console.token_path.stat().st_mode) == 0o600
    with pytest.raises(LocalClusterError, match=r"has ended; the end of .*console.log"):
        console.wait_ready()
    assert "there is no profile 'local'" in console.log_path.read_text()
    console.launch(NOBODY, "local")
    assert console.token_path.read_text() == token


def test_a_port_that_somebody_has_is_left_to_them(console: LocalConsole) -> None:
    with socket.create_server(("127.0.0.1", console.port)):
        taken = console.port
        console.launch(NOBODY, None)
        assert console.port != taken
