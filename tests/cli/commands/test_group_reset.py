"""``oncelog groups reset-offsets`` shows a plan, and does nothing without ``--execute``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import DescribedMember, OffsetCommitPartition
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster, KnownGroup
from support.shell import Shown, oncelog

NOON_MS = 1_769_860_800_000
"""2026-01-31T12:00:00Z."""
MINUTE_MS = 60_000


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Topic t has two partitions with ten records, a minute apart from noon on; group g has
    committed offset 4 of t-0, and of u-0 the end."""
    async with AdminCluster(2) as cluster:
        for log in cluster.create_topic("t", 2):
            for n in range(10):
                log.append(encode_batch([b"x"], timestamps=NOON_MS + n * MINUTE_MS))
        cluster.create_topic("u")
        group = cluster.known_groups["g"] = KnownGroup(1)
        for topic, offset in (("t", 4), ("u", 0)):
            group.offsets[TopicPartition(topic, 0)] = OffsetCommitPartition(0, offset)
        yield cluster


async def reset(cluster: AdminCluster, *arguments: str, group: str = "g", **more: bytes) -> Shown:
    return await oncelog(
        "groups", "reset-offsets", group, *arguments, bootstrap=cluster.bootstrap, **more
    )


def offsets(cluster: AdminCluster, group: str = "g") -> dict[str, int]:
    return {
        str(tp): item.offset for tp, item in sorted(cluster.known_groups[group].offsets.items())
    }


