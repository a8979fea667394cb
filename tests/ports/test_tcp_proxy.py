"""The proxy of the store's contract loses the reply that it is told to lose, and no other."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

import pytest

from support.tcp_proxy import TcpProxy

PONG_XID, EVENT_XID = -2, -1


def frame(xid: int, size: int = 16) -> bytes:
    """Return what ZooKeeper answers: length, xid, and the rest."""
    return struct.pack(">ii", size, xid) + bytes(size - 4)


async def read_through_the_proxy(said: list[bytes]) -> bytes:
    """Return what comes through, up to the end, of what a server says in answer to nods."""
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            for piece in said:
                if not await reader.read(1):
                    break
                writer.write(piece)
                await writer.drain()
        writer.close()
        served.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy = TcpProxy("127.0.0.1", server.sockets[0].getsockname()[1])
    await proxy.start()
    proxy.cut_at_next_reply()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    read = b""
    async with asyncio.timeout(10):
        with suppress(ConnectionResetError):
            writer.write(b".")
            while piece := await reader.read(65536):
                read += piece
                writer.write(b".")
        await served.wait()
    writer.close()
    server.close()
    await proxy.close()
    return read


@pytest.mark.parametrize("before", [[], [PONG_XID], [EVENT_XID, PONG_XID]])
async def test_a_reply_is_lost_whatever_comes_in_one_piece_with_it(before: list[int]) -> None:
    piece = b"".join(map(frame, before)) + frame(7)
    assert await read_through_the_proxy([piece, frame(8)]) == b""


async def test_pongs_and_events_are_no_replies() -> None:
    pieces = [frame(PONG_XID), frame(EVENT_XID, 60) + frame(PONG_XID)]
    assert await read_through_the_proxy([*pieces, frame(7)]) == b"".join(pieces)
