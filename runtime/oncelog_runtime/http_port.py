"""Paths are answered over HTTP on this loop, by starlette and uvicorn, which are kept in bounds.

uvicorn speaks HTTP; how it lives in a process is ours. Rules:

- it has no signal handlers (a process stops by its own), configures no logging, and reads no
  environment;
- the sockets are ours: the address is known, and a port that is taken is told, before it starts;
- a failure of an answerer is logged once, and answered in words that give nothing away;
- a head has at most ``HEAD_BYTES_MAX`` unless it arrives in one piece, which a read bounds;
- there are at most ``CONNECTIONS_MAX`` connections, and a later peer is turned away. (uvicorn's own
  bound would refuse those who are in already as well: a crowd would fail the probe of liveness.)
  Each has a deadline, which uvicorn does not set, for its next request and for taking the answer;
- closing takes at most twice ``CLOSE_S``, whatever peers and the application do;
- over TLS the peer is counted, and has its deadline, before its first byte: uvicorn's own would
  know of it only after the handshake. Each connection takes the context that there is then.

Importing this costs time and memory: it is done only where there is such a port, and the import law
keeps it away from clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks
from oncelog_runtime.tls_contexts import ServerTls
from oncelog_runtime.tls_errors import TlsError

logger = get_logger(__name__)

HEAD_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 64
IDLE_S = 75
"""A peer has so long from connecting, or from an answer, to the next whole request."""
HANDSHAKE_S = 5.0
"""Over TLS a peer has so long from connecting to the end of the handshake."""
ANSWER_S = 30.0
"""The application has so long from a request to its answer; the peer may take it until it is
idle."""
BUFFER_BYTES = 16 * 1024
"""So much of what was decrypted is handed on at a time."""
CLOSE_S = 1.0
"""Answers under way have so long when the port closes."""

NOBODY_KEEPS = (("cache-control", "no-store"),)
"""No cache may keep an answer with these headers."""

Answerer = Callable[[Request], Awaitable[Response]]
ENDLESS = b"text/event-stream"
"""Answers of this type go on for as long as both sides want: the application has ``ANSWER_S`` from
each part to the next, and so has the peer to take it."""


class _Connection(H11Protocol):
    """A connection is one peer, with the bounds that uvicorn does not have."""

    _deadline: asyncio.TimerHandle | None = None
    _answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        self.app = self._going_on(self.app)
        self._arm(IDLE_S)

    def expect_handshake(self) -> None:
        """Give the peer the shorter time that it has for the handshake."""
        self._arm(HANDSHAKE_S)

    def handshake_done(self) -> None:
        """Give the peer the time that it has for a request."""
        self._arm(IDLE_S)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast(RequestResponseCycle | None, self.cycle)
        if not self._answering and cycle is not None and not cycle.response_complete:
            self._answering = True
            self._arm(ANSWER_S)

    def on_response_complete(self) -> None:
        self._answering = False
        self._arm(IDLE_S)
        super().on_response_complete()  # which may begin the next one, of those sent in advance

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._disarm()

    def _going_on(self, app: Any) -> ASGIApp:
        """Return the application with more time at each part of an answer without end."""

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            endless = False

            async def sending(message: Message) -> None:
                nonlocal endless
                await send(message)
                if message["type"] == "http.response.start":
                    headers = dict(message.get("headers", ()))
                    endless = headers.get(b"content-type", b"").startswith(ENDLESS)
                elif endless and self._answering:
                    self._arm(ANSWER_S)

            await app(scope, receive, sending)

        return call

    def _arm(self, seconds: float) -> None:
        self._disarm()
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Buffered(asyncio.BufferedProtocol):
    """It lends a buffer to a connection, which wants bytes where TLS fills buffers."""

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection
        self._view = memoryview(bytearray(BUFFER_BYTES))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connection.connection_made(cast(asyncio.Transport, transport))
        self.connection.expect_handshake()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self.connection.data_received(bytes(self._view[:nbytes]))

    def eof_received(self) -> bool:
        self.connection.eof_received()
        return False

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, TlsError):
            peer = self.connection.client
            host = peer[0] if peer else "unknown"
            logger.warning("http_peer_refused", host=host, error=exc)
        self.connection.connection_lost(exc)


def _over(tls: ServerTls) -> type[asyncio.Protocol]:
    """Return what uvicorn makes for a connection that was accepted: it calls what it takes for a
    class of protocols."""

    def make(**arguments: Any) -> asyncio.BufferedProtocol:
        connection = _Connection(**arguments)
        return tls.protect(_Buffered(connection), lambda _: connection.handshake_done())

    return cast(type[asyncio.Protocol], make)


class _Server(uvicorn.Server):
    """It runs without signal handlers, since the process has its own."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


def answering(answerers: Mapping[str, Answerer]) -> ASGIApp:
    """Return an application that answers GET and HEAD of some paths.

    :param answerers: what answers each path; a path is starlette's, with its parameters.
    """
    routes = [Route(path, _guarded(answer)) for path, answer in answerers.items()]
    return Router(routes, redirect_slashes=False)


class HttpPort:
    """It serves an application on one address. Call ``start`` once and ``close`` once.

    :param tls: with it the port speaks TLS only.
    :param headers: every answer has them.
    """

    def __init__(
        self,
        app: ASGIApp,
        tls: ServerTls | None = None,
        *,
        headers: Sequence[tuple[str, str]] = NOBODY_KEEPS,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=_Connection if tls is None else _over(tls),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            workers=1,
            proxy_headers=False,
            forwarded_allow_ips="",
            server_header=False,
            headers=list(headers),
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=round(2 * CLOSE_S),
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        self.address: tuple[str, int] = ("", 0)
        """The address is known from ``start`` on."""
        self._server = _Server(config)
        self._tasks = Tasks("http")
        self._serving: asyncio.Task[None] | None = None

    @property
    def connection_count(self) -> int:
        """Return how many peers are connected."""
        return len(self._server.server_state.connections)

    async def start(self, host: str, port: int) -> None:
        """Listen; ``port`` 0 takes a free one.

        :raises OSError: the address is taken, or not of this machine.
        """
        sockets = await _listen(host, port)
        name = sockets[0].getsockname()
        self.address = (str(name[0]), int(name[1]))
        self._serving = self._tasks.spawn("serve", self._server.serve(sockets))

    async def close(self) -> None:
        """Stop listening. Answers under way have ``CLOSE_S``, then they are broken off, and the
        application some time later if it goes on all the same."""
        self._server.should_exit = True
        if self._serving is not None:
            patience = asyncio.get_running_loop().call_later(CLOSE_S, self._abort_all)
            await asyncio.gather(self._serving, return_exceptions=True)  # a failure has been logged
            patience.cancel()
        self._abort_all()
        await self._tasks.close()

    def _abort_all(self) -> None:
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Open a socket for every address of ``host``, all with the same port."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as failed:
        for family, address in dict.fromkeys((each[0], each[4][0]) for each in found):
            listening = socket.create_server((str(address), port), family=family)
            sockets.append(failed.enter_context(listening))
            # Connections inherit it. An answer is written in two parts, head and body, and a peer
            # that keeps its connection would wait 40 ms for the second one; asyncio sets it only
            # where a socket names its protocol, and this one does not.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            port = listening.getsockname()[1]
        failed.pop_all()
    return sockets


def _guarded(answer: Answerer) -> Answerer:
    async def respond(request: Request) -> Response:
        try:
            return await answer(request)
        except Exception:
            logger.exception("http_request_failed", path=request.url.path)
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            return PlainTextResponse("this failed; see the log\n", status)

    return respond
