"""``oncelog produce`` makes records of lines, sends them to a real broker, and reports on them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog_cli.commands.produce import LineRules, parse_headers
from oncelog_cli.options import UsageError
from oncelog_cli.record_text import InputRecord
from support.cluster import Cluster
from support.shell import oncelog, start


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start one broker with one topic of two partitions."""
    async with Cluster(tmp_path / "cluster") as cluster:
        await cluster.create_topic("t", partitions=2)
        yield cluster


async def records(cluster: Cluster, topic: str = "t") -> list[dict[str, Any]]:
    """Return all records, by partition and offset."""
    shown = await oncelog("consume", topic, "-e", "--json", bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err
    return sorted(shown.json_lines, key=lambda record: (record["partition"], record["offset"]))


async def test_a_line_is_a_value(cluster: Cluster) -> None:
    shown = await oncelog(
        "produce", "t", "-p", "1", stdin=b"one\n\n\xff\nlast", bootstrap=cluster.bootstrap
    )
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines()] == [
        ["PARTITION", "RECORDS", "FIRST", "LAST"],
        ["1", "4", "0", "3"],
    ]
    assert shown.err == "4 records in t\n"
    found = await records(cluster)
    assert [record["value"] for record in found] == ["one", "", {"base64": "/w=="}, "last"]
    assert {record["key"] for record in found} == {None}


async def test_keys_headers_and_tombstones(cluster: Cluster) -> None:
    shown = await oncelog(
        *("produce", "t", "-K", "::", "-H", "a=1", "-H", "a=2=3", "-Z", "--json", "-p", "0"),
        *("--acks", "1", "-z", "gzip"),
        stdin=b"k::v::w\ngone::\n",
        bootstrap=cluster.bootstrap,
    )
    assert shown.code == 0
    assert shown.document["records"] == 2
    assert shown.document["partitions"] == [
        {"partition": 0, "records": 2, "first_offset": 0, "last_offset": 1}
    ]
    assert shown.err == ""
    found = await records(cluster)
    assert [(record["key"], record["value"]) for record in found] == [("k", "v::w"), ("gone", None)]
    headers = [{"key": "a", "value": "1"}, {"key": "a", "value": "2=3"}]
    assert [record["headers"] for record in found] == [headers, headers]


async def test_a_tab_may_be_typed_as_backslash_t(cluster: Cluster) -> None:
    shown = await oncelog(
        *("produce", "t", "-K", "\\t", "-p", "0"), stdin=b"k\tv\n", bootstrap=cluster.bootstrap
    )
    assert shown.code == 0
    assert shown.err == "1 record in t\n"
    assert [(r["key"], r["value"]) for r in await records(cluster)] == [("k", "v")]


