"""One group shows lag, what is pending, members and rebalances, also when nobody answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog.testing import AsyncCluster
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.groups import described_groups
from oncelog_console.group_log import Pending
from oncelog_console.history import FigureHistory, Past, SeenRebalance
from oncelog_console.page import BadRequestError
from oncelog_console.pages.group import (
    PAGE_ROWS,
    Looked,
    lag_chart,
    leaders_of,
    looked_of,
    offset_rows,
    pending_offsets,
    view_of,
    visible_history,
    visible_pending,
)
from oncelog_console.settings import HISTORY_MS
from oncelog_console.snapshot import Fact, Snapshot, Visible
from support.cluster import Cluster
from support.console import Browser, as_json, console_of

NOW = 1_790_000_000_000
MINUTE = 60_000
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def row(number: int, lag: int | None, offset: int | None = 100) -> Any:
    end = None if lag is None or offset is None else offset + lag
    return {
        "topic": "t",
        "partition": number,
        "offset": offset,
        "lag": lag,
        "end_offset": end,
        "member": None,
        "client_host": None,
    }


def described(*rows: Any, generation: int = 1) -> Any:
    lags = [each["lag"] for each in rows]
    return {
        "group": "g",
        "state": "Stable",
        "generation_id": generation,
        "member_count": 2,
        "coordinator": 1,
        "lag": None if None in lags else sum(lags),
        "offsets": list(rows),
    }


def looked(**query: str) -> Looked:
    return looked_of("g", {"figures": "1", **query}, 1)


# ------------------------------------------------------------------------------ views


def test_an_address_is_the_whole_state() -> None:
    asked = looked_of("a/b c", {"tab": "history", "span": "6h", "figures": "1"}, 2)
    assert asked.address() == "/groups/a%2Fb%20c?tab=history&span=6h&page=2&figures=1"
    assert looked(figures="").address() == "/groups/g"


@pytest.mark.parametrize("query", [{"tab": "x"}, {"unit": "miles"}, {"span": "9y"}])
def test_what_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        looked_of("g", query, 1)


def test_the_worst_partitions_come_first_and_pending_ones_are_there() -> None:
    pending = pending_offsets([Pending(T2, 66, 9, NOW), Pending(T2, 67, 8, NOW)], Snapshot())
    rows = offset_rows(described(row(0, 3), row(1, None), row(3, 9)), None, pending, NOW)
    assert [(each.row["partition"], each.row["lag"]) for each in rows] == [
        (1, None),
        (2, None),
        (3, 9),
        (0, 3),
    ]
    assert [each.offset for each in rows[1].pending] == [9, 8]
    assert rows[1].row["offset"] is None


def test_pending_offsets_have_the_ids_of_their_producers() -> None:
    ids = [
        {"transactional_id": "pay", "producer_id": 66},
        {"transactional_id": "s", "producer_id": None},
    ]
    seen = Snapshot(transactions=Fact(Answer({"transactions": ids}), NOW))
    found = pending_offsets([Pending(T0, 66, 9, NOW), Pending(T0, 67, 8, NOW)], seen)
    assert [each.transactional_id for each in found[T0]] == ["pay", None]


def test_a_chart_of_each_partition_in_records_and_in_seconds() -> None:
    history = FigureHistory(HISTORY_MS)
    for minute, lag in enumerate((0, 60, 60)):
        history.saw(
            described(row(0, lag), row(1, 0), generation=1 + minute // 2), NOW + minute * MINUTE
        )
    end_ms = NOW + 2 * MINUTE
    chart = lag_chart(history.of("g"), looked(), end_ms)
    assert chart.names == ("t-0", "t-1")
    assert [each.values for each in chart.figures] == [("60", "0"), ("60", "0"), ("0", "0")]
    assert chart.figures[0].marks == ("rebalance: generation 2, 2 members",)
    seconds = lag_chart(history.of("g"), looked(unit="seconds"), end_ms)
    assert [each.values[0] for each in seconds.figures] == ["1 min 59 s", "59 s", "0 ms"]
    whole = lag_chart(history.of("g"), looked(tab="history"), end_ms)
    assert (whole.names, [each.values for each in whole.figures]) == (
        ("all",),
        [("60",), ("60",), ("0",)],
    )
    assert lag_chart(None, looked(), end_ms).is_empty


def test_what_was_worked_out_of_the_past_is_dashed() -> None:
    history = FigureHistory(HISTORY_MS)
    history.saw(described(row(0, 5)), NOW)
    history.look_back("g", {T0: [Past(NOW - MINUTE, 90, 103)]}, [SeenRebalance(NOW - MINUTE, 1, 1)])
    chart = lag_chart(history.of("g"), looked(), NOW)
    assert chart.has_commits
    assert 'class="line from-commits"' in str(chart.picture)
    assert [(each.values, each.from_commits) for each in chart.figures] == [
        (("5",), False),
        (("13",), True),
    ]


def test_a_group_that_was_not_described_shows_what_was_listed_and_why() -> None:
    listed = {"group": "g", "state": "Stable", "member_count": 3, "coordinator": 2}
    seen = Snapshot(groups=Fact(Answer({"groups": [listed]}), NOW))
    failure = Failure("g", "its coordinator loads")
    view = view_of(looked(), None, [failure], seen, None, None, (), NOW)
    assert (view.described, view.listed, view.failures) == (None, listed, (failure,))
    assert (view.offsets, view.behind, view.trend, view.chart.is_empty) == ((), None, None, True)


def test_a_user_sees_no_partition_of_a_topic_that_is_hidden() -> None:
    history = FigureHistory(HISTORY_MS)
    secret = {**row(0, 7), "topic": "secret"}
    history.saw(described(row(0, 5), secret), NOW)
    visible = Visible(frozenset({"t"}), frozenset({"g"}), frozenset(), cluster=False)
    known = visible_history(history.of("g"), visible)
    assert lag_chart(known, looked(), NOW).names == ("t-0",)
    assert lag_chart(visible_history(history.of("g"), None), looked(), NOW).names == (
        "secret-0",
        "t-0",
    )
    pending = [Pending(T0, 66, 9, NOW), Pending(TopicPartition("secret", 0), 66, 9, NOW)]
    assert visible_pending(pending, visible) == pending[:1]
    assert visible_pending(pending, None) == pending


def test_many_partitions_have_pages() -> None:
    rows = [row(number, number) for number in range(PAGE_ROWS + 1)]
    first = view_of(looked(), described(*rows), (), Snapshot(), None, None, (), NOW)
    second = view_of(looked_of("g", {}, 2), described(*rows), (), Snapshot(), None, None, (), NOW)
    assert (first.pages, len(first.offsets), len(second.offsets)) == (2, PAGE_ROWS, 1)
    beyond = view_of(looked_of("g", {}, 99), described(*rows), (), Snapshot(), None, None, (), NOW)
    assert (beyond.looked.page, beyond.offsets) == (2, second.offsets), "it is the last page"
    assert second.offsets[0].row["lag"] == 0, "the least"


# ------------------------------------------------------------------------------ pages


def reader(cluster: Cluster | AsyncCluster, group: str) -> Consumer:
    return Consumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


async def fill(cluster: Cluster | AsyncCluster, count: int) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            await producer.send("orders", b"%d" % number, partition=0)


async def test_lag_members_and_the_document_of_the_command(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders", partitions=2)
    await fill(cluster, 12)
    async with reader(cluster, "billing") as consumer:
        await consumer.getone()
        await consumer.commit({TopicPartition("orders", 0): 5})
        document = await browser.document("/groups/billing")
        answer = await described_groups(admin, ["billing"])
        assert document["_command"] == "groups describe"
        assert document["groups"] == as_json(answer.document["groups"])
        page = (await browser.get("/groups/billing")).text
        assert '<a href="/topics/orders/0/5" title="the next record to be read">5</a>' in page
        assert "$ oncelog groups describe billing" in page
        (member,) = answer.document["groups"][0]["members"]
        assert member["member_id"] in page
        assert "orders:0,1" in (await browser.get("/groups/billing?tab=members")).text
        cells = cells_of(page, "orders-1")
        assert "nothing was committed" in cells[1], "and not 0"
        assert cells_of(page, "orders-0")[2:4] == ['<td class="n">12</td>', '<td class="n">7</td>']


def cells_of(page: str, partition: str) -> list[str]:
    """Return the cells of a partition's row."""
    topic, number = partition.split("-")
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
    (found,) = [each for each in rows if f'<a href="/topics/{topic}">{topic}</a>-{number}<' in each]
    return re.findall(r"<td.*?</td>", found, re.DOTALL)


