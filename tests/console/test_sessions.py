"""Only who signs in has a session, and nobody is shown what brokers would not show."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin, UserAlteration
from oncelog.testing import AsyncCluster
from oncelog_console import sessions
from oncelog_console.sessions import COOKIE, IDLE_MS, SignInError
from oncelog_console.settings import ConsoleSettings
from support.clock import ManualClock
from support.cluster import Cluster
from support.console import Browser, console_of
from support.waiting import eventually

TOKEN = "t0ken-of-this-console"


@pytest_asyncio.fixture
async def guarded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    """Start a console that wants a token."""
    monkeypatch.setattr(sessions, "FAILURES_PAUSE_S", 0.0)
    settings = ConsoleSettings(token=TOKEN)
    async with console_of(cluster.bootstrap, settings=settings) as browser:
        yield browser


async def test_nothing_is_shown_before_the_token_is(guarded: Browser) -> None:
    for path in ("/", "/topics", "/brokers/1", "/no/such/page"):
        answered = await guarded.get(path)
        assert "Token of this console" in answered.text
        assert "healthy" not in answered.text
        refused = await guarded.get(path, accept="application/json")
        assert (refused.status, refused.text) == (401, "sign in first\n")
    assert (await guarded.get("/livez")).status == 200
    wrong = await guarded.post("/sign-in", {"token": TOKEN + "x", "to": "/topics"})
    assert wrong.status == 401
    assert "not the token" in wrong.text
    assert COOKIE not in guarded.cookies
    right = await guarded.post("/sign-in", {"token": TOKEN, "to": "/topics"})
    assert right.location == "/topics"
    assert TOKEN not in str(guarded.cookies), "credentials stay in the server's memory"
    assert "Topics" in (await guarded.follow(right)).text
    await guarded.post("/sign-out")
    assert "Token of this console" in (await guarded.get("/topics")).text


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", ""]
)
async def test_signing_in_leads_nowhere_else(guarded: Browser, to: str) -> None:
    assert (await guarded.post("/sign-in", {"token": TOKEN, "to": to})).location == "/"


async def test_a_link_signs_in_once(guarded: Browser) -> None:
    code = guarded.console.sessions.one_time_code()
    assert (await guarded.get(f"/sign-in/{code}")).status == 303
    assert "healthy" in (await guarded.get("/")).text
    other = guarded.another()
    assert "was used already" in (await other.get(f"/sign-in/{code}")).text
    assert COOKIE not in other.cookies


async def test_a_session_ends_when_nobody_uses_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    settings = ConsoleSettings(token=TOKEN)
    async with console_of(cluster.bootstrap, settings=settings, clock=clock) as browser:
        await browser.post("/sign-in", {"token": TOKEN})
        clock.advance(IDLE_MS)
        assert (await browser.get("/topics")).status == 200, "and it counts as used"
        clock.advance(IDLE_MS)
        assert "Token" not in (await browser.get("/topics")).text
        clock.advance(IDLE_MS + 1)
        assert "Token" in (await browser.get("/topics")).text


async def test_there_are_only_so_many(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    known = browser.console.sessions
    first = known.begin()
    others = [known.begin() for _ in range(3)]
    assert known.find(first.session_id) is None
    assert all(known.find(each.session_id) for each in others)


PASSWORD = "correct horse battery"


@pytest_asyncio.fixture
async def secured(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    """Start a cluster that knows its users, with alice, who may see nothing, and its console."""
    monkeypatch.setattr(sessions, "FAILURES_PAUSE_S", 0.0)
    async with AsyncCluster(secure=True) as cluster:
        await cluster.create_topic("orders")
        await cluster.create_topic("salaries")
        security = cluster.security
        async with Admin(cluster.bootstrap, security=security) as admin:
            await admin.alter_users([UserAlteration.create("alice", PASSWORD)])
        async with console_of(cluster.bootstrap, security=security) as browser:
            yield browser


async def test_a_user_who_is_not_let_in(secured: Browser) -> None:
    for form in (
        {"username": "alice", "password": "wrong"},
        {"username": "nobody", "password": "x"},
    ):
        answered = await secured.post("/sign-in", form)
        assert answered.status == 401
        assert COOKIE not in secured.cookies
    with pytest.raises(SignInError):
        await secured.console.sessions.by_password("", "")


async def test_a_user_sees_what_brokers_show(secured: Browser) -> None:
    answered = await secured.post("/sign-in", {"username": "alice", "password": PASSWORD})
    assert answered.status == 303, answered.text
    page = await secured.get("/topics")
    assert "orders" not in page.text
    assert "salaries" not in page.text
    assert "There is no topic that you may see." in page.text
    assert "There is no group that you may see." in (await secured.get("/groups")).text
    assert (await secured.get("/topics/salaries")).status in (403, 404)
    session = secured.console.sessions.find(secured.cookies[COOKIE])
    assert session is not None
    assert session.visible is not None
    assert not session.visible.topics
    await secured.post("/sign-out")
    await eventually(lambda: secured.console.sessions.find(session.session_id) is None)
