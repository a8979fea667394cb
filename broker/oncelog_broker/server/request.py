"""A handler is told the asker, the listener and the way to answer here.

Rules
-----
* A handler is called synchronously while the connection's receive buffer still holds the frame:
  ``payload`` is valid (and writable) only until ``handle`` returns.
* ``respond`` is called exactly once, inside ``handle`` or later; a second call raises. Buffers
  given to it must stay unchanged until they are written (give ``bytes`` or views of immutable
  data).
* ``respond(None)`` ends a request that gets no response on the wire (Produce with acks=0).
* Errors of single items travel in the message. An :class:`~oncelog_protocol.errors.ApiError` raised
  by ``handle`` (or given by ``handle_async``) refuses the whole request: the dispatcher answers
  with an otherwise empty response of the API's class that carries its ``error_code``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oncelog_protocol import limits
from oncelog_protocol.identity import Introduction
from oncelog_protocol.messages.base import Request

Buffer = bytes | bytearray | memoryview


class Respond(Protocol):
    """It answers one request, exactly once."""

    def __call__(self, message: Any, payload: Sequence[Buffer] = ()) -> None:
        """Hand over the response, or None for none at all."""
        ...


class FetchSession(Protocol):
    """The fetch handler keeps one for each connection that fetches."""

    def close(self) -> None:
        """End it: the connection is gone."""
        ...


@dataclass(slots=True)
class ConnectionState:
    """Handlers keep this per connection; it is gone with it."""

    fetch_session: FetchSession | None = None
    """It is the follower's fetch session, owned by the fetch handler."""
    on_close: list[Callable[[], None]] = field(default_factory=list)
    """They are called once, in order, when the connection is lost; they must not raise."""
    closed: bool = False
    """It tells whether the connection is gone; an answer given now is dropped."""
    room: Callable[[], int] = lambda: limits.FETCH_BYTES_MAX
    """It returns how many bytes of records an answer may have now; 0: none, look again later."""

    def keep_session(self, session: FetchSession) -> None:
        """Keep a fetch session until the connection is gone, which closes it."""
        self.fetch_session = session
        self.on_close.append(session.close)

    def drop_session(self, session: FetchSession) -> None:
        """Let go of a session that was kept: it has ended before its connection."""
        self.on_close.remove(session.close)
        self.fetch_session = None

    def close(self) -> list[Callable[[], None]]:
        """Note that the connection is gone; return what is to be called for it, in order. A second
        call returns nothing."""
        self.closed = True
        callbacks, self.on_close = self.on_close, []
        return callbacks


NOBODY = Introduction()
"""It stands for a peer that has not said who it is."""


@dataclass(slots=True)
class RequestContext:
    """It tells who asks. ``internal`` says whether the listener is the one between brokers."""

    listener: str
    internal: bool
    principal: str
    client_id: str
    peer: str
    """It is the address of the peer as ``host:port``, for logs."""
    api_version: int
    connection: ConnectionState
    introduction: Introduction = NOBODY
    """The peer said this of itself and of us in the first exchange."""


class Handler(Protocol):
    """It serves one API, on the spot or by a callback later."""

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """Serve ``request``; see the rules of this module."""
        ...


class AsyncHandler(Protocol):
    """It serves one API whose answer must be awaited; the dispatcher runs it in a supervised task.

    The payload is not passed on: no such API carries one.
    """

    async def handle_async(self, context: RequestContext, request: Any) -> Any:
        """Serve ``request`` and return the response message."""
        ...


__all__ = [
    "AsyncHandler",
    "Buffer",
    "ConnectionState",
    "Handler",
    "Request",
    "RequestContext",
    "Respond",
]
