"""A TCP proxy with scissors: sits between a client and a server and cuts, refuses or swallows."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

_TLS_DATA = b"\x17\x03\x03"
PONG_BYTES_OVER_TLS = 42
"""A ping's answer of 20 bytes is a record of so many; all others are longer."""
Pass = Callable[[bytes], bool]


class TcpProxy:
    """It forwards to ``host:port`` until told otherwise. Listens at ``port``.

    :param patience_s: so long a client waits, connected, for a server that is not there.
    """

    def __init__(self, target_host: str, target_port: int, *, patience_s: float = 0.0) -> None:
        self.port = 0
        self.connections = 0
        """How many were accepted and forwarded so far."""
        self.silent = False
        """Swallow everything the server says; the connection stays open."""
        self._target = (target_host, target_port)
        self._patience_s = patience_s
        self._server: asyncio.Server | None = None
        self._cut = False
        self._cut_at_reply = False
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen, on a free port unless it is told which."""
        self._server = await asyncio.start_server(self._accept, host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Drop everything."""
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection and every new one until :meth:`mend`."""
        self._cut = True
        self.drop()

    def mend(self) -> None:
        """Forward again."""
        self._cut = False

    def drop(self) -> None:
        """Reset the connections there are; new ones are served."""
        for writer in list(self._writers):
            writer.transport.abort()

    def cut_at_next_reply(self) -> None:
        """Let the next ZooKeeper request through to the server, but not its reply: the
        connection breaks instead. Pings and watch events do not count."""
        self._cut_at_reply = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        if self._cut:
            writer.transport.abort()
            return
        try:
            upstream_reader, upstream = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers[writer] = self._writers[upstream] = None
        try:
            await asyncio.gather(
                self._pump(reader, upstream, lambda chunk: True),
                self._pump(upstream_reader, writer, self._lets_through),
            )
        finally:
            for end in (writer, upstream):
                self._writers.pop(end, None)
                end.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while True:
            try:
                return await asyncio.open_connection(*self._target)
            except OSError:
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(0.05)

    def _lets_through(self, chunk: bytes) -> bool:
        if self._cut_at_reply and _has_reply(chunk):
            self._cut_at_reply = False
            self.drop()
            return False
        return not self.silent

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lets: Pass
    ) -> None:
        try:
            while chunk := await reader.read(65536):
                if lets(chunk):
                    writer.write(chunk)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()


def _has_reply(chunk: bytes) -> bool:
    """Return whether a reply to a request is among a server's bytes.

    What answers a ping is none, nor is a watch event; either may come in one piece with a reply.
    """
    if chunk.startswith(_TLS_DATA):
        return len(chunk) > PONG_BYTES_OVER_TLS
    at = 0
    while at + 8 <= len(chunk):
        size, xid = struct.unpack_from(">ii", chunk, at)
        if xid >= 0:
            return True
        at += 4 + size
    return False
