"""Both ends of a connection are machines without I/O: correlation, order, version handshake.

::

    request  := [api_key, api_version, correlation_id, client_id, body]
    response := [correlation_id, body] or [correlation_id, body, throttle_ms]

Rules
-----
* The first request of a connection is ApiVersions; the client then speaks, for each API, the
  highest version that both sides know.
* In that exchange both ends say who they are (see ``identity``). What does not fit ends the
  connection, on both ends, before anything else is served: nothing that was sent behind it is read.
* Responses come in the order of their requests. A response without a request, or out of turn, ends
  the connection.
* A response may tell how long to send nothing but what is never held (``quotas.NEVER_HELD``), to
  those that said by version 2 of ApiVersions that they take it (KIP-219).
* A message names its record batches by spans of the payload. Spans fill it from the first byte to
  the last, one after the other; that is checked when sending and again when receiving.
* What arrives is a message or a :class:`RemoteProtocolError`, or the :class:`ApiError` by which a
  handshake ends; nothing else gets past this file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from oncelog_protocol import limits, schema
from oncelog_protocol.errors import (
    LocalProtocolError,
    RebootstrapRequiredError,
    RemoteProtocolError,
    UnsupportedVersionError,
    error_for,
)
from oncelog_protocol.frame import Frame, FrameReader, encode_frame
from oncelog_protocol.identity import (
    UNKNOWN,
    UNRECOGNISED,
    Identity,
    Introduction,
    Recognition,
    misfit,
)
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.quotas import NEVER_HELD
from oncelog_protocol.registry import REQUESTS, negotiate
from oncelog_protocol.strangers import Stranger
from oncelog_protocol.types import NO_BROKER, Buffer

_CORRELATION_ID_MAX = 2**31 - 1
_INT16_MIN, _INT16_MAX = -(2**15), 2**15 - 1
THROTTLE_SINCE = 2
"""This version of ApiVersions says that its asker takes a throttle time."""
_NOTHING = memoryview(b"")


class Reply(NamedTuple):
    """It is a response, matched with its request."""

    correlation_id: int
    message: Any
    payload: memoryview
    throttle_ms: int = 0
    """So long, from now on, nothing that can be held is to be sent on this connection."""


@dataclass(slots=True)
class IncomingRequest:
    """It is a request as a broker received it. With ``error`` set, ``message`` is None: the API or
    its version is not spoken here."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    message: Request | None
    payload: memoryview
    error: UnsupportedVersionError | None = None
    misfit: RebootstrapRequiredError | None = None
    """Somebody else was meant: the answer says who is here, in ``identity``."""
    is_last: bool = False
    """The connection ends with the answer; nothing behind this request is read."""

    def release(self) -> None:
        """Let go of the message and of the receive buffer. The request can still be answered."""
        self.message = None
        self.payload = _NOTHING


class _PendingRequest(NamedTuple):
    correlation_id: int
    response: type
    version: int


