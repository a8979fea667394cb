"""A frame has a length prefix, a msgpack head and a payload; a reader is fed its bytes.

::

    frame := size:u32  head:u32  msgpack[head]  payload[size - 4 - head]      (big-endian)

Owned here: the receive buffer of a connection. The reader does no I/O; a transport asks
:meth:`FrameReader.get_buffer` where to write and tells :meth:`FrameReader.received` how much came,
as ``asyncio.BufferedProtocol`` does.

Rules
-----
* A claimed size allocates nothing: buffers grow by doubling as bytes arrive. Sizes are refused as
  soon as the four bytes are there.
* The payload is not copied between the socket and its user, except that of small frames when the
  reader gives payloads away (``reuse=False``), and the beginning of a frame that must move to the
  front of the buffer.
* While one large frame arrives, the transport is given room up to its end and not beyond, so that
  the next frame begins at the front and nothing has to move.
* A reader of small frames serves a peer that is not known yet: its buffer begins with 4 KiB and
  only doubles as it fills. A frame above the limit that comes behind others is left to the next
  call, for they may raise the limit.
* After an error the reader is dead and raises the same error again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.packing import MalformedError, pack, unpack
from oncelog_protocol.types import Buffer

PREFIX = struct.Struct(">II")
SIZE = struct.Struct(">I")

FIRST_BUFFER_BYTES = 4 * 1024
"""A reader begins with this much when its first byte comes: a connection that says little costs
little, and one that says nothing costs nothing."""

BUFFER_BYTES_MIN = 64 * 1024
"""A reader has this much once a read has filled its first buffer."""

OWN_BUFFER_BYTES_MIN = 16 * 1024
"""From here on a frame whose payload is given away gets a buffer of its own instead of a copy."""

OWN_READ_BYTES_MIN = 128 * 1024
"""From here on a frame is worth a read of its own: one more system call costs less than moving the
beginning of the frame after it."""

BUFFER_KEPT_BYTES = 1024 * 1024
"""A reused buffer above this size is halved when it has long been too large."""

OVERSIZED_ROUNDS_MAX = 64
"""So many times in a row the buffer was emptied with less than a quarter of it used: too large."""

EMPTY = memoryview(b"")


class Frame(NamedTuple):
    """A frame is what msgpack made of the head, and the payload as it lies in memory."""

    head: list[Any]
    payload: memoryview


def encode_frame(head: object, payload: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the buffers of one frame, in order, the payload's own ones among them (not copied).

    :raises LocalProtocolError: the head or the frame is above its limit, or msgpack cannot hold it.
    """
    try:
        packed = pack(head)
    except MalformedError as exc:
        raise LocalProtocolError(f"frame head: {exc}") from exc
    head_bytes = len(packed)
    if head_bytes > limits.HEAD_BYTES_MAX:
        raise LocalProtocolError(f"frame head: {head_bytes} bytes, at most {limits.HEAD_BYTES_MAX}")
    size = 4 + head_bytes
    for part in payload:
        size += len(part)
    if size + limits.FRAME_SIZE_BYTES > limits.FRAME_BYTES_MAX:
        raise LocalProtocolError(f"frame: {size} bytes, at most {limits.FRAME_BYTES_MAX}")
    return [PREFIX.pack(size, head_bytes) + packed, *payload]