async def test_a_group_whose_member_died_keeps_its_lag() -> None:
    async with AsyncCluster() as cluster:
        await cluster.create_topic("orders")
        await fill(cluster, 9)
        async with reader(cluster, "billing") as consumer:
            await consumer.getone()
            await consumer.commit({TopicPartition("orders", 0): 4})
            with cluster.drop_request("leave_group", None), cluster.hold("heartbeat"):
                async with console_of(cluster.bootstrap) as browser:
                    await cluster.advance(60)
                    await cluster.wait_for_group("billing", members=0, state="Empty")
                    page = (await browser.get("/groups/billing")).text
                    members = (await browser.get("/groups/billing?tab=members")).text
    assert "no members" in page
    assert '<td class="n">5</td>' in page, "the lag that nobody works off"
    assert "The group has no members" in members


@pytest.mark.slow
async def test_a_coordinator_that_loads_is_named() -> None:
    async with AsyncCluster() as cluster:
        await cluster.create_topic("orders")
        await fill(cluster, 9)
        async with reader(cluster, "billing") as consumer:
            await consumer.getone()
            await consumer.commit({TopicPartition("orders", 0): 4})
        async with console_of(cluster.bootstrap) as browser:
            await browser.until(lambda seen: seen.group_rows)
            await browser.get("/groups/billing")
            with cluster.fail_next("describe_groups", "COORDINATOR_LOAD_IN_PROGRESS", None):
                page = await browser.get("/groups/billing")
                document = await browser.document("/groups/billing")
    assert page.status == 200
    assert "Coordinator 1 did not answer" in page.text
    assert "(as listed last)" in page.text
    assert 'title="not known of all partitions">–' in page.text
    assert document["groups"] == []
    assert [each["item"] for each in document["errors"]] == ["billing"]


