"""A password is prepared by SASLprep, so that it is the same from every keyboard. Pure.

This is RFC 4013 for stored strings: characters that Unicode 3.2 does not know are refused, as they
might be normalised in another way one day.
"""

from __future__ import annotations

import stringprep
import unicodedata

from oncelog_protocol.errors import UnacceptableCredentialError

PASSWORD_CHARS_MAX = 1024

_PROHIBITED = (
    stringprep.in_table_a1,
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def prepared_password(password: str) -> bytes:
    """Return the password as mechanisms hash it.

    :raises UnacceptableCredentialError: it is empty, has more than 1,024 characters, or has
        characters that SASLprep (RFC 4013) refuses. The message does not quote it.
    """
    if len(password) > PASSWORD_CHARS_MAX:
        raise UnacceptableCredentialError(
            f"a password has at most {PASSWORD_CHARS_MAX} characters, this one has {len(password)}"
        )
    text = saslprep(password)
    if not text:
        raise UnacceptableCredentialError("the password is empty")
    return text.encode()


def saslprep(text: str) -> str:
    """Return ``text`` mapped, normalised and checked by RFC 4013.

    :raises UnacceptableCredentialError: it has a character that is refused, or mixes directions.
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char
        for char in text
        if not stringprep.in_table_b1(char)
    )
    normal = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(refuses(char) for char in normal for refuses in _PROHIBITED):
        raise UnacceptableCredentialError("the password has a character that SASLprep refuses")
    if any(map(stringprep.in_table_d1, normal)):
        ends = stringprep.in_table_d1(normal[0]) and stringprep.in_table_d1(normal[-1])
        if not ends or any(map(stringprep.in_table_d2, normal)):
            raise UnacceptableCredentialError(
                "the password mixes text from right to left with text from left to right"
            )
    return normal
