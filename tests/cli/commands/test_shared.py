"""These tests run ``oncelog shared`` and 'produce --ticket': all winners' lines are seen, or
none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog import Producer
from support.cluster import Cluster
from support.hand_producer import all_marked
from support.shell import Shown, oncelog


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start one broker with a topic t of two partitions."""
    async with Cluster(tmp_path / "cluster", transaction_state_log_replication_factor=1) as cluster:
        await cluster.create_topic("t", partitions=2)
        yield cluster


async def shell(cluster: Cluster, *arguments: str, stdin: bytes = b"", code: int = 0) -> Shown:
    shown = await oncelog(*arguments, stdin=stdin, bootstrap=cluster.bootstrap)
    assert shown.code == code, shown.err
    return shown


async def begin(cluster: Cluster, tag: int) -> str:
    shown = await shell(cluster, "shared", "begin", "nightly", "--tag", str(tag))
    return shown.out.strip()


async def write(cluster: Cluster, ticket: str, writer: str, lines: bytes, code: int = 0) -> Shown:
    return await shell(
        cluster,
        *("produce", "t", "--ticket", ticket, "--writer", writer, "--json"),
        stdin=lines,
        code=code,
    )


async def visible(cluster: Cluster) -> list[str]:
    await all_marked(cluster)
    shown = await shell(cluster, "consume", "t", "--until-end")
    return sorted(shown.out.splitlines())


async def test_the_winners_lines_become_visible_together(cluster: Cluster, tmp_path: Path) -> None:
    ticket = tmp_path / "ticket.json"
    ticket.write_text(await begin(cluster, 7))
    a = tmp_path / "a.json"
    a.write_text((await write(cluster, str(ticket), "a", b"a1\na2\n")).out)
    lost = await write(cluster, str(ticket), "a-first-try", b"a1\n")
    b = json.dumps((await write(cluster, str(ticket), "b", b"b1\n")).document["receipt"])
    assert lost.document["receipt"]["writer"] == "a-first-try"
    assert await visible(cluster) == []
    shown = await shell(cluster, "shared", "describe", "nightly", "--json")
    (described,) = shown.document["transactions"]
    assert (described["state"], described["tag"]) == ("Ongoing", 7)
    names = sorted(writer["writer"].partition(".")[0] for writer in described["writers"])
    assert names == ["a", "a-first-try", "b"]
    shown = await shell(cluster, "shared", "commit", str(ticket), str(a), b)
    assert shown.out == "nightly, tag 7 committed\n"
    assert await visible(cluster) == ["a1", "a2", "b1"]
    shown = await shell(cluster, "shared", "commit", str(ticket), str(a), b)
    assert shown.out == "nightly, tag 7 was committed before\n"
    shown = await shell(cluster, "shared", "abort", str(ticket), code=1)
    assert "nightly, tag 7 is committed already" in shown.err
    # The same work again is refused before anything is written.
    again = await begin(cluster, 7)
    refused = await write(cluster, again, "a", b"a1\n", code=1)
    assert refused.document["errors"][0]["error"] == "TRANSACTION_ALREADY_COMMITTED"
    assert await visible(cluster) == ["a1", "a2", "b1"]


async def test_what_is_aborted_is_never_seen(cluster: Cluster) -> None:
    ticket = await begin(cluster, 1)
    receipt = (await write(cluster, ticket, "a", b"x\n")).document["receipt"]
    shown = await shell(cluster, "shared", "abort", ticket, "--json")
    assert (shown.document["committed"], shown.document["already"]) == (False, False)
    assert await visible(cluster) == []
    late = await shell(cluster, "shared", "commit", ticket, json.dumps(receipt), code=1)
    assert late.err.startswith("error: ")
    # Another try at the same tag.
    ticket = await begin(cluster, 1)
    receipt = (await write(cluster, ticket, "a", b"x\n")).document["receipt"]
    await shell(cluster, "shared", "commit", ticket, json.dumps(receipt))
    assert await visible(cluster) == ["x"]


