"""A named listener has its socket, its connections, their limits and deadlines.

Two listeners serve a broker: *internal*, between brokers, and *external*, for clients. Each has its
own connection limits, so that a flood of clients does not keep brokers out.

Deadlines are looked at by one periodic sweep over all connections, not by a timer each. Broken
input is counted always and logged at most once per peer host and interval. A process out of file
descriptors does not spin: both asyncio and uvloop take the listening socket off the loop or close
what they accept, and connections that exist go on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from oncelog_broker.server.authorizer import ANONYMOUS
from oncelog_broker.server.connection import Dispatcher, ServerChannel
from oncelog_broker.server.quotas import BytePool, ConnectionLimits
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

BACKLOG = 512
ACCEPT_ROUNDS = 4
"""asyncio's loop makes so many rounds from accepting a socket to its end, if it is refused."""

CLOSE_S = 0.5
"""Closing waits so long for written answers to leave."""

PEERS_REMEMBERED_MAX = 1024
"""The last log line of so many hosts is remembered; beyond it the oldest is forgotten."""


@dataclass(slots=True)
class ListenerCounters:
    """These counts only grow."""

    accepted: int = 0
    refused: int = 0
    """So many were over a connection limit."""
    broken: int = 0
    """So many were closed for broken input or a missed deadline."""
    idle_closed: int = 0
    misled: int = 0
    """So many were refused in the first exchange: they meant another broker, or did not say
    whom."""


class Listener:
    """It accepts connections on one address."""

    def __init__(
        self,
        name: str,
        *,
        internal: bool,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        pool: BytePool,
        names_askers: bool | None = None,
    ) -> None:
        """``names_askers`` means that version 0 of ApiVersions is refused; by default it is between
        brokers."""
        self.name = name
        self.internal = internal
        self.dispatcher = dispatcher
        self.limits = limits
        self.pool = pool
        self.principal = ANONYMOUS
        self.names_askers = internal if names_askers is None else names_askers
        self.identity = UNKNOWN
        """It answers here, once it is known: see ``serve``."""
        self.counters = ListenerCounters()
        self.address: tuple[str, int] = ("", 0)
        self.connections: dict[ServerChannel, None] = {}
        self.loop = asyncio.get_running_loop()
        self._closing = False
        self._empty = asyncio.Event()
        self._per_host: dict[str, int] = {}
        self._logged: dict[str, tuple[float, int]] = {}
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def bind(self, host: str, port: int) -> None:
        """Take the address without accepting yet; ``port`` 0 takes a free one.

        :raises OSError: the address is in use or not of this machine.
        """
        self._server = await self.loop.create_server(
            lambda: ServerChannel(self),
            host,
            port,
            backlog=BACKLOG,
            reuse_address=True,
            start_serving=False,
        )
        name = self._server.sockets[0].getsockname()
        self.address = (str(name[0]), int(name[1]))

    async def serve(self, identity: Identity = UNKNOWN) -> None:
        """Begin to accept, in the name of this broker of this cluster."""
        self.identity = identity
        assert self._server is not None
        await self._server.start_serving()
        self._sweeper = self.loop.call_later(self.limits.sweep_s, self._sweep)
        host, port = self.address
        logger.info("listener_accepts", listener=self.name, host=host, port=port)

    async def close(self) -> None:
        """Stop accepting and close every connection; what is written gets a moment to leave."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._closing = True
        if self._server is not None:
            self._server.close()
        for channel in list(self.connections):
            channel.close()
        self._empty.clear()
        if self.connections:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._empty.wait()
            except TimeoutError:
                for channel in list(self.connections):
                    channel.abort("the broker stops")
                await self._empty.wait()
        # Connections that wait to be accepted must be refused before the broker goes on to sync,
        # which may take long. One that the loop has just accepted reaches us some rounds later.
        for _ in range(ACCEPT_ROUNDS):
            await asyncio.sleep(0)

    def admit(self, channel: ServerChannel) -> bool:
        """Return whether a new connection is within the limits; if so it is counted."""
        if self._closing:
            return False
        of_host = self._per_host.get(channel.peer_host, 0)
        if len(self.connections) >= self.limits.connections_max:
            reason = f"{self.limits.connections_max} connections are open"
        elif of_host >= self.limits.connections_per_ip_max:
            reason = f"{of_host} connections of this host are open"
        else:
            self.connections[channel] = None
            self._per_host[channel.peer_host] = of_host + 1
            self.counters.accepted += 1
            return True
        self.counters.refused += 1
        self._log(channel.peer_host, "refused", channel.peer, reason)
        return False

    def forget(self, channel: ServerChannel) -> None:
        """Note that a counted connection is gone."""
        del self.connections[channel]
        if not self.connections:
            self._empty.set()
        left = self._per_host[channel.peer_host] - 1
        if left:
            self._per_host[channel.peer_host] = left
        else:
            del self._per_host[channel.peer_host]

    def misled(self, channel: ServerChannel, client_id: str, reason: str) -> None:
        """Count and log a peer that the address led here though it meant somebody else; it is told
        so, and closed."""
        self.counters.misled += 1
        self._log(channel.peer_host, "refused", channel.peer, f"{client_id}: {reason}")

    def broken(self, channel: ServerChannel, reason: str) -> None:
        """Close a connection whose peer broke the rules."""
        self.counters.broken += 1
        self._log(channel.peer_host, "closed", channel.peer, reason)
        channel.abort(reason)

    def idle(self, channel: ServerChannel, reason: str) -> None:
        """Close a connection that nobody uses."""
        self.counters.idle_closed += 1
        channel.abort(reason)

    def _log(self, host: str, verb: str, peer: str, reason: str) -> None:
        """Log one line per host and interval; the next one says how many were left out."""
        now = self.loop.time()
        last, left_out = self._logged.pop(host, (float("-inf"), 0))
        if now - last < self.limits.log_interval_s:
            self._logged[host] = (last, left_out + 1)
            return
        while len(self._logged) >= PEERS_REMEMBERED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[host] = (now, 0)
        logger.warning(
            "connection_refused",
            listener=self.name,
            peer=peer,
            what=verb,
            reason=reason[:300],
            remark=f"{left_out} more of this host were not logged" if left_out else "",
        )

    def _sweep(self) -> None:
        now = self.loop.time()
        for channel in list(self.connections):
            channel.sweep(now)
        self._sweeper = self.loop.call_later(self.limits.sweep_s, self._sweep)
