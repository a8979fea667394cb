"""One transactional id shows its path, its partitions with their markers, and who is waited for."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from oncelog import Admin, Producer, SharedTransaction, TopicPartition, join
from oncelog.testing import AsyncCluster
from oncelog_cli.documents.answer import Failure
from oncelog_cli.documents.transaction_partitions import with_partitions
from oncelog_cli.documents.transactions import described_transactions
from oncelog_console.pages.transaction import marks_of, path_of, waits_for
from support.cluster import Cluster
from support.console import Browser, as_json, console_of

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def row_of(tp: TopicPartition, marked: bool | None) -> dict[str, Any]:
    return {**tp._asdict(), "open": None if marked is None else not marked, "marked": marked}


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ("Empty", "*Empty Ongoing PrepareCommit CompleteCommit"),
        ("Ongoing", "Empty *Ongoing PrepareCommit CompleteCommit"),
        ("PrepareCommit", "Empty Ongoing *PrepareCommit CompleteCommit"),
        ("PrepareAbort", "Empty Ongoing *PrepareAbort CompleteAbort"),
        ("CompleteAbort", "Empty Ongoing PrepareAbort *CompleteAbort"),
        ("", "Empty Ongoing PrepareCommit CompleteCommit"),
    ],
)
def test_a_path_goes_to_a_commit_or_to_an_abort(state: str, path: str) -> None:
    steps = path_of(state)
    assert " ".join(("*" if s.place == "here" else "") + s.state for s in steps) == path
    passed = [step.place for step in steps]
    assert passed == sorted(passed, key=["before", "here", "after"].index)


def test_markers_that_are_not_written_are_waited_for() -> None:
    rows = [row_of(T0, False), row_of(T1, True), row_of(T2, None)]
    marks = marks_of(rows, [Failure(str(T2), "silent")], {T0: 2, T1: 1, T2: 3})
    assert [each.why for each in marks] == ["", "", "silent"]
    assert waits_for({"state": "PrepareCommit"}, marks) == (2, 3)
    assert waits_for({"state": "Ongoing"}, marks) == ()
    (unled,) = marks_of(rows[2:], [], {})
    assert (unled.leader, unled.why) == (None, "nobody was asked")
    assert waits_for({"state": "PrepareCommit"}, [unled]) == ()


# ------------------------------------------------------------------------------ pages


async def test_where_a_transaction_is_and_the_document_of_the_command(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap, transactional_id="pay/eu") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"one")
        await producer.flush()
        await browser.until(lambda seen: seen.topic("orders"))
        document = await browser.document("/transactions/pay%2Feu")
        answer = await with_partitions(admin, await described_transactions(admin, ["pay/eu"]))
        assert document["_command"] == "transactions describe"
        assert document["transactions"] == as_json(answer.document["transactions"])
        page = (await browser.get("/transactions/pay%2Feu")).text
        assert 'aria-current="step"' in page
        assert "● Ongoing" in page
        assert "<td>open</td>" in page
        assert '<a href="/topics/orders/0/0">0</a>' in page, "where it begins"
        assert "$ oncelog transactions describe pay/eu --partitions" in page
        await producer.commit_transaction()
        page = await browser.until_page("/transactions/pay%2Feu", "● CompleteCommit")
    assert "No partition waits for a marker" in page


async def test_an_id_that_nobody_knows(browser: Browser) -> None:
    answered = await browser.get("/transactions/none")
    assert answered.status == 404
    assert "no coordinator knows" in answered.text


async def test_a_shared_transaction_has_ordinal_tag_and_writers(
    cluster: Cluster, browser: Browser
) -> None:
    await cluster.create_topic("orders")
    txn = await SharedTransaction.begin(
        bootstrap_servers=cluster.bootstrap, transactional_id="nightly", tag=20_261_127
    )
    async with txn:
        async with await join(txn.ticket, writer="part-7") as writer:
            await writer.send("orders", b"one")
        page = (await browser.get("/transactions/nightly")).text
    for text in ("shared", "20,261,127", "part-7", "Last committed tag", "nothing was committed"):
        assert text in page


@pytest.mark.slow
async def test_a_leader_that_has_not_written_its_marker_is_waited_for() -> None:
    async with AsyncCluster(brokers=2) as cluster:
        await cluster.create_topic("orders", partitions=2, replication_factor=1)
        async with Producer(cluster.bootstrap, transactional_id="pay") as producer:
            await producer.begin_transaction()
            for partition in range(2):
                await producer.send("orders", b"one", partition=partition)
            await producer.flush()
            async with console_of(cluster.bootstrap) as browser:
                await browser.until(lambda seen: seen.topic("orders"))
                leaders = [await cluster.leader("orders", number) for number in range(2)]
                with cluster.hold("write_txn_markers", between_brokers=True):
                    ending = asyncio.ensure_future(producer.commit_transaction())
                    page = await browser.until_page(
                        "/transactions/pay", "● PrepareCommit", "… on its way", "✓ written"
                    )
                await ending
                await browser.until_page("/transactions/pay", "● CompleteCommit")
    (waited,) = re.findall(r'The end waits for <a href="/brokers/(\d)">', page)
    row = page[: page.index("… on its way")].rpartition("<tr>")[2]
    leader = leaders[int(re.findall(r"orders-(\d)", row)[0])]
    assert int(waited) == leader
    written = re.findall(r'✓ written at <a href="/topics/orders/\d/log\?offset=(\d+)">', page)
    assert written == ["1"], "the marker lies behind the record"