class FrameReader:
    """It takes bytes and gives frames, for one direction of one connection.

    :param frame_bytes_max: largest frame, its size field included. May be raised later.
    :param reuse: true: payloads are views into one writable buffer and valid only until the next
        :meth:`get_buffer`. False: payloads belong to the receiver for good.
    """

    __slots__ = (
        "_earned_bytes",
        "_end",
        "_error",
        "_needed",
        "_oversized_rounds",
        "_reuse",
        "_shared",
        "_small",
        "_start",
        "_view",
        "frame_bytes_max",
    )

    def __init__(self, *, frame_bytes_max: int, reuse: bool) -> None:
        self.limit(frame_bytes_max)
        self._reuse = reuse
        self._view = EMPTY
        # Unparsed bytes are view[start:end]; needed is the size of the frame that begins at start,
        # 0 while that is not known.
        self._start = 0
        self._end = 0
        self._needed = 0
        # While one large frame has a buffer of its own, to be given away (reuse=False): the buffer
        # for all the others.
        self._shared: memoryview | None = None
        # The last large frame: what this peer has shown that it sends.
        self._earned_bytes = 0
        self._oversized_rounds = 0
        self._error: RemoteProtocolError | None = None

    def limit(self, frame_bytes_max: int) -> None:
        """Accept larger frames, or only smaller ones."""
        self.frame_bytes_max = frame_bytes_max
        self._small = frame_bytes_max <= BUFFER_BYTES_MIN

    @property
    def partial(self) -> bool:
        """Return whether a frame has begun and is not complete: the peer owes the rest of it."""
        return self._end > self._start

    @property
    def buffer_bytes(self) -> int:
        """Return the memory that the reader holds at the moment."""
        return len(self._view)

    @property
    def opening(self) -> bytes:
        """Return the first bytes, at most 16, of what no frame was made of."""
        return bytes(self._view[self._start : min(self._end, self._start + 16)])

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return room for the transport to write into; it is never empty.

        With ``reuse`` this ends the life of all payloads handed out before.
        """
        start, end = self._start, self._end
        usual = FIRST_BUFFER_BYTES if self._small else BUFFER_BYTES_MIN
        if start == end:
            self._start = self._end = 0
            if end == len(self._view) < usual:
                self._adopt(usual if end else FIRST_BUFFER_BYTES, 0, 0)
            if self._reuse and len(self._view) > BUFFER_KEPT_BYTES:
                self._shrink_when_long_too_large(end)
            if OWN_READ_BYTES_MIN <= self._earned_bytes < len(self._view):
                return self._view[: self._earned_bytes]
            return self._view
        needed = self._needed
        capacity = len(self._view)
        if start and (start + needed > capacity or capacity - end < OWN_BUFFER_BYTES_MIN):
            length = end - start
            self._view[:length] = self._view[start:end]
            self._start, self._end = start, end = 0, length
        if end == capacity:
            # Full, so the frame is longer than the buffer: what has come is what it may claim.
            capacity = max(2 * capacity, usual)
            if self._shared is not None:
                capacity = min(capacity, needed)
            self._adopt(capacity, start, end)
        frame_end = start + needed
        if needed >= OWN_READ_BYTES_MIN and frame_end < capacity:
            return self._view[end:frame_end]
        return self._view[end:]

    def received(self, nbytes: int) -> list[Frame]:
        """Return the frames that are complete now that ``nbytes`` were written into the last
        buffer.

        :raises RemoteProtocolError: an illegal size, head, or msgpack; the reader is dead then.
        """
        if self._error is not None:
            raise self._error
        self._end += nbytes
        frames: list[Frame] = []
        try:
            self._parse(frames)
        except RemoteProtocolError as exc:
            self._error = exc
            raise
        return frames

    def release(self) -> None:
        """Let go of the buffer: nothing comes any more. A reader outlives its connection in cycles
        of objects, and a buffer of megabytes would wait with it for the garbage collector."""
        self._view, self._shared = EMPTY, None
        self._start = self._end = self._needed = 0

    def _parse(self, frames: list[Frame]) -> None:
        """Take complete frames off the front; remember how much the one after them needs."""
        view, start, end = self._view, self._start, self._end
        needed = 0
        while end - start >= limits.FRAME_PREFIX_BYTES:
            size, head_bytes = PREFIX.unpack_from(view, start)
            needed = size + limits.FRAME_SIZE_BYTES
            if needed > self.frame_bytes_max or size - 4 < head_bytes or not head_bytes:
                if frames and self._small:
                    needed = 0
                    break
                raise _illegal_prefix(size, head_bytes, self.frame_bytes_max)
            if head_bytes > limits.HEAD_BYTES_MAX:
                raise _illegal_prefix(size, head_bytes, self.frame_bytes_max)
            frame_end = start + needed
            if frame_end > end:
                break
            head_end = start + limits.FRAME_PREFIX_BYTES + head_bytes
            head = _unpack_head(view[start + limits.FRAME_PREFIX_BYTES : head_end])
            if head_end == frame_end:
                payload = EMPTY
            elif self._reuse or self._shared is not None:
                payload = view[head_end:frame_end]
            else:
                payload = memoryview(bytes(view[head_end:frame_end]))
            frames.append(Frame(head, payload))
            start = frame_end
            if needed >= OWN_BUFFER_BYTES_MIN:
                self._earned_bytes = needed
            needed = 0
        self._start = start
        waits = self._small and bool(frames)
        if limits.FRAME_SIZE_BYTES <= end - start < limits.FRAME_PREFIX_BYTES and not waits:
            self._check_size_alone(start)
        self._needed = needed
        if not self._reuse:
            self._change_buffer(needed)

    def _check_size_alone(self, start: int) -> None:
        (size,) = SIZE.unpack_from(self._view, start)
        if size < 5 or size + limits.FRAME_SIZE_BYTES > self.frame_bytes_max:
            raise _illegal_prefix(size, 0, self.frame_bytes_max)

    def _change_buffer(self, needed: int) -> None:
        """Give a frame's own buffer away after the frames of one read, or begin one."""
        if self._shared is not None:
            if self._start == self._end:
                self._view, self._shared = self._shared, None
                self._start = self._end = 0
        elif needed >= OWN_BUFFER_BYTES_MIN:
            # As large as this peer has sent before in one frame, or twice what has come; may grow.
            shared, arrived = self._view, self._end - self._start
            self._adopt(
                min(needed, max(2 * arrived, BUFFER_BYTES_MIN, self._earned_bytes)),
                self._start,
                self._end,
            )
            self._shared = shared

    def _adopt(self, capacity: int, start: int, end: int) -> None:
        """Begin a new buffer with view[start:end]. The old one may still be in use, by the
        transport or as a payload, so it is left as it is."""
        view = memoryview(bytearray(capacity))
        view[: end - start] = self._view[start:end]
        self._view = view
        self._start, self._end = 0, end - start

    def _shrink_when_long_too_large(self, used: int) -> None:
        if used * 4 > len(self._view):
            self._oversized_rounds = 0
            return
        self._oversized_rounds += 1
        if self._oversized_rounds >= OVERSIZED_ROUNDS_MAX:
            self._oversized_rounds = 0
            self._adopt(len(self._view) // 2, 0, 0)


class SizedFrameReader(FrameReader):
    """It takes frames of another protocol, as Kafka's: a size, and so many bytes, which all are
    payload. The payloads are valid only until the next :meth:`get_buffer`.

    :param body_bytes_min: a frame with fewer bytes after its size is refused.
    """

    __slots__ = ("_body_bytes_min",)

    def __init__(self, *, frame_bytes_max: int, body_bytes_min: int) -> None:
        super().__init__(frame_bytes_max=frame_bytes_max, reuse=True)
        self._body_bytes_min = body_bytes_min

    def _parse(self, frames: list[Frame]) -> None:
        view, start, end = self._view, self._start, self._end
        needed = 0
        while end - start >= limits.FRAME_SIZE_BYTES:
            (size,) = SIZE.unpack_from(view, start)
            needed = size + limits.FRAME_SIZE_BYTES
            if needed > self.frame_bytes_max or size < self._body_bytes_min:
                raise RemoteProtocolError(
                    f"frame: a size of {size}; it may have {self.frame_bytes_max} bytes with its "
                    f"size, and has {self._body_bytes_min} at least without"
                )
            frame_end = start + needed
            if frame_end > end:
                break
            frames.append(Frame([], view[start + limits.FRAME_SIZE_BYTES : frame_end]))
            start = frame_end
            if needed >= OWN_BUFFER_BYTES_MIN:
                self._earned_bytes = needed
            needed = 0
        self._start = start
        self._needed = needed


def _unpack_head(packed: memoryview) -> list[Any]:
    try:
        head = unpack(
            packed,
            array_count_max=limits.ARRAY_COUNT_MAX,
            list_count_max=limits.HEAD_ARRAYS_MAX,
        )
    except MalformedError as exc:
        raise RemoteProtocolError(f"frame head: {exc}") from exc
    if type(head) is not list:
        raise RemoteProtocolError(f"frame head: {type(head).__name__} is not an array")
    return head


def _illegal_prefix(size: int, head_bytes: int, frame_bytes_max: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"frame prefix: size {size}, head {head_bytes}; the frame may have {frame_bytes_max} bytes,"
        f" its head {limits.HEAD_BYTES_MAX}, and the head fits the frame"
    )
