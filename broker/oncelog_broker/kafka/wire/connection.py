"""The answering end of a connection of Kafka's is a machine without I/O, with the face of ours.

::

    frame    := size:i32  header  body
    request  := api_key:i16  api_version:i16  correlation_id:i32  client_id:text  [tags]
    response := correlation_id:i32  [tags]

Headers have tags where the version of the message is flexible; the answer to ApiVersions never has,
as its asker does not know yet what is spoken (KIP-511).

Rules
-----
* A client may begin with any request. It is known once a whole one has come. Where it must
  authenticate it is known after that; before, it is told the versions of APIs, names a mechanism of
  SASL and authenticates. It has small frames then, few bytes in all, and ApiVersions twice at most.
* Behind a SaslHandshake of version 0 frames are the bare data of the exchange, either way, until
  the client is known.
* What is not offered ends the connection. The exception is an ApiVersions in a newer version: it
  is answered in version 0, and the client asks again.
* The bytes of records stay where they are: spans of a message lie in the payload of its request,
  which is the whole frame.
* What arrives is a request or a :class:`~oncelog_protocol.errors.RemoteProtocolError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from oncelog_broker.kafka.wire.codec import decode, encode, skip_tags
from oncelog_broker.kafka.wire.declaration import KafkaRequest
from oncelog_broker.kafka.wire.messages.api_versions import KafkaApiVersionsRequest
from oncelog_broker.kafka.wire.messages.sasl_authenticate import KafkaSaslAuthenticateRequest
from oncelog_broker.kafka.wire.messages.sasl_handshake import KafkaSaslHandshakeRequest
from oncelog_protocol import limits
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from oncelog_protocol.frame import SizedFrameReader
from oncelog_protocol.identity import Introduction
from oncelog_protocol.strangers import FIRST_BYTES, Stranger, begins_like_ours
from oncelog_protocol.types import Buffer

CLIENT_ID_CHARS_MAX: Final = 255
"""So much of a client's name is kept, for logs and quotas."""

BEFORE_AUTHENTICATION: Final = frozenset(
    {
        KafkaApiVersionsRequest.api_key,
        KafkaSaslHandshakeRequest.api_key,
        KafkaSaslAuthenticateRequest.api_key,
    }
)
"""These are taken from a client that has not authenticated yet."""

BARE: Final = -1
"""It stands for the version of a request whose frame is the data of an exchange of SASL alone."""

_FIXED_HEAD = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_SIZE = struct.Struct(">i")