async def test_what_is_consumed_can_be_produced_again(cluster: Cluster, tmp_path: Path) -> None:
    lines = [
        {"value": "plain", "partition": 0, "timestamp": 1000},
        {"value": None, "key": "k", "partition": 0},
        {"value": {"base64": "/wA="}, "key": {"base64": "/w=="}, "partition": 1},
        {"value": "", "headers": [{"key": "h", "value": None}, {"key": "h", "value": "é"}]},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    shown = await oncelog("produce", "t", "-j", stdin=text.encode(), bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err
    first = await oncelog("consume", "t", "-e", "--json", bootstrap=cluster.bootstrap)
    assert len(first.json_lines) == 4

    await cluster.create_topic("copy", partitions=2)
    path = tmp_path / "records.jsonl"
    path.write_bytes(first.stdout)
    shown = await oncelog("produce", "copy", "-j", "-i", str(path), bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err
    copies = await records(cluster, "copy")
    assert [{**record, "topic": "t"} for record in copies] == await records(cluster)


async def test_bytes_as_text(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    for encoding, lines in (("hex", b"6b:00ff\n"), ("base64", b"aw==:AP8=\n")):
        shown = await oncelog(
            *("produce", "t", "-K", ":", "--encoding", encoding), stdin=lines, bootstrap=servers
        )
        assert shown.code == 0, shown.err
    shown = await oncelog("produce", "t", "--encoding", "hex", stdin=b"6\n", bootstrap=servers)
    assert (shown.code, "line 1" in shown.err) == (1, True)
    shown = await oncelog("consume", "t", "-e", "-f", "%k{hex} %v{hex}\n", bootstrap=servers)
    assert shown.out.splitlines() == ["6b 00ff"] * 2


async def test_so_many_a_second(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    shown = await oncelog(
        *("produce", "t", "--rate", "20"), stdin=b"x\n" * 10, bootstrap=cluster.bootstrap
    )
    assert (shown.code, shown.err) == (0, "10 records in t\n")
    assert loop.time() - began >= 0.4, "the tenth is due after nine twentieths of a second"


async def test_partitions_can_be_chosen_anew(cluster: Cluster) -> None:
    await cluster.create_topic("narrow")
    line = b'{"value": "v", "partition": 1}\n'
    refused = await oncelog("produce", "narrow", "-j", stdin=line, bootstrap=cluster.bootstrap)
    assert refused.code == 1
    assert "line 1" in refused.err
    taken = await oncelog(
        "produce", "narrow", "-j", "--repartition", stdin=line, bootstrap=cluster.bootstrap
    )
    assert taken.code == 0


async def test_a_bad_line_stops_and_names_itself(cluster: Cluster) -> None:
    shown = await oncelog(
        *("produce", "t", "-j", "-p", "0", "--json"),
        stdin=b'{"value": "a"}\n\n{"value": 7}\n{"value": "b"}\n',
        bootstrap=cluster.bootstrap,
    )
    assert shown.code == 1
    assert shown.err.startswith("error: line 3: value must be text")
    assert shown.document["records"] == 1
    assert shown.document["errors"][0]["item"] == "line 3"
    assert [record["value"] for record in await records(cluster)] == ["a"]


async def test_what_the_broker_refuses_is_counted(cluster: Cluster) -> None:
    await cluster.create_topic("small", max_message_bytes=1000)
    shown = await oncelog(
        "produce", "small", "--json", stdin=b"x" * 5000 + b"\n", bootstrap=cluster.bootstrap
    )
    assert shown.code == 1
    assert (shown.document["records"], shown.document["failed"]) == (0, 1)
    assert "not written" in shown.err
    assert await records(cluster, "small") == []


async def test_a_topic_that_does_not_exist(cluster: Cluster) -> None:
    shown = await oncelog("produce", "none", stdin=b"x\n", bootstrap=cluster.bootstrap)
    assert shown.code == 1
    assert "'none' does not exist" in shown.err
    assert shown.out == ""
    await cluster.create_topic("orders")
    shown = await oncelog("produce", "ordres", stdin=b"x\n", bootstrap=cluster.bootstrap)
    assert "error: topic 'ordres' does not exist; did you mean 'orders'?" in shown.err


async def test_many_lines_keep_their_order(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d:%d\n" % (n % 7, n) for n in range(20_000)))
    shown = await oncelog(
        "produce", "t", "-K", ":", "-i", str(path), "--json", bootstrap=cluster.bootstrap
    )
    assert shown.document["records"] == 20_000
    by_key: dict[str, list[int]] = {}
    for record in await records(cluster):
        by_key.setdefault(record["key"], []).append(int(record["value"]))
    assert sum(map(len, by_key.values())) == 20_000
    assert all(values == sorted(values) for values in by_key.values())


async def test_a_line_is_sent_when_it_is_typed(cluster: Cluster) -> None:
    """It does not wait for the end of the input."""
    async with start("produce", "t", "-p", "0", bootstrap=cluster.bootstrap) as process:
        assert process.stdin is not None
        process.stdin.write(b"hello\n")
        shown = await oncelog(
            "consume", "t", "--from-beginning", "-n", "1", bootstrap=cluster.bootstrap
        )
        assert shown.out == "hello\n"
        assert process.returncode is None
        _, err = await process.communicate(b"")  # closes its standard input
        assert await process.wait() == 0
        assert err == b"1 record in t\n"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-j", "-K", ":"], "--key-separator"),
        (["-K", ""], "--key-separator"),
        (["-H", "x"], "--header"),
        (["-p", "-1"], "--partition"),
        (["-j", "--encoding", "hex"], "--encoding"),
        (["--rate", "0"], "--rate"),
    ],
)
async def test_usage(arguments: list[str], word: str) -> None:
    shown = await oncelog("produce", "t", *arguments, bootstrap="127.0.0.1:1")
    assert shown.code == 2
    assert word in shown.err


async def test_a_file_that_is_not_there() -> None:
    shown = await oncelog("produce", "t", "-i", "/nowhere/x", bootstrap="127.0.0.1:1")
    assert shown.code == 1
    assert "/nowhere/x" in shown.err


@pytest.mark.parametrize(
    ("rules", "line", "record"),
    [
        (LineRules(), b"v", InputRecord(b"v")),
        (LineRules(key_separator=b"\t"), b"k\tv\tw", InputRecord(b"v\tw", b"k")),
        (LineRules(key=b"k"), b"v", InputRecord(b"v", b"k")),
        (
            LineRules(key=b"k", json_lines=True),
            b'{"value":"","key":"own"}',
            InputRecord(b"", b"own"),
        ),
        (LineRules(tombstones=True), b"", InputRecord(None)),
        (LineRules(), b"", InputRecord(b"")),
        (LineRules(partition=3), b"v", InputRecord(b"v", partition=3)),
        (
            LineRules(json_lines=True, headers=(("a", b"1"),)),
            b'{"value":"v","headers":{"b":"2"},"partition":1,"timestamp":5}',
            InputRecord(b"v", None, (("a", b"1"), ("b", b"2")), 1, 5),
        ),
        (
            LineRules(json_lines=True, repartition=True),
            b'{"value":"v","partition":1}',
            InputRecord(b"v"),
        ),
    ],
)
def test_rules(rules: LineRules, line: bytes, record: InputRecord) -> None:
    assert rules.parse(line) == record


def test_a_line_without_the_separator() -> None:
    with pytest.raises(ValueError, match="separator ':'"):
        LineRules(key_separator=b":").parse(b"v")


def test_headers() -> None:
    assert parse_headers(["a=1", "a=", "b=x=y"]) == (("a", b"1"), ("a", b""), ("b", b"x=y"))
    with pytest.raises(UsageError):
        parse_headers(["=x"])
