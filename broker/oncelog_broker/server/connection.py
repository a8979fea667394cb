"""A connection takes bytes in, hands requests to the dispatcher, and answers in request order.

Rules
-----
* Handlers run inside ``buffer_updated``; nothing is queued, no task or future is made here.
* Each request takes a slot; an answer is written when every slot before it is done, with all that
  is done behind it in one ``writelines``.
* Requests that arrived in one read but may not start yet stay in ``_backlog``, in the receive
  buffer; while there is a backlog nothing is read, so the buffer stays as it is.
* Reading stops at ``in_flight_max`` unanswered requests, above ``unsent_bytes_max`` of unsent
  responses, and while the broker's byte pool is empty (not on the internal listener: the control
  plane must go on under overload).
* A request of a *holding* API (Fetch of a consumer, the controller's orders) keeps the ones behind
  it from starting: a consumer that pipelines long polls cannot gather megabytes of answers, and
  orders of the controller take effect in their order.
* A breach of the protocol closes this connection, and only this one.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, cast

from oncelog_broker.server.quotas import BytePool, ConnectionLimits
from oncelog_broker.server.request import Buffer, ConnectionState, RequestContext
from oncelog_broker.server.request_stats import RequestStats
from oncelog_protocol.connection import IncomingRequest, ServerConnection
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.handshake import ApiVersionsResponse
from oncelog_protocol.registry import supported_ranges
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

HOLDING_APIS = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA})
HOLDING_APIS_EXTERNAL = HOLDING_APIS | {ApiKey.FETCH}
MEASURED_APIS = frozenset({ApiKey.FETCH})
"""These are begun only while the broker's byte pool has room: their answers may be large."""


class Dispatcher(Protocol):
    """A connection hands its requests to this: ``request_dispatcher.RequestDispatcher``."""

    stats: RequestStats

    def dispatch(
        self, context: RequestContext, incoming: IncomingRequest, respond: ResponseSlot
    ) -> None:
        """Serve one request.

        :raises RemoteProtocolError: the request contradicts its own payload.
        """
        ...


class Acceptor(Protocol):
    """A connection was accepted by this: ``listener.Listener``."""

    name: str
    internal: bool
    names_askers: bool
    limits: ConnectionLimits
    pool: BytePool
    principal: str
    identity: Identity
    loop: asyncio.AbstractEventLoop

    @property
    def dispatcher(self) -> Dispatcher:
        """Return where requests go."""
        ...

    def admit(self, channel: ServerChannel) -> bool:
        """Return whether a new connection is within the limits; if so it is counted."""
        ...

    def forget(self, channel: ServerChannel) -> None:
        """Note that a counted connection is gone."""
        ...

    def misled(self, channel: ServerChannel, client_id: str, reason: str) -> None:
        """Count and log a peer that meant somebody else."""
        ...

    def broken(self, channel: ServerChannel, reason: str) -> None:
        """Close a connection whose peer broke the rules."""
        ...

    def idle(self, channel: ServerChannel, reason: str) -> None:
        """Close a connection that nobody uses."""
        ...


class ResponseSlot:
    """A slot is the place of one request in the order of answers. Calling it answers the
    request."""

    __slots__ = (
        *("_arrived", "_channel", "_incoming", "buffers", "close_after", "done", "holding"),
        *("size", "stats"),
    )

    def __init__(self, channel: ServerChannel, incoming: IncomingRequest, holding: bool) -> None:
        self._channel = channel
        self._incoming = incoming
        self._arrived = channel.arrived
        self.stats = channel.stats.count_start(incoming.api_key)
        self.buffers: Sequence[Buffer] = ()
        self.size = 0
        self.done = False
        self.holding = holding
        self.close_after = False
        """If set, the connection is closed once this answer is written."""

    def __call__(
        self, message: Any, payload: Sequence[Buffer] = (), *, close_after: bool = False
    ) -> None:
        if self.done:
            raise RuntimeError(f"request {self._incoming.correlation_id} is answered twice")
        self.done = True
        if close_after:
            self.close_after = True
        channel = self._channel
        if channel.state.closed:
            return
        stopwatch = channel.stats.stopwatch
        latency_s = None if stopwatch is None else stopwatch() - self._arrived
        self.stats.count_answer(message, latency_s)
        if message is not None:
            try:
                self.buffers = channel.machine.encode_response(self._incoming, message, payload)
            except LocalProtocolError as exc:
                logger.error("answer_failed", peer=channel.peer, error=exc)
                channel.abort("a response cannot be encoded")
                return
            self.size = sum(map(len, self.buffers))
        channel.answered(self)

    def abort(self, reason: str) -> None:
        """Close the connection at once instead; nothing behind this request is begun."""
        self._channel.abort(reason)


