"""The story of a bad morning is told in a browser beside real broker processes.

A topic is made and records come; a reader falls behind and the chart of its lag grows; a leader is
killed, and the event appears; a poison record is found by a search, and its link is opened by a
colleague; offsets are reset by a plan; a transaction that hangs is found and aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from oncelog import Admin, Producer, TopicPartition
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import free_port
from support.browser import People, Person

pytestmark = [
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

LATER_MS = 60_000
POISON = b'{"id": 666, "amount": "a lot"}'


@pytest_asyncio.fixture(loop_scope="session")
async def local(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Start ZooKeeper, three brokers and the console, as `oncelog up --console` does."""
    cluster = LocalCluster(tmp_path / "cluster", brokers=3)
    cluster.console.adopt(free_port(), None)
    try:
        await asyncio.to_thread(cluster.start)
        await asyncio.to_thread(cluster.start_console, None)
        yield cluster
    finally:
        cluster.console.kill()
        for broker in cluster.brokers.values():
            broker.kill()
        if cluster.zookeeper is not None:
            cluster.zookeeper.kill()


async def carried_out(page: Page) -> None:
    """Send a form, confirm its plan, and wait until it is done."""
    await page.locator("main form.stack button").click()
    await page.wait_for_url("**/plans/*")
    typed = page.locator("input[data-typed]")
    if await typed.count():
        await typed.fill(await typed.get_attribute("data-typed") or "")
    await page.locator("form.confirm button").click()
    await expect(page.locator("main .done")).to_contain_text("Done by", timeout=LATER_MS)


async def test_a_bad_morning(people: People, local: LocalCluster) -> None:
    person = await people.come(local.console.url.rstrip("/"))
    page = await person.open("/changes/create-topic?topic=orders&partitions=1&replication_factor=3")
    await carried_out(page)
    async with Producer(local.bootstrap) as producer, Admin(local.bootstrap) as admin:
        await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        await falls_behind(person, producer)
        await leader_dies(person, admin, local)
        await poison_is_found(people, person, producer)
        page = await person.open("/changes/reset-offsets?group=billing&place=to_latest")
        await carried_out(page)
        committed = await admin.list_group_offsets("billing")
        found = committed[TopicPartition("orders", 0)]
        assert found is not None
        assert found.offset == 61
    await forgotten_transaction_ends(person, local.bootstrap)


async def falls_behind(person: Person, producer: Producer) -> None:
    """Records come, and the lag of a reader that does not read grows on its chart."""
    page = await person.open("/groups/billing?span=15m")
    lag = page.locator("dl.figures div", has_text="Lag").first
    for turn in (1, 2):
        for number in range(30):
            await producer.send("orders", b'{"id": %d, "amount": 5}' % number)
        await expect(lag.locator("dd")).to_have_text(str(30 * turn), timeout=LATER_MS)
    await expect(page.locator("main svg").first).to_contain_text("orders-0")


async def leader_dies(person: Person, admin: Admin, local: LocalCluster) -> None:
    """The leader is killed; the overview says so, and what happened then."""
    page = await person.open("/")
    (described,) = await admin.describe_topics(["orders"])
    leader = described.partitions[0].leader
    await asyncio.to_thread(local.broker(leader).kill)
    await expect(page.locator("tr.away")).to_contain_text("away", timeout=LATER_MS)
    events = await person.open("/events?topic=orders")
    await expect(events.locator("main")).to_contain_text("leader_changed", timeout=LATER_MS)
    await asyncio.to_thread(local.start_broker, leader)


async def poison_is_found(people: People, person: Person, producer: Producer) -> None:
    """A record that nobody can handle is found by an expression, and a colleague opens its link."""
    await producer.send("orders", POISON)
    page = await person.open("/topics/orders/messages?from=beginning")
    await page.get_by_label("Where").fill('value.amount == "a lot"')
    await page.get_by_role("button", name="Search").click()
    row = page.locator("#rows tr")
    try:
        await expect(row).to_have_count(1, timeout=LATER_MS)
    except AssertionError as error:
        text = await page.locator("main").inner_text()
        raise AssertionError(f"{page.url} has no such record: {text}") from error
    await row.get_by_role("link").click()
    await expect(page.locator("main")).to_contain_text('"a lot"')
    colleague = await people.come(person.origin)
    theirs = await colleague.open(page.url.removeprefix(person.origin))
    await expect(theirs.locator("main")).to_contain_text('"a lot"')


async def forgotten_transaction_ends(person: Person, bootstrap: str) -> None:
    """A transaction that nobody goes on with holds readers back, until it is aborted."""
    async with Producer(bootstrap, transactional_id="forgotten") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b'{"id": 1000, "amount": 1}')
        await producer.flush()
        page = await person.open("/transactions")
        await expect(page.locator("main")).to_contain_text("forgotten", timeout=LATER_MS)
        page = await person.open("/changes/fence-producer?transactional_id=forgotten")
        await carried_out(page)
        page = await person.open("/transactions/forgotten")
        await expect(page.locator("main")).not_to_contain_text("held back from readers")