async def test_an_operator_ends_one_from_any_of_its_partitions(cluster: Cluster) -> None:
    ticket = await begin(cluster, 1)
    receipts = [
        json.dumps((await write(cluster, ticket, name, b"x\n")).document["receipt"])
        for name in ("a", "b")
    ]
    shown = await shell(cluster, "producers", "describe", "t", "--open", "--json")
    row = shown.document["producers"][0]
    shown = await shell(
        cluster,
        *("transactions", "abort", "-t", "t", "-p", str(row["partition"]), "--yes", "--json"),
        *("--producer-id", str(row["producer_id"])),
    )
    assert shown.document["aborted"]["transactional_id"] == "nightly"
    late = await shell(cluster, "shared", "commit", ticket, *receipts, "--json", code=1)
    assert late.document["errors"][0]["error"] == "PRODUCER_FENCED"
    assert await visible(cluster) == []
    shown = await shell(cluster, "shared", "describe", "nightly", "--json")
    assert shown.document["transactions"][0]["last_committed_tag"] is None


async def test_a_writer_that_fails_has_no_receipt(cluster: Cluster) -> None:
    ticket = await begin(cluster, 1)
    shown = await shell(
        cluster,
        *("produce", "t", "-j", "--ticket", ticket, "--writer", "w", "--json"),
        stdin=b'{"value": "x"}\nnonsense\n',
        code=1,
    )
    assert shown.document["receipt"] is None
    table = await shell(cluster, "produce", "t", "--ticket", ticket, "--writer", "v", stdin=b"y\n")
    assert json.loads(table.out.splitlines()[-1])["writer"] == "v"
    assert await visible(cluster) == []


@pytest.mark.parametrize(
    "wrong",
    [
        ["shared", "begin", "nightly", "--tag", "-1"],
        ["shared", "begin", "nightly", "--tag", "1", "--timeout", "soon"],
        ["shared", "commit", "no-such-file"],
        ["produce", "t", "--ticket", "TICKET"],
        ["produce", "t", "--writer", "w"],
        ["produce", "t", "--ticket", "TICKET", "--writer", "w", "--transactional-id", "x"],
        ["produce", "t", "--ticket", "TICKET", "--writer", "w", "--acks", "1"],
    ],
)
async def test_command_lines_that_mean_nothing(cluster: Cluster, wrong: list[str]) -> None:
    ticket = await begin(cluster, 1)
    shown = await shell(cluster, *(ticket if x == "TICKET" else x for x in wrong), code=2)
    assert shown.out == ""


async def test_list_shows_shared_ones_alone(cluster: Cluster) -> None:
    assert (await shell(cluster, "shared", "list", "--format", "tsv")).out == ""
    for name in ("nightly", "yearly"):
        ticket = (await shell(cluster, "shared", "begin", name, "--tag", "7")).out.strip()
        await write(cluster, ticket, "one", b"line\n")
    async with Producer(cluster.bootstrap, transactional_id="ordinary"):
        pass
    shown = await shell(cluster, "shared", "list", "--json")
    found = json.loads(shown.out)["transactions"]
    assert sorted((item["transactional_id"], item["tag"], item["state"]) for item in found) == [
        ("nightly", 7, "Ongoing"),
        ("yearly", 7, "Ongoing"),
    ]
    shown = await shell(cluster, "shared", "list", "-r", "year.*", "--format", "tsv")
    assert shown.out.startswith("yearly\tOngoing\t")


async def test_describe_is_for_shared_ones(cluster: Cluster) -> None:
    await shell(cluster, "produce", "t", "--transactional-id", "pay", stdin=b"x\n")
    shown = await shell(cluster, "shared", "describe", "pay", code=1)
    assert "it is no id of shared transactions" in shown.err
    shown = await shell(cluster, "shared", "describe", "-r", "p.*", code=1)
    assert "no shared transaction matches p.*" in shown.err
