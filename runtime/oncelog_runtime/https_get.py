"""One document is fetched over https here, by a caller that may block: in a thread.

Rules
-----
* The URL is the caller's own setting, never a peer's. It is https, and names a host.
* Chain and name of the server's certificate are verified by the context, before anything is sent.
* No redirect is followed, no proxy asked, no cookie or password sent.
* All of it together has one deadline, and the server may send so many bytes, head included: a slow
  server and an endless answer end alike.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from http.client import HTTPException, HTTPResponse
from typing import cast
from urllib.parse import SplitResult, urlsplit

__all__ = ["HttpsError", "check_https_url", "https_get"]

HEAD_BYTES_MAX = 64 * 1024
URL_CHARS_MAX = 2048
OK = 200


class HttpsError(OSError):
    """The document was not to be had; the text says why, in words for a log."""


def check_https_url(url: str) -> SplitResult:
    """Return the parts of a URL that may be fetched.

    :raises ValueError: it is none, or not https; the text says which.
    """
    if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("it is not a URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("it is not a URL") from None
    if parts.scheme != "https":
        raise ValueError("it must begin with https://")
    if not parts.hostname or port == 0:
        raise ValueError("it names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it holds a user or a password")
    if parts.fragment:
        raise ValueError("it has a part behind #, which is never sent")
    return parts


def https_get(url: str, context: ssl.SSLContext, *, timeout_s: float, bytes_max: int) -> bytes:
    """Return the document at ``url``. Blocks, at most ``timeout_s`` seconds and the time to look
    its host up.

    :param context: it verifies chain and name of the server.
    :param bytes_max: the document may have so many bytes.
    :raises HttpsError: nobody answered, or not with the document, or with too much of it.
    :raises ValueError: see :func:`check_https_url`.
    """
    parts = check_https_url(url)
    host = cast(str, parts.hostname)
    until_s = time.monotonic() + timeout_s
    try:
        with (
            socket.create_connection((host, parts.port or 443), timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False) as peer,
        ):
            peer.settimeout(_left(until_s))
            peer.do_handshake()
            peer.sendall(_request(parts))
            return _document(_Bounded(peer, until_s, bytes_max + HEAD_BYTES_MAX), bytes_max)
    except HttpsError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise HttpsError(
            f"{host}: the certificate is not trusted: {error.verify_message}"
        ) from error
    except TimeoutError as error:
        raise HttpsError(f"{host}: no whole answer within {timeout_s:g} s") from error
    except (OSError, HTTPException) as error:
        text = getattr(error, "strerror", None) or type(error).__name__
        raise HttpsError(f"{host}: {text}") from error


def _request(parts: SplitResult) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = (
        f"GET {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "User-Agent: oncelog",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Connection: close",
    )
    return ("\r\n".join(head) + "\r\n\r\n").encode("ascii")


def _document(source: _Bounded, bytes_max: int) -> bytes:
    response = HTTPResponse(cast(socket.socket, source))
    with response:
        response.begin()
        if 300 <= response.status < 400:
            raise HttpsError("the server redirects, which is not followed: set the URL itself")
        if response.status != OK:
            raise HttpsError(f"the server answers with status {response.status}")
        if response.length is not None and response.length > bytes_max:
            raise HttpsError(f"the document has more than {bytes_max} bytes")
        document = response.read(bytes_max + 1)
        if len(document) > bytes_max:
            raise HttpsError(f"the document has more than {bytes_max} bytes")
        if response.length:
            raise HttpsError("the document ends too early")
        return document


class _Bounded(io.RawIOBase):
    """It reads from a socket up to a deadline and a number of bytes. ``HTTPResponse`` asks it for
    a file as it would ask a socket."""

    def __init__(self, peer: ssl.SSLSocket, until_s: float, bytes_max: int) -> None:
        super().__init__()
        self._peer = peer
        self._until_s = until_s
        self._room = bytes_max

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a file over this."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read what there is."""
        self._peer.settimeout(_left(self._until_s))
        count = self._peer.recv_into(buffer)
        self._room -= count
        if self._room < 0:
            raise HttpsError("the server sends too much")
        return count


def _left(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
