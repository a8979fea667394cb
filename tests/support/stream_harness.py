"""A test of TCP streams may use this, over this machine's loopback interface.

``End`` is a protocol that writes down what it hears.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

Factory = Callable[[], asyncio.BufferedProtocol]


class StreamHarness(Protocol):
    """It is a machine that serves and a machine that connects."""

    address: str
    """The machine that serves."""
    unhandled: list[dict[str, Any]]
    """All that the loop's exception handler was told."""

    async def serve(
        self, factory: Factory, *, port: int = 0, start_serving: bool = True
    ) -> asyncio.Server:
        """Call ``loop.create_server`` there."""
        ...

    async def connect(self, factory: Factory, port: int) -> asyncio.Transport:
        """Call ``loop.create_connection`` here."""
        ...


class RealStreams:
    """It uses the loopback interface of this machine, on the loop that runs."""

    address = "127.0.0.1"

    def __init__(self) -> None:
        self.unhandled: list[dict[str, Any]] = []
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self.unhandled.append(context))

    async def serve(
        self, factory: Factory, *, port: int = 0, start_serving: bool = True
    ) -> asyncio.Server:
        """See ``StreamHarness``."""
        return await self._loop.create_server(
            factory, self.address, port, start_serving=start_serving
        )

    async def connect(self, factory: Factory, port: int) -> asyncio.Transport:
        """See ``StreamHarness``."""
        transport, _ = await self._loop.create_connection(factory, self.address, port)
        return transport


class End(asyncio.BufferedProtocol):
    """It is one end of a connection and knows what became of it.

    :param buffer_bytes: how much it can read at once.
    :param stay_open: whether it goes on writing after the other end has no more to say.
    :param on_made: called when it is connected.
    :param on_read: called after each read.
    :param on_eof: called when the other end has no more to say.
    """

    def __init__(
        self,
        *,
        buffer_bytes: int = 4096,
        stay_open: bool = False,
        on_made: Callable[[End], None] | None = None,
        on_read: Callable[[End], None] | None = None,
        on_eof: Callable[[End], None] | None = None,
    ) -> None:
        self.received = bytearray()
        self.heard: list[str] = []
        """Names of the calls besides reads: "made", "eof", "lost", "pause", "resume"."""
        self.error: Exception | None = None
        self._buffer = bytearray(buffer_bytes)
        self._stay_open = stay_open
        self._on_made, self._on_read, self._on_eof = on_made, on_read, on_eof
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """Return this end's transport."""
        assert self._transport is not None
        return self._transport

    @property
    def made(self) -> bool:
        """Return whether it is or was connected."""
        return self._transport is not None

    @property
    def lost(self) -> bool:
        """Return whether the connection is over."""
        return "lost" in self.heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard.append("made")
        self._transport = cast(asyncio.Transport, transport)
        if self._on_made is not None:
            self._on_made(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert "eof" not in self.heard
        assert 0 < nbytes <= len(self._buffer)
        self.received += self._buffer[:nbytes]
        if self._on_read is not None:
            self._on_read(self)

    def eof_received(self) -> bool:
        self.heard.append("eof")
        if self._on_eof is not None:
            self._on_eof(self)
        return self._stay_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("lost")
        self.error = exc

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")
