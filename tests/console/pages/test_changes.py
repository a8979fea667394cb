"""Changes are asked for, planned, confirmed and waited for on pages, or refused there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape

import pytest
import pytest_asyncio

from oncelog import Admin, Producer, TopicPartition
from oncelog_cli.documents.answer import Answer
from oncelog_console.changes.kinds import KINDS
from oncelog_console.pages.changes import OVERDUE_MS, SHOWN_ROWS, plan_view
from oncelog_console.plans import Fate
from support.changes import Workshop
from support.cluster import Cluster
from support.console import Answered, Browser, console_of
from support.hanging import hang

T0 = TopicPartition("orders", 0)
RESET = {"group": "billing", "place": "to_earliest"}


@pytest_asyncio.fixture
async def browser(cluster: Cluster) -> AsyncIterator[Browser]:
    """Start a console that may change the cluster, and open a browser."""
    async with console_of(cluster.bootstrap, changes=True) as browser:
        yield browser


@pytest_asyncio.fixture
async def group(cluster: Cluster, admin: Admin) -> None:
    """The group billing has read three of five orders."""
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        for number in range(5):
            await producer.send("orders", b"<script>%d</script>" % number)
    await admin.alter_group_offsets("billing", {T0: 3})


async def offset(admin: Admin, group: str = "billing") -> int | None:
    item = (await admin.list_group_offsets(group)).get(T0)
    return None if item is None else item.offset


def text_of(answered: Answered) -> str:
    """Return what a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answered.text)).split())


def confirmation(answered: Answered, typed: str = "") -> tuple[str, dict[str, str]]:
    """Return where the form of a plan goes, and what it sends."""
    action, token = re.findall(
        r'action="(/plans/\w+)">\s*<input type="hidden" name="token" value="(\w+)"', answered.text
    )[0]
    return action, {"token": token, **({"typed": typed} if typed else {})}


async def planned(browser: Browser, kind: str = "reset-offsets", **form: str) -> Answered:
    answered = await browser.post(f"/changes/{kind}", form or RESET)
    return await browser.follow(answered)


# ------------------------------------------------------------------------------ the whole way


@pytest.mark.usefixtures("group")
async def test_a_reset_from_form_to_outcome(browser: Browser, admin: Admin) -> None:
    form = await browser.get("/changes/reset-offsets?group=billing")
    assert 'name="group" value="billing"' in form.text
    plan = await planned(browser)
    shown = text_of(plan)
    command = "oncelog groups reset-offsets billing --all-topics --to-earliest --execute"
    assert f"$ {command}" in shown
    assert "P NOW WOULD BE DIFFERENCE RECORD AT IT" in shown
    assert "orders 0 3 0 -3 <script>0</script>" in shown
    assert "<script>0" not in plan.text, "records are text"
    assert "Type billing to confirm" in shown
    assert "This plan holds for 4 min 59 s" in shown or "This plan holds for 5 min" in shown
    assert "the offset of billing in orders-0: 3" in shown
    action, sent = confirmation(plan, "billing")
    assert await offset(admin) == 3
    done = await browser.follow(await browser.post(action, sent))
    assert await offset(admin) == 0
    assert "Done by" in text_of(done)
    assert "The cluster shows it." in text_of(done)
    assert 'href="/groups/billing"' in done.text
    assert "hx-get" not in done.text.partition("<main")[2], "nothing is waited for any more"
    document = (await browser.get(action, accept="application/json")).document
    assert (document["_command"], document["executed"]) == ("groups reset-offsets", True)
    assert document["offsets"][0]["reset"]
    assert command in text_of(await browser.get("/changes"))


@pytest.mark.usefixtures("group")
async def test_the_document_of_a_plan_is_that_of_the_command(browser: Browser) -> None:
    plan = await browser.post("/changes/reset-offsets", RESET)
    document = (await browser.get(plan.location, accept="application/json")).document
    shown = await Workshop(browser).by_hand(
        await Workshop(browser).plan("reset-offsets", **RESET), "--json"
    )
    assert document["_command"] == shown.document["_command"]
    assert {**document["offsets"][0], "reset": True} == shown.document["offsets"][0]


@pytest.mark.usefixtures("group")
async def test_a_topic_is_created_and_deleted(browser: Browser, admin: Admin) -> None:
    plan = await planned(browser, "create-topic", topic="bills", partitions="2")
    action, sent = confirmation(plan)
    done = await browser.follow(await browser.post(action, sent))
    assert "The cluster shows it." in text_of(done)
    assert browser.console.poller.seen.topic("bills") is not None
    plan = await planned(browser, "delete-topic", topic="bills")
    action, sent = confirmation(plan, "bills")
    done = await browser.follow(await browser.post(action, sent))
    assert "The cluster shows it." in text_of(done)
    assert await admin.list_topics() == ["orders"]


