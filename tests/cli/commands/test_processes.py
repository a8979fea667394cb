"""The commands ``oncelog dump-log`` and ``bench`` become the right program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.hand_records import produce
from support.shell import COMMAND, environment


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process, since it may become another program."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_dump_log(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t")
        channel = await cluster.channel(1)
        await produce(channel, "t", 0, [b"a-value"])
        channel.close()
    (segment,) = sorted((tmp_path / "broker-1" / "t-0").glob("*.log"))
    done = shell("dump-log", "--records", "--json", str(segment))
    assert done.returncode == 0, done.stderr
    assert "a-value" in done.stdout
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 1
    segment.write_bytes(damaged)
    assert shell("dump-log", str(segment)).returncode == 1


def test_dump_log_of_nothing() -> None:
    assert shell("dump-log", "/nowhere/00000000000000000000.log").returncode == 2
    assert shell("dump-log").returncode == 2


@pytest.mark.slow
def test_bench_gets_every_argument() -> None:
    done = shell("bench", "--help")
    assert done.returncode == 0, done.stderr
    assert "--peers" in done.stdout
    done = shell("bench", "--only", "nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr
