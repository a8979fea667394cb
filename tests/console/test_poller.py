"""One question is under way once at a time, rests in between, and keeps what it knew when nobody
answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_console.poller import SLICE_TOPICS, Pauses, Poller, pauses_after, slices
from oncelog_console.snapshot import Snapshot
from oncelog_protocol.errors import UnknownServerError
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.clock import SystemWallClock
from support.admin_cluster import AdminCluster
from support.clock import ManualClock
from support.fake_cluster import Action
from support.waiting import eventually


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[AdminCluster]:
    """Start two scripted brokers."""
    async with AdminCluster(2) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def poller(fake: AdminCluster) -> AsyncIterator[Poller]:
    """Start a poller that asks them."""
    async with Admin(fake.bootstrap, retry_backoff_ms=10) as admin:
        poller = Poller(admin, SystemWallClock())
        poller.start()
        yield poller
        await poller.close()


def test_slices() -> None:
    names = [str(number) for number in range(2 * SLICE_TOPICS + 1)]
    assert [len(some) for some in slices(names)] == [SLICE_TOPICS, SLICE_TOPICS, 1]
    assert slices([]) == [[]]


def test_what_costs_much_is_asked_seldom() -> None:
    """A dear question is asked after a long rest, and after a longer one while nobody looks."""
    assert pauses_after(0.01, 5) == Pauses(wanted_s=1, watched_s=5, unwatched_s=30)
    assert pauses_after(0.5, 5) == Pauses(wanted_s=5, watched_s=30, unwatched_s=1_000)


async def test_everything_is_asked_once_and_has_an_age(fake: AdminCluster, poller: Poller) -> None:
    fake.create_topic("orders", 2)
    heard: list[Snapshot] = []
    poller.watch(heard.append)
    assert await poller.until(lambda seen: seen.topic("orders") is not None, 20)
    assert await poller.until(lambda seen: bool(seen.checks), 20)
    seen = poller.seen
    assert seen.cluster.asked_ms is not None
    assert set(seen.brokers_seen_ms) == {1, 2}
    assert heard[-1] is seen


async def test_who_does_not_answer_leaves_what_was_known(
    fake: AdminCluster, poller: Poller
) -> None:
    fake.create_topic("orders", 1)
    assert await poller.until(lambda seen: seen.topic("orders") is not None, 20)
    fake.rule(ApiKey.METADATA, Action.ERROR, error=UnknownServerError, times=10_000)
    fake.rule(ApiKey.DESCRIBE_CLUSTER, Action.ERROR, error=UnknownServerError, times=10_000)
    known = poller.seen.cluster
    assert await poller.until(lambda seen: bool(seen.cluster.error), 40)
    now = poller.seen
    assert now.cluster.value == known.value
    assert now.cluster.asked_ms is not None
    assert now.status is None, "nothing is called healthy that does not answer"
    assert now.topic("orders") is not None


async def test_a_question_rests_for_at_least_a_second_however_often_it_is_wanted(
    fake: AdminCluster, poller: Poller
) -> None:
    await poller.until(lambda seen: seen.cluster.asked_ms is not None, 20)
    before = fake.count(ApiKey.DESCRIBE_CLUSTER)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(500):
        poller.looked()
        poller.refresh("cluster")
        await asyncio.sleep(0)
    await eventually(lambda: fake.count(ApiKey.DESCRIBE_CLUSTER) > before)
    asked = fake.count(ApiKey.DESCRIBE_CLUSTER) - before
    assert asked <= (loop.time() - began_s) + 2


async def test_what_hangs_is_looked_for_seldom(fake: AdminCluster) -> None:
    searches: list[int] = []
    clock = ManualClock()

    async def hanging() -> Answer:
        searches.append(clock.now_ms())
        return Answer({"transactions": []}, [Failure("", "one more may hang")])

    async with Admin(fake.bootstrap, retry_backoff_ms=10) as admin:
        poller = Poller(admin, clock, hanging=hanging)
        poller.start()
        assert await poller.until(lambda seen: seen.hanging.asked_ms is not None, 20)
        assert [each.message for each in poller.seen.hanging.missing] == ["one more may hang"]
        clock.advance(200_000)
        now_ms = clock.now_ms()
        assert await poller.until(lambda seen: seen.topics.asked_ms == now_ms, 20)
        assert len(searches) == 1, "it is not looked for with everything else"
        poller.refresh("hanging")
        assert await poller.until(lambda seen: seen.hanging.asked_ms == now_ms, 20)
        await poller.close()
    assert len(searches) == 2


async def test_who_looks_first_after_a_while_sees_what_is_there_now(fake: AdminCluster) -> None:
    clock = ManualClock()
    async with Admin(fake.bootstrap) as admin:
        poller = Poller(admin, clock)
        poller.start()
        assert await poller.until(lambda seen: seen.groups.asked_ms is not None, 20)
        fake.create_topic("new", 1)
        clock.advance(30_000)  # nobody looked meanwhile, so that little was asked
        async with asyncio.timeout(60):  # A question rests for 20 times as long as it took.
            while (
                poller.seen.topic("new") is None or poller.seen.cluster.asked_ms != clock.now_ms()
            ):
                await poller.catch_up()
                await asyncio.sleep(0.02)
        await poller.close()


async def test_nobody_waits_for_facts_that_cannot_be_asked_for_more_often(
    fake: AdminCluster,
) -> None:
    clock = ManualClock()
    async with Admin(fake.bootstrap) as admin:
        poller = Poller(admin, clock)
        poller.start()
        assert await poller.until(lambda seen: seen.groups.asked_ms is not None, 20)
        poller.looked()
        clock.advance(30_000)  # a question takes long, and rests for twenty times as long
        with pytest.raises(StopIteration):
            poller.catch_up().send(None)  # it ends at its first step
        await poller.close()


async def test_the_groups_that_are_followed_are_described_all_the_time(fake: AdminCluster) -> None:
    fake.create_topic("orders", 1)
    offered: list[list[str]] = []

    def followed(names: Sequence[str], now_ms: int) -> Sequence[str]:
        offered.append(list(names))
        return [name for name in names if name != "mail"]

    async with Admin(fake.bootstrap, retry_backoff_ms=10) as admin:
        for group in ("billing", "mail"):
            await admin.alter_group_offsets(group, {TopicPartition("orders", 0): 0})
        poller = Poller(admin, SystemWallClock(), followed)
        poller.start()
        assert await poller.until(
            lambda seen: bool(seen.described_groups.value and described(seen)), 20
        )
        await poller.close()
    assert described(poller.seen) == ["billing"]
    assert ["billing", "mail"] in offered


def described(seen: Snapshot) -> list[str]:
    answer = seen.described_groups.value
    return [] if answer is None else [row["group"] for row in answer.document["groups"]]