class ClientConnection:
    """It is the requesting end.

    :param client_id: printable text, at most 1024 characters; for logs and quotas.
    :param reuse: payloads are valid only until the next :meth:`get_buffer` (see FrameReader).
    :param meant: the broker that is looked for, as far as it is known.
    :param own_broker_id: who asks, if it is a broker.
    :raises LocalProtocolError: an illegal client id.
    """

    def __init__(
        self,
        client_id: str,
        *,
        reuse: bool = False,
        frame_bytes_max: int = limits.FRAME_BYTES_MAX,
        meant: Identity = UNKNOWN,
        own_broker_id: int = NO_BROKER,
    ) -> None:
        if not _is_legal_client_id(client_id):
            raise LocalProtocolError("client id: not printable text, or too long")
        self.versions: dict[int, int] = {}
        """API key to the version in use; empty until the handshake is answered."""
        self.found: Identity = UNKNOWN
        """Who answered the handshake; unknown before, and if it speaks only version 0."""
        self.recognition: Recognition = UNRECOGNISED
        """How this side was known when it shook hands: before it authenticated by SASL."""
        self._client_id = client_id
        self._meant = meant
        self._own_broker_id = own_broker_id
        self._hello_version = ApiVersionsRequest.versions[1]
        self._asks_again = False
        self._new_reader = partial(FrameReader, frame_bytes_max=frame_bytes_max, reuse=reuse)
        self._reader = self._new_reader()
        self._pending: deque[_PendingRequest] = deque()
        self._last_correlation_id = -1

    @property
    def meant_broker_id(self) -> int:
        """Return the id of the broker that is looked for; -1 is any."""
        return self._meant.broker_id

    @property
    def in_flight(self) -> int:
        """Return the number of requests sent and not answered."""
        return len(self._pending)

    @property
    def partial(self) -> bool:
        """Return whether a response has begun to arrive and is not complete."""
        return self._reader.partial

    @property
    def asks_again(self) -> bool:
        """Return whether the handshake was answered by "not in this version": :meth:`handshake` is
        to be sent once more, over this connection or, if the peer has closed it, over a new one."""
        return self._asks_again

    def handshake(self) -> tuple[int, list[Buffer]]:
        """Return (correlation id, buffers to send) of the first request; its reply fills
        ``versions``, or says that one in an older version has to follow (``asks_again``)."""
        hello = ApiVersionsRequest(
            cluster_id=self._meant.cluster_id,
            broker_id=self._meant.broker_id,
            own_broker_id=self._own_broker_id,
        )
        return self._encode(hello, self._hello_version, (), expect_response=True)

    def reconnect(self) -> None:
        """Begin anew, on a new connection; the version of the handshake stays as it was learned."""
        self._reader = self._new_reader()
        self._pending.clear()
        self._last_correlation_id = -1

    def encode(
        self, request: Request, payload: Sequence[Buffer] = (), *, expect_response: bool = True
    ) -> tuple[int, list[Buffer]]:
        """Return (correlation id, buffers to send).

        :param expect_response: False for a Produce with acks=0, which is never answered.
        :raises UnsupportedVersionError: the peer does not speak this API, or no version of it that
            we do. Nothing was sent.
        :raises LocalProtocolError: before the handshake, above a limit, or a message that does not
            hold what its fields say.
        """
        version = self.versions.get(request.api_key)
        if version is None:
            if not self.versions:
                raise LocalProtocolError("a request before the answer to the handshake")
            raise UnsupportedVersionError(
                f"the broker speaks no version of {ApiKey(request.api_key).name} that we do"
            )
        return self._encode(request, version, payload, expect_response)

    def may_be_held(self, request: Request) -> bool:
        """Return whether ``request`` has to wait while the connection is held."""
        return request.api_key not in NEVER_HELD

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where the transport writes next; see :meth:`FrameReader.get_buffer`."""
        return self._reader.get_buffer(sizehint)

    def received(self, nbytes: int) -> list[Reply]:
        """Return the replies that are complete after ``nbytes`` more.

        :raises RemoteProtocolError: the peer broke the protocol; the connection is over.
        :raises RebootstrapRequiredError: somebody else than was meant is there; it names both.
        """
        return [self._reply(frame) for frame in self._reader.received(nbytes)]

    def _encode(
        self, request: Request, version: int, payload: Sequence[Buffer], expect_response: bool
    ) -> tuple[int, list[Buffer]]:
        if len(self._pending) >= limits.UNANSWERED_REQUESTS_MAX:
            raise LocalProtocolError(f"{len(self._pending)} requests are unanswered")
        _check_spans(request, payload)
        body = schema.encode(request, version)
        correlation_id = (self._last_correlation_id + 1) & _CORRELATION_ID_MAX
        head = [int(request.api_key), version, correlation_id, self._client_id, body]
        buffers = encode_frame(head, payload)
        self._last_correlation_id = correlation_id
        if expect_response:
            self._pending.append(_PendingRequest(correlation_id, request.response, version))
        return correlation_id, buffers

    def _reply(self, frame: Frame) -> Reply:
        head, payload = frame
        takes_throttle = self._hello_version >= THROTTLE_SINCE
        if len(head) != 2 and not (takes_throttle and len(head) == 3):
            raise RemoteProtocolError(f"response: an array of {len(head)}, not of 2")
        throttle_ms = head[2] if len(head) == 3 else 0
        if type(throttle_ms) is not int or not 0 <= throttle_ms <= limits.THROTTLE_MS_MAX:
            raise RemoteProtocolError("response: the throttle time does not hold")
        if not self._pending:
            raise RemoteProtocolError("response: nothing was asked")
        correlation_id, response, version = self._pending.popleft()
        if type(head[0]) is not int or head[0] != correlation_id:
            raise RemoteProtocolError(f"response: out of turn, {correlation_id} is next")
        if response is ApiVersionsResponse and _says_unsupported(head[1]):
            version = 0
        message: Any = schema.decode(response, head[1], version)
        _verify_spans(message, payload)
        if not self.versions and type(message) is ApiVersionsResponse:
            self._greeted(message)
        return Reply(correlation_id, message, payload, throttle_ms)

    def _greeted(self, answer: ApiVersionsResponse) -> None:
        if answer.error_code == UnsupportedVersionError.code:
            self._hello_version = self._older_hello(answer)
            self._asks_again = True
            return
        self._asks_again = False
        self.found = Identity(answer.cluster_id, answer.broker_id)
        self.recognition = recognition_in(answer)
        fault = misfit(self._meant, self.found)
        if fault or answer.error_code == RebootstrapRequiredError.code:
            fallback = f"expected {self._meant}, found {self.found}"
            raise RebootstrapRequiredError(fault or fallback)
        if answer.error_code:
            raise error_for(answer.error_code)
        self._negotiate(answer)

    def _older_hello(self, answer: ApiVersionsResponse) -> int:
        """The version to shake hands in after ``answer`` did not take ours."""
        offered = {api.api_key: (api.version_min, api.version_max) for api in answer.apis}
        version = negotiate(ApiVersionsRequest, offered) or 0
        if self._asks_again or version >= self._hello_version:
            raise UnsupportedVersionError("the peer speaks no version of ApiVersions that we do")
        return version

    def _negotiate(self, answer: ApiVersionsResponse) -> None:
        offered = {api.api_key: (api.version_min, api.version_max) for api in answer.apis}
        for api_key in sorted(REQUESTS):
            version = negotiate(REQUESTS[api_key], offered)
            if version is not None:
                self.versions[api_key] = version


class ServerConnection:
    """It is the answering end.

    :param reuse: payloads are valid only until the next :meth:`get_buffer` (see FrameReader).
    :param identity: who answers.
    :param between_brokers: askers must name themselves: version 0 of ApiVersions is refused.
    :param authenticates: the asker is known only once :meth:`trust` was called, not with its first
        exchange already.

    Little is taken from an asker that is not known yet: small frames in a small buffer, few bytes
    in all, and ApiVersions twice at most.
    """

    def __init__(
        self,
        *,
        reuse: bool = True,
        identity: Identity = UNKNOWN,
        between_brokers: bool = False,
        authenticates: bool = False,
    ) -> None:
        self.introduction = Introduction()
        """What the asker has said of itself and of us; the first ApiVersions says it for good."""
        self._identity = identity
        self._between_brokers = between_brokers
        self.known = False
        """Whether the asker was greeted, and has authenticated where it must."""
        self._authenticates = authenticates
        frame_bytes_max = limits.FRAME_BYTES_MAX_UNAUTHENTICATED
        self._reader = FrameReader(frame_bytes_max=frame_bytes_max, reuse=reuse)
        self._stranger = Stranger()
        self._greeted = False
        self._takes_throttle = False
        self._over = False
        self._client_id = ""

    @property
    def frame_bytes_max(self) -> int:
        """Return the size of the largest request frame that is accepted."""
        return self._reader.frame_bytes_max

    @property
    def client_id(self) -> str:
        """Return how the asker has named itself last, for logs; "" before its first request."""
        return self._client_id

    def trust(self) -> None:
        """Take requests of any size from now on: the asker is known."""
        self.known = True
        self._reader.limit(limits.FRAME_BYTES_MAX)

    @property
    def opening(self) -> bytes:
        """Return the first bytes, at most 16, of what no request was made of."""
        return self._reader.opening

    @property
    def partial(self) -> bool:
        """Return whether a request has begun to arrive and is not complete."""
        return self._reader.partial

    @property
    def buffer_bytes(self) -> int:
        """Return the memory of the receive buffer."""
        return self._reader.buffer_bytes

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where the transport writes next; see :meth:`FrameReader.get_buffer`."""
        return self._reader.get_buffer(sizehint)

    def release(self) -> None:
        """The connection is gone: let go of its receive buffer."""
        self._reader.release()

    def received(self, nbytes: int) -> list[IncomingRequest]:
        """Return the requests that are complete after ``nbytes`` more.

        :raises RemoteProtocolError: the peer broke the protocol; the connection is over.
        """
        if not self.known:
            return self._from_stranger(nbytes)
        return self._requests(self._reader.received(nbytes))

    def _from_stranger(self, nbytes: int) -> list[IncomingRequest]:
        self._stranger.sends(nbytes)
        requests = self._requests(self._reader.received(nbytes))
        if requests and self._reader.partial and not self._over:
            # What is behind the first exchange may be larger, if that made the peer known.
            requests += self._requests(self._reader.received(0))
        return requests

    def _requests(self, frames: Iterable[Frame]) -> list[IncomingRequest]:
        requests: list[IncomingRequest] = []
        for frame in frames:
            if self._over:
                break
            requests.append(self._request(frame))
        return requests

    def encode_response(
        self,
        incoming: IncomingRequest,
        message: Any,
        payload: Sequence[Buffer] = (),
        *,
        throttle_ms: int = 0,
    ) -> list[Buffer]:
        """Return the buffers to send in answer to ``incoming``, in its version.

        ``throttle_ms`` says how long to wait; an asker that does not take it is not told.

        A request with ``error`` set is answered with an ApiVersionsResponse of version 0, which
        says what is spoken here.

        :raises LocalProtocolError: not the response of that request, or above a limit.
        """
        if incoming.error is not None:
            expected: type = ApiVersionsResponse
            version = 0
        else:
            expected, version = REQUESTS[incoming.api_key].response, incoming.api_version
        if type(message) is not expected:
            raise LocalProtocolError(
                f"{type(message).__name__} does not answer {ApiKey(incoming.api_key).name}"
                if incoming.error is None
                else f"{type(message).__name__} does not answer a request that is not spoken here"
            )
        _check_spans(message, payload)
        head = [incoming.correlation_id, schema.encode(message, version)]
        if throttle_ms and self._takes_throttle:
            head.append(throttle_ms)
        return encode_frame(head, payload)

    def _request(self, frame: Frame) -> IncomingRequest:
        head, payload = frame
        if len(head) != 5:
            raise RemoteProtocolError(f"request: an array of {len(head)}, not of 5")
        api_key, version, correlation_id, client_id, body = head
        if (
            type(api_key) is not int
            or type(version) is not int
            or type(correlation_id) is not int
            or not 0 <= correlation_id <= _CORRELATION_ID_MAX
            or not _INT16_MIN <= api_key <= _INT16_MAX
            or not _INT16_MIN <= version <= _INT16_MAX
        ):
            raise RemoteProtocolError("request: API key, version or correlation id do not hold")
        if client_id != self._client_id:
            if not _is_legal_client_id(client_id):
                raise RemoteProtocolError("request: the client id is not printable text")
            self._client_id = client_id
        if not self._greeted and api_key != ApiKey.API_VERSIONS:
            raise RemoteProtocolError(f"request: API {api_key} before ApiVersions")
        incoming = IncomingRequest(api_key, version, correlation_id, self._client_id, None, payload)
        api = REQUESTS.get(api_key)
        if api is None or not api.versions[0] <= version <= api.versions[1]:
            incoming.error = _unsupported(api_key, version, api)
            incoming.is_last = self._over = True
            return incoming
        message = incoming.message = schema.decode(api, body, version)
        _verify_spans(message, payload)
        if type(message) is ApiVersionsRequest:
            self._introduce(incoming, message)
        return incoming

    def _introduce(self, incoming: IncomingRequest, hello: ApiVersionsRequest) -> None:
        """Compare whom the asker means with who is here."""
        if not self.known:
            self._stranger.greets()
        if self._between_brokers and incoming.api_version == 0:
            incoming.message = None
            incoming.error = UnsupportedVersionError(
                "ApiVersions version 0 names nobody: between brokers 1 is the lowest"
            )
            incoming.is_last = self._over = True
            return
        meant = Identity(hello.cluster_id, hello.broker_id)
        fault = misfit(meant, self._identity)
        if fault:
            incoming.misfit = RebootstrapRequiredError(fault)
            incoming.is_last = self._over = True
        elif not self._greeted:
            self._greeted = True
            self._takes_throttle = incoming.api_version >= THROTTLE_SINCE
            addressed = meant.whole and self._identity.whole
            self.introduction = Introduction(hello.own_broker_id, addressed)
            if not self._authenticates:
                self.trust()


