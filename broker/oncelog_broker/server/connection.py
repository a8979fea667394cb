"""A connection takes bytes in, hands requests to the dispatcher, and answers in request order.

Rules
-----
* Handlers run inside ``buffer_updated``; nothing is queued, no task or future is made here.
* Each request takes a slot; an answer is written when every slot before it is done, with all that
  is done behind it in one ``writelines``.
* Requests that arrived in one read but may not start yet stay in ``_backlog``, in the receive
  buffer; while there is a backlog nothing is read, so the buffer stays as it is.
* Reading stops at ``in_flight_max`` unanswered requests, above ``unsent_bytes_max`` of unsent
  responses, and while the broker's byte pool is empty (not for brokers: the control plane must go
  on under overload). On the listener between brokers it shows with the first exchange whether the
  peer is a broker; a client is one there as everywhere.
* A request of a *holding* API (Fetch of a consumer, the controller's orders) keeps the ones behind
  it from starting: a consumer that pipelines long polls cannot gather megabytes of answers, and
  orders of the controller take effect in their order. So does a request whose batches take long to
  be checked, until they are: what is behind it would be written before them.
* While a quota holds the connection nothing that can be held is begun, and what a frame has beyond
  ``SMALL_BYTES`` is not read. Small frames are: a heartbeat may be among them. Answers say how long
  it lasts, to those that take that.
* A breach of the protocol closes this connection, and only this one.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from oncelog_broker.server.listener_security import ListenerSecurity
from oncelog_broker.server.quotas import SMALL_BYTES, BytePool, ConnectionLimits
from oncelog_broker.server.request import Buffer, ConnectionState, RequestContext
from oncelog_broker.server.request_stats import RequestStats
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.identity import Identity, Introduction
from oncelog_protocol.limits import FETCH_BYTES_MAX, THROTTLE_MS_MAX
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.handshake import ApiVersionsResponse
from oncelog_protocol.quotas import NEVER_HELD
from oncelog_protocol.registry import supported_ranges
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tls_errors import OtherProtocolError, TlsError, foreign_to_frames

logger = get_logger(__name__)

HOLDING_APIS = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.UPDATE_METADATA,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_SECURITY,
        ApiKey.AUTHENTICATE,
    }
)
HOLDING_APIS_OF_CLIENTS = HOLDING_APIS | {ApiKey.FETCH}
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


class ProtocolMachine(Protocol):
    """It speaks the protocol of a listener: ``ServerConnection``, or Kafka's."""

    introduction: Introduction

    @property
    def known(self) -> bool:
        """Return whether the peer is known."""
        ...

    @property
    def client_id(self) -> str:
        """Return how the peer has named itself last."""
        ...

    @property
    def opening(self) -> bytes:
        """Return the first bytes of what no request was made of."""
        ...

    @property
    def partial(self) -> bool:
        """Return whether a request has begun to arrive and is not complete."""
        ...

    @property
    def buffer_bytes(self) -> int:
        """Return the memory of the receive buffer."""
        ...

    def trust(self) -> None:
        """Take requests of any size from now on: the peer is known."""
        ...

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where the transport writes next."""
        ...

    def received(self, nbytes: int) -> list[IncomingRequest]:
        """Return the requests that are complete after ``nbytes`` more.

        :raises RemoteProtocolError: the peer broke the protocol.
        """
        ...

    def encode_response(
        self,
        incoming: IncomingRequest,
        message: Any,
        payload: Sequence[Buffer] = (),
        *,
        throttle_ms: int = 0,
    ) -> list[Buffer]:
        """Return the buffers to send in answer to ``incoming``.

        :raises LocalProtocolError: the message cannot be sent.
        """
        ...

    def release(self) -> None:
        """Let go of the receive buffer."""
        ...


class Answering(Protocol):
    """It answers one request, exactly once: a slot, or what stands before one."""

    done: bool
    holding: bool

    def __call__(
        self, message: Any, payload: Sequence[Buffer] = (), *, close_after: bool = False
    ) -> None:
        """Answer, or end the request without one if ``message`` is None."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once instead."""
        ...


