"""The reader of frames is fed in every way, grows its buffer, and refuses some."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import frame, limits
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.frame import (
    BUFFER_BYTES_MIN,
    FIRST_BUFFER_BYTES,
    FrameReader,
    SizedFrameReader,
    encode_frame,
)
from oncelog_protocol.packing import pack
from oncelog_protocol.types import Buffer
from support.messages import buffer_bytes, feed

MIB = 2**20


def reader(*, reuse: bool = True, frame_bytes_max: int = limits.FRAME_BYTES_MAX) -> FrameReader:
    return FrameReader(frame_bytes_max=frame_bytes_max, reuse=reuse)


def frame_bytes(head: object, payload: bytes = b"") -> bytes:
    return buffer_bytes(encode_frame(head, [payload] if payload else []))


def pattern(size: int, seed: int = 0) -> bytes:
    return bytes((seed + i * 7) % 256 for i in range(256)) * (size // 256 + 1)


def payload_of(size: int, seed: int = 0) -> bytes:
    return pattern(size, seed)[:size]


def feed_copied(
    machine: FrameReader, data: bytes, piece: int = 2**30
) -> list[tuple[list[Any], bytes]]:
    """Return all frames, their payloads copied while they are valid."""
    out: list[tuple[list[Any], bytes]] = []
    view, pos = memoryview(data), 0
    while pos < len(view):
        buffer = machine.get_buffer(-1)
        count = min(len(buffer), len(view) - pos, piece)
        assert count > 0
        buffer[:count] = view[pos : pos + count]
        pos += count
        out += [(head, bytes(payload)) for head, payload in machine.received(count)]
    return out


# ---------------------------------------------------------------------------- encode


def test_a_frame_on_the_wire() -> None:
    head = pack([1, "a"])
    assert frame_bytes([1, "a"], b"xyz") == struct.pack(">II", 4 + len(head) + 3, len(head)) + (
        head + b"xyz"
    )


def test_payload_buffers_are_passed_on_and_not_copied() -> None:
    parts: list[Buffer] = [bytearray(b"one"), memoryview(b"two"), b"three"]
    buffers = encode_frame([0], parts)
    assert len(buffers) == 4
    assert all(mine is theirs for mine, theirs in zip(buffers[1:], parts, strict=True))


def test_limits_are_checked_before_sending() -> None:
    with pytest.raises(LocalProtocolError, match="frame head"):
        encode_frame([b"x" * limits.HEAD_BYTES_MAX])
    with pytest.raises(LocalProtocolError, match="at most"):
        encode_frame([0], [memoryview(bytes(limits.FRAME_BYTES_MAX // 2))] * 2)
    with pytest.raises(LocalProtocolError, match="frame head"):
        encode_frame([object()])


def test_the_largest_frame_goes_out() -> None:
    overhead = len(frame_bytes([0]))
    room = limits.FRAME_BYTES_MAX - overhead
    assert encode_frame([0], [bytes(room)])
    with pytest.raises(LocalProtocolError):
        encode_frame([0], [bytes(room + 1)])


# ---------------------------------------------------------------------------- reading

HEADS = st.lists(st.integers(0, 2**31) | st.text("abc", max_size=8) | st.none(), max_size=4)
SIZES = st.sampled_from([0, 1, 100, 5_000, 16_383, 16_384, 70_000, 131_072, 300_000])


@given(
    frames=st.lists(st.tuples(HEADS, SIZES), min_size=1, max_size=6),
    piece=st.sampled_from([7, 1_000, 65_536, 2**30]),
    reuse=st.booleans(),
)
def test_frames_come_out_as_they_went_in(
    frames: list[tuple[list[Any], int]], piece: int, reuse: bool
) -> None:
    sent = [(head, payload_of(size, i)) for i, (head, size) in enumerate(frames)]
    if piece == 7:
        sent = [(head, payload[:500]) for head, payload in sent]
    data = b"".join(frame_bytes(head, payload) for head, payload in sent)
    machine = reader(reuse=reuse)
    assert feed_copied(machine, data, piece) == sent
    assert not machine.partial


@pytest.mark.parametrize("reuse", [True, False])
def test_one_byte_at_a_time(reuse: bool) -> None:
    data = frame_bytes([1, "a"], b"xyz") + frame_bytes([2])
    machine = reader(reuse=reuse)
    assert feed_copied(machine, data, 1) == [([1, "a"], b"xyz"), ([2], b"")]


def test_partial_says_whether_the_peer_owes_bytes() -> None:
    data = frame_bytes([1], b"xyz")
    machine = reader()
    assert not machine.partial
    for byte in data[:-1]:
        assert not feed(machine, bytes([byte]))
        assert machine.partial
    assert len(feed(machine, data[-1:])) == 1
    assert not machine.partial


def test_many_small_frames_of_one_read_share_its_buffer() -> None:
    count = 1_000
    data = b"".join(frame_bytes([i], b"p%03d" % i) for i in range(count))
    one = reader()
    feed(one, frame_bytes([0], bytes(FIRST_BUFFER_BYTES)))
    frames = feed(one, data)
    assert [f.head for f in frames] == [[i] for i in range(count)]
    assert len({id(f.payload.obj) for f in frames}) == 1
    assert bytes(frames[-1].payload) == b"p999"


def test_a_reader_grows_with_what_comes() -> None:
    """Thousands of silent connections must cost next to nothing."""
    one = reader()
    assert one.buffer_bytes == 0
    small = frame_bytes([0], b"little")
    for _ in range(3 * FIRST_BUFFER_BYTES // len(small)):
        feed(one, small)
        assert one.buffer_bytes == FIRST_BUFFER_BYTES
    feed(one, frame_bytes([0], bytes(FIRST_BUFFER_BYTES)))
    assert one.buffer_bytes == BUFFER_BYTES_MIN


def test_reused_payloads_are_writable() -> None:
    (received,) = feed(reader(), frame_bytes([1], b"xyz"))
    received.payload[0:1] = b"X"
    assert bytes(received.payload) == b"Xyz"


@pytest.mark.parametrize("size", [10, 20_000, 70_000, 3 * MIB])
def test_owned_payloads_stay_valid_for_ever(size: int) -> None:
    machine = reader(reuse=False)
    kept = [
        frame for i in range(3) for frame in feed(machine, frame_bytes([i], payload_of(size, i)))
    ]
    feed(machine, frame_bytes([9], bytes(size)))
    for i, received in enumerate(kept):
        assert bytes(received.payload) == payload_of(size, i)


def test_a_steady_stream_of_large_frames_uses_one_buffer_and_moves_nothing() -> None:
    machine = reader()
    data = frame_bytes([1], payload_of(MIB))
    buffers = []
    for _ in range(5):
        frames = feed(machine, data, piece=200_000)
        assert bytes(frames[0].payload) == payload_of(MIB)
        buffers.append(frames[0].payload.obj)
        # The payload lies where the transport wrote it: behind the prefix, at the front.
        view = memoryview(buffers[-1])
        assert bytes(view[: len(data)]) == data
    # The first frame made the buffer grow; from then on it is the same one.
    assert all(buffer is buffers[0] for buffer in buffers)


def test_a_large_frame_that_gives_its_payload_away_is_not_copied_either() -> None:
    machine = reader(reuse=False)
    data = frame_bytes([1], payload_of(MIB))
    feed(machine, data)
    (received,) = feed(machine, data, piece=100_000)
    # The buffer that the frame came in is the one that is given away, of exactly its size.
    assert len(memoryview(received.payload.obj)) == len(data)


def test_the_transport_gets_no_room_beyond_a_large_frame() -> None:
    machine = reader()
    data = frame_bytes([1], payload_of(MIB))
    feed(machine, data)
    feed(machine, data[:500_000])
    assert len(machine.get_buffer(-1)) == len(data) - 500_000


def test_payloads_in_use_do_not_hinder_growth_or_moves() -> None:
    machine = reader()
    (small,) = feed(machine, frame_bytes([1], b"small"))
    big = frame_bytes([2], payload_of(MIB))
    (received,) = feed(machine, big, piece=300_000)
    assert bytes(received.payload) == payload_of(MIB)
    assert len(small.payload) == 5


def test_a_large_buffer_is_given_back_when_long_unused() -> None:
    machine = reader()
    feed(machine, frame_bytes([1], bytes(16 * MIB)))
    assert machine.buffer_bytes >= 16 * MIB
    for _ in range(6 * frame.OVERSIZED_ROUNDS_MAX):
        feed(machine, frame_bytes([1], b"x"))
    assert machine.buffer_bytes <= frame.BUFFER_KEPT_BYTES


def test_a_large_buffer_is_kept_while_it_is_used() -> None:
    machine = reader()
    data = frame_bytes([1], bytes(4 * MIB))
    for _ in range(2 * frame.OVERSIZED_ROUNDS_MAX):
        feed(machine, data)
    assert machine.buffer_bytes >= 4 * MIB


def test_the_limit_can_be_raised_after_authentication() -> None:
    data = frame_bytes([1], bytes(100_000))
    machine = reader(frame_bytes_max=limits.FRAME_BYTES_MAX_UNAUTHENTICATED)
    with pytest.raises(RemoteProtocolError):
        feed(machine, data)
    machine = reader(frame_bytes_max=limits.FRAME_BYTES_MAX_UNAUTHENTICATED)
    machine.frame_bytes_max = limits.FRAME_BYTES_MAX
    assert len(feed(machine, data)) == 1


def test_a_reader_of_small_frames_has_a_buffer_that_only_doubles_as_it_fills() -> None:
    data = frame_bytes([1], bytes(50_000))
    machine = reader(frame_bytes_max=limits.FRAME_BYTES_MAX_UNAUTHENTICATED)
    for arrived, held in ((1, 4096), (4096, 8192), (8191, 8192), (8192, 16_384), (49_000, 65_536)):
        feed(machine, data[:arrived], piece=1000)
        machine.get_buffer(-1)
        assert machine.buffer_bytes == held
        machine = reader(frame_bytes_max=limits.FRAME_BYTES_MAX_UNAUTHENTICATED)
    for _ in range(10):
        assert len(feed(machine, data)) == 1
        assert machine.buffer_bytes == 65_536


def test_a_frame_that_is_too_large_waits_for_those_before_it_to_raise_the_limit() -> None:
    data = frame_bytes([1]) + frame_bytes([2], bytes(100_000))
    for arrived in range(len(frame_bytes([1])) + 4, len(frame_bytes([1])) + 20):
        machine = reader(frame_bytes_max=limits.FRAME_BYTES_MAX_UNAUTHENTICATED)
        assert len(feed(machine, data[:arrived])) == 1
        machine.limit(limits.FRAME_BYTES_MAX)
        assert len(feed(machine, data[arrived:])) == 1
        machine = reader(frame_bytes_max=limits.FRAME_BYTES_MAX_UNAUTHENTICATED)
        assert len(feed(machine, data[:arrived])) == 1
        with pytest.raises(RemoteProtocolError):
            machine.received(0)


def test_what_no_frame_was_made_of_can_be_looked_at() -> None:
    machine = reader()
    assert machine.opening == b""
    with pytest.raises(RemoteProtocolError):
        feed(machine, b"GET / HTTP/1.1\r\nHost: x\r\n")
    assert machine.opening == b"GET / HTTP/1.1\r\n"


# ---------------------------------------------------------------------------- refusing


@pytest.mark.parametrize("reuse", [True, False])
def test_a_frame_of_exactly_the_limit_is_taken_and_one_more_byte_is_not(reuse: bool) -> None:
    data = frame_bytes([1], bytes(1000))
    assert len(feed(reader(reuse=reuse, frame_bytes_max=len(data)), data)) == 1
    with pytest.raises(RemoteProtocolError):
        feed(reader(reuse=reuse, frame_bytes_max=len(data) - 1), data)


def test_an_illegal_size_is_refused_at_its_fourth_byte() -> None:
    machine = reader()
    assert feed(machine, b"\xff\xff\xff") == []
    with pytest.raises(RemoteProtocolError):
        feed(machine, b"\xff")


def test_after_an_error_the_reader_stays_dead() -> None:
    machine = reader()
    with pytest.raises(RemoteProtocolError) as first:
        feed(machine, b"\x00" * 8)
    with pytest.raises(RemoteProtocolError) as second:
        feed(machine, frame_bytes([1]))
    assert first.value is second.value


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("arrived", [8, 1000, 100_000])
@pytest.mark.cve("2022-34917")
def test_a_claimed_size_allocates_nothing(reuse: bool, arrived: int) -> None:
    prefix = struct.pack(">II", limits.FRAME_BYTES_MAX - 4, 100)
    data = prefix + bytes(arrived - len(prefix))
    tracemalloc.start()
    try:
        machine = reader(reuse=reuse)
        feed(machine, data)
        machine.get_buffer(-1)
        assert tracemalloc.get_traced_memory()[1] < max(4 * arrived, 256 * 1024)
    finally:
        tracemalloc.stop()


def test_memory_follows_what_arrived_not_what_was_claimed() -> None:
    machine = reader(reuse=False)
    prefix = struct.pack(">II", limits.FRAME_BYTES_MAX - 4, 100)
    feed(machine, prefix + bytes(5 * MIB), piece=65_536)
    assert machine.buffer_bytes <= 10 * MIB


# ---------------------------------------------------------------------------- frames of a size


@pytest.mark.parametrize("piece", [1, 1000, 2**30])
def test_frames_of_a_size_are_all_payload(piece: int) -> None:
    bodies = [b"ab", payload_of(200_000), b"", payload_of(70_000, 3)]
    data = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    sized = SizedFrameReader(frame_bytes_max=limits.FRAME_BYTES_MAX, body_bytes_min=0)
    assert feed_copied(sized, data, piece) == [([], body) for body in bodies]
    assert not sized.partial


@pytest.mark.parametrize("size", [1, 1000, 2**32 - 1])
def test_sizes_are_refused_as_soon_as_they_are_there(size: int) -> None:
    sized = SizedFrameReader(frame_bytes_max=1000, body_bytes_min=2)
    with pytest.raises(RemoteProtocolError, match=f"a size of {size}"):
        feed_copied(sized, struct.pack(">I", size))
