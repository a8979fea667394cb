"""kazoo is bent to the rules of ``zookeeper.py``: one thread, one session, our errors and stats.

What here reaches into kazoo's privates is held down by the contract suite over the real server.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
import ssl
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler

from oncelog_controller.store import (
    AccessDeniedError,
    BadVersionError,
    Create,
    IdentityRejectedError,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Op,
    OpResult,
    SessionExpiredError,
    SetData,
    StoreDisconnectedError,
    StoreError,
)
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tls_contexts import ClientTls, TlsFilesError
from oncelog_runtime.tls_errors import explained

logger = get_logger(__name__)

CLOSE_DEADLINE_S = 5.0
"""How long closing waits for the goodbye; the session runs out by itself otherwise."""

_ERRORS: tuple[tuple[type[Exception], type[StoreError]], ...] = (
    (kazoo_errors.NoNodeError, NoNodeError),
    (kazoo_errors.NodeExistsError, NodeExistsError),
    (kazoo_errors.BadVersionError, BadVersionError),
    (kazoo_errors.NotEmptyError, NotEmptyError),
    (kazoo_errors.NoAuthError, AccessDeniedError),
    (kazoo_errors.AuthFailedError, IdentityRejectedError),
    # Nobody is the creator to whom a node could belong.
    (kazoo_errors.InvalidACLError, AccessDeniedError),
    # A kind of SessionExpiredError to kazoo, but it says nothing about the session: goes first.
    (kazoo_errors.ConnectionClosedError, StoreDisconnectedError),
    (kazoo_errors.SessionExpiredError, SessionExpiredError),
    (kazoo_errors.ConnectionLoss, StoreDisconnectedError),
    (kazoo_errors.ConnectionDropped, StoreDisconnectedError),
    (kazoo_errors.OperationTimeoutError, StoreDisconnectedError),
    (KazooTimeoutError, StoreDisconnectedError),
)

NOT_THE_CAUSE = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""The errors that a failed multi reports for the operations that did not fail themselves."""


_DROPPED = "Connection dropped: socket connection error: "


class QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """kazoo warns once for each attempt to reconnect; state changes are logged here instead."""

    trouble = ""
    """It is the last warning: why there is no connection, when there is none."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level == logging.WARNING:
            text = str(msg) % args if args else str(msg)
            self.trouble = text.removeprefix(_DROPPED)
        super().log(level if level >= logging.ERROR else logging.DEBUG, msg, *args, **kwargs)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs


class _WakeUp(socket.socket):
    """A caller wakes kazoo's thread by a byte to this end of its socket pair, and never waits.

    kazoo sends one request for each byte that it takes. A pair that is full holds more bytes than
    requests can wait (``IN_FLIGHT_MAX``, twice where the link broke just now), so that the thread
    needs no other. kazoo's own end blocks: a loop that calls would stand until a server answers.
    """

    def send(self, data: Any, flags: int = 0) -> int:
        """Add a byte where there is room."""
        try:
            return super().send(data, flags)
        except BlockingIOError:
            return len(data)


class InlineHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """It runs completions and watches in the connection thread: no worker threads, one order.

    :param tls: servers are reached over TLS by its context. kazoo's own TLS would trust the
        system's CAs beside ours, and leave its socket open when a handshake fails.
    """

    def __init__(self, tls: ClientTls | None = None) -> None:
        super().__init__()
        self._tls = tls

    @property
    def running(self) -> bool:
        """False makes kazoo's results call back where they are set."""
        return False

    def start(self) -> None:
        """Do nothing: there are no workers to start."""

    def stop(self) -> None:
        """Do nothing: there are no workers to stop."""

    def dispatch_callback(self, callback: Any) -> None:
        """Call a watch here and now; ours only post to the loop."""
        callback.func(*callback.args)

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Make the pair by which callers wake the connection thread, without blocking."""
        read, write = super().create_socket_pair()
        wake_up = _WakeUp(fileno=write.detach())
        wake_up.setblocking(False)
        return read, wake_up

    def select(
        self,
        read_from: Sequence[Any],
        write_to: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Do what kazoo's does, without making and closing an epoll object for every request."""
        # What TLS has decrypted is in no socket any more, and would wait for what comes next.
        decrypted = [
            each for each in read_from if isinstance(each, ssl.SSLSocket) and each.pending()
        ]
        if decrypted:
            return decrypted, [], []
        poller, sources = select.poll(), {}
        for wanted, event in ((read_from, select.POLLIN), (write_to, select.POLLOUT)):
            for source in wanted:
                number = source.fileno()
                if number < 0:
                    raise ValueError("the socket is closed")
                sources[number] = source
                poller.register(number, event)
        ready = poller.poll(None if timeout is None else timeout * 1000)
        # A hang-up or an error makes a socket ready for either: the next call on it tells.
        readable = [sources[n] for n, event in ready if event != select.POLLOUT]
        writable = [sources[n] for n, event in ready if event != select.POLLIN]
        return readable, writable, []

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_theirs: Any,
    ) -> socket.socket:
        """Connect to a server, and verify it by its certificate where there is TLS.

        :raises OSError: it is not reached, or not trusted. kazoo tries again, after any other error
            it would not.
        """
        plain: socket.socket = super().create_connection(address, timeout=timeout)
        if self._tls is None:
            return plain
        self._look_at_files(self._tls)
        try:
            return self._tls.context.wrap_socket(plain, server_hostname=hostname)
        except ssl.SSLError as error:
            plain.close()
            failure = explained(error)
            where = f"{hostname}:{address[1]}"
            logger.warning("zookeeper_tls_failed", address=where, error=failure)
            raise OSError(errno.EPROTO, str(failure)) from error
        except BaseException:
            plain.close()
            raise

    @staticmethod
    def _look_at_files(tls: ClientTls) -> None:
        """Take files that have been renewed; those that do not load or fit are told."""
        try:
            tls.refresh()
        except TlsFilesError as error:
            logger.error("zookeeper_tls_files_refused", error=error)