def recognition_in(answer: ApiVersionsResponse) -> Recognition:
    """Return what an answer says of its asker."""
    return Recognition(
        answer.principal, answer.authenticated_by, answer.listener, answer.authorizer
    )


def _is_legal_client_id(value: object) -> bool:
    return type(value) is str and len(value) <= limits.NAME_CHARS_MAX and value.isprintable()


def _says_unsupported(body: object) -> bool:
    """Return whether an ApiVersions answer is of version 0, whatever was asked for."""
    return type(body) is list and len(body) > 0 and body[0] == UnsupportedVersionError.code


def _unsupported(api_key: int, version: int, api: type[Request] | None) -> UnsupportedVersionError:
    if api is None:
        return UnsupportedVersionError(f"API {api_key} is not spoken here")
    low, high = api.versions
    return UnsupportedVersionError(
        f"{api.api_key.name} version {version} is not spoken here, {low} to {high} are"
    )


def _check_spans(message: Any, payload: Sequence[Buffer]) -> None:
    fault = schema.span_fault(message, sum(map(len, payload)) if payload else 0)
    if fault:
        raise LocalProtocolError(fault)


def _verify_spans(message: Any, payload: memoryview) -> None:
    fault = schema.span_fault(message, len(payload))
    if fault:
        raise RemoteProtocolError(fault)
