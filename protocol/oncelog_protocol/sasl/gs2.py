"""Messages of SCRAM and OAUTHBEARER begin with a GS2 header, and escape names alike. Pure.

::

    header := ("n" / "y") "," ["a=" authzid] ","                             (RFC 5801)

Rules
-----
* ``p=``, a channel binding, is refused: Python's ``ssl`` gives no ``tls-exporter``.
* In a name ``=2C`` stands for a comma and ``=3D`` for an equals sign; any other use is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

USER_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,128}")
"""Names of this alphabet need no normalisation, so no two are one."""

_ESCAPED_NAME = re.compile(r"(?:[^\0,=]|=2C|=3D)+")


class SaslSyntaxError(Exception):
    """A message breaks the syntax of its mechanism; the text says how, without its content."""


class Gs2Message(NamedTuple):
    """It is a message, parted into its GS2 header and what follows."""

    header: str
    """With the comma at its end."""
    authzid: str
    """It says, decoded, whom the peer wants to be; "": nobody else."""
    rest: str


def is_legal_user(name: str) -> bool:
    """Return whether ``name`` may be a user: 1 to 128 of ASCII letters, digits and ``._@+-``."""
    return USER_NAME.fullmatch(name) is not None


def decoded_text(data: bytes) -> str:
    """Return a message as text.

    :raises SaslSyntaxError: it is not UTF-8, or holds a NUL.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SaslSyntaxError("the message is not UTF-8") from None
    if "\0" in text:
        raise SaslSyntaxError("the message holds a NUL")
    return text


def parted(text: str) -> Gs2Message:
    """Return the header and the rest of a message.

    :raises SaslSyntaxError: there is no header, or it asks for a channel binding.
    """
    parts = text.split(",", 2)
    if len(parts) != 3:
        raise SaslSyntaxError("there is no GS2 header")
    binding, authzid, rest = parts
    if binding.startswith("p="):
        raise SaslSyntaxError("channel binding is not supported")
    if binding not in ("n", "y"):
        raise SaslSyntaxError("the GS2 header begins with none of n, y and p")
    if authzid and not authzid.startswith("a="):
        raise SaslSyntaxError("the GS2 header holds something else than an authzid")
    wanted = unescaped(authzid.removeprefix("a=")) if authzid else ""
    return Gs2Message(f"{binding},{authzid},", wanted, rest)


def escaped(name: str) -> str:
    """Return a name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(text: str) -> str:
    """Return the name that stands in a message as ``text``.

    :raises SaslSyntaxError: it is empty, or an escape is not one of the two.
    """
    if not _ESCAPED_NAME.fullmatch(text):
        raise SaslSyntaxError("a name is empty, or is escaped wrongly")
    return text.replace("=2C", ",").replace("=3D", "=")