class ServerChannel(asyncio.BufferedProtocol):
    """It drives one :class:`ServerConnection` over a transport."""

    def __init__(self, listener: Acceptor) -> None:
        self.listener = listener
        self.limits = listener.limits
        self.stats = listener.dispatcher.stats
        self.arrived = 0.0
        """The newest requests arrived then, by the stopwatch of the statistics."""
        self.machine = ServerConnection(
            reuse=True, identity=listener.identity, between_brokers=listener.names_askers
        )
        self.state = (
            ConnectionState()
            if listener.internal
            else ConnectionState(room=lambda: listener.pool.room_for_answer(self))
        )
        self.peer = "?"
        self.peer_host = "?"
        self._holding_apis = HOLDING_APIS if listener.internal else HOLDING_APIS_EXTERNAL
        self._measured_apis = frozenset() if listener.internal else MEASURED_APIS
        self._loop = listener.loop
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._slots: deque[ResponseSlot] = deque()
        self._backlog: deque[IncomingRequest] = deque()
        self._holding = 0
        self._queued_bytes = 0
        """So many bytes of encoded answers wait for an earlier one."""
        self._partial_bytes = 0
        self._pumping = False
        self._reading = True
        self._pool_wait = False
        self._counted = False
        now = self._loop.time()
        self._connected_at = now
        self._received_at = now
        self._greeted = False
        self._frame_since: float | None = None
        self._written = 0
        self._taken = 0
        self._taken_at = now

    def __repr__(self) -> str:
        return (
            f"<ServerChannel {self.listener.name} {self.peer} in_flight={len(self._slots)} "
            f"backlog={len(self._backlog)} unsent={self.unsent_bytes()} reading={self._reading}>"
        )

    # -- asyncio.BufferedProtocol ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection in, or refuse it."""
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.peer_host, self.peer = str(name[0]), f"{name[0]}:{name[1]}"
        high = self.limits.unsent_bytes_max
        self._transport.set_write_buffer_limits(high=high, low=high // 2)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._counted = self.listener.admit(self)
        if not self._counted:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go: no more than the broker has room for."""
        view = self.machine.get_buffer(sizehint)
        if self.listener.internal:
            return view
        room = self.listener.pool.room_for(self)
        return view if len(view) <= room else view[:room]

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what arrived and serve the requests that it completes."""
        if self.state.closed or self._transport.is_closing():
            return
        self._received_at = now = self._loop.time()
        if self.stats.stopwatch is not None:
            self.arrived = self.stats.stopwatch()
        try:
            requests = self.machine.received(nbytes)
        except RemoteProtocolError as exc:
            self.protocol_error(exc)
            return
        if self.machine.partial:
            if requests or self._frame_since is None:
                self._frame_since = now
                self._partial_bytes = 0
            self._partial_bytes += nbytes
        else:
            self._frame_since = None
            self._partial_bytes = 0
        self._backlog.extend(requests)
        self._pump()

    def eof_received(self) -> bool:
        """End the connection, as the peer sends no more. A process that died looks the same as one
        that only half-closed: what is written still leaves, what is parked is freed."""
        return False

    def pause_writing(self) -> None:
        """Stop reading from a peer that takes too little."""
        self._adjust_reading()

    def resume_writing(self) -> None:
        """Go on with a peer that has taken enough."""
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything; answers that still come are dropped."""
        if self.state.closed:
            return
        callbacks = self.state.close()
        if self._counted:
            self.listener.forget(self)
        self.listener.pool.drop(self)
        for slot in self._slots:
            if not slot.done:
                slot.stats.count_drop()
        self._slots.clear()
        self._backlog.clear()
        self.machine.release()
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("close_callback_failed", peer=self.peer)
        logger.debug(
            "connection_lost", listener=self.listener.name, peer=self.peer, reason=exc or "eof"
        )

    # -- for the listener and the pool -------------------------------------------------------

    def unsent_bytes(self) -> int:
        """Return how many bytes of answers the kernel has not taken yet."""
        return self._queued_bytes + self._transport.get_write_buffer_size()

    def held_bytes(self) -> int:
        """Return what this connection adds to the broker's account."""
        return self._partial_bytes + self.unsent_bytes()

    def resume_from_pool(self) -> None:
        """Go on, as the byte pool lets this connection."""
        self._pool_wait = False
        if not self.state.closed:
            self._pump()

    def sweep(self, now: float) -> None:
        """Close when a deadline has passed."""
        limits = self.limits
        if not self._greeted and now - self._connected_at > limits.handshake_s:
            self.listener.broken(self, f"no whole request within {limits.handshake_s:g} s")
        elif (
            self._reading
            and self._frame_since is not None
            and now - self._frame_since > limits.frame_s
        ):
            self.listener.broken(self, f"a frame took longer than {limits.frame_s:g} s")
        elif self._stalled(now):
            self.listener.broken(self, f"took no byte of its answers for {limits.stall_s:g} s")
        elif limits.idle_s and not self._slots and now - self._received_at > limits.idle_s:
            self.listener.idle(self, f"idle for {limits.idle_s:g} s")

    def _stalled(self, now: float) -> bool:
        """Return whether there are bytes for the peer and it has long taken none of them."""
        unsent = self._transport.get_write_buffer_size()
        taken = self._written - unsent
        if not unsent or taken != self._taken:
            self._taken, self._taken_at = taken, now
            return False
        return now - self._taken_at > self.limits.stall_s

    def abort(self, reason: str) -> None:
        """Close at once, dropping what is unsent."""
        logger.debug(
            "connection_closed", listener=self.listener.name, peer=self.peer, reason=reason
        )
        self._transport.abort()

    def close(self) -> None:
        """Close after what is written has left."""
        self._transport.close()

    # -- requests and answers ----------------------------------------------------------------

    def protocol_error(self, exc: Exception) -> None:
        """Say once that the peer broke the rules of the wire, then close."""
        self.listener.broken(self, str(exc))

    def answered(self, slot: ResponseSlot) -> None:
        """Write what can be written, now that a slot has its answer."""
        self._queued_bytes += slot.size
        if slot.holding:
            self._holding -= 1
        if not self._pumping:
            self._pump()

    def _may_start(self) -> bool:
        """Return whether the first request of the backlog may begin."""
        if not self._backlog:
            return False
        if not self._pool_wait and self._backlog[0].api_key in self._measured_apis:
            # Answers to others since this connection was last looked at count too.
            self._pool_wait = self.listener.pool.must_wait(self)
        return (
            not self._holding
            and not self._pool_wait
            and len(self._slots) < self.limits.in_flight_max
            and self.unsent_bytes() < self.limits.unsent_bytes_max
            and not self._transport.is_closing()
        )

    def _pump(self) -> None:
        """Start what may start, write what may be written, until neither moves."""
        self._pumping = True
        try:
            while True:
                while self._may_start():
                    self._start(self._backlog.popleft())
                self._write_done()
                if not self._may_start():
                    break
        finally:
            self._pumping = False
        self._adjust_reading()

    def _start(self, incoming: IncomingRequest) -> None:
        self._greeted = True
        holding = incoming.api_key in self._holding_apis
        slot = ResponseSlot(self, incoming, holding)
        self._slots.append(slot)
        if holding:
            self._holding += 1
        context = RequestContext(
            self.listener.name,
            self.listener.internal,
            self.listener.principal,
            incoming.client_id,
            self.peer,
            incoming.api_version,
            self.state,
            self.machine.introduction,
        )
        if incoming.is_last:
            slot.close_after = True
            self._say_why(incoming)
        if incoming.misfit is not None:
            me, code = self.listener.identity, incoming.misfit.code
            slot(ApiVersionsResponse(code, supported_ranges(), me.cluster_id, me.broker_id))
            return
        try:
            self.listener.dispatcher.dispatch(context, incoming, slot)
        except RemoteProtocolError as exc:
            self.protocol_error(exc)
        incoming.release()

    def _say_why(self, incoming: IncomingRequest) -> None:
        """Log one clear line where the peer meant somebody else, or did not name itself."""
        reason = incoming.misfit or incoming.error
        if incoming.api_key == ApiKey.API_VERSIONS and reason is not None:
            self.listener.misled(self, incoming.client_id, str(reason))

    def _write_done(self) -> None:
        slots = self._slots
        out: list[Buffer] = []
        size = 0
        close = False
        while slots and not close:
            if not slots[0].done:
                break
            slot = slots.popleft()
            out.extend(slot.buffers)
            size += slot.size
            close = slot.close_after
        self._queued_bytes -= size
        if size and not self._transport.is_closing():
            self._written += size
            self._transport.writelines(out)
        if close:
            self._backlog.clear()
            self._transport.close()

    def _adjust_reading(self) -> None:
        """Read on exactly while a new request could start."""
        if self.state.closed or self._transport.is_closing():
            return
        unsent = self.unsent_bytes()
        if not self.listener.internal:
            self.listener.pool.update(self, self._partial_bytes + unsent)
            if not self._pool_wait:
                self._pool_wait = self.listener.pool.must_wait(self)
        reading = (
            not self._backlog
            and not self._pool_wait
            and len(self._slots) < self.limits.in_flight_max
            and unsent < self.limits.unsent_bytes_max
        )
        if reading == self._reading:
            return
        self._reading = reading
        if reading:
            if self._frame_since is not None:
                self._frame_since = self._loop.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