class QuietableConnection(ConnectionHandler):  # type: ignore[misc]
    """It is kazoo's connection, and it pings only while ``may_ping`` says so."""

    def __init__(
        self, client: Any, *options: Any, may_ping: Callable[[], bool], **named: Any
    ) -> None:
        super().__init__(client, *options, **named)
        self._may_ping = may_ping

    def _send_ping(self, connect_timeout: float) -> None:
        """In the connection thread: kazoo finds it time to ping."""
        if self._may_ping():
            super()._send_ping(connect_timeout)


class OneSession(KazooClient):  # type: ignore[misc]
    """This kazoo client never opens a second session, and pings only while ``may_ping`` says so.

    ``may_ping`` is called in the connection thread, before each ping.
    """

    _connection: QuietableConnection

    def __init__(self, *, may_ping: Callable[[], bool], **options: Any) -> None:
        super().__init__(**options)
        # In place of the one that kazoo has just made, and not started.
        self._connection = QuietableConnection(
            self,
            self._conn_retry.copy(),
            logger=self.logger,
            sasl_options=self._connection.sasl_options,
            may_ping=may_ping,
        )

    def stop_reconnecting(self) -> None:
        """Let the connection thread's loop end, in that thread, on expiry, instead of connecting
        again."""
        self._stopped.set()

    def end(self) -> None:
        """Close the session if it lives, end the thread, free the sockets. Blocks."""
        try:
            self.stop()
            if self._connection.stop(CLOSE_DEADLINE_S):
                self.close()
        except Exception:
            logger.debug("zookeeper_close_failed", exc_info=True)


def store_error(error: Exception, path: str, op_index: int | None = None) -> StoreError:
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(path, op_index=op_index)
    return StoreError(f"{path}: {type(error).__name__} {error}", op_index=op_index)


def node_stat(stat: Any) -> NodeStat:
    return NodeStat(
        version=stat.version,
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ephemeral_owner=stat.ephemeralOwner,
        children_version=stat.cversion,
        children_count=stat.numChildren,
    )


def op_result(op: Op, result: Any) -> OpResult:
    if isinstance(op, Create):
        return NodeStat(version=0, czxid=0)
    return node_stat(result) if isinstance(op, SetData) else None
