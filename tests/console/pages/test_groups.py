"""Groups are filtered, sorted and described a page at a time; what is not known is never 0."""

from __future__ import annotations

import re
from typing import Any

import pytest

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog.testing import AsyncCluster
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.groups import listed_groups
from oncelog_console.history import Behind, FigureHistory
from oncelog_console.page import BadRequestError
from oncelog_console.pages.groups import (
    PAGE_ROWS,
    behind_of,
    chosen_rows,
    filter_of,
    group_rows,
    ordered,
)
from oncelog_console.settings import HISTORY_MS
from oncelog_console.snapshot import Fact, Snapshot
from support.cluster import Cluster
from support.console import Browser, as_json, console_of

NOW = 1_790_000_000_000


def listed(group: str, state: str = "Stable", members: int = 1, coordinator: int = 1) -> Any:
    return {
        "group": group,
        "state": state,
        "member_count": members,
        "coordinator": coordinator,
        "protocol_type": "consumer",
    }


def described(group: str, *lags: int | None) -> Any:
    known = [lag for lag in lags if lag is not None]
    return {
        **listed(group),
        "generation_id": 1,
        "lag": sum(known) if lags and len(known) == len(lags) else None,
        "offsets": [
            {"topic": "t", "partition": n, "offset": 100, "lag": lag,
             "end_offset": None if lag is None else 100 + lag}
            for n, lag in enumerate(lags)
        ],
    }  # fmt: skip


def seen(*rows: Any) -> Snapshot:
    return Snapshot(groups=Fact(Answer({"groups": list(rows)}), NOW))


# ------------------------------------------------------------------------------ views


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ({}, ("groups", "list")),
        ({"q": "bil"}, ("groups", "list", ".*bil.*", "--regex")),
        ({"q": "/b.l/", "state": "Empty"},
         ("groups", "list", ".*(?:b.l).*", "--regex", "--state", "Empty")),
    ],
)  # fmt: skip
def test_the_command_lists_the_same(query: dict[str, str], command: tuple[str, ...]) -> None:
    assert filter_of(query, 1).command == command


@pytest.mark.parametrize("query", [{"state": "sad"}, {"sort": "colour"}, {"q": "/(/"}])
def test_what_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        filter_of(query, 1)


def test_an_address_is_the_whole_state() -> None:
    query = {"q": "a b", "state": "Empty", "sort": "-lag"}
    chosen = filter_of(query, 3)
    assert chosen.address() == "/groups?q=a+b&state=Empty&sort=-lag&page=3"
    assert chosen.address(page=1, sort="") == "/groups?q=a+b&state=Empty&page=1"


def test_groups_are_chosen_by_name_and_state() -> None:
    rows = seen(listed("a"), listed("b", "Empty"), listed("ab", "Empty"))
    assert [row["group"] for row in chosen_rows(rows, filter_of({"q": "b"}, 1))] == ["b", "ab"]
    chosen = filter_of({"q": "a", "state": "Empty"}, 1)
    assert [row["group"] for row in chosen_rows(rows, chosen)] == ["ab"]
    assert chosen_rows(Snapshot(), filter_of({}, 1)) == []


def test_a_lag_that_is_not_known_comes_last_in_both_directions() -> None:
    rows = [listed(name) for name in "abc"]
    lags = {"a": 5, "c": 7}
    for sort, order in (("lag", "acb"), ("-lag", "cab"), ("-group", "cba")):
        assert "".join(row["group"] for row in ordered(rows, sort, lags.get)) == order


def test_a_group_that_could_not_be_described_says_why_and_has_no_figures() -> None:
    answer = Answer({"groups": [described("a", 3)]}, [Failure("b", "its coordinator loads")])
    a, b, c = group_rows([listed(name) for name in "abc"], answer, FigureHistory(HISTORY_MS), NOW)
    assert (a.described is not None, a.why) == (True, "")
    assert (b.described, b.why, b.behind, b.trend) == (None, "its coordinator loads", None, None)
    assert c.why == "nobody was asked"


