"""The log of a group says what it committed, when it rebalanced, and what is pending."""

from __future__ import annotations

from typing import Any

import msgpack

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog_console.group_log import SAMPLES, GroupFacts, past_of, sample_times
from oncelog_console.history import Past, SeenRebalance
from support.cluster import Cluster
from support.console import Browser

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = 1_790_000_000_000


def key(*parts: Any) -> bytes:
    return bytes(msgpack.packb(list(parts)))


def committed(offset: int, at_ms: int) -> bytes:
    return key(0, offset, 4, "", at_ms, "")


def pending(offset: int, at_ms: int) -> bytes:
    return key(0, 0, offset, 4, "", at_ms, "")


def generation(number: int, at_ms: int, members: int) -> bytes:
    member = ["m", None, "c", "h", 1, 1, b"", b""]
    return key(0, number, "consumer", "range", "m", at_ms, [member] * members)


# ------------------------------------------------------------------------------ facts


def test_commits_generations_and_pending_offsets_of_one_group() -> None:
    facts = GroupFacts("g")
    for record in (
        (key(1, "g", "t", 0), committed(5, NOW)),
        (key(1, "other", "t", 0), committed(99, NOW)),
        (key(1, "gg", "t", 0), committed(98, NOW)),
        (key(2, "g"), generation(3, NOW + 1, 2)),
        (key(2, "g"), generation(3, NOW + 2, 2)),
        (key(2, "g"), generation(4, NOW + 3, 1)),
        (key(1, "g", "t", 0), committed(7, NOW + 9)),
        (key(3, "g", "t", 1, 66), pending(12, NOW + 4)),
        (key(4, "g", "m"), key(0, 3)),
        (key(9, "g"), b"of a newer release"),
        (b"\xc1g", b""),
        (None, b""),
    ):
        facts.take(*record)
    assert facts.commits == {T0: [(NOW, 5), (NOW + 9, 7)]}
    assert facts.rebalances == [SeenRebalance(NOW + 1, 3, 2), SeenRebalance(NOW + 3, 4, 1)]
    assert facts.pending == ((T1, 66, 12, NOW + 4),)


def test_what_was_ended_or_deleted_is_gone() -> None:
    facts = GroupFacts("g")
    facts.take(key(3, "g", "t", 1, 66), pending(12, NOW))
    facts.take(key(3, "g", "t", 1, 66), None)
    facts.take(key(1, "g", "t", 0), committed(5, NOW))
    facts.take(key(1, "g", "t", 0), None)
    facts.take(key(2, "g"), None)
    assert (facts.pending, facts.commits, facts.rebalances) == ((), {}, [])


# ------------------------------------------------------------------------------ the past


def test_the_past_begins_with_the_first_commit_or_where_history_ends() -> None:
    times = sample_times({T0: [(NOW - 48_000, 1)], T1: [(NOW - 24_000, 1)]}, NOW, 3_600_000)
    assert (len(times), times[0], times[-1]) == (SAMPLES, NOW - 48_000, NOW - 2_000)
    assert sample_times({T0: [(NOW - 48_000, 1)]}, NOW, 24_000)[0] == NOW - 24_000
    assert sample_times({}, NOW, 3_600_000) == []


def test_the_past_has_the_last_commit_before_each_time() -> None:
    commits = {T0: [(NOW + 10, 5), (NOW + 30, 9)], T1: [(NOW + 25, 1)]}
    ends = {NOW + at: {T0: 10 + at, T1: None} for at in (0, 20, 40)}
    assert past_of(commits, ends) == {
        T0: [Past(NOW + 20, 5, 30), Past(NOW + 40, 9, 50)],
        T1: [Past(NOW + 40, 1, None)],
    }


# ------------------------------------------------------------------------------ reading


async def test_the_past_before_the_console_is_drawn_dashed_and_pending_offsets_are_named(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        for number in range(30):
            await producer.send("orders", b"%d" % number)
    tp = TopicPartition("orders", 0)
    reader = Consumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with reader:
        await reader.getone()
        for offset in (3, 9, 12):
            await reader.commit({tp: offset})
        async with Producer(cluster.bootstrap, transactional_id="pay") as producer:
            await producer.begin_transaction()
            await producer.send_offsets({tp: 20}, reader.group_metadata())
            await browser.until(lambda seen: seen.group_rows and seen.transaction_rows)

            page = await browser.until_page(
                "/groups/billing?figures=1",
                "from commits",
                'stroke-dasharray="5 4"',
                "Dashed: worked out from commits",
                "1 offset of open transactions is pending",
            )
            assert '20 by <a href="/transactions/pay">pay</a>' in page
            history = browser.console.history.of("billing")
            assert history is not None
            assert history.past_known
            await producer.abort_transaction()
