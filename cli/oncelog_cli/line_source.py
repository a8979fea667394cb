"""Lines come from standard input or a file, without blocking the loop.

Rules: a line ends with a newline, which is cut off; nothing else is touched. What a pipe or a
terminal holds is handed on at once. A line has a limit, so that a file without newlines does not
fill the memory.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator

READ_BYTES = 256 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024


class LineTooLongError(ValueError):
    """A line is longer than any record can be."""


class LineSource:
    """The lines come from an open file descriptor, which stays the caller's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self._is_file = stat.S_ISREG(status.st_mode)
        self.size_bytes = status.st_size if self._is_file else None
        """Of a regular file; None: nobody knows how much will come."""
        self.is_terminal = os.isatty(descriptor)
        self.read_bytes = 0
        """How much was read so far."""

    async def chunks(self) -> AsyncIterator[list[bytes]]:
        """Yield lists of lines, each as soon as it was read; the last line may lack its newline.

        :raises LineTooLongError: a line is longer than LINE_BYTES_MAX.
        """
        rest = bytearray()
        while data := await self._read():
            self.read_bytes += len(data)
            rest += data
            if b"\n" not in data:
                if len(rest) > LINE_BYTES_MAX:
                    raise LineTooLongError(f"a line is longer than {LINE_BYTES_MAX} bytes")
                continue
            lines = bytes(rest).split(b"\n")
            rest = bytearray(lines.pop())
            yield lines
        if rest:
            yield [bytes(rest)]

    async def _read(self) -> bytes:
        if not self._is_file:
            await self._readable()
        else:
            await asyncio.sleep(0)
        return os.read(self._descriptor, READ_BYTES)

    async def _readable(self) -> None:
        """Wait until a read returns at once. Not in a thread: a thread that reads a terminal could
        not be called back by Ctrl+C."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        try:
            loop.add_reader(self._descriptor, wake)
        except OSError:
            return  # nothing to wait for, as with /dev/null
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)