def test_a_lag_in_time_is_that_of_the_partition_furthest_behind() -> None:
    history = FigureHistory(HISTORY_MS)
    for at, lags in enumerate([(0, 0), (10, 20), (10, 20)]):
        history.saw(described("g", *lags), NOW + at * 10_000)
    known = history.of("g")
    row = described("g", 10, 20)
    assert behind_of(known, row, NOW + 20_000) == Behind(19_500, at_least=False)
    assert behind_of(known, described("g", 10, None), NOW) is None, "one is not known"
    assert behind_of(known, described("g", 0, 0), NOW) == Behind(0, at_least=False)
    assert behind_of(known, described("g"), NOW) is None, "nothing was committed"
    assert behind_of(None, row, NOW) is None


# ------------------------------------------------------------------------------ pages


async def commit(cluster: Cluster | AsyncCluster, group: str, topic: str, offset: int) -> None:
    """Let a group commit, and leave it."""
    consumer = Consumer(bootstrap_servers=cluster.bootstrap, group_id=group)
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.commit({TopicPartition(topic, 0): offset})


async def test_the_document_is_that_of_the_command(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        for number in range(7):
            await producer.send("orders", b"%d" % number)
    for group in ("billing", "mail"):
        await commit(cluster, group, "orders", 3)
    await browser.until(lambda seen: len(seen.group_rows) == 2)
    document = await browser.document("/groups?q=bil")
    answer = await listed_groups(admin, [".*bil.*"], regex=True)
    assert document["_command"] == "groups list"
    assert document["groups"] == as_json(answer.document["groups"])
    page = await browser.get("/groups?q=bil&sort=-lag")
    assert '<a href="/groups/billing">billing</a>' in page.text
    assert "mail" not in page.text
    assert '<td class="n">4</td>' in page.text, f"its lag: {page.text}"
    assert "$ oncelog groups list &#39;.*bil.*&#39; --regex" in page.text


async def test_no_group_and_none_that_fits(browser: Browser) -> None:
    assert "oncelog consume TOPIC --group GROUP" in (await browser.get("/groups")).text
    assert "No group fits" in (await browser.get("/groups?q=none")).text
    assert (await browser.get("/groups?state=sad")).status == 400


@pytest.mark.slow
async def test_only_the_groups_of_the_page_are_described() -> None:
    async with AsyncCluster() as cluster:
        await cluster.create_topic("t")
        names = [f"g{number:03d}" for number in range(PAGE_ROWS + 3)]
        async with Admin(cluster.bootstrap) as admin:
            for name in names:
                await admin.alter_group_offsets(name, {TopicPartition("t", 0): 0})
        async with console_of(cluster.bootstrap) as browser:
            await browser.until(lambda seen: len(seen.group_rows) == len(names))
            first, second = await browser.get("/groups"), await browser.get("/groups?page=2")
    assert names[0] in first.text
    assert names[-1] not in first.text
    assert names[-1] in second.text
    assert f"1 to {PAGE_ROWS} of {len(names)}" in first.text


@pytest.mark.slow
async def test_a_coordinator_that_loads_is_named_and_nothing_is_shown_as_0() -> None:
    async with AsyncCluster() as cluster:
        await cluster.create_topic("t")
        await commit(cluster, "billing", "t", 0)
        async with console_of(cluster.bootstrap) as browser:
            await browser.until(lambda seen: seen.group_rows)
            with cluster.fail_next("describe_groups", "COORDINATOR_LOAD_IN_PROGRESS", None):
                page = await browser.get("/groups")
    assert "billing: coordinator 1 did not answer" in page.text
    row = page.text[page.text.index('<a href="/groups/billing">') :]
    state, members, lag, behind = re.findall(r"<td.*?</td>", row, re.DOTALL)[:4]
    assert "Empty" in state, "as listed last"
    assert ">0<" in members
    for cell in (lag, behind):
        assert ">–<" in cell
        assert "title=" in cell
