"""TLS stands between the socket's transport and a protocol, and looks like a transport to it.

It drives ``ssl.SSLObject`` over memory BIOs, and needs nothing of the loop. The loop's own TLS
calls ``connection_made`` only after the handshake: neither limits nor deadlines of connections
would hold for peers that are silent.

Rules:

- the inner protocol hears of the connection when the socket is there; what it writes before the
  handshake is done waits, and nothing reaches it before;
- OpenSSL is not asked before the first bytes look like TLS, so a silent peer costs next to nothing;
- what is written waits by reference, and is encrypted while the socket's buffer has room, at most
  a slice in one round of the loop; all of it counts in ``get_write_buffer_size``;
- the socket is not read while the inner protocol has had enough: what waits undelivered is at most
  one receive buffer;
- records without content (KeyUpdate, empty ones, calls for renegotiation) are allowed in
  proportion to content only, and few records are decrypted in one turn of the loop;
- since when a record is under way can be asked: its first bytes reach nobody before its last;
- a session is never resumed: it would outlive the revocation of a certificate;
- the end of the stream without close_notify is a broken connection: it may have been cut.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from oncelog_runtime.files import Buffer
from oncelog_runtime.tls_errors import TlsError, explained, misfit
from oncelog_runtime.tls_records import RecordBounds

__all__ = ["TlsError", "TlsProtocol"]

SLICE_BYTES_MAX = 1 << 20
"""So much is encrypted in one round of the loop, which takes about a millisecond."""

CHUNK_BYTES = 256 * 1024
"""So much is encrypted before the socket gets it: larger pieces leave the processor's caches."""

RECORD_BYTES = 16 * 1024
"""TLS cuts what it encrypts into records of at most this size; smaller pieces are joined."""

SOCKET_HIGH_BYTES = 256 * 1024
SOCKET_LOW_BYTES = 64 * 1024
"""The socket's own buffer holds no more than these and one chunk."""

RECEIVE_BYTES_MIN = 4 * 1024
RECEIVE_BYTES_MAX = 256 * 1024
"""The receive buffer begins small, and grows fourfold when it was full."""

HANDSHAKE_BYTES_MAX = 64 * 1024
"""A handshake with a chain of several certificates of 4,096 bits takes 10 KiB."""

BARREN_BYTES_MAX = 24 * 1024
"""So many bytes may come beyond content and what its records need. A record that is not whole has
no content yet, and up to 18 KiB; the rest has room for two hundred new keys."""

RECORD_OVERHEAD_BYTES = 64
"""A record needs 22 (TLS 1.3) to 29 (TLS 1.2) bytes beside its content; the rest is allowance."""

SMALL_RECORDS_MAX = 256
"""So many records are decrypted in one turn of the loop: each may ask for new keys, which OpenSSL
makes in 25 microseconds, and a receive buffer holds ten thousand of them."""

SLICE_OF_RECORDS_BYTES = SMALL_RECORDS_MAX * 22
"""No more than so many records are in it."""


