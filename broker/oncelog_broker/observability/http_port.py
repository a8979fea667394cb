"""An ASGI application listens on an address of our own: uvicorn, kept in bounds, on this loop.

uvicorn speaks HTTP; how it lives in a broker is ours. Rules:

- it has no signal handlers (a broker stops by its own), configures no logging, and reads no
  environment;
- the sockets are ours: the address is known, and a port that is taken is told, before it starts;
- a head has at most ``HEAD_BYTES_MAX`` unless it arrives in one piece, which a read bounds;
- there are at most ``CONNECTIONS_MAX`` connections, and a later peer is turned away. (uvicorn's own
  bound would refuse those who are in already as well: a crowd would fail the probe of liveness.)
  Each has a deadline, which uvicorn does not set, for its next request and for taking the answer;
- closing takes at most twice ``CLOSE_S``, whatever peers and the application do.

Importing this costs time and memory: it is done only where there is such a port.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from oncelog_runtime.tasks import Tasks

HEAD_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 64
IDLE_S = 75
"""A peer has so long from connecting, or from an answer, to the next whole request."""
ANSWER_S = 30.0
"""The application has so long from a request to its answer; the peer may take it until it is
idle."""
CLOSE_S = 1.0
"""Answers under way have so long when the port closes."""


class _Connection(H11Protocol):
    """A connection is one peer, with the bounds that uvicorn does not have."""

    def __init__(self, *, idle_s: float, connections_max: int, **given: Any) -> None:
        super().__init__(**given)
        self._idle_s = idle_s
        self._connections_max = connections_max
        self._deadline: asyncio.TimerHandle | None = None
        self._answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._connections_max:
            transport.abort()
            return
        self._arm(self._idle_s)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast(RequestResponseCycle | None, self.cycle)
        if not self._answering and cycle is not None and not cycle.response_complete:
            self._answering = True
            self._arm(ANSWER_S)

    def on_response_complete(self) -> None:
        self._answering = False
        self._arm(self._idle_s)
        super().on_response_complete()  # which may begin the next one, of those sent in advance

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._disarm()

    def _arm(self, seconds: float) -> None:
        self._disarm()
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """It runs without signal handlers, since the process has its own."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


class HttpPort:
    """It serves one application on one address. Call ``start`` once and ``close`` once."""

    def __init__(
        self, app: ASGIApp, *, idle_s: float = IDLE_S, connections_max: int = CONNECTIONS_MAX
    ) -> None:
        connection = partial(_Connection, idle_s=idle_s, connections_max=connections_max)
        config = uvicorn.Config(
            app,
            http=cast(type[asyncio.Protocol], connection),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            workers=1,
            proxy_headers=False,
            forwarded_allow_ips="",
            server_header=False,
            headers=[("cache-control", "no-store")],
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
    try:
        for family, address in dict.fromkeys((each[0], each[4][0]) for each in found):
            sockets.append(socket.create_server((str(address), port), family=family))
            port = sockets[0].getsockname()[1]
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets
