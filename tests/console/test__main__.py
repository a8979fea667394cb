"""The program says where it listens, ends as told, and refuses options that cannot work."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.exits import UsageError
from oncelog_cli.profiles import Profile, Profiles, save_profiles
from oncelog_console.__main__ import main, settings_of
from support.cluster import Cluster

pytestmark = pytest.mark.usefixtures("logging_as_before")


@pytest.fixture(autouse=True)
def bare_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has made profiles on this machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ONCELOG_PROFILE", "ONCELOG_OPTIONS", "ONCELOG_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)


def options(**changed: Any) -> argparse.Namespace:
    given = {"host": "127.0.0.1", "port": 0, "allow_changes": False, "token_file": None,
             "allowed_host": [], "tls_cert": None, "tls_key": None, "history": "6h",
             "profile": None, **changed}  # fmt: skip
    return argparse.Namespace(**given)


def test_an_address_that_others_reach_wants_a_token_and_a_name(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with pytest.raises(UsageError, match="reached by others"):
        settings_of(options(host="0.0.0.0"))
    with pytest.raises(UsageError, match="reached by others"):
        settings_of(options(host="0.0.0.0", token_file=str(token)))
    settings = settings_of(
        options(host="0.0.0.0", token_file=str(token), allowed_host=["console.example"])
    )
    assert (settings.token, settings.allowed_hosts) == ("secret", ("console.example",))


def test_options_that_cannot_work(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for wrong in ({"token_file": str(empty)}, {"tls_cert": "c"}, {"history": "long"}):
        with pytest.raises(UsageError):
            settings_of(options(**wrong))


def test_a_profile_labels_its_cluster() -> None:
    band = {"label": "production", "colour": "red"}
    save_profiles(Profiles("prod", profiles={"prod": Profile("localhost:1", console=band)}))
    settings = settings_of(options())
    assert (settings.label, settings.colour) == ("production", "red")
    save_profiles(Profiles("prod", profiles={"prod": Profile("b:1", console={"colour": "x"})}))
    with pytest.raises(UsageError, match=r"console\.colour"):
        settings_of(options())


def test_without_a_cluster_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONCELOG_DIR", str(tmp_path / "none"))
    assert main(["--port", "0"]) == 2
    assert "which cluster?" in capsys.readouterr().err


@pytest.mark.slow
async def test_it_says_where_it_listens_and_ends_as_told(cluster: Cluster) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "oncelog_console", "--bootstrap", cluster.bootstrap),
        *("--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
        assert line.startswith("console listening on http://127.0.0.1:")
        port = int(line.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = (await reader.read()).decode()
        writer.close()
        assert answer.startswith("HTTP/1.1 200 OK")
        assert "<h1>Overview</h1>" in answer
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