async def test_without_execute_nothing_is_changed(cluster: AdminCluster) -> None:
    shown = await reset(cluster, "--all-topics", "--to-earliest")
    assert (shown.code, shown.err) == (0, "nothing was changed: add --execute to do it\n")
    assert [line.split() for line in shown.out.splitlines()] == [
        ["TOPIC", "PARTITION", "OLD", "NEW", "START", "END", "NOTE"],
        ["t", "0", "4", "0", "0", "10"],
        ["u", "0", "0", "0", "0", "0"],
    ]
    assert cluster.count(ApiKey.OFFSET_COMMIT) == 0
    shown = await reset(cluster, "--all-topics", "--to-earliest", "--execute")
    assert (shown.code, shown.err) == (0, "")
    assert offsets(cluster) == {"t-0": 0, "u-0": 0}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--to-earliest"], {"t-0": 0, "t-1": 0}),
        (["--to-latest"], {"t-0": 10, "t-1": 10}),
        (["--to-current"], {"t-0": 4, "t-1": 10}),
        (["--to-offset", "0"], {"t-0": 0, "t-1": 0}),
        (["--to-offset", "77"], {"t-0": 10, "t-1": 10}),
        (["--to-datetime", "2026-01-31T12:02:30Z"], {"t-0": 3, "t-1": 3}),
        (["--to-datetime", "2027-01-31"], {"t-0": 10, "t-1": 10}),
        (["--by-duration", "PT0S"], {"t-0": 10, "t-1": 10}),
        (["--by-duration", "P99999D"], {"t-0": 0, "t-1": 0}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
async def test_places(cluster: AdminCluster, arguments: list[str], wanted: dict[str, int]) -> None:
    shown = await reset(cluster, "-t", "t", *arguments, "--execute")
    assert (shown.code, shown.err) == (0, "")
    assert offsets(cluster) == {**wanted, "u-0": 0}


async def test_a_partition_that_cannot_be_shifted_harms_no_other(cluster: AdminCluster) -> None:
    shown = await reset(cluster, "-t", "t:0,1", "--shift-by", "-2", "--execute", "--json")
    assert shown.code == 1
    assert offsets(cluster) == {"t-0": 2, "u-0": 0}
    first, second = shown.document["offsets"]
    assert (first["old"], first["new"], first["reset"]) == (4, 2, True)
    assert (second["old"], second["new"], second["reset"]) == (None, None, False)
    (error,) = shown.document["errors"]
    assert (error["item"], error["message"]) == ("t-1", "nothing committed that could be shifted")
    shown = await reset(cluster, "-t", "t:0", "--shift-by", "0")
    assert shown.code == 0, "no shift is a shift"


async def test_what_lies_outside_is_noted(cluster: AdminCluster) -> None:
    cluster.partition("t", 0).log_start_offset = 3
    shown = await reset(cluster, "-t", "t:0", "--to-offset", "1")
    assert shown.out.splitlines()[1].endswith("1 is below the log start, 3 instead")


async def test_offsets_travel_through_a_file(cluster: AdminCluster, tmp_path: Path) -> None:
    shown = await reset(cluster, "--all-topics", "--to-current", "--export")
    assert (shown.code, shown.out) == (0, "t,0,4\nu,0,0\n")
    backup = tmp_path / "backup.csv"
    backup.write_bytes(shown.stdout)
    await reset(cluster, "--all-topics", "--to-latest", "--execute")
    assert offsets(cluster) == {"t-0": 10, "u-0": 0}
    shown = await reset(cluster, "--from-file", str(backup), "--execute")
    assert (shown.code, offsets(cluster)) == (0, {"t-0": 4, "u-0": 0})
    piped = b"h,t,0,1\nother,t,1,1\nh,t,1,99\n"
    shown = await reset(cluster, "--from-file", "-", "--execute", group="h", stdin=piped)
    assert (shown.code, offsets(cluster, "h")) == (0, {"t-0": 1, "t-1": 10})


async def test_to_where_another_group_is(cluster: AdminCluster) -> None:
    servers = cluster.bootstrap
    wish = ("groups", "reset-offsets", "new", "--to-group", "g")
    shown = await oncelog(*wish, "--execute", bootstrap=servers)
    assert shown.code == 0, shown.err
    assert offsets(cluster, "new") == offsets(cluster)
    shown = await oncelog("groups", "clone", "g", "other", "--dry-run", bootstrap=servers)
    assert shown.code == 0
    assert "other" not in cluster.known_groups
    shown = await oncelog("groups", "clone", "g", "other", "--json", bootstrap=servers)
    assert (shown.code, shown.document["executed"]) == (0, True)
    assert offsets(cluster, "other") == offsets(cluster)
    shown = await oncelog("groups", "clone", "nobody", "other", bootstrap=servers)
    assert (shown.code, "committed nothing" in shown.err) == (1, True)


async def test_a_group_with_members_is_left_alone(cluster: AdminCluster) -> None:
    member = DescribedMember("m1", "worker-1", "app", "10.0.0.1")
    cluster.known_groups["g"].members = [member]
    for execute in ([], ["--execute"]):
        shown = await reset(cluster, "--all-topics", "--to-latest", *execute, "--json")
        assert shown.code == 1
        (error,) = shown.document["errors"]
        assert (error["error"], error["definite"]) == ("GroupHasMembersError", True)
        assert "worker-1 (10.0.0.1)" in error["message"]
    assert offsets(cluster)["t-0"] == 4


async def test_a_group_that_has_nothing(cluster: AdminCluster) -> None:
    shown = await reset(cluster, "--all-topics", "--to-latest", group="new")
    assert (shown.code, shown.err) == (0, "new has committed nothing: name partitions with -t\n")
    shown = await reset(cluster, "-t", "t", "--to-latest", "--execute", group="new")
    assert (shown.code, offsets(cluster, "new")) == (0, {"t-0": 10, "t-1": 10})
    shown = await reset(cluster, "-t", "t:7", "--to-latest")
    assert shown.code == 1
    assert "there is no 7" in shown.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "say where to, once"),
        (["--to-latest", "--to-offset", "0", "-t", "t"], "given: --to-latest --to-offset"),
        (["--to-latest"], "--topic or --all-topics"),
        (["--to-latest", "-t", "t", "--all-topics"], "exclude each other"),
        (["--to-latest", "-t", "t:x"], "--topic t:x: 'x' cannot be"),
        (["--to-datetime", "1h", "-t", "t"], "--to-datetime '1h' is not a time"),
        (["--by-duration", "soon", "-t", "t"], "--by-duration 'soon' is not a duration"),
        (["--to-latest", "-t", "t", "--export", "-f", "text", "--to-earliest"], "say where"),
        (["--from-file", "/none", "-t", "t"], "names the partitions itself"),
        (["--from-file", "/none"], "--from-file /none: No such file"),
    ],
)
async def test_command_lines_that_make_no_sense(
    cluster: AdminCluster, arguments: list[str], word: str
) -> None:
    shown = await reset(cluster, *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert word in shown.err


async def test_csv_is_not_json(cluster: AdminCluster) -> None:
    shown = await reset(cluster, "--all-topics", "--to-latest", "--export", "--json")
    assert shown.code == 2
    assert "CSV, not JSON" in shown.document["errors"][0]["message"]


async def test_files_that_make_no_sense(cluster: AdminCluster, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    for text, word in (("t,0\n", "line 1: expected"), ("h,t,0,1\n", "no offsets for g")):
        wrong.write_text(text)
        shown = await reset(cluster, "--from-file", str(wrong), "--execute")
        assert shown.code == 2
        assert word in shown.err