class KafkaConnection:
    """It takes bytes of one client, and gives requests.

    :param requests: the classes of what is spoken, by API key.
    :param offered: the versions from and to that are spoken, by API key.
    :param authenticates: the client is known only once :meth:`trust` was called, not with its first
        request already.
    :param refused: is told the API key, the version and the client's software of what is not
        offered.
    """

    def __init__(
        self,
        requests: Mapping[int, type[KafkaRequest]],
        offered: Mapping[int, tuple[int, int]],
        *,
        authenticates: bool = False,
        refused: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self.introduction = Introduction()
        """A client of Kafka names no broker."""
        self.known = False
        """Whether a whole request has come, and the client has authenticated where it must."""
        self._requests = requests
        self._offered = offered
        self._authenticates = authenticates
        self._stranger = Stranger()
        self._bare = False
        frame_bytes_max = limits.FRAME_BYTES_MAX
        if authenticates:
            frame_bytes_max = limits.FRAME_BYTES_MAX_UNAUTHENTICATED
        self._reader = SizedFrameReader(
            frame_bytes_max=frame_bytes_max,
            body_bytes_min=1 if authenticates else _FIXED_HEAD.size,
        )
        self._first = b""
        """So the first frame began, if it is of our own protocol."""
        self._client_id = ""
        self._refused = refused
        self._software = ""

    @property
    def frame_bytes_max(self) -> int:
        """Return the size of the largest request frame that is accepted."""
        return self._reader.frame_bytes_max

    @property
    def client_id(self) -> str:
        """Return how the client has named itself last, made printable; "" if it has not."""
        return self._client_id

    @property
    def opening(self) -> bytes:
        """Return the first bytes, at most 16, of what no request was made of."""
        return self._first or self._reader.opening

    @property
    def partial(self) -> bool:
        """Return whether a request has begun to arrive and is not complete."""
        return self._reader.partial

    @property
    def buffer_bytes(self) -> int:
        """Return the memory of the receive buffer."""
        return self._reader.buffer_bytes

    def trust(self) -> None:
        """Take requests of any API and size from now on: the client is known."""
        self.known = True
        self._bare = False
        self._reader.limit(limits.FRAME_BYTES_MAX)

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where the transport writes next; this ends the life of all payloads before."""
        return self._reader.get_buffer(sizehint)

    def release(self) -> None:
        """The connection is gone: let go of its receive buffer."""
        self._reader.release()

    def received(self, nbytes: int) -> list[IncomingRequest]:
        """Return the requests that are complete after ``nbytes`` more.

        :raises RemoteProtocolError: the client broke the protocol; the connection is over.
        """
        if self._authenticates and not self.known:
            self._stranger.sends(nbytes)
        requests = [self._request(frame.payload) for frame in self._reader.received(nbytes)]
        if requests and not self._authenticates:
            self.known = True
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

        :param throttle_ms: the client is told to wait for so long, if its version can be told.
        :raises LocalProtocolError: not the response of that request, or above a limit.
        """
        request = self._requests[incoming.api_key]
        version = incoming.api_version
        if type(message) is not request.response:
            raise LocalProtocolError(f"{type(message).__name__} does not answer {request.__name__}")
        answer: Any = message
        if version == BARE:
            # A failure is told by the end of the connection.
            data = answer.auth_bytes
            return [] if answer.error_code else [_SIZE.pack(len(data)) + data]
        # SaslHandshake, SaslAuthenticate and WriteTxnMarkers have no place for it.
        if throttle_ms and hasattr(answer, "throttle_time_ms"):
            answer = replace(answer, throttle_time_ms=throttle_ms)
        body = encode(answer, version, payload)
        has_tags = version >= request.response.flexible_since
        head = _CORRELATION.pack(incoming.correlation_id)
        if has_tags and request is not KafkaApiVersionsRequest:
            head += b"\0"
        size = len(head) + sum(map(len, body))
        if size + limits.FRAME_SIZE_BYTES > limits.FRAME_BYTES_MAX:
            raise LocalProtocolError(f"frame: {size} bytes, at most {limits.FRAME_BYTES_MAX}")
        return [b"".join((_SIZE.pack(size), head, body[0])), *body[1:]]

    def _request(self, frame: memoryview) -> IncomingRequest:
        if self._bare:
            return self._bare_request(frame)
        if not self.known:
            opening = (_SIZE.pack(len(frame)) + bytes(frame[:FIRST_BYTES]))[:FIRST_BYTES]
            if begins_like_ours(opening):
                self._first = opening
                raise RemoteProtocolError("request: a frame of our own protocol")
        if len(frame) < _FIXED_HEAD.size:
            raise RemoteProtocolError(f"request: {len(frame)} bytes, less than a header has")
        api_key, version, correlation_id, name_bytes = _FIXED_HEAD.unpack_from(frame)
        pos = _FIXED_HEAD.size
        name_end = pos + max(name_bytes, 0)
        if name_bytes < -1 or name_end > len(frame):
            raise RemoteProtocolError(f"request: a client id of {name_bytes} bytes")
        if name_bytes >= 0:
            self._client_id = _printable(bytes(frame[pos:name_end]))
        if self._authenticates and not self.known:
            self._check_stranger(api_key)
        offered = self._offered.get(api_key)
        if offered is None:
            self._refuse(api_key, version)
            raise RemoteProtocolError(f"request: API {api_key} of Kafka is not offered here")
        first, last = offered
        cls = self._requests[api_key]
        name = self._client_id
        if not first <= version <= last:
            self._refuse(api_key, version)
            fault = f"{cls.__name__} version {version} is not offered here, {first} to {last} are"
            if cls is not KafkaApiVersionsRequest or version < first:
                raise RemoteProtocolError(f"request: {fault}")
            error = UnsupportedVersionError(fault)
            return IncomingRequest(api_key, 0, correlation_id, name, None, frame, error)
        message: Any = decode(cls, version, frame, _body_begin(cls, version, frame, name_end))
        if cls is KafkaApiVersionsRequest:
            software = f"{message.client_software_name} {message.client_software_version}"
            self._software = _printable(software.strip().encode())
        if cls is KafkaSaslHandshakeRequest and version == 0:
            self._bare = self._authenticates and not self.known
        return IncomingRequest(api_key, version, correlation_id, name, message, frame)

    def _refuse(self, api_key: int, version: int) -> None:
        if self._refused is not None:
            self._refused(api_key, version, self._software or self._client_id)

    def _check_stranger(self, api_key: int) -> None:
        """Check that a client which has not authenticated may ask this.

        :raises RemoteProtocolError: it may not.
        """
        if api_key not in BEFORE_AUTHENTICATION:
            raise RemoteProtocolError(f"request: API {api_key} before authentication")
        if api_key == KafkaApiVersionsRequest.api_key:
            self._stranger.greets()

    def _bare_request(self, frame: memoryview) -> IncomingRequest:
        """Return what a frame asks that is the data of an exchange alone."""
        api_key = KafkaSaslAuthenticateRequest.api_key
        message: Any = KafkaSaslAuthenticateRequest(bytes(frame))
        return IncomingRequest(api_key, BARE, 0, self._client_id, message, frame)


def _body_begin(cls: type[KafkaRequest], version: int, frame: memoryview, pos: int) -> int:
    """Return where the body begins, behind the tags of the header."""
    if version < cls.flexible_since:
        return pos
    try:
        return skip_tags(frame, pos)
    except IndexError:
        raise RemoteProtocolError("request: its header is cut off") from None


def _printable(name: bytes) -> str:
    """Return a client's name as it may stand in logs."""
    text = name.decode("utf-8", "replace")[:CLIENT_ID_CHARS_MAX]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
