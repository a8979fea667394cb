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
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from oncelog_broker.server.peer_identity import ANONYMOUS, NOBODY_KNOWN, PeerIdentity
from oncelog_protocol import limits
from oncelog_protocol.identity import Introduction
from oncelog_protocol.messages.base import Request
from oncelog_protocol.records.batch import MAGIC
from oncelog_protocol.sasl.server_authentication import ServerAuthentication
from oncelog_protocol.types import TopicPartition

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
    known: PeerIdentity = NOBODY_KNOWN
    """This much the peer has proved of itself."""
    must_authenticate: bool = False
    """Whether nothing is served before the peer has authenticated by SASL."""
    authentication: ServerAuthentication | None = None
    """It is the exchange by which the peer authenticates, owned by its handler; None: none is under
    way."""
    named_mechanism: str = ""
    """A client of Kafka names the mechanism of its exchange before it begins; "": it has not."""
    users_version: int = -1
    """Users had this version when the exchange began."""
    ends: bool = False
    """The connection ends with the next answer."""
    software: tuple[str, str] = ("", "")
    """The peer has said that it runs on this client, by name and version; clients of Kafka say it
    (KIP-511)."""
    encrypted: bool = False
    """Whether the connection speaks TLS."""
    closed: bool = False
    """It tells whether the connection is gone; an answer given now is dropped."""
    room: Callable[[], int] = lambda: limits.FETCH_BYTES_MAX
    """It returns how many bytes of records an answer may have now; 0: none, look again later."""

    keep_behind: Callable[[int], Callable[[], None]] = lambda _: lambda: None
    """It keeps the requests behind the one that is being begun from beginning, until what it
    returns is called; meanwhile the request holds a copy of so many bytes."""

    held_until: float = 0.0
    """Until then, in the loop's time, the peer is to wait: a quota is exceeded. 0.0: it is not."""

    def names_software(self, name: str, version: str) -> None:
        """Note which client the peer says that it runs on."""
        self.software = name, version

    def hold(self, until: float) -> None:
        """Hold the connection until ``until`` at least, in the loop's time."""
        self.held_until = max(self.held_until, until)

    def let_go(self) -> None:
        """Note that the peer has waited for long enough."""
        self.held_until = 0.0

    def keep_session(self, session: FetchSession) -> None:
        """Keep a fetch session until the connection is gone, which closes it."""
        self.fetch_session = session
        self.on_close.append(session.close)

    def drop_session(self, session: FetchSession) -> None:
        """Let go of a session that was kept: it has ended before its connection."""
        self.on_close.remove(session.close)
        self.fetch_session = None

    def proved(self, known: PeerIdentity) -> None:
        """Note what the peer's certificate has proved. Where it authenticates by SASL as well, that
        says who it is, and the certificate only for how long."""
        self.known = replace(known, principal=ANONYMOUS) if self.must_authenticate else known

    def names(self, mechanism: str) -> None:
        """Note the mechanism of the exchange that is to begin."""
        self.named_mechanism = mechanism

    def authenticates(self, authentication: ServerAuthentication, users_version: int) -> None:
        """Keep the exchange that is under way, begun when users had this version."""
        self.authentication = authentication
        self.users_version = users_version

    def authenticated(self, principal: str, session_ends_s: float, mechanism: str) -> None:
        """Note who the peer has authenticated as, by what, and until when by the loop's time."""
        self.known = replace(
            self.known, principal=principal, session_ends_s=session_ends_s, mechanism=mechanism
        )
        self.must_authenticate = False
        self.authentication = None
        self.named_mechanism = ""

    def end(self) -> None:
        """Have the connection end with the next answer."""
        self.ends = True

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
    """It tells who asks, by what is known of the connection."""

    listener: str
    broker_id: int | None
    """It is the broker that asks; None is a client, on whatever listener."""
    principal: str
    client_id: str
    peer: str
    """It is the address of the peer as ``host:port``, for logs."""
    api_version: int
    connection: ConnectionState
    introduction: Introduction = NOBODY
    """The peer said this of itself and of us in the first exchange."""
    magic: int = MAGIC
    """Batches that come in by this listener are of this format."""
    by_number: bool = False
    """The asker is a client of Kafka from before KIP-890: its transactions end by number."""
    record_errors: dict[TopicPartition, Sequence[int]] | None = None
    """Produce notes here which records of a batch were refused, by number from 0, before it
    answers (KIP-467); None: the asker does not take that."""

    @property
    def is_broker(self) -> bool:
        """Return whether a broker asks, which may touch internal topics."""
        return self.broker_id is not None

    def told(
        self,
        api_version: int,
        *,
        magic: int,
        by_number: bool,
        record_errors: dict[TopicPartition, Sequence[int]],
    ) -> RequestContext:
        """Return the same asker, whose request is told in another version and in other batches.

        Each request of Kafka's needs two of these; ``dataclasses.replace`` is five times as slow.
        """
        return RequestContext(
            self.listener,
            self.broker_id,
            self.principal,
            self.client_id,
            self.peer,
            api_version,
            self.connection,
            self.introduction,
            magic,
            by_number,
            record_errors,
        )


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
