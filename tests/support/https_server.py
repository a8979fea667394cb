"""A server of one document over https does what the test says, also what no good server does."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

__all__ = ["Answer", "HttpsServer", "answer", "redirect", "silent", "slow", "status", "too_large"]

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
CHUNK = b"x" * 65536


def answer(document: bytes, head: str = "HTTP/1.1 200 OK") -> Answer:
    """Answer with a document."""

    async def give(writer: asyncio.StreamWriter) -> None:
        writer.write(f"{head}\r\nContent-Length: {len(document)}\r\n\r\n".encode() + document)

    return give


def chunked(document: bytes, size: int = 7) -> Answer:
    """Answer with a document in pieces, as servers behind proxies do."""

    async def give(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(document), size):
            piece = document[at : at + size]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        writer.write(b"0\r\n\r\n")

    return give


def status(line: str) -> Answer:
    """Answer without a document."""
    return answer(b"{}", f"HTTP/1.1 {line}")


def redirect(url: str) -> Answer:
    """Send whoever asks elsewhere."""
    return answer(b"", f"HTTP/1.1 302 Found\r\nLocation: {url}")


async def silent(writer: asyncio.StreamWriter) -> None:
    """Answer nothing, ever."""
    await asyncio.Event().wait()


def slow(pause_s: float, head: bytes = b"HTTP/1.1 200 OK\r\n") -> Answer:
    """Send an answer byte by byte, without an end."""

    async def give(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(pause_s)

    return give


def too_large(claimed: int | None) -> Answer:
    """Answer with a document of a gigabyte; None: it does not say so before."""

    async def give(writer: asyncio.StreamWriter) -> None:
        length = "" if claimed is None else f"Content-Length: {claimed}\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\n{length}\r\n".encode())
        for _ in range((1 << 30) // len(CHUNK)):
            writer.write(CHUNK)
            await writer.drain()
            await asyncio.sleep(0)  # so that it is noticed when whoever asked hangs up
            if writer.is_closing():
                return

    return give


class HttpsServer:
    """It answers every request alike, and counts them. It is a context manager."""

    def __init__(self, context: ssl.SSLContext, give: Answer) -> None:
        self._context = context
        self.give = give
        self.requests: list[bytes] = []
        """The heads of those that came."""
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> HttpsServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        serving = dict(self._serving)
        for task, writer in serving.items():
            # A polite close waits until what is left to send has gone, and nobody may take it.
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def url(self, path: str = "/keys", host: str = "127.0.0.1") -> str:
        """Return where the document is."""
        return f"https://{host}:{self.port}{path}"

    def answers(self, give: Answer) -> None:
        """Answer like this from now on."""
        self.give = give

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            await self.give(writer)
            await writer.drain()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # whoever asked has gone, or the test is over
        finally:
            writer.close()
            # The loop may end with the test: by then the socket has to be closed.
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            del self._serving[task]
