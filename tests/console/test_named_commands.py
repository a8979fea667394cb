"""Each page names the command that shows the same, and the real command tree takes it."""

from __future__ import annotations

import html
import re
import shlex

from oncelog import Admin, Producer, TopicPartition
from support.cluster import Cluster
from support.command_words import parsed
from support.console import Browser

PAGES = {
    "/": "cluster health",
    "/topics": "topics list",
    "/topics?q=/o.d/&state=under_min_isr&internal=1": "topics list",
    "/topics/orders": "topics describe",
    "/topics/orders?tab=configs": "topics describe",
    "/groups": "groups list",
    "/groups?q=b.l&state=Empty&sort=-lag": "groups list",
    "/groups/-billing": "groups describe",
    "/groups/-billing?tab=members": "groups describe",
    "/transactions": "transactions list",
    "/transactions?tab=ending&q=it%27s&older=5m": "transactions list",
    "/transactions?tab=hanging": "transactions find-hanging",
    "/transactions?tab=all": "transactions list",
    "/transactions/-pay": "transactions describe",
    "/producers?topic=orders:0&open=1&producer_id=3": "producers describe",
    "/producers?producer_id=3": "producers describe",
    "/brokers": "cluster describe",
}
"""Addresses, and the commands that they name."""


async def test_each_page_names_a_command_that_there_is(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    await admin.alter_group_offsets("-billing", {TopicPartition("orders", 0): 0})
    async with (
        Producer(cluster.bootstrap, transactional_id="-pay") as producer,
        producer.transaction(),
    ):
        await producer.send("orders", b"one")
    await browser.until(lambda seen: seen.topic("orders") and seen.group_rows)
    named = {}
    for address in PAGES:
        page = await browser.get(address)
        assert page.status == 200, page.text
        (line,) = re.findall(r'data-copy="([^"]*)"', page.text)
        program, *words = shlex.split(html.unescape(line))
        assert program == "oncelog"
        named[address] = parsed(words)["path"]
    assert named == PAGES