class Acceptor(Protocol):
    """A connection was accepted by this: ``listener.Listener``."""

    name: str
    internal: bool
    security: ListenerSecurity
    limits: ConnectionLimits
    pool: BytePool
    identity: Identity
    loop: asyncio.AbstractEventLoop

    @property
    def dispatcher(self) -> Dispatcher:
        """Return where requests go."""
        ...

    @property
    def elsewhere(self) -> Callable[[bytes], str]:
        """Return what says where a peer belongs that began with these bytes."""
        ...

    def new_machine(self) -> ProtocolMachine:
        """Return what speaks the listener's protocol, for one more connection."""
        ...

    def admit(self, channel: ServerChannel) -> bool:
        """Return whether a new connection is within the limits; if so it is counted."""
        ...

    def asker(self, channel: ServerChannel, own_broker_id: int) -> int | None:
        """Return the broker that a peer is, by the id that it gave; None is a client."""
        ...

    def greeted(self, channel: ServerChannel, client_id: str) -> None:
        """Note that the peer of a counted connection is known now."""
        ...

    def forget(self, channel: ServerChannel) -> None:
        """Note that a counted connection is gone."""
        ...

    def misled(self, channel: ServerChannel, client_id: str, reason: str) -> None:
        """Count and log a peer that meant somebody else."""
        ...

    def not_agreed(self, channel: ServerChannel, reason: str) -> None:
        """Count and log a peer with which TLS was not agreed upon."""
        ...

    def foreign(self, channel: ServerChannel, reason: str) -> None:
        """Close a connection whose peer speaks something else than is spoken here."""
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
        self,
        message: Any,
        payload: Sequence[Buffer] = (),
        *,
        close_after: bool = False,
        counted: Any = None,
    ) -> None:
        """Answer. The errors of ``counted`` are counted, where ``message`` is a translation of
        it."""
        if self.done:
            raise RuntimeError(f"request {self._incoming.correlation_id} is answered twice")
        self.done = True
        channel = self._channel
        if close_after or channel.state.ends:
            self.close_after = True
        if channel.state.closed:
            return
        stopwatch = channel.stats.stopwatch
        latency_s = None if stopwatch is None else stopwatch() - self._arrived
        self.stats.count_answer(message if counted is None else counted, latency_s)
        if message is not None:
            throttle_ms = channel.throttle_ms() if channel.state.held_until else 0
            try:
                self.buffers = channel.machine.encode_response(
                    self._incoming, message, payload, throttle_ms=throttle_ms
                )
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
    """It drives the machine of a protocol over a transport."""

    def __init__(self, listener: Acceptor) -> None:
        self.listener = listener
        self.limits = listener.limits
        self.stats = listener.dispatcher.stats
        self.arrived = 0.0
        """The newest requests arrived then, by the stopwatch of the statistics."""
        self._authenticates = bool(listener.security.sasl)
        self.machine = listener.new_machine()
        self.state = ConnectionState(
            room=self._room_for_answer,
            keep_behind=self._keep_behind,
            encrypted=listener.security.tls is not None,
            must_authenticate=self._authenticates,
        )
        self.peer = "?"
        self.peer_host = "?"
        self.broker_id: int | None = None
        """The broker that the peer is; None before it has said so, and for a client."""
        self._pooled = not listener.internal
        """Whether it has its share of the byte pool, as clients have."""
        self._loop = listener.loop
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._slots: deque[ResponseSlot] = deque()
        self._backlog: deque[IncomingRequest] = deque()
        self._holding = 0
        self._queued_bytes = 0
        """So many bytes of encoded answers wait for an earlier one."""
        self._copied_bytes = 0
        """Requests that have begun, and keep others behind them, hold copies of so many bytes."""
        self._partial_bytes = 0
        self._pumping = False
        self._reading = True
        self._pool_wait = False
        self._release: asyncio.TimerHandle | None = None
        """It runs while a quota holds the connection."""
        self._counted = False
        now = self._loop.time()
        self._connected_at = now
        self._received_at = now
        self._new = True
        """Whether the peer is not known yet."""
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
        if not self._pooled:
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
        if self._new and self.machine.known:
            self._welcome()
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
        if isinstance(exc, OtherProtocolError):
            self.listener.foreign(self, str(exc))
        elif isinstance(exc, TlsError):
            self.listener.not_agreed(self, str(exc))
        if self._release is not None:
            self._release.cancel()
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
        return self._partial_bytes + self._copied_bytes + self.unsent_bytes()

    def resume_from_pool(self) -> None:
        """Go on, as the byte pool lets this connection."""
        self._pool_wait = False
        if not self.state.closed:
            self._pump()

    def throttle_ms(self) -> int:
        """Return for how many milliseconds more the connection is held."""
        left_ms = math.ceil((self.state.held_until - self._loop.time()) * 1000)
        return min(max(left_ms, 0), THROTTLE_MS_MAX)

    def sweep(self, now: float) -> None:
        """Close when a deadline has passed."""
        limits = self.limits
        # Who is about to be told that it failed to authenticate may have to wait for that.
        late = self._new and not self.state.ends
        if late and now - self._connected_at > limits.handshake_s:
            self.listener.broken(self, f"has not said hello within {limits.handshake_s:g} s")
        elif self._reading and now - self._part_since(now) > limits.frame_s:
            self.listener.broken(self, f"a frame took longer than {limits.frame_s:g} s")
        elif self._stalled(now):
            self.listener.broken(self, f"took no byte of its answers for {limits.stall_s:g} s")
        elif now > self.state.known.session_ends_s:
            self.listener.broken(self, "its session has ended, and it did not authenticate again")
        elif limits.idle_s and not self._slots and now - self._received_at > limits.idle_s:
            self.listener.idle(self, f"idle for {limits.idle_s:g} s")

    def _part_since(self, now: float) -> float:
        """Return since when a part of a frame waits for the rest, or of a record of TLS, whose
        beginning nobody has seen yet; ``now`` if none does."""
        record_since: float = self._transport.get_extra_info("record_since", now)
        return record_since if self._frame_since is None else min(self._frame_since, record_since)

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
        opening = self.machine.opening if self._new else b""
        other = foreign_to_frames(opening) or self.listener.elsewhere(opening)
        if other:
            self.listener.foreign(self, other)
        else:
            self.listener.broken(self, str(exc))

    def answered(self, slot: ResponseSlot) -> None:
        """Write what can be written, now that a slot has its answer."""
        self._queued_bytes += slot.size
        if self._new and self._authenticates and not self.state.must_authenticate:
            self.machine.trust()
            self._welcome()
        if slot.holding:
            self._holding -= 1
        if not self._pumping:
            self._pump()

    def _may_start(self) -> bool:
        """Return whether the first request of the backlog may begin. There is one."""
        if self._pooled and not self._pool_wait and self._backlog[0].api_key in MEASURED_APIS:
            # Answers to others since this connection was last looked at count too.
            self._pool_wait = self.listener.pool.must_wait(self)
        return (
            not self._holding
            and not self._pool_wait
            and not (self.state.held_until and self._backlog[0].api_key not in NEVER_HELD)
            and len(self._slots) < self.limits.in_flight_max
            and self.unsent_bytes() < self.limits.unsent_bytes_max
            and not self._transport.is_closing()
        )

    def _pump(self) -> None:
        """Start what may start, write what may be written, until neither moves."""
        self._pumping = True
        try:
            while True:
                while self._backlog and self._may_start():
                    self._start(self._backlog.popleft())
                self._write_done()
                if not self._backlog or not self._may_start():
                    break
        finally:
            self._pumping = False
        self._adjust_reading()

    def _start(self, incoming: IncomingRequest) -> None:
        holding = incoming.api_key in (HOLDING_APIS_OF_CLIENTS if self._pooled else HOLDING_APIS)
        slot = ResponseSlot(self, incoming, holding)
        self._slots.append(slot)
        if holding:
            self._holding += 1
        context = RequestContext(
            self.listener.name,
            self.broker_id,
            self.state.known.principal,
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

    def _welcome(self) -> None:
        """Note that the peer is known, and who it is: the first exchange has said it."""
        self._new = False
        self.listener.greeted(self, self.machine.client_id)
        if self.listener.internal:
            self.broker_id = self.listener.asker(self, self.machine.introduction.own_broker_id)
            self._pooled = self.broker_id is None

    def _keep_behind(self, copied_bytes: int) -> Callable[[], None]:
        self._holding += 1
        self._copied_bytes += copied_bytes

        def go_on() -> None:
            self._holding -= 1
            self._copied_bytes -= copied_bytes
            if not self._pumping:
                self._pump()

        return go_on

    def _room_for_answer(self) -> int:
        return self.listener.pool.room_for_answer(self) if self._pooled else FETCH_BYTES_MAX

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
        if self.state.held_until and self._release is None:
            self._release = self._loop.call_at(self.state.held_until, self._let_go)
        if self._pooled:
            self.listener.pool.update(self, self._partial_bytes + self._copied_bytes + unsent)
            if not self._pool_wait:
                self._pool_wait = self.listener.pool.must_wait(self)
        reading = (
            not self._backlog
            and not self._pool_wait
            and not (self.state.held_until and self._partial_bytes > SMALL_BYTES)
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

    def _let_go(self) -> None:
        """Go on, if the hold was not made longer meanwhile."""
        self._release = None
        if self.throttle_ms() <= 1:  # uvloop's timers come up to a millisecond early
            self.state.let_go()
        self._pump()
