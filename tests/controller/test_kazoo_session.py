"""kazoo is bent to our rules: these parts need no server."""

from __future__ import annotations

import logging
import socket

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import Callback, ZnodeStat

from oncelog_controller.kazoo_session import (
    InlineHandler,
    OneSession,
    QuietLogger,
    node_stat,
    op_result,
    store_error,
)
from oncelog_controller.store import (
    AccessDeniedError,
    BadVersionError,
    CheckVersion,
    Create,
    IdentityRejectedError,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SetData,
    StoreDisconnectedError,
    StoreError,
)
from oncelog_controller.zookeeper import IN_FLIGHT_MAX

STAT = ZnodeStat(11, 12, 0, 0, 3, 4, 0, 99, 0, 5, 13)


def test_results_and_watches_run_where_they_arise() -> None:
    handler = InlineHandler()
    handler.start()
    seen: list[object] = []
    result = handler.async_result()
    result.rawlink(lambda r: seen.append(r.value))
    result.set("value")
    handler.dispatch_callback(Callback("watch", seen.append, ("event",)))
    handler.stop()
    assert seen == ["value", "event"]


def test_who_wakes_the_thread_never_waits_for_it() -> None:
    """The pair takes what has room, and drops the rest: nobody reads here."""
    read, write = InlineHandler().create_socket_pair()
    try:
        for _ in range(10_000):
            assert write.send(b"\0") == 1
        assert set(read.recv(65536)) == {0}
        assert write.send(b"\0") == 1
        assert read.recv(65536) == b"\0"
    finally:
        read.close()
        write.close()
    with pytest.raises(OSError):
        write.send(b"\0")


def test_the_pair_holds_more_than_requests_can_wait() -> None:
    """One byte is taken for each request: a window's, and one's whose link broke just now."""
    read, write = InlineHandler().create_socket_pair()
    try:
        for _ in range(10_000):
            write.send(b"\0")
        assert len(read.recv(65536)) >= 2 * IN_FLIGHT_MAX
    finally:
        read.close()
        write.close()


def test_select_tells_readable_writable_and_timeout() -> None:
    handler = InlineHandler()
    left, right = socket.socketpair()
    try:
        assert handler.select([left], [], [], 0) == ([], [], [])
        assert handler.select([], [left], [], None) == ([], [left], [])
        right.send(b"x")
        assert handler.select([left, right], [], [], 1.0) == ([left], [], [])
        right.close()
        assert handler.select([left], [], [], 1.0)[0] == [left]
    finally:
        left.close()
        right.close()
    with pytest.raises(ValueError, match="closed"):
        handler.select([left], [], [], 0)


def test_quiet_logger_demotes_all_but_errors(caplog: pytest.LogCaptureFixture) -> None:
    quiet = QuietLogger(logging.getLogger("quiet"))
    with caplog.at_level(logging.DEBUG, "quiet"):
        quiet.warning("dropped %s", 1)
        quiet.error("bad")
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.ERROR]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kazoo_errors.NoNodeError(), NoNodeError),
        (kazoo_errors.NodeExistsError(), NodeExistsError),
        (kazoo_errors.BadVersionError(), BadVersionError),
        (kazoo_errors.NotEmptyError(), NotEmptyError),
        (kazoo_errors.SessionExpiredError(), SessionExpiredError),
        (kazoo_errors.ConnectionLoss(), StoreDisconnectedError),
        (kazoo_errors.ConnectionClosedError(), StoreDisconnectedError),
        (kazoo_errors.OperationTimeoutError(), StoreDisconnectedError),
        (KazooTimeoutError(), StoreDisconnectedError),
        (kazoo_errors.NoAuthError(), AccessDeniedError),
        (kazoo_errors.AuthFailedError(), IdentityRejectedError),
        (kazoo_errors.InvalidACLError(), AccessDeniedError),
        (kazoo_errors.BadArgumentsError(), StoreError),
    ],
)
def test_errors(theirs: Exception, ours: type[StoreError]) -> None:
    error = store_error(theirs, "/path", op_index=3)
    assert type(error) is ours
    assert error.op_index == 3
    assert "/path" in str(error)


def test_stats_and_results() -> None:
    stat = NodeStat(
        version=3,
        czxid=11,
        mzxid=12,
        ephemeral_owner=99,
        children_version=4,
        children_count=5,
    )
    assert node_stat(STAT) == stat
    assert op_result(SetData("/a", b""), STAT) == stat
    assert op_result(Create("/a", b""), "/a") == NodeStat(version=0, czxid=0)
    assert op_result(CheckVersion("/a", 0), True) is None


def test_a_session_pings_only_while_it_may() -> None:
    allowed: list[bool] = [False, True]
    session = OneSession(hosts="127.0.0.1:1", may_ping=lambda: allowed.pop(0))
    session._connection._send_ping(1.0)
    assert not session._connection.ping_outstanding.is_set()
    with pytest.raises(TypeError):  # it has no socket
        session._connection._send_ping(1.0)
    assert session._connection.ping_outstanding.is_set()
