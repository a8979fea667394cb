"""The commands ``oncelog console`` and ``bench`` become the right program."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.cluster import Cluster
from support.http_get import get
from support.shell import as_process, start


def command_line(pid: int) -> str:
    """Return what others see of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text()


async def test_a_console_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        secret = ["-X", "client_id=not-for-all-to-see"]
        async with start("console", "--port", "0", *secret, bootstrap=cluster.bootstrap) as process:
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            address = urlsplit(line.removeprefix("console listening on ").strip())
            assert address.port
            shown = command_line(process.pid)
            assert "oncelog_console" in shown
            assert "not-for-all-to-see" not in shown
            answer = await get(
                ("127.0.0.1", address.port),
                "/brokers",
                header="Accept: application/json",
                host=address.netloc,
            )
            assert answer.status == 200
            assert len(answer.document["brokers"]) == 1
            process.terminate()
            assert await process.wait() == 0


def test_a_console_refuses_options_that_cannot_work(tmp_path: Path) -> None:
    far = as_process("console", "--bootstrap", "127.0.0.1:9", "--host", "0.0.0.0")
    assert far.returncode == 2
    assert "--allowed-host" in far.stderr
    wrong = as_process("console", "--bootstrap", "127.0.0.1:9", "-X", "clientid=1")
    assert wrong.returncode == 2
    assert "did you mean 'client_id'?" in wrong.stderr
    lost = as_process(
        "console", "--bootstrap", "127.0.0.1:9", "--token-file", str(tmp_path / "none")
    )
    assert lost.returncode == 2


async def test_a_port_that_somebody_has_is_told_with_the_remedy(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            async with start("console", "--port", port, bootstrap=cluster.bootstrap) as process:
                _, said = await process.communicate()
    assert process.returncode == 2
    assert b"Remedy: another --port; 0 takes a free one" in said


@pytest.mark.slow
def test_bench_gets_every_argument() -> None:
    done = as_process("bench", "--help")
    assert done.returncode == 0, done.stderr
    assert "--peers" in done.stdout
    done = as_process("bench", "--only", "nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr
