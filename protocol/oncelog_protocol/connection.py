"""Both ends of a connection as machines without I/O: correlation, order, the version handshake.

::

    request  := [api_key, api_version, correlation_id, client_id, body]
    response := [correlation_id, body]

Rules
-----
* The first request of a connection is ApiVersions; the client then speaks, for each API, the
  highest version that both sides know.
* Responses come in the order of their requests. A response without a request, or out of turn, ends
  the connection.
* A message names its record batches by spans of the payload. Spans lie inside it, ascend and do
  not overlap; that is checked when sending and again when receiving.
* What arrives is a message or a :class:`RemoteProtocolError`; nothing else gets past this file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from oncelog_protocol import limits, schema
from oncelog_protocol.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from oncelog_protocol.frame import Frame, FrameReader, encode_frame
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.registry import REQUESTS, negotiate
from oncelog_protocol.types import Buffer

_CORRELATION_ID_MAX = 2**31 - 1
_INT16_MIN, _INT16_MAX = -(2**15), 2**15 - 1


class Reply(NamedTuple):
    """A response, matched with its request."""

    correlation_id: int
    message: Any
    payload: memoryview


@dataclass(slots=True)
class IncomingRequest:
    """A request as a broker received it. With ``error`` set, ``message`` is None: the API or its
    version is not spoken here."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    message: Request | None
    payload: memoryview
    error: UnsupportedVersionError | None = None


class _Pending(NamedTuple):
    correlation_id: int
    response: type
    version: int


class ClientConnection:
    """The requesting end.

    :param client_id: printable text, at most 1024 characters; for logs and quotas.
    :param reuse: payloads are valid only until the next :meth:`get_buffer` (see FrameReader).
    :raises LocalProtocolError: an illegal client id.
    """

    def __init__(
        self,
        client_id: str,
        *,
        reuse: bool = False,
        frame_bytes_max: int = limits.FRAME_BYTES_MAX,
    ) -> None:
        if not _is_legal_client_id(client_id):
            raise LocalProtocolError("client id: not printable text, or too long")
        self.versions: dict[int, int] = {}
        """API key to the version in use; empty until the handshake is answered."""
        self._client_id = client_id
        self._reader = FrameReader(frame_bytes_max=frame_bytes_max, reuse=reuse)
        self._pending: deque[_Pending] = deque()
        self._last_correlation_id = -1

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered."""
        return len(self._pending)

    @property
    def partial(self) -> bool:
        """Whether a response has begun to arrive and is not complete."""
        return self._reader.partial

    def handshake(self) -> tuple[int, list[Buffer]]:
        """(correlation id, buffers to send) of the first request; its reply fills ``versions``."""
        return self._encode(ApiVersionsRequest(), 0, (), expect_response=True)

    def encode(
        self, request: Request, payload: Sequence[Buffer] = (), *, expect_response: bool = True
    ) -> tuple[int, list[Buffer]]:
        """(correlation id, buffers to send).

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

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Where the transport writes next; see :meth:`FrameReader.get_buffer`."""
        return self._reader.get_buffer(sizehint)

    def received(self, nbytes: int) -> list[Reply]:
        """The replies that are complete after ``nbytes`` more.

        :raises RemoteProtocolError: the peer broke the protocol; the connection is over.
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
            self._pending.append(_Pending(correlation_id, request.response, version))
        return correlation_id, buffers

    def _reply(self, frame: Frame) -> Reply:
        head, payload = frame
        if len(head) != 2:
            raise RemoteProtocolError(f"response: an array of {len(head)}, not of 2")
        if not self._pending:
            raise RemoteProtocolError("response: nothing was asked")
        correlation_id, response, version = self._pending.popleft()
        if type(head[0]) is not int or head[0] != correlation_id:
            raise RemoteProtocolError(f"response: out of turn, {correlation_id} is next")
        message: Any = schema.decode(response, head[1], version)
        _verify_spans(message, payload)
        if not self.versions and type(message) is ApiVersionsResponse:
            self._negotiate(message)
        return Reply(correlation_id, message, payload)

    def _negotiate(self, answer: ApiVersionsResponse) -> None:
        offered = {api.api_key: (api.version_min, api.version_max) for api in answer.apis}
        for api_key in sorted(REQUESTS):
            version = negotiate(REQUESTS[api_key], offered)
            if version is not None:
                self.versions[api_key] = version


class ServerConnection:
    """The answering end.

    :param reuse: payloads are valid only until the next :meth:`get_buffer` (see FrameReader).
    :param frame_bytes_max: may be raised later, when the peer has authenticated.
    """

    def __init__(
        self, *, reuse: bool = True, frame_bytes_max: int = limits.FRAME_BYTES_MAX
    ) -> None:
        self._reader = FrameReader(frame_bytes_max=frame_bytes_max, reuse=reuse)
        self._greeted = False
        self._client_id = ""

    @property
    def frame_bytes_max(self) -> int:
        """Largest request frame that is accepted."""
        return self._reader.frame_bytes_max

    @frame_bytes_max.setter
    def frame_bytes_max(self, value: int) -> None:
        self._reader.frame_bytes_max = value

    @property
    def partial(self) -> bool:
        """Whether a request has begun to arrive and is not complete."""
        return self._reader.partial

    @property
    def greeted(self) -> bool:
        """Whether the handshake has come."""
        return self._greeted

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Where the transport writes next; see :meth:`FrameReader.get_buffer`."""
        return self._reader.get_buffer(sizehint)

    def received(self, nbytes: int) -> list[IncomingRequest]:
        """The requests that are complete after ``nbytes`` more.

        :raises RemoteProtocolError: the peer broke the protocol; the connection is over.
        """
        return [self._request(frame) for frame in self._reader.received(nbytes)]

    def encode_response(
        self, incoming: IncomingRequest, message: Any, payload: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        """Buffers to send in answer to ``incoming``, in its version.

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
        return encode_frame([incoming.correlation_id, schema.encode(message, version)], payload)

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
        if not self._greeted:
            if api_key != ApiKey.API_VERSIONS:
                raise RemoteProtocolError(f"request: API {api_key} before ApiVersions")
            self._greeted = True
        incoming = IncomingRequest(api_key, version, correlation_id, self._client_id, None, payload)
        api = REQUESTS.get(api_key)
        if api is None or not api.versions[0] <= version <= api.versions[1]:
            incoming.error = _unsupported(api_key, version, api)
            return incoming
        incoming.message = schema.decode(api, body, version)
        _verify_spans(incoming.message, payload)
        return incoming


def _is_legal_client_id(value: object) -> bool:
    return type(value) is str and len(value) <= limits.NAME_CHARS_MAX and value.isprintable()


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
