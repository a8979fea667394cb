"""The raw baseline is the cost of the same bytes on this machine without a broker.

A uvloop server receives the same frames over loopback, checks the CRC of the batch and appends it
to one file; nothing is synced, indexed or replicated. A client sends pre-built frames, five in
flight. Whatever Oncelog reaches is set beside this.
"""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import crc32c
import uvloop

from oncelog_protocol.records.batch import iter_headers

_ACK = b"\x00\x00\x00\x04acks"
_CRC_AT = 17
_CRC_FROM = 21


class _BaselineServer(asyncio.BufferedProtocol):
    """The server reads frames ``size:u32 batch`` into one reused buffer, and sends one ack each."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray(4 * 1024 * 1024)
        self._view = memoryview(self._buffer)
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        start = 0
        while self._filled - start >= 4:
            (size,) = struct.unpack_from(">I", self._buffer, start)
            if self._filled - start - 4 < size:
                break
            batch = self._view[start + 4 : start + 4 + size]
            (crc,) = struct.unpack_from(">I", batch, _CRC_AT)
            if crc32c.crc32c(batch[_CRC_FROM:]) != crc:
                self._transport.abort()
                return
            os.write(self._fd, batch)
            self._transport.write(_ACK)
            start += 4 + size
        if start:
            rest = self._filled - start
            self._buffer[:rest] = self._buffer[start : self._filled]
            self._filled = rest


class _Client(asyncio.Protocol):
    """The client sends one frame ``count`` times with a bounded number in flight."""

    def __init__(self, frame: list[bytes | bytearray], count: int, in_flight: int) -> None:
        self._frame = frame
        self._to_send = count
        self._to_hear = count
        self._in_flight = in_flight
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        for _ in range(min(self._in_flight, self._to_send)):
            self._send()

    def _send(self) -> None:
        self._to_send -= 1
        self._transport.writelines(self._frame)

    def data_received(self, data: bytes) -> None:
        for _ in range(len(data) // len(_ACK)):
            self._to_hear -= 1
            if self._to_send:
                self._send()
        if self._to_hear == 0 and not self.done.done():
            self.done.set_result(None)


async def serve(path: str) -> None:
    """Serve on a free loopback port (printed on stdout) until cancelled."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
    server = await asyncio.get_running_loop().create_server(
        lambda: _BaselineServer(fd), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _drive(port: int, batch: bytes | bytearray, count: int, in_flight: int) -> float:
    frame = [struct.pack(">I", len(batch)), batch]
    began = time.perf_counter()
    transport, client = await asyncio.get_running_loop().create_connection(
        lambda: _Client(frame, count, in_flight), "127.0.0.1", port
    )
    await client.done
    elapsed = time.perf_counter() - began
    transport.close()
    return elapsed


def measure(
    directory: Path, batch: bytes | bytearray, *, total_bytes: int, repeats: int
) -> list[float]:
    """Return the MB/s of each repeat (10^6 bytes of batches a second)."""
    command = [sys.executable, "-m", "oncelog_bench.baseline", str(directory / "baseline.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            count = max(10, total_bytes // len(batch))
            uvloop.run(_drive(port, batch, 10, 5))
            rates = []
            for _ in range(repeats):
                elapsed = uvloop.run(_drive(port, batch, count, 5))
                rates.append(count * len(batch) / elapsed / 1e6)
            return rates
        finally:
            server.terminate()


def read_raw(files: Iterable[Path]) -> tuple[float, int]:
    """Read segment files and check every batch's CRC; return the seconds, and the bytes."""
    began = time.perf_counter()
    size = 0
    for path in files:
        data = memoryview(path.read_bytes())
        for position, header in iter_headers(data):
            body = data[position + _CRC_FROM : position + header.size_bytes]
            if crc32c.crc32c(body) != header.crc:
                raise RuntimeError(f"{path}: wrong CRC")
            size += header.size_bytes
    return time.perf_counter() - began, size


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
