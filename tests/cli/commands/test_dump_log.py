"""``oncelog dump-log`` shows files by another program, and a broker's log by asking it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog_cli.commands.dump_log import parse_partition
from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.hand_records import produce
from support.log_tellers import Teller
from support.shell import Shown, as_process, oncelog


async def test_files(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t")
        channel = await cluster.channel(1)
        await produce(channel, "t", 0, [b"a-value"])
        channel.close()
    (segment,) = sorted((tmp_path / "broker-1" / "t-0").glob("*.log"))
    done = as_process("dump-log", "--records", "--json", str(segment))
    assert done.returncode == 0, done.stderr
    assert "a-value" in done.stdout
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 1
    segment.write_bytes(damaged)
    assert as_process("dump-log", str(segment)).returncode == 1


def test_files_that_are_not_there() -> None:
    assert as_process("dump-log", "/nowhere/00000000000000000000.log").returncode == 2


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    async with AdminCluster(2) as made:
        (partition,) = made.create_topic("t", 1)
        partition.leader = 1
        made.logs = {1: Teller(40, aborted=True), 2: Teller(38, leads=False)}
        yield made


async def remote(cluster: AdminCluster, *arguments: str) -> Shown:
    return await oncelog("dump-log", "--remote", "t-0", *arguments, bootstrap=cluster.bootstrap)


async def test_a_log_at_its_leader(cluster: AdminCluster) -> None:
    shown = await remote(cluster)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "t-0 at broker 1: leads in epoch 0, 2.0 KiB"
    assert lines[1] == "start 0, LSO 40, HW 40, synced 40, end 40"
    assert lines[4].split()[:2] == ["00000000000000000000.log", "10"]
    assert "BASE OFFSET" not in shown.out
    assert (await remote(cluster, "--broker", "2", "--json")).document["is_leader"] is False


async def test_the_way_to_an_offset(cluster: AdminCluster) -> None:
    shown = await remote(cluster, "--offset", "27")
    assert "1 segment by its name: 00000000000000000020.log" in shown.out
    assert "2 index: 24 at byte 200" in shown.out
    assert "4 offset 27 is the batch's 26 + 1" in shown.out


async def test_batches_are_the_rows_of_tsv(cluster: AdminCluster) -> None:
    shown = await remote(cluster, "--batches", "3", "--format", "tsv")
    assert [line.split("\t")[1:3] for line in shown.out.splitlines()] == [
        ["0", "1"],
        ["2", "3"],
        ["4", "5"],
    ]
    shown = await remote(cluster, "--from", "8", "--batches", "2", "--format", "tsv")
    assert [line.split("\t")[1] for line in shown.out.splitlines()] == ["8", "10"]
    shown = await remote(cluster, "--format", "tsv")
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == ["0", "10", "20", "30"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to show"),
        (["--broker", "1", "x.log"], "are for --remote"),
        (["--format", "tsv", "x.log"], "lines"),
        (["--from", "1", "x.log"], "are for --remote"),
        (["--remote", "t-0", "--from", "1", "--offset", "2"], "give it or --from"),
        (["--remote", "t-0", "x.log"], "--remote reads no files"),
        (["--remote", "t-0", "--records"], "shows no records"),
        (["--remote", "t"], "--remote 't': must be TOPIC-PARTITION"),
    ],
)
async def test_what_makes_no_sense(arguments: list[str], said: str) -> None:
    shown = await oncelog("dump-log", *arguments)
    assert shown.code == 2
    assert said in shown.err


def test_names_of_partitions() -> None:
    assert parse_partition("a-b-3") == ("a-b", 3)
    for wrong in ("", "-3", "a", "a-", "a-x", "a-\u0663"):
        with pytest.raises(ValueError, match="TOPIC-PARTITION"):
            parse_partition(wrong)