# ------------------------------------------------------------------------------ refused


@pytest.mark.usefixtures("group")
async def test_a_wrong_name_changes_nothing(
    browser: Browser, admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    action, sent = confirmation(await planned(browser), "Billing")
    refused = await browser.post(action, sent)
    assert refused.status == 400
    assert "type 'billing' exactly" in text_of(refused)
    assert (await browser.post(action, {"token": sent["token"]})).status == 400
    assert await offset(admin) == 3
    assert caplog.text.count("outcome=refused") == 2
    assert "host=127.0.0.1" in caplog.text
    assert (await browser.post(action, {**sent, "typed": "billing"})).status == 303


@pytest.mark.usefixtures("group")
async def test_a_plan_works_once(browser: Browser, admin: Admin) -> None:
    action, sent = confirmation(await planned(browser), "billing")
    assert (await browser.post(action, sent)).status == 303
    await admin.alter_group_offsets("billing", {T0: 4})
    again = await browser.post(action, sent)
    assert again.status == 409
    assert "has been carried out already" in text_of(again)
    assert await offset(admin) == 4


@pytest.mark.usefixtures("group")
async def test_a_void_plan_can_be_made_again(browser: Browser, admin: Admin) -> None:
    action, sent = confirmation(await planned(browser), "billing")
    await admin.alter_group_offsets("billing", {T0: 4})
    refused = await browser.post(action, sent)
    assert refused.status == 409
    assert "the offset of billing in orders-0 was 3, and is 4 now" in text_of(refused)
    assert "Plan it again" in text_of(refused)
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', refused.text))
    assert hidden.pop("back") == action
    assert hidden == RESET
    assert "void" in text_of(await browser.get(action))
    assert await offset(admin) == 4
    again = await planned(browser, **hidden)
    assert "orders 0 4 0 -4" in text_of(again)


@pytest.mark.usefixtures("group")
async def test_another_session_cannot_carry_it_out(browser: Browser, admin: Admin) -> None:
    action, sent = confirmation(await planned(browser), "billing")
    other = browser.another()
    for answered in (await other.post(action, sent), await other.get(action)):
        assert answered.status == 404
        assert "belongs to another session" in text_of(answered)
    mine, _ = confirmation(await planned(other), "billing")
    refused = await other.post(mine, sent)
    assert refused.status == 409
    assert "belongs to another session" in text_of(refused)
    assert await offset(admin) == 3


@pytest.mark.usefixtures("group")
async def test_without_its_token_nothing_happens(browser: Browser, admin: Admin) -> None:
    action, sent = confirmation(await planned(browser), "billing")
    for form, status in (
        ({"typed": "billing"}, 409),
        ({"typed": "billing", "token": "00" * 32}, 409),
        ({**sent, "group": "other"}, 400),
        ([*sent.items(), ("typed", "x")], 400),
    ):
        assert (await browser.post(action, form)).status == status
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert (await browser.post(action, sent, **headers)).status == 403
    assert (await browser.get(f"{action}?token={sent['token']}&typed=billing")).status == 200
    assert await offset(admin) == 3


async def test_unknown_plans_and_changes(browser: Browser) -> None:
    assert (await browser.get("/plans/00")).status == 404
    assert (await browser.post("/plans/00", {})).status == 404
    assert (await browser.get("/changes/format-disk")).status == 404
    assert (await browser.post("/changes/format-disk", {})).status == 404
    assert (await browser.get("/changes/delete-topic?force=1")).status == 400


@pytest.mark.usefixtures("group")
async def test_a_form_says_what_is_wrong_and_keeps_the_rest(browser: Browser) -> None:
    form = {"group": "<billing>", "place": "to_offset", "value": "soon"}
    refused = await browser.post("/changes/reset-offsets", form)
    assert refused.status == 400
    assert "'soon' is no number" in text_of(refused)
    assert 'value="&lt;billing&gt;"' in refused.text
    assert '<option value="to_offset" selected>' in refused.text
    refused = await browser.post("/changes/reset-offsets", {**RESET, "force": "1"})
    assert refused.status == 400
    assert "'force' is no field of this form" in text_of(refused)
    refused = await browser.post("/changes/delete-topic", [("topic", "a"), ("topic", "b")])
    assert "one at a time" in text_of(refused)
    refused = await browser.post("/changes/reset-offsets", {**RESET, "group": "nobody"})
    assert refused.status == 409
    assert "nobody has committed nothing there" in text_of(refused)


async def test_what_does_not_exist(browser: Browser) -> None:
    assert (await browser.post("/changes/delete-topic", {"topic": "none"})).status == 404


@pytest.mark.usefixtures("group")
async def test_without_allow_changes_no_route_exists(cluster: Cluster) -> None:
    async with console_of(cluster.bootstrap) as browser:
        for path in ("/changes", *(f"/changes/{kind}" for kind in KINDS), "/plans/00"):
            assert (await browser.get(path)).status == 404
            assert (await browser.post(path, RESET)).status == 405
        assert "/changes" not in (await browser.get("/topics/orders")).text
        assert "/changes" not in (await browser.get("/groups/billing")).text
        assert not browser.console.plans.of_session(browser.cookies["oncelog_session"])


@pytest.mark.parametrize("kind", KINDS)
async def test_every_form_is_shown(browser: Browser, kind: str) -> None:
    answered = await browser.get(f"/changes/{kind}")
    assert answered.status == 200
    for field in KINDS[kind].fields:
        assert f'name="{field.name}"' in answered.text
        assert f'<label for="field-{field.name}">' in answered.text
    assert f'href="/changes/{kind}"' in (await browser.get("/changes")).text


CONTROLS = {
    "/topics": ["create-topic"],
    "/topics/orders": [
        "produce-record?topic=orders",
        "alter-configs?of=topic&amp;name=orders",
        "add-partitions?topic=orders",
        "delete-records?topic=orders",
        "delete-topic?topic=orders",
    ],
    "/topics/orders/messages": ["produce-record?topic=orders"],
    "/topics/orders/0/2": ["produce-record?topic=orders&amp;again=0%402"],
    "/groups/billing": [
        "reset-offsets?group=billing",
        "clone-group?source=billing",
        "delete-offsets?group=billing",
        "delete-group?group=billing",
    ],
    "/transactions/pay": ["fence-producer?transactional_id=pay"],
    "/transactions?tab=hanging&look=1": [
        "abort-transaction?topic=orders&amp;partition=0&amp;producer_id=99000&amp;start_offset=5"
    ],
    "/brokers": ["elect-preferred", "alter-configs?of=all"],
    "/brokers/1": ["alter-configs?of=broker&amp;name=1"],
    "/topics/__consumer_offsets": [],
}
"""Addresses, and the forms that their controls lead to."""


@pytest.mark.usefixtures("group")
async def test_controls_lead_to_forms_that_are_filled_in(
    browser: Browser, cluster: Cluster
) -> None:
    async with (
        Producer(cluster.bootstrap, transactional_id="pay") as producer,
        producer.transaction(),
    ):
        pass
    hang(cluster, "orders", 0, b"hangs", producer_id=99_000)
    found = {}
    for address in CONTROLS:
        page = await browser.get(address)
        if page.status == 303:
            page = await browser.follow(page)
        assert page.status == 200, page.text
        found[address] = re.findall(r'href="/changes/([^"]+)"', page.text)
        for path in found[address]:
            form = await browser.get(f"/changes/{unescape(path)}")
            assert form.status == 200, form.text
    assert found == CONTROLS


@pytest.mark.slow
async def test_a_plan_of_many_partitions_shows_some_and_covers_all(
    cluster: Cluster, admin: Admin, browser: Browser
) -> None:
    count = SHOWN_ROWS + 50
    await cluster.create_topic("orders", partitions=count)
    every = {TopicPartition("orders", number): 0 for number in range(count)}
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"one", partition=count - 1)
    await admin.alter_group_offsets("billing", every)
    form = {"group": "billing", "place": "to_latest"}
    shown = await browser.follow(await browser.post("/changes/reset-offsets", form))
    assert len(re.findall("<td[^>]*>orders</td>", shown.text)) == SHOWN_ROWS
    assert "50 more rows are not shown. The plan covers them too." in shown.text
    action, fields = confirmation(shown, "billing")
    await browser.follow(await browser.post(action, fields))
    found = await admin.list_group_offsets("billing")
    assert len(found) == count
    last = found[TopicPartition("orders", count - 1)]
    assert last is not None
    assert last.offset == 1


# ------------------------------------------------------------------------------ views


@pytest.mark.usefixtures("group")
async def test_what_has_become_of_a_plan(browser: Browser) -> None:
    plan = await Workshop(browser).plan("reset-offsets", **RESET)
    assert plan_view(plan, 299.5, 0).state == "waiting"
    assert plan_view(plan, 299.5, 0).left_ms == 299_500
    assert plan_view(plan, 0.0, 0).state == "expired"
    plans = browser.console.plans
    plans.done(plan, Answer({}))
    done_ms = plan.ended_ms
    view = plan_view(plan, 0.0, done_ms)
    assert (view.state, view.waits, view.overdue) == ("done", True, False)
    assert plan_view(plan, 0.0, done_ms + OVERDUE_MS + 1).overdue
    plans.shown(plan)
    assert not plan_view(plan, 0.0, done_ms + OVERDUE_MS + 1).waits
    assert plan.fate is Fate.DONE