class TlsProtocol(asyncio.BufferedProtocol, asyncio.Transport):
    """It is the protocol of the socket's transport, and the transport of the inner protocol."""

    def __init__(
        self,
        inner: asyncio.BufferedProtocol,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        on_handshake: Callable[[ssl.SSLObject], None] | None = None,
    ) -> None:
        """With a ``server_hostname`` this is the calling side, and the name is verified if the
        context says so; without, it is the serving side.

        ``on_handshake`` is called at the handshake's end, before any byte is delivered; it may
        raise TlsError to refuse the peer.
        """
        super().__init__()
        self._inner = inner
        self._context = context
        self._server_hostname = server_hostname
        self._on_handshake = on_handshake
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl: ssl.SSLObject | None = None
        self._ready = False
        """The handshake is done."""
        self._closing = False
        """Nothing is delivered any more, nothing new is taken."""
        self._lost = False
        self._fault: Exception | None = None
        # Receiving.
        self._view = memoryview(bytearray(RECEIVE_BYTES_MIN))
        self._handshake_bytes = 0
        self._barren_bytes = 0
        self._waiting = memoryview(b"")
        """It arrived, and is for the loop's next turns; the socket is not read meanwhile."""
        self._bounds = RecordBounds()
        self._record_since: float | None = None
        """Since then a part of a record waits for the rest."""
        self._paused = False
        """The inner protocol has had enough."""
        self._go_on_planned = False
        self._peer_done = False
        """The peer's close_notify has come."""
        # Sending.
        self._pending: deque[Buffer] = deque()
        self._pending_bytes = 0
        self._socket_full = False
        self._flush_planned = False
        self._high, self._low = SOCKET_HIGH_BYTES, SOCKET_LOW_BYTES
        self._inner_full = False
        """The inner protocol was told to stop writing."""

    def __repr__(self) -> str:
        state = "closing" if self._closing else "ready" if self._ready else "shaking hands"
        return f"<TlsProtocol {state} pending={self._pending_bytes} of {self._inner!r}>"

    # -- the socket's side: beginning --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the inner protocol at once; the calling side begins the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(SOCKET_HIGH_BYTES, SOCKET_LOW_BYTES)
        self._inner.connection_made(self)
        if self._server_hostname is not None and not self._closing:
            self._shake_hands()

    def _shake_hands(self) -> None:
        """Go on with the handshake as far as what has arrived allows."""
        try:
            if self._ssl is None:
                self._ssl = self._context.wrap_bio(
                    self._incoming,
                    self._outgoing,
                    server_side=self._server_hostname is None,
                    server_hostname=self._server_hostname,
                )
            self._ssl.do_handshake()
            if self._ssl.session_reused:
                # OpenSSL has no switch here for the memory of sessions of TLS 1.2. It forgets one
                # whose connection ends like this, so that the peer's next handshake is a full one.
                raise TlsError("the peer resumed a session", "sessions are never resumed here")
            if self._on_handshake is not None:
                self._on_handshake(self._ssl)
        except ssl.SSLWantReadError:
            self._send_out()
        except TlsError as error:
            self._fail(error)
        except (ssl.SSLError, ValueError) as error:
            self._fail(explained(error))
        else:
            self._send_out()
            self._ready = True
            if not self.is_reading() and not self._transport.is_closing():
                self._transport.pause_reading()
            self._flush()

    # -- the socket's side: receiving --------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes from the socket go."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what arrived from the socket."""
        if self._peer_done or (self._closing and (self._ready or not self._pending)):
            return
        arrived = self._view[:nbytes]
        ended = self._bounds.take(arrived)
        if ended or self._record_since is None:
            self._record_since = self._loop.time() if self._bounds.within else None
        if self._ready:
            if ended > SMALL_RECORDS_MAX:
                self._waiting = arrived
                self._take_slice()
            else:
                self._barren_bytes += nbytes
                self._incoming.write(arrived)
            if nbytes == len(self._view) < RECEIVE_BYTES_MAX:
                self._view = memoryview(bytearray(4 * nbytes))
        else:
            self._take_handshake(arrived)
        if self._ready:
            self._deliver()

    def _take_slice(self) -> None:
        """Give OpenSSL as much of what waits as one turn of the loop has time for."""
        taken = self._waiting[:SLICE_OF_RECORDS_BYTES]
        self._waiting = self._waiting[len(taken) :]
        self._barren_bytes += len(taken)
        self._incoming.write(taken)

    def _take_handshake(self, arrived: memoryview) -> None:
        if not self._handshake_bytes:
            server_side = self._server_hostname is None
            other = misfit(bytes(arrived[:16]), server_side=server_side)
            if other is not None:
                self._fail(other)
                return
        self._handshake_bytes += len(arrived)
        if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            text = f"the handshake has more than {HANDSHAKE_BYTES_MAX} bytes"
            self._fail(TlsError(text, "send a shorter chain of smaller certificates"))
            return
        self._incoming.write(arrived)
        self._shake_hands()

    def _deliver(self) -> None:
        """Decrypt into the inner protocol's buffer, until nothing is left or it has had enough."""
        while not (self._paused or self._closing):
            view = memoryview(self._inner.get_buffer(-1))
            size = len(view)
            if not size:
                raise RuntimeError("get_buffer() returned an empty buffer")
            filled, error = self._decrypt(view)
            if filled:
                self._inner.buffer_updated(filled)
            if filled < size:
                self._end_of_input(error)
                if self._waiting and self.is_reading():
                    self._transport.pause_reading()
                    self._plan()
                return

    def _decrypt(self, view: memoryview) -> tuple[int, ssl.SSLError | None]:
        """Fill a buffer as far as there is content; return how far, and what came after it."""
        assert self._ssl is not None
        read, incoming = self._ssl.read, self._incoming
        filled, size = 0, len(view)
        records = 0
        error: ssl.SSLError | None = None
        try:
            while filled < size:
                # The stubs say bytearray; any writable buffer will do.
                count = read(size - filled, cast(bytearray, view[filled:]))
                if not count:
                    self._peer_done = True
                    break
                records += 1
                filled += cast(int, count)
                if not incoming.pending and filled < size:
                    break  # the last record is used up: asking once more would raise
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as exc:
            error = exc
        content = filled + RECORD_OVERHEAD_BYTES * records
        self._barren_bytes = max(0, self._barren_bytes - content)
        return filled, error

    def _end_of_input(self, error: ssl.SSLError | None) -> None:
        """Look at what came with the last content: an answer of TLS itself, an end, a breach."""
        if self._closing:
            return
        if error is not None:
            self._fail(explained(error))
            return
        if self._outgoing.pending:
            self._send_out()
        if self._peer_done:
            self._peer_ended()
        elif self._barren_bytes > BARREN_BYTES_MAX:
            self._fail(TlsError("a flood of records without content", "see what the peer sends"))

    def _peer_ended(self) -> None:
        self._paused = True  # nothing comes any more
        if not self._inner.eof_received():
            self.close()

    def eof_received(self) -> bool:
        """End the connection, unless the peer had said that it would send no more."""
        if self._transport.is_closing():
            return False
        if not self._ready:
            text = "the peer hung up during the TLS handshake: does it speak TLS on this port?"
            self._fail(ConnectionResetError(text))
        elif not (self._peer_done or self._closing):
            self._fail(ConnectionResetError("the connection ended without close_notify"))
        return not self._closing

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the inner protocol why the connection is gone."""
        self._closing = self._lost = True
        self._drop_pending()
        self._ssl = None  # with it OpenSSL forgets a session that ended badly, see _shake_hands
        # This object lives until the garbage collector comes: it and the inner protocol know each
        # other. Its memory need not.
        self._view = self._waiting = memoryview(b"")
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._inner.connection_lost(self._fault or exc)

    def _fail(self, error: Exception) -> None:
        """End the connection for a reason, which the inner protocol hears when the socket is gone.

        An alert still leaves if nothing is in its way.
        """
        self._fault = error
        self._closing = True
        self._drop_pending()
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._send_out()
            self._transport.close()

    # -- the socket's side: sending ----------------------------------------------------------

    def pause_writing(self) -> None:
        """Stop encrypting until the socket has room again."""
        self._socket_full = True
        self._tell_inner()

    def resume_writing(self) -> None:
        """Go on with what waits."""
        self._socket_full = False
        self._flush()

    def _flush_on(self) -> None:
        self._flush_planned = False
        self._flush()

    def _flush(self) -> None:
        """Send what waits while the socket has room, at most a slice; then tell the inner protocol
        whether it may write."""
        if not self._ready:
            return
        left = SLICE_BYTES_MAX
        try:
            while self._pending and left > 0 and not self._socket_full:
                left -= self._encrypt(min(left, CHUNK_BYTES))
                self._send_out()
        except ssl.SSLError as error:
            self._fail(explained(error))
            return
        if self._pending and not self._socket_full and not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush_on)
        if self._closing:
            self._finish()
        else:
            self._tell_inner()

    def _encrypt(self, room: int) -> int:
        """Take at most so many of the bytes that wait and encrypt them; return how many."""
        assert self._ssl is not None
        write, pending = self._ssl.write, self._pending
        small: list[Buffer] = []
        small_bytes = taken = 0
        while pending and taken < room:
            piece = pending.popleft()
            size = len(piece)
            if size > room - taken:
                view = memoryview(piece)
                size = room - taken
                piece = view[:size]
                pending.appendleft(view[size:])
            taken += size
            if size < RECORD_BYTES:
                small.append(piece)
                small_bytes += size
                if small_bytes < RECORD_BYTES:
                    continue
                piece, small, small_bytes = b"".join(small), [], 0
            elif small:
                write(b"".join(small))
                small, small_bytes = [], 0
            write(piece)
        if small:
            write(b"".join(small))
        self._pending_bytes -= taken
        return taken

    def _send_out(self) -> None:
        data = self._outgoing.read()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _tell_inner(self) -> None:
        """Tell the inner protocol when it should stop writing, and when it may go on.

        It never stays stopped while nothing waits here and the socket has room: nobody would call
        this method again then.
        """
        if self._closing:
            return
        size = self.get_write_buffer_size()
        if not self._inner_full:
            if size > self._high:
                self._inner_full = True
                self._inner.pause_writing()
        elif size <= self._low or not (self._pending or self._socket_full):
            self._inner_full = False
            self._inner.resume_writing()

    def _drop_pending(self) -> None:
        self._pending.clear()
        self._pending_bytes = 0

    def _finish(self) -> None:
        """Say goodbye once all that was written is encrypted; the socket closes when it has left.

        Nobody waits for the peer's goodbye (RFC 8446, 6.1).
        """
        if self._pending or self._transport.is_closing():
            return
        assert self._ssl is not None
        try:
            self._ssl.unwrap()
        except ssl.SSLError:
            pass  # it wants the peer's goodbye; ours is written
        self._send_out()
        self._transport.close()

    # -- the inner protocol's side -----------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the socket, and of TLS as soon as the handshake is done.

        ``ssl_object``, ``peercert`` (decoded, empty if none was verified), ``cipher``;
        ``record_since``: since when, by the loop's time, a part of a record waits for the rest.
        """
        if name == "record_since":
            return default if self._record_since is None else self._record_since
        if name in ("ssl_object", "peercert", "cipher"):
            if self._ssl is None or not self._ready:
                return default
            if name == "peercert":
                return self._ssl.getpeercert()
            return self._ssl if name == "ssl_object" else self._ssl.cipher()
        return self._transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the inner protocol."""
        return self._inner

    def is_closing(self) -> bool:
        """Return whether the connection is closed, or about to be."""
        return self._closing or self._transport.is_closing()

    def is_reading(self) -> bool:
        """Return whether the inner protocol gets what arrives."""
        return not (self._paused or self.is_closing())

    def pause_reading(self) -> None:
        """Deliver no more. A handshake goes on."""
        if self._paused or self.is_closing():
            return
        self._paused = True
        if self._ready:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Deliver what waits, from the loop's next round on, and read the socket again."""
        if not self._paused or self._peer_done or self.is_closing():
            return
        self._paused = False
        if self._record_since is not None:
            self._record_since = self._loop.time()
        if not self._ready:
            return
        assert self._ssl is not None
        if not (self._incoming.pending or self._ssl.pending() or self._waiting):
            self._transport.resume_reading()
        else:
            self._plan()

    def _plan(self) -> None:
        """Deliver more in the loop's next turn."""
        if not self._go_on_planned:
            self._go_on_planned = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._go_on_planned = False
        if self._paused or self._closing:
            return
        try:
            if not self._incoming.pending:
                self._take_slice()
            self._deliver()
        except Exception as error:
            # As a transport does when its protocol fails.
            message = "a protocol over TLS failed"
            self._loop.call_exception_handler({"message": message, "exception": error})
            self._fault = error
            self.abort()
        if self.is_reading() and not self._go_on_planned:
            self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set from how many unsent bytes on the inner protocol should stop, and may go on.

        :raises ValueError: not ``high >= low >= 0``.
        """
        if high is None:
            high = SOCKET_HIGH_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._transport.set_write_buffer_limits(
            min(high, SOCKET_HIGH_BYTES), min(low, SOCKET_LOW_BYTES)
        )
        self._tell_inner()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits, the lower one first."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait here, and encrypted at the socket."""
        return self._pending_bytes + self._transport.get_write_buffer_size()

    def write(self, data: Buffer) -> None:
        """Send these bytes."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send these bytes. They must not change before they have left."""
        if self._closing:
            return
        for data in list_of_data:
            if data:
                self._pending.append(data)
                self._pending_bytes += len(data)
        if self._ready:
            self._flush()
        else:
            self._tell_inner()

    def can_write_eof(self) -> bool:
        """Return that an end of one direction alone is not offered."""
        return False

    def close(self) -> None:
        """Close after what is written has left, which may need the handshake first."""
        if self._closing:
            return
        self._closing = True
        if self._ready:
            if not self._transport.is_closing():
                self._transport.pause_reading()
            self._flush()
        elif not self._pending:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, dropping what is unsent."""
        self._closing = True
        self._drop_pending()
        if not self._lost:  # asyncio's transport fails otherwise
            self._transport.abort()
