"""The pump on the calling side drives a sans-IO client machine over an asyncio transport.

Rules:

- a channel has one life: it is opened, it dies once, it is never reopened;
- replies arrive in the order of the requests, so callbacks wait in one queue, and a call that gives
  up closes the channel: its late reply would be taken for the next call's;
- an answer may say that nothing is to be sent for a time (KIP-219): the channel is held then. Calls
  wait by themselves; whoever sends looks at ``paused`` first, and waits in ``drain``;
- every callback is called exactly once, on the loop, with a reply or with an error;
- callbacks run inside the transport's read: bytes go from the socket's buffer to the callback
  without a copy, and a reply's payload may be valid only until the callback returns (the machine
  says so).

The machine comes from ``oncelog_protocol``; this room does not know that package, only its shape.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, cast

from oncelog_runtime.files import Buffer
from oncelog_runtime.host_names import HostNames
from oncelog_runtime.logs import LogEvent

__all__ = [
    "ChannelClosedError",
    "ClientMachine",
    "MatchedReply",
    "NotSentError",
    "Protect",
    "ReplyCallback",
    "RequestChannel",
]

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
"""Default for connecting and shaking hands together; as long as the broker's own deadline."""

LINGER_S = 5.0
"""How long a closed channel may still flush what was written before it is cut off."""


Protect = Callable[[asyncio.BufferedProtocol, str], asyncio.BufferedProtocol]
"""It is called with a protocol and the host that is dialled, and returns what speaks to the socket
on the protocol's behalf: ``ClientTls.protect``."""


class MatchedReply(Protocol):
    """A reply is what the machine returns for one response."""

    @property
    def correlation_id(self) -> int: ...

    @property
    def message(self) -> Any: ...

    @property
    def payload(self) -> memoryview: ...

    @property
    def throttle_ms(self) -> int: ...


ReplyCallback = Callable[[Any, BaseException | None], None]
"""It is called with (reply, None) or (None, error). The reply has the shape of ``MatchedReply``."""


class ClientMachine(Protocol):
    """This protocol has the shape of ``oncelog_protocol.connection.ClientConnection``."""

    @property
    def versions(self) -> Mapping[int, int]: ...

    @property
    def asks_again(self) -> bool: ...

    @property
    def meant_broker_id(self) -> int: ...

    def handshake(self) -> tuple[int, list[Buffer]]: ...

    def reconnect(self) -> None: ...

    def encode(
        self, request: Any, payload: Sequence[Buffer] = (), *, expect_response: bool = True
    ) -> tuple[int, list[Buffer]]: ...

    def may_be_held(self, request: Any, /) -> bool: ...

    def get_buffer(self, sizehint: int, /) -> memoryview: ...

    def received(self, nbytes: int, /) -> Sequence[MatchedReply]: ...


class ChannelClosedError(ConnectionError):
    """The channel died; a request that was on its way may or may not have had an effect."""


class NotSentError(ChannelClosedError):
    """The channel was already dead: the request never left, and definitely had no effect."""


