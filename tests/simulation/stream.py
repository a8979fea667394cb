"""One connection has two ends, a stream in each direction, and several ways to end.

An end has two halves. Its *kernel* takes what arrives, also while the process is paused, and hears
of resets. Its *transport* is what the process sees, in the process's own order: it reads what
arrived, and only then the end of the stream or the reset behind it.

Rules, as Linux has them:

- Bytes are copied when the window takes them, referenced before that, as by a real transport.
- Who closes with bytes unread, or dies with them, resets the connection; else the peer hears the
  end of the stream. Where TCP leaves open how much arrives before a reset, a part is drawn.
- Who sends to an end that is gone is answered by a reset. Who only waits hears nothing: a
  connection may be half open for long.
- The kernel repeats what is lost: a wire that is held delays, it never loses. What the reader has
  taken is known to the sender when the way back is open.
"""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from simulation.loop import Process, SimulationError

if TYPE_CHECKING:
    from simulation.network import Network

WINDOW_BYTES = 128 * 1024
"""The most that a connection may hold under way and unread, for each direction."""

PIECE_BYTES_MAX = 64 * 1024
HIGH_WATER_BYTES = 64 * 1024
FIRST_CLIENT_PORT = 1024


class Mark(Enum):
    """It arrives in a stream besides bytes."""

    EOF = "eof"
    RESET = "reset"


Piece = bytes | Mark


class Connection:
    """It has two ends and the stream in each direction. ``ends[0]`` is the client's."""

    def __init__(self, network: Network, client: Process, server: Process, port: int) -> None:
        self.network = network
        self.number = network.next_connection()
        hosts = network.hosts
        self.addresses = (
            (hosts[client.name].address, FIRST_CLIENT_PORT + self.number % 18_000),
            (hosts[server.name].address, port),
        )
        """Of the ends: host and port."""
        self.ends = (SimTransport(self, 0, client), SimTransport(self, 1, server))
        network.connections[self.number] = self

    def reset(self, *, one_sided: bool = False) -> None:
        """Break it now, losing what is under way except, perhaps, a first part of it.

        ``one_sided``: one end, which is drawn, hears of it; the other only when it next sends.
        """
        entropy = self.network.entropy
        ends = list(self.ends)
        if entropy.random() < 0.5:
            ends.reverse()
        for end in ends:
            end.take_part_of_what_comes(entropy.random())
        ends[0].hear_reset()
        if not one_sided:
            ends[1].hear_reset()

    def forget_if_over(self) -> None:
        """Both ends are gone: nothing refers to this connection any more."""
        if self.ends[0].gone and self.ends[1].gone:
            self.network.connections.pop(self.number, None)


