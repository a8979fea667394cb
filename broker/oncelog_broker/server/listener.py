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
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.server.address_quotas import AddressQuotas
from oncelog_broker.server.audit import Audit, AuditedPeer
from oncelog_broker.server.connection import Dispatcher, ProtocolMachine, ServerChannel
from oncelog_broker.server.listener_security import OPEN, ListenerSecurity
from oncelog_broker.server.newcomers import Newcomers, between_brokers, is_loopback
from oncelog_broker.server.peer_identity import CERTIFICATE
from oncelog_broker.server.quotas import BytePool, ConnectionLimits
from oncelog_broker.server.safeguards import SAFE as SAFE_SECURITY
from oncelog_broker.server.safeguards import SecuritySafeguards
from oncelog_protocol.connection import ServerConnection
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_runtime.clock import WallClock
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

BACKLOG = 512
ACCEPT_ROUNDS = 4
"""asyncio's loop makes so many rounds from accepting a socket to its end, if it is refused."""

BROKER_ID = "BROKER_ID"
"""It stands in place of a mechanism for who says that it is a broker."""

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
    throttled: int = 0
    """So many were over a rate of connections."""
    crowded_out: int = 0
    """So many were closed because newer ones came, and their peers were not known yet."""
    broken: int = 0
    """So many were closed for broken input or a missed deadline."""
    foreign: int = 0
    """So many of them spoke something else: TLS or HTTP to a listener of plain frames, something
    that is no TLS to one of TLS, Kafka's protocol to a listener of ours, or the reverse."""
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
        security: ListenerSecurity = OPEN,
        audit: Audit | None = None,
        wall_clock: WallClock | None = None,
        addresses: AddressQuotas | None = None,
        safeguards: Safeguards = SAFE,
        security_safeguards: SecuritySafeguards = SAFE_SECURITY,
        speaks: Callable[[], ProtocolMachine] | None = None,
        elsewhere: Callable[[bytes], str] = lambda _: "",
    ) -> None:
        """``internal``: brokers are served through it. A ``wall_clock`` is needed with TLS. All
        listeners of a broker share ``addresses``, but those through which brokers are served.
        ``speaks`` makes the machine of a connection that speaks another protocol than ours.
        ``elsewhere`` says where a peer belongs that began with these bytes; "" if it does not know.
        """
        self.name = name
        self.internal = internal
        self.dispatcher = dispatcher
        self.limits = limits
        self.pool = pool
        self.names_askers = safeguards.checks_askers(internal)
        """Whether version 0 of ApiVersions is refused, which names nobody."""
        self._asker = safeguards.asker
        self._believes = security_safeguards.believes
        self.security = security
        self._audit = Audit() if audit is None else audit
        self._wall_clock = wall_clock
        self._speaks = speaks
        self.elsewhere = elsewhere
        """It says where a peer belongs that began with these bytes; "" if it does not know."""
        self.identity = UNKNOWN
        """It answers here, once it is known: see ``serve``."""
        self.counters = ListenerCounters()
        self.address: tuple[str, int] = ("", 0)
        self.connections: dict[ServerChannel, None] = {}
        self.loop = asyncio.get_running_loop()
        self._closing = False
        self._empty = asyncio.Event()
        self._per_host: dict[str, int] = {}
        self._newcomers: Newcomers[ServerChannel] = Newcomers(
            between_brokers() if internal else limits.newcomers
        )
        self._addresses = AddressQuotas() if addresses is None else addresses
        self._logged: dict[str, tuple[float, int]] = {}
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def new_machine(self) -> ProtocolMachine:
        """Return what speaks this listener's protocol, for one more connection."""
        if self._speaks is not None:
            return self._speaks()
        return ServerConnection(
            reuse=True,
            identity=self.identity,
            between_brokers=self.names_askers,
            authenticates=bool(self.security.sasl),
        )

    async def bind(self, host: str, port: int) -> None:
        """Take the address without accepting yet; ``port`` 0 takes a free one.

        :raises OSError: the address is in use or not of this machine.
        """
        self._server = await self.loop.create_server(
            self._accept,
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
        lacks = "" if is_loopback(host) else self.security.lacks()
        if lacks:
            logger.warning(
                "listener_open_to_everybody", listener=self.name, host=host, port=port, lacks=lacks
            )

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

    def _accept(self) -> asyncio.BufferedProtocol:
        channel = ServerChannel(self)
        tls = self.security.tls
        if tls is None:
            return channel
        return tls.protect(channel, lambda peer: channel.state.proved(self.security.peer(peer)))

    def asker(self, channel: ServerChannel, own_broker_id: int) -> int | None:
        """Return the broker that a peer of the listener between brokers is; None is a client."""
        broker_id = self._asker(own_broker_id)
        if broker_id is None:
            return None
        proven = self.security.is_broker(broker_id, channel.state.known.principal)
        if self._believes(proven):
            return broker_id
        self.counters.misled += 1
        reason = f"{channel.state.known.principal} says that it is broker {broker_id}"
        self._audit.authentication_failed(self._audited(channel), BROKER_ID, reason)
        self._log(channel.peer_host, "not taken for a broker", channel.peer, reason)
        return None

    def recheck(self) -> None:
        """Close the connections of peers whose certificates are good no more."""
        assert self._wall_clock is not None
        now_s = self._wall_clock.now_ms() / 1000
        for channel in list(self.connections):
            fault = self.security.fault_of(channel.state.known, now_s)
            if fault:
                self.broken(channel, fault)

    def close_users(self, names: frozenset[str]) -> None:
        """Close the connections of those who have authenticated as one of these users."""
        if not self.security.sasl:
            return
        for channel in list(self.connections):
            if channel.state.known.principal.removeprefix("User:") in names:
                self.broken(channel, "the user has changed, or is gone")

    def admit(self, channel: ServerChannel) -> bool:
        """Return whether a new connection is within the limits; if so it is counted."""
        if self._closing:
            return False
        host, now = channel.peer_host, self.loop.time()
        reason = self._over_count(host)
        if reason:
            self.counters.refused += 1
            self._log(host, "refused", channel.peer, reason)
            return False
        reason = self._addresses.over_rate(host, now) or self._newcomers.over_rate(host, now)
        if reason:
            self.counters.throttled += 1
            self._log(host, "refused", channel.peer, reason)
            return False
        self.connections[channel] = None
        self._per_host[host] = self._per_host.get(host, 0) + 1
        self._addresses.opened(host)
        self.counters.accepted += 1
        self._make_room(self._newcomers.add(channel, now))
        return True

    def _over_count(self, host: str) -> str:
        """Return why no further connection of ``host`` may be open; "" if one may."""
        of_host = self._per_host.get(host, 0)
        if len(self.connections) >= self.limits.connections_max:
            return f"{self.limits.connections_max} connections are open"
        if of_host >= self.limits.connections_per_ip_max:
            return f"{of_host} connections of this host are open"
        return self._addresses.over_count(host)

    def _make_room(self, crowded_out: Iterable[tuple[ServerChannel, str]]) -> None:
        for channel, reason in crowded_out:
            self.counters.crowded_out += 1
            self._log(channel.peer_host, "closed", channel.peer, reason)
            channel.abort(reason)

    def newcomer_count(self) -> int:
        """Return how many connections have peers that are not known yet."""
        return len(self._newcomers)

    def greeted(self, channel: ServerChannel, client_id: str) -> None:
        """Note that the peer of a counted connection is known now. One that authenticated by SASL
        is on record already."""
        self._newcomers.remove(channel)
        known = channel.state.known
        if known.authenticated_by == CERTIFICATE:
            self._audit.authenticated(self._audited(channel, client_id), CERTIFICATE)

    def forget(self, channel: ServerChannel) -> None:
        """Note that a counted connection is gone."""
        del self.connections[channel]
        self._newcomers.remove(channel)
        if not self.connections:
            self._empty.set()
        self._addresses.closed(channel.peer_host)
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

    def not_agreed(self, channel: ServerChannel, reason: str) -> None:
        """Count and log a peer with which TLS was not agreed upon; its connection is gone."""
        self.counters.broken += 1
        self._audit.authentication_failed(self._audited(channel), CERTIFICATE, reason)
        self._log(channel.peer_host, "closed", channel.peer, reason)

    def _audited(self, channel: ServerChannel, client_id: str = "") -> AuditedPeer:
        return AuditedPeer(channel.state.known.principal, channel.peer, self.name, client_id)

    def foreign(self, channel: ServerChannel, reason: str) -> None:
        """Close a connection whose peer speaks something else than is spoken here."""
        self.counters.foreign += 1
        self.broken(channel, reason)

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
        self._make_room(self._newcomers.crowded_out(now))
        for channel in list(self.connections):
            channel.sweep(now)
        self._sweeper = self.loop.call_later(self.limits.sweep_s, self._sweep)
