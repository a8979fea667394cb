"""Changes are planned, confirmed and waited for in a browser: by keyboard, by name, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog_console.changes.kinds import KINDS
from support.browser import People, inaccessible
from support.cluster import Cluster
from support.hanging import hang
from support.served_console import Served, served_console

RECORDS = 30
TABS_MAX = 60
LATER_MS = 30_000


@dataclass(frozen=True)
class World:
    """It is a broker, what one may do there, and a console that shows it."""

    cluster: Cluster
    admin: Admin
    console: Served

    async def group_at(self, group: str, offset: int) -> None:
        """Let a group have read so many records of orders."""
        await self.admin.alter_group_offsets(group, {TopicPartition("orders", 0): offset})

    async def offset_of(self, group: str) -> int | None:
        """Return where a group is in orders."""
        committed = await self.admin.list_group_offsets(group)
        found = committed[TopicPartition("orders", 0)]
        return None if found is None else found.offset


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Start a broker with some orders, and the console."""
    folder = tmp_path_factory.mktemp("changes")
    async with (
        Cluster(folder, transaction_state_log_replication_factor=1) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        await cluster.create_topic("orders", partitions=1)
        await cluster.create_topic("ledger", partitions=1)
        async with Producer(cluster.bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send("orders", b'{"order": %d}' % number)
        async with served_console(cluster.bootstrap) as console:
            yield World(cluster, admin, console)


async def tab_to(page: Page, element: Locator) -> None:
    """Press the tab key until an element has the focus."""
    for _ in range(TABS_MAX):
        await page.keyboard.press("Tab")
        if await element.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"the tab key does not lead to {element}")


async def test_a_keyboard_alone_resets_a_group(people: People, world: World) -> None:
    await world.group_at("accounting", RECORDS)
    person = await people.come(world.console.origin)
    page = await person.open("/changes")
    await tab_to(page, page.get_by_role("link", name=KINDS["reset-offsets"].title, exact=True))
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/changes/reset-offsets")
    await tab_to(page, page.locator("#field-group"))
    await page.keyboard.type("accounting")
    await tab_to(page, page.get_by_label("Where to"))
    await page.keyboard.press("End")
    while await page.get_by_label("Where to").input_value() != "shift_by":
        await page.keyboard.press("ArrowUp")
    await tab_to(page, page.get_by_label("Time, duration, number"))
    await page.keyboard.type("-12")
    await tab_to(page, page.locator("main form.stack button"))
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/plans/*")
    await expect(page.locator("main")).to_contain_text("up to 12 records are read again")
    await expect(page.locator("main table")).to_contain_text('{"order": 18}')
    await tab_to(page, page.get_by_label("to confirm"))
    await page.keyboard.type("accounting")
    await tab_to(page, page.locator("form.confirm button"))
    await page.keyboard.press("Enter")
    await expect(page.locator("main .done")).to_contain_text("Done by")
    assert await world.offset_of("accounting") == RECORDS - 12


async def planned(page: Page) -> None:
    """Send the form, and come to the plan."""
    await page.locator("main form.stack button").click()
    await page.wait_for_url("**/plans/*")


async def test_a_plan_is_void_when_the_log_has_grown(people: People, world: World) -> None:
    await world.group_at("shipping", 5)
    person = await people.come(world.console.origin)
    person.expect("Failed to load resource.*409")
    page = await person.open("/changes/reset-offsets?group=shipping&place=to_latest")
    await planned(page)
    async with Producer(world.cluster.bootstrap) as producer:
        await producer.send("orders", b'{"order": "late"}')
    await page.get_by_label("to confirm").fill("shipping")
    await page.locator("form.confirm button").click()
    await expect(page.locator("main [role=alert]").first).to_contain_text("void")
    assert await world.offset_of("shipping") == 5
    await page.get_by_role("button", name="Plan it again").click()
    await page.get_by_label("to confirm").fill("shipping")
    await page.locator("form.confirm button").click()
    await expect(page.locator("main .done")).to_contain_text("Done by")
    assert (await world.offset_of("shipping") or 0) > RECORDS


async def test_a_wrong_name_confirms_nothing(people: People, world: World) -> None:
    await world.group_at("returns", 5)
    person = await people.come(world.console.origin)
    page = await person.open("/changes/delete-group?group=returns")
    await planned(page)
    assert await inaccessible(page) == []
    button = page.locator("form.confirm button")
    await expect(button).to_be_disabled()
    await page.get_by_label("to confirm").fill("return")
    await expect(button).to_be_disabled()
    await page.get_by_label("to confirm").fill("returns")
    await expect(button).to_be_enabled()
    without = await people.come(world.console.origin, script=False)
    without.expect("Failed to load resource.*400")
    page = await without.open("/changes/delete-group?group=returns")
    await planned(page)
    await page.get_by_label("to confirm").fill("return")
    await page.locator("form.confirm button").click()
    await expect(page.locator("main [role=alert]")).to_be_visible()
    assert await world.offset_of("returns") == 5


async def test_a_topic_is_made(people: People, world: World) -> None:
    person = await people.come(world.console.origin)
    page = await person.open("/changes/create-topic")
    assert await inaccessible(page) == []
    await page.get_by_label("Name").fill("refunds")
    await page.get_by_label("Partitions").fill("2")
    await planned(page)
    await expect(page.locator("#command")).to_contain_text(
        "oncelog topics create refunds --partitions 2"
    )
    await page.locator("form.confirm button").click()
    await expect(page.locator("main .done")).to_contain_text(
        "The cluster shows it", timeout=LATER_MS
    )
    await page.get_by_role("link", name="To the page").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("refunds")
    await expect(page.locator("main tbody tr")).to_have_count(2)


async def test_a_hanging_transaction_is_found_and_ended(people: People, world: World) -> None:
    hang(world.cluster, "ledger", 0, b"held", producer_id=99_000)
    async with Producer(world.cluster.bootstrap) as producer:
        await producer.send("ledger", b"behind")
    async with Consumer("ledger", bootstrap_servers=world.cluster.bootstrap,
                        auto_offset_reset="earliest") as reader:  # fmt: skip
        assert not await reader.getmany(timeout_ms=500)
        person = await people.come(world.console.origin)
        page = await person.open("/transactions?tab=hanging")
        await page.get_by_role("link", name="look for them now").click()
        row = page.locator("main tbody tr")
        await expect(row).to_contain_text("ledger-0")
        await expect(row).to_contain_text("99000")
        query = "topic=ledger&partition=0&producer_id=99000&start_offset=0"
        page = await person.open(f"/changes/abort-transaction?{query}")
        await planned(page)
        confirmed = page.get_by_label("to confirm")
        await confirmed.fill(await confirmed.get_attribute("data-typed") or "")
        await page.locator("form.confirm button").click()
        await expect(page.locator("main .done")).to_contain_text("Done by")
        (records,) = (await reader.getmany(timeout_ms=LATER_MS)).values()
        assert [record.value for record in records] == [b"behind"]


async def test_a_console_that_changes_nothing_has_no_forms(people: People, world: World) -> None:
    async with served_console(world.cluster.bootstrap, changes=False) as console:
        person = await people.come(console.origin)
        person.expect("Failed to load resource.*404")
        page = await person.open("/changes")
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Not Found")
        page = await person.open("/topics/orders")
        await expect(page.locator("header")).to_contain_text("read-only")
        assert await page.locator('a[href^="/changes"]').count() == 0
