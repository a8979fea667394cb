"""Transactions have ages and hold records back; those that hang are looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog import Admin, Producer, TopicPartition
from oncelog.admin.transactions import TRANSACTION_TIMEOUT_MS_MAX
from oncelog.testing import AsyncCluster
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.held_back import HeldBackRecords
from oncelog_cli.documents.transactions import hanging_transactions, listed_transactions
from oncelog_console.page import BadRequestError
from oncelog_console.pages.transactions import (
    chosen_rows,
    filter_of,
    groups_of,
    transaction_rows,
)
from oncelog_console.snapshot import Fact, Snapshot
from support.cluster import Cluster
from support.console import Browser, as_json, console_of
from support.hanging import hang

NOW = 1_790_000_000_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def listed(name: str, state: str = "Ongoing") -> Any:
    return {"transactional_id": name, "state": state, "producer_id": 7, "coordinator": 1}


def described(name: str, *partitions: TopicPartition, start_ms: int | None = NOW) -> Any:
    return {
        **listed(name),
        "start_ms": start_ms,
        "timeout_ms": 60_000,
        "partitions": [tp._asdict() for tp in partitions],
        "writers": [],
    }


# ------------------------------------------------------------------------------ views


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ({}, ("transactions", "list", "--state", "Ongoing")),
        ({"tab": "ending"},
         ("transactions", "list", "--state", "PrepareCommit", "--state", "PrepareAbort")),
        ({"tab": "all", "q": "pay", "older": "1m"},
         ("transactions", "list", ".*pay.*", "--regex", "--older-than", "1m")),
        ({"tab": "hanging", "look": "1"}, ("transactions", "find-hanging")),
    ],
)  # fmt: skip
def test_the_command_lists_the_same(query: dict[str, str], command: tuple[str, ...]) -> None:
    assert filter_of(query, 1).command == command


@pytest.mark.parametrize("query", [{"tab": "sad"}, {"older": "long"}, {"q": "/(/"}])
def test_what_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        filter_of(query, 1)


def test_tabs_show_states() -> None:
    rows = [listed("a"), listed("b", "PrepareAbort"), listed("c", "CompleteCommit")]
    for tab, names in (("open", "a"), ("ending", "b"), ("all", "abc")):
        found = chosen_rows(rows, filter_of({"tab": tab}, 1))
        assert "".join(row["transactional_id"] for row in found) == names


def test_ages_are_shown_as_a_part_of_the_time_out() -> None:
    answer = Answer(
        {"transactions": [described("a"), described("b", start_ms=None)]},
        [Failure("c", "its coordinator loads")],
    )
    a, b, c = transaction_rows([listed(name) for name in "abc"], answer, {}, (), NOW + 54_000)
    assert a.age_ms == 54_000
    assert "open for 54 s of 1 min (warning)" in str(a.picture)
    assert (b.age_ms, c.age_ms) == (None, None)
    assert "nothing is open" in str(b.picture)
    assert 'class="bar unknown"' in str(c.picture)
    assert (c.why, c.holds_back) == ("its coordinator loads", None)


def test_what_a_transaction_holds_back_is_not_known_if_one_leader_is_silent() -> None:
    answer = Answer({"transactions": [described("a", T0, T1), described("b", T0), described("c")]})
    rows = [listed(name) for name in "abc"]
    held = {T0: HeldBackRecords(10, 15), T1: HeldBackRecords()}
    groups = [
        {"group": name, "offsets": [{**T0._asdict(), "offset": offset}]}
        for name, offset in (("stopped", 10), ("behind", 9), ("beside", 12))
    ]
    a, b, c = transaction_rows(rows, answer, held, groups, NOW)
    assert (a.holds_back, b.holds_back, c.holds_back) == (None, 5, 0)
    assert (a.waits, b.waits, c.waits) == (("beside", "stopped"), ("beside", "stopped"), ())


def test_groups_whose_offsets_are_not_known_are_counted() -> None:
    rows = [{"group": name, "offsets": []} for name in "abc"]
    seen = Snapshot(groups=Fact(Answer({"groups": rows})))
    assert groups_of(seen).not_asked == 3
    seen = replace(seen, described_groups=Fact(Answer({"groups": rows[:1]})))
    assert (list(groups_of(seen).rows), groups_of(seen).not_asked) == (rows[:1], 2)


# ------------------------------------------------------------------------------ pages


async def test_an_open_transaction_with_its_document(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap, transactional_id="pay") as producer:
        await producer.begin_transaction()
        for number in range(3):
            await producer.send("orders", b"%d" % number)
        await producer.flush()
        await browser.until(lambda seen: chosen_rows(seen.transaction_rows, filter_of({}, 1)))
        document = await browser.document("/transactions")
        answer = await listed_transactions(admin, states=["Ongoing"])
        assert document["_command"] == "transactions list"
        assert document["transactions"] == as_json(answer.document["transactions"])
        page = (await browser.get("/transactions")).text
        assert '<a href="/transactions/pay">pay</a>' in page
        assert "orders:0" in page
        assert '<td class="n">3</td>' in page, "records that readers wait for"
        assert "of 1 min</title>" in page
        assert "$ oncelog transactions list --state Ongoing" in page
        assert "No transaction fits" in (await browser.get("/transactions?older=1h")).text
        await admin.alter_group_offsets("billing/eu", {TopicPartition("orders", 0): 0})
        await admin.alter_group_offsets("audit", {TopicPartition("orders", 0): 3})
        await browser.until(lambda seen: not groups_of(seen).not_asked and groups_of(seen).rows)
        for address in ("/transactions", "/transactions/pay"):
            page = (await browser.get(address)).text
            assert '<a href="/groups/billing%2Feu">billing/eu</a>' in page
            assert "audit" not in page, "there is nothing more that it could read"
            assert "more groups exist" not in page
        document = await browser.document("/transactions/pay")
        (row,) = document["transactions"][0]["in_partitions"]
        assert (row["holds_back"], row["waiting_groups"]) == (3, ["billing/eu"])
        await producer.abort_transaction()


async def test_nothing_is_open(browser: Browser) -> None:
    assert "No transaction is open" in (await browser.get("/transactions")).text
    assert "being ended" in (await browser.get("/transactions?tab=ending")).text
    assert "No transactional id" in (await browser.get("/transactions?tab=all")).text
    assert (await browser.get("/transactions?tab=sad")).status == 400


async def test_what_hangs_is_found_when_somebody_wants_it(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    await browser.until(lambda seen: seen.hanging.value)
    hang(cluster, "orders", 0, b"one", b"two", producer_id=900)
    before = await browser.get("/transactions?tab=hanging")
    assert "look for them now" in before.text
    assert "No transaction hangs." in before.text, "as of the last search"
    document = await browser.document("/transactions?tab=hanging&look=1")
    answer = await hanging_transactions(admin, max_timeout_ms=TRANSACTION_TIMEOUT_MS_MAX)
    assert document["_command"] == "transactions find-hanging"
    assert document["transactions"] == as_json(answer.document["transactions"])
    page = (await browser.get("/transactions?tab=hanging&look=1")).text
    assert '<a href="/topics/orders/0/0">0</a>' in page, "where it begins"
    words = ("transactions", "abort", "--topic", "orders", "--partition", "0")
    assert " ".join(words) + " --producer-id 900 --start-offset 0 --yes" in page
    assert "no coordinator knows this producer" in page


async def test_what_hangs_is_looked_for_and_stands_on_the_first_page(cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    hang(cluster, "orders", 0, b"one", b"two", producer_id=900)
    async with console_of(cluster.bootstrap, changes=True) as browser:
        await browser.until(lambda seen: seen.hanging_rows)
        page = (await browser.get("/")).text
        assert '<a href="/transactions?tab=hanging">hanging_transactions 1</a>' in page
        assert "readers at read_committed stop there: orders-0@0" in page
        assert "healthy" not in page
        for shown in (page, (await browser.get("/topics")).text):
            assert '<a class="chip chip-warning" href="/">warning</a>' in shown
        assert (await browser.document("/"))["healthy"], "the command knows nothing of it"
        found = await browser.document("/transactions?tab=hanging")
        assert found["transactions"] == as_json(browser.console.poller.seen.hanging_rows)
        assert "orders-0" in (await browser.get("/transactions?tab=hanging")).text
        form = {"topic": "orders", "partition": 0, "producer_id": 900, "start_offset": 0}
        plan = await browser.follow(await browser.post("/changes/abort-transaction", form))
        token = plan.text.partition('name="token" value="')[2].partition('"')[0]
        plan_path = plan.text.partition('action="/plans/')[2].partition('"')[0]
        sent = {"token": token, "typed": "orders-0@0"}
        assert (await browser.post(f"/plans/{plan_path}", sent)).status == 303
        await browser.until(lambda seen: seen.hanging.value and not seen.hanging_rows)
        page = (await browser.get("/")).text
        assert "hanging_transactions" not in page
        assert '<a class="chip chip-ok" href="/">healthy</a>' in page


@pytest.mark.slow
async def test_a_coordinator_that_loads_is_named() -> None:
    async with AsyncCluster() as cluster:
        await cluster.create_topic("orders")
        async with Producer(cluster.bootstrap, transactional_id="pay") as producer:
            await producer.begin_transaction()
            await producer.send("orders", b"one")
            await producer.flush()
            async with console_of(cluster.bootstrap) as browser:
                await browser.until(lambda seen: seen.transaction_rows)
                loads = "COORDINATOR_LOAD_IN_PROGRESS"
                with cluster.fail_next("describe_transactions", loads, None):
                    page = (await browser.get("/transactions")).text
                    one = await browser.get("/transactions/pay")
            await producer.abort_transaction()
    assert "pay: coordinator 1 did not answer" in page
    assert 'class="bar unknown"' in page
    assert one.status == 200
    assert "Coordinator 1 did not answer" in one.text
