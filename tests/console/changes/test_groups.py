"""Groups are reset, cloned and deleted as planned, and never while they have members."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from oncelog import Admin, Consumer, Producer, Record, TopicPartition
from oncelog_console.changes.change import FormError, RefusedError
from oncelog_console.changes.groups import SHOWN_CHARACTERS, shown_record
from oncelog_console.plans import Fate, PlanError
from support.changes import Workshop
from support.cluster import Cluster

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest_asyncio.fixture(autouse=True)
async def written(cluster: Cluster, admin: Admin) -> None:
    """Topic orders has ten records in each of two partitions; billing has read some of them."""
    await cluster.create_topic("orders", partitions=2)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(20):
            await producer.send(
                "orders", b"v%d" % (number // 2), key=b"k", partition=number % 2,
                timestamp_ms=1_770_000_000_000 + number // 2 * 1000,
            )  # fmt: skip
    await admin.alter_group_offsets("billing", {T0: 4, T1: 8})


async def offsets(admin: Admin, group: str = "billing") -> list[int]:
    found = await admin.list_group_offsets(group)
    return [item.offset for _, item in sorted(found.items()) if item is not None]


@asynccontextmanager
async def member(cluster: Cluster, client_id: str = "shop-1") -> AsyncIterator[None]:
    """Somebody reads as billing meanwhile."""
    async with Consumer(
        "orders", bootstrap_servers=cluster.bootstrap, group_id="billing", client_id=client_id
    ) as consumer:
        await consumer.getmany(timeout_ms=10_000)
        yield


# ------------------------------------------------------------------------------ reset


async def test_a_reset_shows_where_each_partition_goes(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("reset-offsets", group="billing", place="shift_by", value="-2")
    assert plan.change.typed == "billing"
    (table,) = plan.seen.tables
    assert [column.heading for column in table.columns[1:6]] == [
        "P",
        "NOW",
        "WOULD BE",
        "DIFFERENCE",
        "RECORD AT IT",
    ]
    shown = [
        (row["partition"], row["old"], row["new"], row["difference"], row["record"])
        for row in table.rows
    ]
    assert shown == [(0, 4, 2, -2, "k: v2"), (1, 8, 6, -2, "k: v6")]
    assert "up to 4 records are read again, and up to 0 are passed over" in plan.seen.sentences[0]
    with pytest.raises(PlanError, match="type 'billing' exactly"):
        await shop.carry_out(plan, "Billing")
    assert await offsets(admin) == [4, 8]
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert await offsets(admin) == [2, 6]
    with pytest.raises(PlanError, match="has been carried out already, by ann"):
        await shop.carry_out(plan)


PLACES = [
    ("to_earliest", "", [0, 0]),
    ("to_latest", "", [10, 10]),
    ("to_offset", "3", [3, 3]),
    ("to_offset", "77", [10, 10]),
    ("shift_by", "+1", [5, 9]),
    ("to_datetime", "2026-02-02T02:40:05Z", [5, 5]),
    ("by_duration", "9999d", [0, 0]),
    ("from_file", "orders,1,2\r\norders,0,7", [7, 2]),
]


@pytest.mark.parametrize(("place", "value", "wanted"), PLACES)
async def test_the_command_resets_to_the_same(
    shop: Workshop, admin: Admin, place: str, value: str, wanted: list[int]
) -> None:
    form = {"group": "billing", "place": place, "value": value}
    plan = await shop.plan("reset-offsets", **form)
    shown = await shop.by_hand(plan)
    assert (shown.code, shown.err) == (0, "")
    assert await offsets(admin) == wanted
    await admin.alter_group_offsets("billing", {T0: 4, T1: 8})
    await shop.carry_out(await shop.plan("reset-offsets", **form))
    assert await offsets(admin) == wanted


async def test_where_another_group_is(shop: Workshop, admin: Admin) -> None:
    await admin.alter_group_offsets("other", {T0: 1, T1: 2})
    form = {"group": "billing", "place": "to_group", "value": "other", "topics": "orders:1"}
    plan = await shop.plan("reset-offsets", **form)
    await shop.carry_out(plan)
    assert await offsets(admin) == [4, 2]
    await admin.alter_group_offsets("billing", {T1: 8})
    assert (await shop.by_hand(plan)).code == 0
    assert await offsets(admin) == [4, 2]


async def test_an_end_has_no_record_yet(shop: Workshop) -> None:
    plan = await shop.plan("reset-offsets", group="billing", place="to_latest")
    assert {row["record"] for row in plan.seen.tables[0].rows} == {"none yet: this is the end"}


async def test_a_group_with_members_is_refused(shop: Workshop, cluster: Cluster) -> None:
    async with member(cluster):
        for kind, form in (
            ("reset-offsets", {}),
            ("clone-group", {"source": "billing", "group": "billing2"}),
            ("delete-group", {}),
        ):
            if kind == "clone-group":
                await shop.plan(kind, **form)  # only the one that gets them must have no members
                continue
            with pytest.raises(RefusedError, match="billing' has live members: .*shop-1"):
                await shop.plan(kind, group="billing", **form)


async def test_a_member_that_has_joined_voids_the_plan(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    reset = await shop.plan("reset-offsets", group="billing")
    deletion = await shop.plan("delete-group", group="billing")
    async with member(cluster):
        for plan in (reset, deletion):
            with pytest.raises(PlanError, match="void.*has live members"):
                await shop.carry_out(plan)
            assert plan.fate is Fate.VOID
    assert len(await offsets(admin)) == 2


async def test_a_log_that_has_grown_voids_a_reset_to_its_end(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    plan = await shop.plan("reset-offsets", group="billing", place="to_latest")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"new", partition=0)
    with pytest.raises(PlanError, match="the new offset in orders-0 was 10, and is 11 now"):
        await shop.carry_out(plan)
    assert await offsets(admin) == [4, 8]


async def test_a_log_that_was_cut_voids_a_reset(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("reset-offsets", group="billing", place="to_offset", value="5")
    await admin.delete_records({T0: 2})
    with pytest.raises(PlanError, match="the start of orders-0 was 0, and is 2 now"):
        await shop.carry_out(plan)


async def test_a_group_that_has_gone_on_voids_a_reset(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("reset-offsets", group="billing")
    await admin.alter_group_offsets("billing", {T0: 5})
    with pytest.raises(PlanError, match="the offset of billing in orders-0 was 4, and is 5 now"):
        await shop.carry_out(plan)


async def test_of_two_operators_the_second_is_told(shop: Workshop, admin: Admin) -> None:
    bob = shop.colleague("bob")
    first = await shop.plan("reset-offsets", group="billing")
    second = await bob.plan("reset-offsets", group="billing", place="to_offset", value="9")
    with pytest.raises(PlanError, match="belongs to another session"):
        await bob.carry_out(first)
    await shop.carry_out(first)
    with pytest.raises(PlanError, match="Meanwhile ann carried out: oncelog groups reset-offsets"):
        await bob.carry_out(second)
    assert await offsets(admin) == [0, 0]


async def test_nothing_to_reset_is_no_plan(shop: Workshop) -> None:
    with pytest.raises(RefusedError, match="nothing has committed nothing there"):
        await shop.plan("reset-offsets", group="nothing")
    with pytest.raises(RefusedError, match="nothing committed that could be shifted"):
        await shop.plan("reset-offsets", group="new", place="shift_by", value="1", topics="orders")
    with pytest.raises(RefusedError, match="nobody has committed nothing"):
        await shop.plan("reset-offsets", group="billing", place="to_group", value="nobody")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"place": "to_offset"}, "say which: an offset"),
        ({"place": "to_offset", "value": "-1"}, "not between 0"),
        ({"place": "shift_by", "value": "x"}, "is no number"),
        ({"place": "to_earliest", "value": "5"}, "needs none"),
        ({"place": "to_datetime", "value": "yesterday"}, "is not a time"),
        ({"place": "by_duration", "value": "-1h"}, "is not a duration"),
        ({"place": "from_file", "value": "orders,0"}, "line 1: expected"),
        ({"place": "from_file", "value": ""}, "no offsets for billing"),
        ({"place": "from_file", "value": "orders,0,1", "topics": "a"}, "names the partitions"),
        ({"place": "to_earliest", "topics": "orders:"}, "expected TOPIC"),
        ({"place": "away"}, "'away' is not to_earliest"),
        ({"group": ""}, "a name is needed"),
    ],
)
async def test_forms(shop: Workshop, form: dict[str, str], words: str) -> None:
    with pytest.raises(FormError, match=words):
        await shop.plan("reset-offsets", **{"group": "billing", **form})


def test_a_record_is_shown_on_one_line() -> None:
    assert shown_record(Record("t", 0, 0, 0, None, b"a\nb", ())) == "a⏎b"
    assert shown_record(Record("t", 0, 0, 0, b"k", None, ())) == "k: null"
    assert shown_record(Record("t", 0, 0, 0, b"\xff", b"v", ())) == "0xff: v"
    long = shown_record(Record("t", 0, 0, 0, None, b"x" * 500, ()))
    assert (len(long), long[-1]) == (SHOWN_CHARACTERS, "…")


# ------------------------------------------------------------------------------ clone, delete


async def test_a_group_is_cloned(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("clone-group", source="billing", group="billing-2")
    assert plan.change.typed == "billing-2"
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert await offsets(admin, "billing-2") == [4, 8]
    assert (
        await shop.by_hand(await shop.plan("clone-group", source="billing", group="b3"))
    ).code == 0
    assert await offsets(admin, "b3") == [4, 8]


async def test_a_source_that_goes_on_voids_the_clone(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("clone-group", source="billing", group="new")
    await admin.alter_group_offsets("billing", {T0: 5})
    with pytest.raises(PlanError, match="the new offset in orders-0 was 4, and is 5 now"):
        await shop.carry_out(plan)
    with pytest.raises(FormError, match="the same as the source"):
        await shop.plan("clone-group", source="billing", group="billing")


async def test_a_group_is_deleted(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("delete-group", group="billing")
    assert "with 2 committed offsets" in plan.seen.sentences[0]
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert [group.group_id for group in await admin.list_groups()] == []
    await admin.alter_group_offsets("billing", {T0: 4})
    assert (await shop.by_hand(plan)).code == 0
    assert [group.group_id for group in await admin.list_groups()] == []
    with pytest.raises(RefusedError, match="billing"):
        await shop.plan("delete-group", group="billing")


async def test_a_commit_voids_the_deletion(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("delete-group", group="billing")
    await admin.alter_group_offsets("billing", {T1: 9})
    with pytest.raises(PlanError, match="the offset of billing in orders-1 was 8, and is 9 now"):
        await shop.carry_out(plan)


async def test_offsets_are_deleted(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan("delete-offsets", group="billing", topics="orders:1")
    assert [row["offset"] for row in plan.seen.tables[0].rows] == [8]
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert await offsets(admin) == [4]
    await admin.alter_group_offsets("billing", {T1: 8})
    assert (await shop.by_hand(plan)).code == 0
    assert await offsets(admin) == [4]
    with pytest.raises(RefusedError, match="no offset for orders-1"):
        await shop.plan("delete-offsets", group="billing", topics="orders:1")
    with pytest.raises(FormError, match="say which"):
        await shop.plan("delete-offsets", group="billing")


async def test_offsets_that_members_use_stay(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    plan = await shop.plan("delete-offsets", group="billing", topics="orders")
    async with member(cluster):
        with pytest.raises(RefusedError, match="members of billing read orders: shop-1"):
            await shop.plan("delete-offsets", group="billing", topics="orders")
        with pytest.raises(PlanError, match="members of billing read orders"):
            await shop.carry_out(plan)