class RequestChannel(asyncio.BufferedProtocol):
    """A channel is one connection to one broker. Made by ``open``; all methods belong to the loop's
    thread."""

    def __init__(self, machine: ClientMachine, peer: str = "?") -> None:
        self._machine = machine
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[int, ReplyCallback]] = deque()
        self._closed = False
        self._cause: BaseException | None = None
        """The channel died of this."""
        self._paused = False
        self._held_until = 0.0
        self._release: asyncio.TimerHandle | None = None
        self._drainers: deque[asyncio.Future[None]] = deque()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._linger: asyncio.TimerHandle | None = None
        self.on_close: list[Callable[[BaseException | None], None]] = []
        """Called once each when the channel dies, with its cause; None when this side closed it."""
        self.on_throttle: list[Callable[[float], None]] = []
        """Called with each answer that holds the channel, with the seconds by which it does so for
        longer."""

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        machine: ClientMachine,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        protect: Protect | None = None,
        names: HostNames | None = None,
    ) -> RequestChannel:
        """Connect and shake hands, all within ``connect_timeout_s`` seconds; over TLS if
        ``protect`` says so.

        :param names: it knows the addresses of the host; without it the loop looks them up.

        Raises OSError (ConnectionRefusedError when nobody listens, TlsError when TLS was not
        agreed upon), TimeoutError, the machine's protocol errors and what it has to say of a peer
        that is not the one that was meant.
        """
        channel = cls(machine, f"{host}:{port}")
        try:
            async with asyncio.timeout(connect_timeout_s):
                try:
                    await channel._connect(host, port, protect, names)
                except ChannelClosedError:
                    if not machine.asks_again:
                        raise
                    # It did not speak this version of the handshake, and hung up when it had said
                    # so, as older releases do.
                    machine.reconnect()
                    channel = cls(machine, channel.peer)
                    await channel._connect(host, port, protect, names)
        except BaseException as error:
            channel._die(None, "gave up while connecting", abort=True)
            if isinstance(error, TimeoutError) and not error.args:
                text = f"{channel._peer}: no connection within {connect_timeout_s} s"
                raise TimeoutError(text) from error
            if isinstance(error, ChannelClosedError) and error.__cause__ is not None:
                raise error.__cause__ from None
            if isinstance(error, OSError) and _all_refused(error):
                raise ConnectionRefusedError(errno.ECONNREFUSED, str(error)) from error
            raise
        return channel

    async def _connect(
        self, host: str, port: int, protect: Protect | None, names: HostNames | None
    ) -> None:
        def make() -> asyncio.BufferedProtocol:
            return self if protect is None else protect(self, host)

        addresses = (host,) if names is None else await names.addresses(host)
        errors: list[OSError] = []
        for address in addresses:
            try:
                await self._loop.create_connection(make, address, port)
                break
            except OSError as error:
                errors.append(error)
        else:
            raise _joined(errors)
        await self._handshake()
        if self._machine.asks_again:
            await self._handshake()

    async def _handshake(self) -> None:
        if self._closed:
            raise self._not_sent() from self._cause
        future: asyncio.Future[Any] = self._loop.create_future()
        correlation_id, buffers = self._machine.handshake()
        self._write(correlation_id, buffers, partial(_settle, future))
        await future

    # ---- state

    @property
    def closed(self) -> bool:
        """Return whether the channel is dead; it is from the moment of ``close`` or of a
        failure."""
        return self._closed

    @property
    def paused(self) -> bool:
        """Return whether nothing should be sent now: the channel is held, or the transport has more
        unsent bytes than it likes. See ``drain``."""
        return self._paused or self.held

    @property
    def held(self) -> bool:
        """Return whether the peer has told to wait."""
        return self._release is not None

    @property
    def in_flight(self) -> int:
        """Return the number of requests whose reply is still to come."""
        return len(self._waiting)

    @property
    def versions(self) -> Mapping[int, int]:
        """Return the version that both sides speak, as negotiated, by API key."""
        return self._machine.versions

    @property
    def peer(self) -> str:
        """Return the address that was asked for, as host:port."""
        return self._peer

    # ---- sending

    def send(
        self, request: Any, payload: Sequence[Buffer] = (), *, callback: ReplyCallback
    ) -> None:
        """Write a request now; ``callback`` hears of its reply, or of the channel's death.

        On a dead channel the callback gets NotSentError in the loop's next round. Raises what the
        machine raises for a request that it cannot write (too large, version not spoken): nothing
        has been sent then, and the callback is not called. The payload must not change until the
        reply is there: the transport keeps references, not copies.
        """
        if self._closed:
            self._loop.call_soon(callback, None, self._not_sent())
            return
        correlation_id, buffers = self._machine.encode(request, payload)
        self._write(correlation_id, buffers, callback)

    def send_oneway(self, request: Any, payload: Sequence[Buffer] = ()) -> None:
        """Write a request that is never answered. Raises NotSentError on a dead channel."""
        if self._closed:
            raise self._not_sent()
        _, buffers = self._machine.encode(request, payload, expect_response=False)
        assert self._transport is not None
        self._transport.writelines(buffers)

    async def call(self, request: Any, payload: Sequence[Buffer] = (), *, timeout_s: float) -> Any:
        """Send a request and wait for its reply, at most ``timeout_s`` seconds.

        On a held channel it first waits until it may be sent, at most ``timeout_s`` seconds, if it
        is one that can be held; TimeoutError then leaves the channel open.

        Raises TimeoutError, after closing the channel; ChannelClosedError when it dies first, which
        is NotSentError when nothing was sent. Cancelling the call leaves the channel open: the late
        reply is dropped. With a machine that reuses its buffer only the message of the reply may be
        used, the payload is gone by the time the caller runs.
        """
        if self.held and self._machine.may_be_held(request):
            await self._wait_free(timeout_s)
        future: asyncio.Future[Any] = self._loop.create_future()
        self.send(request, payload, callback=partial(_settle, future))
        timer = self._loop.call_later(timeout_s, _expire, future)
        try:
            return await future
        except TimeoutError:
            name = type(request).__name__
            text = f"{self._peer}: no answer to {name} within {timeout_s} s"
            self._die(TimeoutError(text), text, abort=True)
            raise TimeoutError(text) from None
        finally:
            timer.cancel()

    def _write(self, correlation_id: int, buffers: list[Buffer], callback: ReplyCallback) -> None:
        assert self._transport is not None, "the channel was not opened"
        self._waiting.append((correlation_id, callback))
        self._transport.writelines(buffers)

    def _not_sent(self) -> NotSentError:
        return NotSentError(f"{self._peer}: the connection was closed already")

    async def drain(self) -> None:
        """Wait until something may be sent. Raises NotSentError when the channel dies."""
        if self._closed:
            raise self._not_sent()
        while self.paused:
            await self._change()

    async def _wait_free(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while self.held:
                    await self._change()
        except TimeoutError:
            left_s = self._held_until - self._loop.time()
            text = f"{self._peer}: a quota is exceeded, to be held for {left_s:.1f} s more"
            raise TimeoutError(text) from None

    async def _change(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._drainers.append(waiter)
        await waiter

    def _hold(self, seconds: float) -> None:
        """Send nothing that can be held for so long, from now on."""
        now = self._loop.time()
        longer_s = now + seconds - max(self._held_until, now)
        if longer_s > 0:
            self._held_until = now + seconds
            if self._release is not None:
                self._release.cancel()
            self._release = self._loop.call_at(self._held_until, self._let_go)
        for listener in self.on_throttle:
            self._run(listener, max(longer_s, 0.0))

    def _let_go(self) -> None:
        self._release = None
        self._wake_drainers()

    # ---- closing

    def close(self, reason: str = "closed by this side") -> None:
        """Die now: waiting callbacks get ChannelClosedError; bytes already written may still go."""
        self._die(None, reason, abort=False)

    async def wait_closed(self) -> None:
        """Wait until the transport is gone too."""
        if self._transport is not None:
            await asyncio.shield(self._lost)

    def _die(self, error: BaseException | None, reason: str, *, abort: bool) -> None:
        """End the channel's life. Every end comes through here; later calls change nothing."""
        if self._closed:
            return
        self._closed = True
        self._cause = error
        if self._release is not None:
            self._release.cancel()
            self._release = None
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()
                self._linger = self._loop.call_later(LINGER_S, self._transport.abort)
        logger.debug(LogEvent("channel_closed", peer=self._peer, reason=reason))
        waiting, self._waiting = self._waiting, deque()
        for _, callback in waiting:
            failure = ChannelClosedError(f"{self._peer}: {reason}")
            failure.__cause__ = error
            self._run(callback, None, failure)
        drainers, self._drainers = self._drainers, deque()
        for drainer in drainers:
            if not drainer.done():
                drainer.set_exception(NotSentError(f"{self._peer}: {reason}"))
        listeners, self.on_close = self.on_close, []
        for listener in listeners:
            self._run(listener, error)

    def _run(self, callback: Callable[..., None], *args: Any) -> None:
        """Call back; one callback's failure must not reach its neighbours nor the transport."""
        try:
            callback(*args)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": f"a callback of the channel to {self._peer} failed", "exception": error}
            )

    # ---- transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            # Requests are small and their latency is what counts; the loop batches writes already.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._machine.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._closed:
            return
        try:
            replies = self._machine.received(nbytes)
        except Exception as error:
            # What the peer sent makes no sense, so nothing after it can be trusted either.
            logger.info(LogEvent("channel_dropped", peer=self._peer, error=error))
            self._die(error, f"protocol error: {error}", abort=True)
            return
        for reply in replies:
            if self.closed:
                return  # a callback closed the channel: the others have heard so
            if not self._waiting or self._waiting[0][0] != reply.correlation_id:
                unasked = ConnectionError("an answer came that was not asked for")
                self._die(unasked, str(unasked), abort=True)
                return
            if reply.throttle_ms:
                self._hold(reply.throttle_ms / 1000)
            self._run(self._waiting.popleft()[1], reply, None)

    def eof_received(self) -> bool:
        ended = ConnectionResetError("the peer closed the connection")
        self._die(ended, str(ended), abort=False)
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        cause = exc or ConnectionResetError("connection lost")
        self._die(cause, f"connection lost: {cause}", abort=True)
        if self._linger is not None:
            self._linger.cancel()
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._wake_drainers()

    def _wake_drainers(self) -> None:
        drainers, self._drainers = self._drainers, deque()
        for drainer in drainers:
            if not drainer.done():
                drainer.set_result(None)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.in_flight} in flight"
        return f"<RequestChannel {self._peer} {state}>"


def _settle(future: asyncio.Future[Any], reply: Any, error: BaseException | None) -> None:
    """End a waiting call; one that was cancelled or timed out no longer listens."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(reply)


def _joined(errors: Sequence[OSError]) -> OSError:
    """Return one error for all addresses of a name, in asyncio's words."""
    if len(errors) == 1:
        return errors[0]
    return OSError(f"Multiple exceptions: {', '.join(map(str, errors))}")


def _all_refused(error: OSError) -> bool:
    """Return whether a name of several addresses was refused at each of them.

    asyncio then raises an OSError without errno, "Multiple exceptions: [Errno 111] ..., ...". That
    a process refuses is evidence of its death (failover by evidence): it must not get lost.
    """
    codes = re.findall(r"\[Errno (\d+)\]", str(error)) if error.errno is None else []
    return bool(codes) and all(int(code) == errno.ECONNREFUSED for code in codes)


def _expire(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
