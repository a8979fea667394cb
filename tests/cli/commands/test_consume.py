"""``oncelog consume`` reads ranges from a real broker, prints formats, and knows when to end."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog import Record, TopicPartition
from oncelog_cli.commands.consume import Printer, PrintSpan, chosen_record_format
from oncelog_cli.options import UsageError
from oncelog_cli.record_text import value_line
from support.cluster import Cluster
from support.hand_producer import all_marked
from support.shell import oncelog, start

HOUR_MS = 3_600_000
NOON_MS = 1_769_860_800_000
"""2026-01-31T12:00:00Z."""


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """One broker with a topic: partition 0 holds a0 to a9, one an hour from noon on, partition 1
    holds b0 to b4 of the same hours."""
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=2)
        lines = [
            f'{{"value": "{name}{n}", "partition": {p}, "timestamp": {NOON_MS + n * HOUR_MS}}}\n'
            for p, name, count in ((0, "a", 10), (1, "b", 5))
            for n in range(count)
        ]
        shown = await oncelog(
            "produce", "t", "-j", stdin="".join(lines).encode(), bootstrap=cluster.bootstrap
        )
        assert shown.code == 0, shown.err
        yield cluster


def numbered(name: str, start: int, end: int) -> list[str]:
    """Return ``a3``, ``a4`` and so on."""
    return [f"{name}{n}" for n in range(start, end)]


async def values(cluster: Cluster, *arguments: str) -> list[str]:
    """Return what is printed, sorted, since partitions take turns as they like."""
    shown = await oncelog("consume", "t", *arguments, bootstrap=cluster.bootstrap)
    assert (shown.code, shown.err) == (0, "")
    return sorted(shown.out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--until-end"], numbered("a", 0, 10) + numbered("b", 0, 5)),
        (["--from-beginning", "-e"], numbered("a", 0, 10) + numbered("b", 0, 5)),
        (["-o", ":end"], numbered("a", 0, 10) + numbered("b", 0, 5)),
        (["-o", "end", "-e"], []),
        (["-p", "1", "-e"], numbered("b", 0, 5)),
        (["-p", "1", "-p", "0", "-o", "3:5"], numbered("a", 3, 5) + numbered("b", 3, 5)),
        (["-o", "8:end"], numbered("a", 8, 10)),
        (["-o", "8", "--until-end"], numbered("a", 8, 10)),
        (["-o", "-2:end"], numbered("a", 8, 10) + numbered("b", 3, 5)),
        (["-o", "+4", "-e"], numbered("a", 4, 10) + numbered("b", 4, 5)),
        (["-o", "2:+3"], numbered("a", 2, 5) + numbered("b", 2, 5)),
        (["-o", ":-4"], numbered("a", 0, 6) + numbered("b", 0, 1)),
        (["-o", "@2026-01-31T15:00:00Z:end"], numbered("a", 3, 10) + numbered("b", 3, 5)),
        (
            ["-o", f"@{NOON_MS + HOUR_MS}:@{NOON_MS + 3 * HOUR_MS}"],
            numbered("a", 1, 3) + numbered("b", 1, 3),
        ),
        (["-o", "@2026-02-01:@2030-01-01"], []),
        (["-o", "-2:@2026-01-31T15:00:00Z"], numbered("a", 1, 3) + numbered("b", 1, 3)),
        (["-o", "5:3000", "-e", "-p", "0"], numbered("a", 5, 10)),
        (["-o", "0:+1", "-o", "1:+1"], numbered("a", 1, 2) + numbered("b", 1, 2)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
async def test_ranges(cluster: Cluster, arguments: list[str], wanted: list[str]) -> None:
    assert await values(cluster, *arguments) == wanted


async def test_a_number_of_records(cluster: Cluster) -> None:
    assert len(await values(cluster, "-o", "start", "-n", "7")) == 7
    assert await values(cluster, "-p", "0", "-o", "-3", "-n", "2") == ["a7", "a8"]


async def test_formats(cluster: Cluster) -> None:
    shown = await oncelog(
        *("consume", "t", "-p", "0", "-o", "1:2", "-f", "%t/%p@%o %v %T%n"),
        bootstrap=cluster.bootstrap,
    )
    assert shown.out == f"t/0@1 a1 {NOON_MS + HOUR_MS}\n"
    shown = await oncelog(
        "consume", "t", "-p", "0", "-o", "1:2", "--json", bootstrap=cluster.bootstrap
    )
    assert shown.json_lines == [
        {
            "topic": "t",
            "partition": 0,
            "offset": 1,
            "timestamp": NOON_MS + HOUR_MS,
            "key": None,
            "value": "a1",
            "headers": [],
        }
    ]


async def test_filters_and_metadata(cluster: Cluster) -> None:
    consume = ("consume", "t", "--until-end")
    every = await oncelog(*consume, "--json", bootstrap=cluster.bootstrap)
    values = [record["value"] for record in every.json_lines]
    wanted = [value for value in values if value.endswith("1")]
    shown = await oncelog(*consume, "--grep", "value:1$", bootstrap=cluster.bootstrap)
    assert sorted(shown.out.split()) == sorted(wanted)
    shown = await oncelog(*consume, "--grep", "!1$", "-n", "1", bootstrap=cluster.bootstrap)
    assert len(shown.out.split()) == 1
    shown = await oncelog(*consume, "--meta-only", bootstrap=cluster.bootstrap)
    assert [line["value_bytes"] for line in shown.json_lines] == [2] * len(values)
    assert not any("value" in line for line in shown.json_lines)


async def test_records_are_found_by_an_expression(cluster: Cluster) -> None:
    where = "value starts 'a' and timestamp >= 2026-01-31T15:00Z and offset < 5 or value == 'b0'"
    assert await values(cluster, "-e", "--where", where) == ["a3", "a4", "b0"]
    assert await values(cluster, "-e", "-w", where, "--grep", "a") == ["a3", "a4"]
    shown = await oncelog("consume", "t", "--where", "value =", bootstrap=cluster.bootstrap)
    assert (shown.code, shown.err) == (2, "error: --where at character 7: equality is written ==\n")


async def test_what_coordinators_write(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    read = ("consume", "t", "-g", "readers", "-o", "start", "-n", "1")
    assert (await oncelog(*read, bootstrap=servers)).code == 0
    decode = ("consume", "__consumer_offsets", "--until-end", "--decode")
    shown = await oncelog(*decode, "--grep", 'key:"type":"offset"', bootstrap=servers)
    assert shown.code == 0, shown.err
    key, value = shown.out.splitlines()[-1].split("\t")
    found = await oncelog(*decode, "--where", 'key.type == "offset"', bootstrap=servers)
    assert found.out == shown.out
    assert json.loads(key)["group"] == "readers"
    assert json.loads(value)["offset"] >= 0


async def test_ends_of_transactions(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    await cluster.create_topic("paid")
    for values in (b"1\n", b"2\n"):
        shown = await oncelog(
            *("produce", "paid", "--transactional-id", "pay"), stdin=values, bootstrap=servers
        )
        assert shown.code == 0, shown.err
    bad = ("produce", "paid", "-j", "--transactional-id", "pay")
    shown = await oncelog(*bad, stdin=b'{"value": "3"}\nnonsense\n', bootstrap=servers)
    assert shown.code == 1, "aborted"
    await all_marked(cluster)
    read = ("consume", "paid", "--until-end", "--json", "--print-control-records")
    shown = await oncelog(*read, bootstrap=servers)
    lines = shown.json_lines
    assert [line.get("control", line.get("value")) for line in lines] == [
        *("1", "COMMIT", "2", "COMMIT", "ABORT"),
    ]
    assert [line["offset"] for line in lines] == [0, 1, 2, 3, 5]
    assert len({line["producer_id"] for line in lines if "control" in line}) == 1
    shown = await oncelog(*read, "-o", "2:4", bootstrap=servers)
    assert [line["offset"] for line in shown.json_lines] == [2, 3]
    shown = await oncelog(*read, "-g", "g", bootstrap=servers)
    assert shown.code == 2


async def test_several_topics(cluster: Cluster) -> None:
    await cluster.create_topic("u")
    await oncelog("produce", "u", stdin=b"c0\n", bootstrap=cluster.bootstrap)
    shown = await oncelog("consume", "t", "u", "t", "-o", "0:1", bootstrap=cluster.bootstrap)
    assert sorted(shown.out.splitlines()) == ["a0", "b0", "c0"]
    shown = await oncelog("consume", "-r", "[t-z]", "-o", "0:1", bootstrap=cluster.bootstrap)
    assert sorted(shown.out.splitlines()) == ["a0", "b0", "c0"]
    shown = await oncelog("consume", "-r", "[x-z]", "-e", bootstrap=cluster.bootstrap)
    assert (shown.code, shown.err) == (1, "error: no topic matches [x-z]\n")


async def test_by_default_only_what_comes_is_printed(cluster: Cluster) -> None:
    async with (
        start("consume", "t", "-n", "1", bootstrap=cluster.bootstrap) as process,
        asyncio.timeout(60),
    ):
        while process.returncode is None:
            # It begins at what is the end when it has started; when that is, only it knows.
            await oncelog("produce", "t", stdin=b"new\n", bootstrap=cluster.bootstrap)
            await asyncio.sleep(0.05)
        out, err = await process.communicate()
        assert (process.returncode, out, err) == (0, b"new\n", b"")


async def test_a_start_that_is_not_written_yet_is_waited_for(cluster: Cluster) -> None:
    lines = b"b5\nb6\nb7\nb8\nb9\n"
    async with start(
        "consume", "t", "-p", "1", "-o", "7:9", bootstrap=cluster.bootstrap
    ) as process:
        shown = await oncelog("produce", "t", "-p", "1", stdin=lines, bootstrap=cluster.bootstrap)
        assert shown.code == 0
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert (process.returncode, out, err) == (0, b"b7\nb8\n", b"")


@pytest.mark.slow
async def test_what_is_not_there(cluster: Cluster) -> None:
    shown = await oncelog("consume", "t", "-p", "2", "-e", bootstrap=cluster.bootstrap)
    assert (shown.code, shown.out) == (1, "")
    assert "topic 't' has 2 partitions, there is no 2" in shown.err
    shown = await oncelog("consume", "none", "-e", bootstrap=cluster.bootstrap)
    assert (shown.code, shown.out) == (1, "")
    assert "'none' does not exist" in shown.err
    await cluster.create_topic("orders")
    for arguments in (["ordres"], ["ordres", "-e"], ["ordres", "-g", "g"], ["order", "ordres"]):
        shown = await oncelog("consume", *arguments, bootstrap=cluster.bootstrap)
        assert (shown.code, shown.out) == (1, "")
        assert f"topic {arguments[0]!r} does not exist; did you mean 'orders'?" in shown.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-o", "nonsense"], "--offset"),
        (["-o", "5", "--from-beginning"], "--from-beginning"),
        (["-f", "xml"], "--format"),
        (["-f", "%q"], "%q"),
        (["--grep", "("], "--grep"),
        (["--meta-only", "-f", "%o"], "--meta-only"),
        (["-n", "0"], "--number"),
        ([], "TOPIC"),
    ],
)
async def test_usage(arguments: list[str], word: str) -> None:
    topic = ["t"] if arguments else []
    shown = await oncelog("consume", *topic, *arguments, bootstrap="127.0.0.1:1")
    assert shown.code == 2
    assert word in shown.err


async def test_formats_are_explained_without_a_topic() -> None:
    shown = await oncelog("consume", "--format", "help")
    assert (shown.code, shown.err) == (0, "")
    for word in ("value ", "json ", "base64", "%k key"):
        assert word in shown.out


def test_record_formats() -> None:
    record = Record("t", 0, 1, 2, None, b"v")
    assert chosen_record_format("value")(record) == b"v\n"
    assert chosen_record_format("json")(record).startswith(b'{"topic":"t"')
    assert chosen_record_format("%o")(record) == b"1"
    with pytest.raises(UsageError):
        chosen_record_format("wide")


def test_the_printer_keeps_to_its_span_and_number() -> None:
    tp = TopicPartition("t", 0)
    sink = io.BytesIO()
    printer = Printer(value_line, sink, left=3, spans={tp: PrintSpan(2, 8, 2)})
    printer.print(tp, [Record("t", 0, n, 0, None, b"%d" % n) for n in range(4)])
    assert not printer.done
    printer.print(tp, [Record("t", 0, n, 0, None, b"%d" % n) for n in range(7, 20)])
    printer.print(TopicPartition("t", 1), [Record("t", 1, 0, 0, None, b"other")])
    assert sink.getvalue() == b"2\n3\n7\n"
    assert printer.done


def test_empty_spans() -> None:
    assert PrintSpan(5, 5, 5).is_empty
    assert PrintSpan(5, 4, 5).is_empty
    assert not PrintSpan(5, None, 5).is_empty


# ------------------------------------------------------------------------------ in a group


async def committed(cluster: Cluster, group: str) -> dict[int, int]:
    """Return the offsets of topic t that the group has committed."""
    shown = await oncelog("groups", "describe", group, "--json", bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err
    (described,) = shown.document["groups"]
    return {row["partition"]: row["offset"] for row in described["offsets"]}


@pytest.mark.slow
async def test_a_group_goes_on_where_it_was(cluster: Cluster) -> None:
    everything = numbered("a", 0, 10) + numbered("b", 0, 5)
    first = await values(cluster, "-g", "g", "-e", "-n", "4")
    assert len(first) == 4, "from the beginning: nothing is committed"
    assert sum((await committed(cluster, "g")).values()) == 4, "what is printed, no more"
    rest = await values(cluster, "--group", "g", "--until-end")
    assert sorted(first + rest) == everything
    assert await committed(cluster, "g") == {0: 10, 1: 5}
    assert await values(cluster, "-g", "g", "-e", "--from-beginning") == [], "committed goes first"
    assert await values(cluster, "-g", "other", "-e") == everything


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("start", numbered("a", 0, 10) + numbered("b", 0, 5)),
        ("end", []),
        ("@2026-01-31T15:00:00Z", numbered("a", 3, 10) + numbered("b", 3, 5)),
    ],
)
async def test_where_a_group_begins(cluster: Cluster, where: str, wanted: list[str]) -> None:
    assert await values(cluster, "-g", "g", "-o", where, "-e") == wanted
    assert await committed(cluster, "g") == {0: 10, 1: 5}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_commits_and_leaves(cluster: Cluster, number: signal.Signals) -> None:
    async with (
        start("consume", "t", "-g", "g", "-o", "start", bootstrap=cluster.bootstrap) as process,
        asyncio.timeout(60),
    ):
        assert process.stdout is not None
        lines = [await process.stdout.readline() for _ in range(15)]
        process.send_signal(number)
        assert await process.wait() == 130
    assert sorted(line.decode().strip() for line in lines) == sorted(
        numbered("a", 0, 10) + numbered("b", 0, 5)
    )
    shown = await oncelog("groups", "list", "--json", bootstrap=cluster.bootstrap)
    (row,) = shown.document["groups"]
    assert (row["state"], row["member_count"]) == ("Empty", 0), "it left, its session is not over"
    assert await committed(cluster, "g") == {0: 10, 1: 5}


async def test_a_group_shares_out_the_partitions_itself(cluster: Cluster) -> None:
    for arguments, word in (
        (["-p", "0"], "--partition and --group"),
        (["-o", "5"], "reset-offsets"),
        (["-o", "start:end"], "reset-offsets"),
        (["-o", "-3"], "reset-offsets"),
    ):
        shown = await oncelog("consume", "t", "-g", "g", *arguments, bootstrap=cluster.bootstrap)
        assert (shown.code, shown.out) == (2, "")
        assert word in shown.err
    shown = await oncelog("consume", "none", "-g", "g", bootstrap=cluster.bootstrap)
    assert (shown.code, shown.out) == (1, "")
    assert "'none' does not exist" in shown.err
