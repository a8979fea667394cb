"""The audit writes one line about the same thing in a while, counts the others, and tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from oncelog_broker.server.audit import (
    AUDIT_LOGGER,
    DONE,
    INTERVAL_S,
    PAUSE_S,
    TEXT_CHARS_MAX,
    Audit,
    AuditedPeer,
    named,
)
from oncelog_protocol.acls import CLUSTER, CLUSTER_NAME, TOPIC, TRANSACTIONAL_ID, WRITE
from oncelog_runtime.logs import OVERDUE_MAX, SUBJECTS_MAX
from simulation.loop import SimLoop
from support.server import make_context

APP = AuditedPeer("User:app", "10.0.0.7:4711", "external", "the-app")


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=AUDIT_LOGGER)


def lines(caplog: pytest.LogCaptureFixture) -> list[Any]:
    """Return what was written since the last look."""
    found = [record.msg for record in caplog.records if record.name == AUDIT_LOGGER]
    caplog.clear()
    return found


def in_time(work: Coroutine[Any, Any, None]) -> None:
    """Run the work on a loop whose time passes at once."""
    SimLoop(1).run(work)


def deny(audit: Audit, topic: str = "orders", peer: AuditedPeer = APP) -> None:
    audit.denied(peer, WRITE, TOPIC, topic, "no ACL allows it")


def test_who_asks_is_taken_from_the_request() -> None:
    peer = AuditedPeer.of(make_context(listener="external"))
    assert peer == ("User:test", "t:1", "external", "c")
    assert peer.host == "t"


def test_resources_are_named_as_people_write_them() -> None:
    assert named(TOPIC, "orders") == "topic:orders"
    assert named(TRANSACTIONAL_ID, "t") == "transactional-id:t"
    assert named(CLUSTER, CLUSTER_NAME) == "cluster"


def test_a_denial_says_who_what_and_why_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        audit = Audit()
        for _ in range(3):
            deny(audit)
        deny(audit, peer=APP._replace(address="10.0.0.8:1"))
        (line,) = lines(caplog)
        assert line == {
            "event": "audit_denied",
            "principal": "User:app",
            "address": "10.0.0.7:4711",
            "listener": "external",
            "client_id": "the-app",
            "operation": "WRITE",
            "resource": "topic:orders",
            "acl": "no ACL allows it",
        }
        assert audit.denials == {(WRITE, TOPIC): 4}
        deny(audit, "others")
        deny(audit, peer=APP._replace(principal="User:other"))
        assert len(lines(caplog)) == 2
        await asyncio.sleep(INTERVAL_S + 0.1)
        (told,) = lines(caplog)
        assert (told["event"], told["suppressed"]) == ("audit_lines_suppressed", 3)
        assert told["about"] == "User:app WRITE topic:orders"
        deny(audit)
        assert [line["event"] for line in lines(caplog)] == ["audit_denied"]
        audit.close()

    in_time(work())


def test_what_is_left_out_later_is_told_later(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        audit = Audit()
        deny(audit)
        deny(audit)
        await asyncio.sleep(INTERVAL_S / 2)
        deny(audit, "others")
        deny(audit, "others")
        lines(caplog)
        await asyncio.sleep(INTERVAL_S * 2)
        assert [line["suppressed"] for line in lines(caplog)] == [1, 1]
        audit.close()
        assert lines(caplog) == []

    in_time(work())


def test_one_turn_of_the_loop_tells_of_few(caplog: pytest.LogCaptureFixture) -> None:
    """The loop was held for 0.3 s when 2,000 things were told at once."""
    count = 3 * OVERDUE_MAX + 1

    async def work() -> None:
        audit = Audit()
        for number in range(count):
            deny(audit, f"t{number}")
            deny(audit, f"t{number}")
        lines(caplog)
        await asyncio.sleep(INTERVAL_S - PAUSE_S / 2)
        told: list[int] = []
        while sum(told) < count:
            await asyncio.sleep(PAUSE_S)
            told.append(len(lines(caplog)))
        assert max(told) == OVERDUE_MAX
        audit.close()
        assert lines(caplog) == []

    in_time(work())


def test_the_end_of_the_broker_tells_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        audit = Audit()
        for _ in range(5):
            deny(audit)
        audit.close()
        assert [line.get("suppressed") for line in lines(caplog)] == [None, 4]
        await asyncio.sleep(INTERVAL_S * 2)
        assert lines(caplog) == []

    in_time(work())


def test_authentications_are_on_record_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        audit = Audit()
        for port in (1, 2):
            audit.authenticated(APP._replace(address=f"10.0.0.7:{port}"), "PLAIN")
            audit.authentication_failed(APP._replace(address=f"10.0.0.7:{port}"), "PLAIN", "pen")
        first, second = lines(caplog)
        assert (first["event"], first["mechanism"]) == ("audit_authenticated", "PLAIN")
        assert (second["event"], second["reason"]) == ("audit_authentication_failed", "pen")
        assert audit.authentications == {("PLAIN", "success"): 2, ("PLAIN", "failure"): 2}
        audit.close()

    in_time(work())


def test_every_change_that_was_made_is_on_record(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        audit = Audit()
        for outcome in (DONE, DONE, "POLICY_VIOLATION", "POLICY_VIOLATION"):
            audit.changed(APP, "DELETE_TOPICS", "topic:t", "", outcome, "an ACL")
        assert [line["outcome"] for line in lines(caplog)] == [DONE, DONE, "POLICY_VIOLATION"]
        audit.close()

    in_time(work())


def test_what_peers_choose_takes_bounded_room(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        audit = Audit()
        deny(audit, "x" * 100_000, APP._replace(client_id="y" * 100_000))
        (line,) = lines(caplog)
        assert max(len(str(each)) for each in line.values()) <= TEXT_CHARS_MAX + 3
        for number in range(SUBJECTS_MAX + 10):
            deny(audit, f"t{number}")
            deny(audit, f"t{number}")
        told = [line for line in lines(caplog) if line["event"] == "audit_lines_suppressed"]
        assert len(told) >= 9, "what is forgotten is told first"
        assert audit.denials == {(WRITE, TOPIC): 2 * (SUBJECTS_MAX + 10) + 1}
        audit.close()

    in_time(work())
