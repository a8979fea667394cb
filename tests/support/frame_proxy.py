"""A proxy knows frames: it keeps the requests that pass, withholds some, and sends them again.

What it sends again travels over a connection of its own, as a request does that was delayed on the
way while its sender went on over another.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack

from support.server import RawPeer

__all__ = ["Captured", "FrameProxy"]


@dataclass(slots=True)
class Captured:
    """It is a request that came by."""

    api_key: int
    frame: bytes
    """All of it, with its length."""
    target: tuple[str, int]
    """The broker that it was for."""
    withheld: bool = False

    async def send_again(self, timeout_s: float = 10.0) -> Any:
        """Deliver it once more, or late; returns the body of the response."""
        peer = await RawPeer.connect(self.target, hello=True)
        try:
            peer.send(self.frame)
            return (await peer.response(timeout_s))[1]
        finally:
            await peer.close()


class FrameProxy:
    """It forwards to ``host:port`` and listens on 127.0.0.1 at ``port``.

    ``captured`` has the requests in the order in which they came. A request for which ``withhold``
    is true is kept and not forwarded; its sender waits in vain.
    """

    def __init__(self, target_host: str, target_port: int) -> None:
        self.port = 0
        self.captured: list[Captured] = []
        self.withhold: Callable[[int], bool] = lambda api_key: False
        self._target = (target_host, target_port)
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def start(self, port: int = 0) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Drop everything."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        try:
            answers, upstream = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, upstream))
                group.create_task(_pump(answers, writer))
        except* (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()
            upstream.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter) -> None:
        while True:
            prefix = await reader.readexactly(8)
            size, head_bytes = struct.unpack(">II", prefix)
            rest = await reader.readexactly(size - 4)
            api_key = msgpack.unpackb(rest[:head_bytes])[0]
            request = Captured(api_key, prefix + rest, self._target, self.withhold(api_key))
            self.captured.append(request)
            if not request.withheld:
                upstream.write(request.frame)
                await upstream.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    raise EOFError
