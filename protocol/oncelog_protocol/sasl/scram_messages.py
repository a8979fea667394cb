"""SCRAM's four messages are written and read here, strictly. Pure.

::

    client first := gs2-header  "n=" name  ",r=" nonce
    server first := "r=" both nonces  ",s=" salt  ",i=" iterations
    client final := "c=" gs2-header  ",r=" both nonces  ",p=" proof
    server final := "v=" signature                                           (RFC 5802, 7)

Rules
-----
* Each message has its attributes, each once, in order, and no other: this release has no
  extensions, and refuses those of others as it must refuse ``m=``.
* Base64 is taken in its one canonical form, so that no two messages say the same [S6].
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.sasl.gs2 import SaslSyntaxError, decoded_text, escaped, parted, unescaped

NONCE_BYTES = 24
"""It is what each end draws for an exchange."""

_NONCE = re.compile(r"[!-+\--~]{8,1024}")
"""Printable ASCII without the comma, as RFC 5802 has it."""

_NUMBER = re.compile(r"[1-9][0-9]{0,9}")


class ClientFirst(NamedTuple):
    """It says who wants in."""

    header: str
    authzid: str
    name: str
    nonce: str
    bare: str
    """The message without its header, as both ends sign it."""


class ServerFirst(NamedTuple):
    """It says with what the password is to be hashed."""

    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """It proves that the client knows the password."""

    header: bytes
    nonce: str
    proof: bytes
    unproved: str
    """The message without its proof, as both ends sign it."""


def nonce_text(nonce: bytes) -> str:
    """Return a nonce as it is sent.

    :raises LocalProtocolError: it has fewer than 12 bytes, and might be drawn again.
    """
    if len(nonce) < 12:
        raise LocalProtocolError(f"a nonce of {len(nonce)} bytes; draw {NONCE_BYTES}")
    return encoded(nonce)


def encoded(data: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(data).decode("ascii")


def decoded(text: str) -> bytes:
    """Return the bytes of canonical base64.

    :raises SaslSyntaxError: it is something else.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslSyntaxError("a value is not base64") from None
    if encoded(data) != text:
        raise SaslSyntaxError("a value is base64 with bits to spare")
    return data


def client_first(name: str, nonce: str) -> ClientFirst:
    """Return the first message of a client that wants to be who it is."""
    return ClientFirst("n,,", "", name, nonce, f"n={escaped(name)},r={nonce}")


def read_client_first(data: bytes) -> ClientFirst:
    """Return the first message of a client.

    :raises SaslSyntaxError: it breaks the rules above.
    """
    header, authzid, bare = parted(decoded_text(data))
    name, nonce = _attributes(bare, "nr")
    return ClientFirst(header, authzid, unescaped(name), _nonce(nonce), bare)


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """Return the first message of a server."""
    return f"r={nonce},s={encoded(salt)},i={iterations}"


def read_server_first(text: str) -> ServerFirst:
    """Return what the first message of a server says.

    :raises SaslSyntaxError: it breaks the rules above.
    """
    nonce, salt, iterations = _attributes(text, "rsi")
    if not _NUMBER.fullmatch(iterations):
        raise SaslSyntaxError("the iterations are not a number")
    return ServerFirst(_nonce(nonce), decoded(salt), int(iterations))


def client_final(header: str, nonce: str) -> str:
    """Return the last message of a client, without its proof."""
    return f"c={encoded(header.encode())},r={nonce}"


def read_client_final(data: bytes) -> ClientFinal:
    """Return the last message of a client.

    :raises SaslSyntaxError: it breaks the rules above.
    """
    text = decoded_text(data)
    header, nonce, proof = _attributes(text, "crp")
    unproved = text.rpartition(",")[0]
    return ClientFinal(decoded(header), _nonce(nonce), decoded(proof), unproved)


def server_final(signature: bytes) -> bytes:
    """Return the last message of a server."""
    return f"v={encoded(signature)}".encode()


def read_server_final(data: bytes) -> bytes:
    """Return the server's signature.

    :raises SaslSyntaxError: it breaks the rules above.
    """
    (signature,) = _attributes(decoded_text(data), "v")
    return decoded(signature)


def signed(client_bare: str, server: str, client_unproved: str) -> bytes:
    """Return what both ends sign: AuthMessage of RFC 5802, section 3."""
    return f"{client_bare},{server},{client_unproved}".encode()


def _attributes(text: str, names: str) -> list[str]:
    parts = text.split(",")
    if [part[:2] for part in parts] != [f"{name}=" for name in names]:
        raise SaslSyntaxError(f"the attributes are not {', '.join(names)} in this order")
    return [part[2:] for part in parts]


def _nonce(text: str) -> str:
    if not _NONCE.fullmatch(text):
        raise SaslSyntaxError("a nonce is too short, too long or not printable")
    return text