class SimTransport(asyncio.Transport):
    """One end of a connection: what the process writes here arrives at the other end."""

    def __init__(self, connection: Connection, side: int, process: Process) -> None:
        super().__init__()
        self.connection = connection
        self.side = side
        self.process = process
        self.host = process.name
        self.protocol: asyncio.BufferedProtocol | None = None
        self.gone = False
        """The kernel has no such connection any more: closed, reset, or its process died."""
        self._loop = process.loop
        self._network = connection.network
        self._closing = False
        self._ended = False
        """``connection_lost`` was called, or is about to be."""
        # Outgoing.
        self._unsent: deque[Any] = deque()
        self._unsent_bytes = 0
        self._out_bytes = 0
        """Under way or unread at the other end: against the window."""
        self._last_arrival_s = 0.0
        self._under_way: deque[Piece] = deque()
        self._blocked = False
        self._eof_wanted = self._eof_sent = False
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        # Incoming.
        self._incoming: deque[bytes | memoryview | Mark] = deque()
        self._reset: ConnectionResetError | None = None
        """Heard by the kernel; the process comes to it after what arrived before."""
        self._reading = True
        self._at_end = False
        """The other end has no more to say: a reset is noticed when this one writes."""
        self._read_posted = False
        process.transports[self] = None

    def __repr__(self) -> str:
        return f"<SimTransport {self.connection.number} {self.host}>"

    @property
    def other(self) -> SimTransport:
        """Return the other end."""
        return self.connection.ends[1 - self.side]

    # -- beginning ---------------------------------------------------------------------------

    def accept(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """The server's kernel took the connection; its process hears of it when it runs."""
        self.process.post(lambda: self.begin(factory()))

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to its protocol."""
        if not isinstance(protocol, asyncio.BufferedProtocol):
            raise NotImplementedError(f"{type(protocol).__name__} is no BufferedProtocol")
        self.protocol = protocol
        protocol.connection_made(self)
        self._post_read()

    # -- what the process does ---------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sockname":
            return self.connection.addresses[self.side]
        if name == "peername":
            return self.connection.addresses[1 - self.side]
        return default

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self.protocol is not None
        return self.protocol

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._block_if_full()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def write(self, data: Any) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self._eof_wanted:
            raise RuntimeError("Cannot call writelines() after write_eof()")
        if self._closing:
            return
        if self._reset is not None:
            self._end(self._reset)  # as EPIPE from the kernel
            return
        pieces = list(list_of_data)
        if not self._unsent:
            size = sum(map(len, pieces))
            if size <= WINDOW_BYTES - self._out_bytes:
                if size:
                    self._send(b"".join(pieces))
                return
        for piece in pieces:
            if len(piece):
                self._unsent.append(piece)
                self._unsent_bytes += len(piece)
        self._fill_window()
        self._block_if_full()

    def _block_if_full(self) -> None:
        if self._unsent_bytes > self._high and not self._blocked and self.protocol is not None:
            self._blocked = True
            self.protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._closing or self._eof_wanted:
            return
        self._eof_wanted = True
        if not self._unsent:
            self._say_eof()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._post_read()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._unsent:
            self._finish()

    def abort(self) -> None:
        if self._ended:
            return
        if not self.gone:
            self._leave()
        self._end(None)

    # -- sending -----------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        network = self._network
        for tap in network.taps:
            tap(self, data)
        if network.split and len(data) > 1 and network.entropy.random() < network.split:
            cut = network.entropy.randint(1, len(data) - 1)
            self._put_on_wire(data[:cut])
            data = data[cut:]
        for start in range(0, len(data), PIECE_BYTES_MAX):
            self._put_on_wire(data[start : start + PIECE_BYTES_MAX])

    def _put_on_wire(self, piece: Piece) -> None:
        if piece.__class__ is bytes:
            self._out_bytes += len(piece)
        self._under_way.append(piece)
        network = self._network
        wire = network.wire(self.host, self.other.host)
        at_s = max(self._last_arrival_s, self._loop.now_s + network.delay_s(wire))
        self._last_arrival_s = at_s
        self._loop.at(at_s, self._arrive)

    def _arrive(self) -> None:
        """The first piece under way is at the other end."""
        wire = self._network.wire(self.host, self.other.host)
        if wire.held:
            wire.waiting.append(self._arrive)
            return
        if not self._under_way:
            return  # a reset has taken them
        piece = self._under_way.popleft()
        target = self.other
        if target.gone:
            if piece is not Mark.RESET and (piece is not Mark.EOF or target._reset is not None):
                self._answer_of_dead_end(target)
            return
        if isinstance(piece, Mark):
            text = piece.value
        else:
            text = f"{len(piece)} {zlib.crc32(piece):08x}"
        self._loop.trace(f"net {self.connection.number} {self.host}>{target.host} {text}")
        if piece is Mark.RESET:
            target.hear_reset()
        else:
            target._incoming.append(piece)
            target._post_read()

    def _answer_of_dead_end(self, target: SimTransport) -> None:
        host = self._network.hosts[target.host]
        if host.up:
            self._network.carry(target.host, self.host, self.hear_reset)
        else:
            host.orphans[self] = None

    def _fill_window(self) -> None:
        """Send as much as the window takes, unless that is silly little."""
        unsent = self._unsent
        room = WINDOW_BYTES - self._out_bytes
        if room < min(self._unsent_bytes, WINDOW_BYTES // 2):
            return
        taken: list[Any] = []
        while unsent and room > 0:
            piece = unsent[0]
            if len(piece) <= room:
                unsent.popleft()
            else:
                view = memoryview(piece)
                piece, unsent[0] = view[:room], view[room:]
            room -= len(piece)
            self._unsent_bytes -= len(piece)
            taken.append(piece)
        if taken:
            self._send(b"".join(taken))

    def _window_moved(self, size: int) -> None:
        """The kernel hears that the other end has read so much."""
        self._out_bytes -= size
        if self.gone:
            return
        if self._unsent:
            self._fill_window()
        if self._blocked and self._unsent_bytes <= self._low:
            self.process.post(self._writable)
        if not self._unsent:
            if self._closing:
                self.process.post(self._finish)
            elif self._eof_wanted and not self._eof_sent:
                self._say_eof()

    def _writable(self) -> None:
        if self._blocked and self._unsent_bytes <= self._low and not self._ended:
            assert self.protocol is not None
            self._blocked = False
            self.protocol.resume_writing()

    def _say_eof(self) -> None:
        if not self._eof_sent and not self.gone:
            self._eof_wanted = self._eof_sent = True
            self._put_on_wire(Mark.EOF)

    # -- receiving ---------------------------------------------------------------------------

    def _post_read(self) -> None:
        if self._read_posted or self.protocol is None or self._ended:
            return
        if self._reset is not None or (self._incoming and self._reading):
            self._read_posted = True
            self.process.post(self._read)

    def _read(self) -> None:
        """Make one read from the kernel, or take the reset behind all that arrived."""
        self._read_posted = False
        if self._ended:
            return
        if self._incoming and self._reading and not self._closing:
            try:
                self._read_piece()
            except (SystemExit, KeyboardInterrupt, SimulationError):
                raise
            except BaseException as error:
                self._fatal(error)
                return
            if self._reset is None or not self._unsent:
                self._post_read()
                return
        if self._reset is not None and (self._unsent or (self._reading and not self._at_end)):
            self._end(self._reset)

    def _read_piece(self) -> None:
        protocol = self.protocol
        assert protocol is not None
        piece = self._incoming.popleft()
        if isinstance(piece, Mark):
            self._at_end = True
            if not protocol.eof_received():
                self.close()
            return
        buffer = memoryview(protocol.get_buffer(-1))
        size = min(len(buffer), len(piece))
        if not size:
            raise RuntimeError("get_buffer() returned an empty buffer")
        buffer[:size] = piece[:size]
        if size < len(piece):
            self._incoming.appendleft(memoryview(piece)[size:])
        back = self._network.wire(self.host, self.other.host)
        if back.held:
            back.waiting.append(lambda: self.other._window_moved(size))
        else:
            self.other._window_moved(size)
        protocol.buffer_updated(size)

    def _fatal(self, error: BaseException) -> None:
        """The protocol failed: as asyncio does, report it and drop the connection."""
        self._loop.call_exception_handler(
            {"message": f"a protocol on {self.host} failed", "exception": error}
        )
        if not self._ended:
            if not self.gone:
                self._leave()
            self._end(error)

    # -- endings -----------------------------------------------------------------------------

    def _finish(self) -> None:
        """Everything written has left: go."""
        if self._ended:
            return
        if not self.gone:
            self._leave(politely=not self._has_unread())
        self._end(None)

    def _has_unread(self) -> bool:
        return any(not isinstance(piece, Mark) for piece in self._incoming)

    def _leave(self, *, politely: bool | None = None) -> None:
        """The kernel drops the connection and says so. ``politely``: by the end of the stream,
        after all that is under way; not so: by a reset, after a part of it; None: drawn, but never
        politely when bytes are unread."""
        entropy = self._network.entropy
        if politely is None:
            politely = not self._has_unread() and entropy.random() < 0.5
        if politely:
            self._say_eof()
        else:
            if entropy.random() < 0.5:
                self._under_way = _first_part(self._under_way, entropy.random())
            self._put_on_wire(Mark.RESET)
        self.gone = True

    def _end(self, error: BaseException | None) -> None:
        if self._ended:
            return
        self._ended = self._closing = self.gone = True
        self._incoming.clear()
        self._unsent.clear()
        self._unsent_bytes = 0
        self.process.transports.pop(self, None)
        self.connection.forget_if_over()
        if self.protocol is not None:
            self.process.post(self.protocol.connection_lost, error)

    def give_up(self) -> None:
        """Nobody wants this end, before it ever began."""
        if not self.gone:
            self._leave(politely=False)
        self._end(None)

    def hear_reset(self) -> None:
        """The kernel hears that the connection is broken."""
        if self.gone:
            return
        self.gone = True
        self._reset = ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
        self._loop.trace(f"net {self.connection.number} {self.host} broken")
        self.connection.forget_if_over()
        self._post_read()

    def take_part_of_what_comes(self, share: float) -> None:
        """Let a first part of what is under way to this end arrive now, and lose the rest."""
        sender = self.other
        wire = self._network.wire(sender.host, self.host)
        if not wire.held and not self.gone:
            arrived = _first_part(sender._under_way, share)
            self._incoming.extend(arrived)
            if arrived:
                self._post_read()
        sender._under_way.clear()

    def process_died(self, *, reset: bool) -> None:
        """The process of this end is dead; ``reset``: its kernel closes what it had open."""
        if not self.gone:
            if reset:
                self._leave()
            elif self.other._under_way or self.other._unsent:
                self._network.hosts[self.host].orphans[self.other] = None
        self.gone = self._ended = self._closing = True
        self._incoming.clear()
        self.connection.forget_if_over()


def _first_part(pieces: deque[Piece], share: float) -> deque[Piece]:
    """Return the first bytes of what is under way, cut anywhere, without the end of the stream."""
    left = int(share * sum(len(piece) for piece in pieces if isinstance(piece, bytes)))
    part: deque[Piece] = deque()
    for piece in pieces:
        if isinstance(piece, Mark) or left <= 0:
            break
        part.append(piece[:left])
        left -= len(piece)
    return part