@pytest.mark.slow
async def test_a_leader_that_does_not_answer_is_named() -> None:
    async with AsyncCluster(brokers=2) as cluster:
        await cluster.create_topic("orders", partitions=2, replication_factor=1)
        both = [TopicPartition("orders", number) for number in range(2)]
        async with Admin(cluster.bootstrap) as admin:
            await admin.alter_group_offsets("billing", dict.fromkeys(both, 0))
            coordinator = (await cluster.group("billing")).coordinator
        async with console_of(cluster.bootstrap) as browser:
            await browser.until(lambda seen: seen.topic("orders") and seen.group_rows)
            (away,) = {1, 2} - {coordinator}
            leaders = leaders_of(browser.console.poller.seen)
            (silent,) = [tp for tp in both if leaders[tp] == away]
            await cluster.kill(away)
            page = await browser.until_page("/groups/billing", "did not say where it ends")
    assert re.search(f"{silent}: (its leader, broker {away},|no broker leads it)", page)
    assert "the leader did not say" in cells_of(page, str(silent))[3]


async def test_a_group_that_does_not_exist(browser: Browser) -> None:
    answered = await browser.get("/groups/none")
    assert answered.status == 404
    assert "there is no group" in answered.text


@pytest.mark.slow
async def test_a_group_that_nobody_has_told_of_is_not_shown_while_its_coordinator_loads() -> None:
    async with AsyncCluster() as cluster, console_of(cluster.bootstrap) as browser:
        with cluster.fail_next("describe_groups", "COORDINATOR_LOAD_IN_PROGRESS", None):
            answered = await browser.get("/groups/guessed")
    assert answered.status == 503


async def test_a_name_with_slashes_is_one_name(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    await admin.alter_group_offsets("a/b <i>", {TopicPartition("orders", 0): 0})
    page = await browser.until_page("/groups", '<a href="/groups/a%2Fb%20%3Ci%3E">')
    assert "<i>" not in page
    assert (await browser.get("/groups/a%2Fb%20%3Ci%3E")).status == 200
