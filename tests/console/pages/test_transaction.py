"""One transactional id shows its path, its partitions with their markers, and who is waited for."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from oncelog import Admin, Producer, SharedTransaction, TopicPartition, join
from oncelog.testing import AsyncCluster
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.transactions import described_transactions
from oncelog_console.pages.transaction import marks_of, path_of, waits_for
from support.cluster import Cluster
from support.console import Browser, as_json, console_of

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def described(state: str, *partitions: TopicPartition) -> Any:
    return {
        "state": state,
        "producer_id": 7,
        "partitions": [tp._asdict() for tp in partitions],
        "writers": [],
    }


def producers(*begun: tuple[TopicPartition, int, int | None], failed: str = "") -> Answer:
    rows = [
        {**tp._asdict(), "producer_id": number, "txn_start_offset": start}
        for tp, number, start in begun
    ]
    return Answer({"producers": rows}, [Failure(failed, "silent")] if failed else [])


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
    row = described("PrepareCommit", T0, T1, T2)
    answer = producers((T0, 7, 50), (T1, 7, None), (T0, 8, 3), failed=str(T2))
    marks = marks_of(row, answer, {T0: 4}, {T0: 2, T1: 1, T2: 3})
    assert [(each.state, each.start_offset, each.holds_back) for each in marks] == [
        ("open", 50, 4),
        ("ended", None, None),
        ("unknown", None, None),
    ]
    assert marks[2].why == "silent"
    assert waits_for(row, marks) == (2, 3)
    assert waits_for(described("Ongoing", T0), marks) == ()


def test_each_writer_of_a_shared_transaction_has_its_partitions() -> None:
    row = described("Ongoing")
    row["writers"] = [
        {"writer": "part-0", "producer_id": 20, "partitions": [T0._asdict()]},
        {"writer": "part-1", "producer_id": 21, "partitions": [T0._asdict()]},
    ]
    marks = marks_of(row, producers((T0, 20, 5)), {}, {})
    assert [(each.writer, each.producer_id, each.state) for each in marks] == [
        ("part-0", 20, "open"),
        ("part-1", 21, "ended"),
    ]
    assert [each.leader for each in marks] == [None, None]


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
        answer = await described_transactions(admin, ["pay/eu"])
        assert document["_command"] == "transactions describe"
        assert document["transactions"] == as_json(answer.document["transactions"])
        page = (await browser.get("/transactions/pay%2Feu")).text
        assert 'aria-current="step"' in page
        assert "● Ongoing" in page
        assert "<td>open</td>" in page
        assert '<a href="/topics/orders/0/0">0</a>' in page, "where it begins"
        assert "$ oncelog transactions describe pay/eu" in page
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
