"""The addresses of brokers may be a URL, which says how to connect to them as well.

``oncelogs://app@b1:9093,b2:9093?ca_file=/etc/ca.pem&password_file=/etc/app.password`` is over TLS,
``oncelog://b1:9092`` is not. What stands behind the question mark are options of
:class:`oncelog.Security`, but for secrets: URLs are printed, logged and handed on.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote

from oncelog.errors import ConfigurationError
from oncelog.security import NAMED_OPTIONS, Security

_PLAIN, _TLS = "oncelog", "oncelogs"
_NOT_HERE = ("tls", "username", "password", "token")
"""The scheme says the first, and the user stands before the addresses."""
_OF_TLS = ("ca_file", "certificate_file", "key_file", "key_password_file", "server_name")


def split_url(text: str) -> tuple[str, Security | None]:
    """Return the addresses in ``text``, and how to connect to them; None: it does not say.

    A text without a scheme is addresses alone.

    :raises ConfigurationError: another scheme, a part that has no place here, options that do not
        fit together.
    """
    scheme, found, rest = text.strip().partition("://")
    if not found:
        return text, None
    if scheme not in (_PLAIN, _TLS):
        raise ConfigurationError(
            f"bootstrap_servers: {scheme!r:.40} is no scheme of Oncelog: {_TLS}:// is over TLS,"
            f" {_PLAIN}:// is not"
        )
    place, _, query = rest.partition("?")
    user, at, addresses = place.rpartition("@")
    if ":" in user:
        raise ConfigurationError(
            "bootstrap_servers: a URL with a password, which many will see: give password_file=PATH"
            " behind the question mark"
        )
    if "/" in addresses.removesuffix("/"):
        raise ConfigurationError("bootstrap_servers: a URL of brokers has no path")
    options = _options(query)
    if at:
        options["username"] = unquote(user)
    if scheme == _TLS:
        return addresses.removesuffix("/"), Security(tls=True, **options)
    for named in _OF_TLS:
        if named in options:
            raise ConfigurationError(
                f"bootstrap_servers: {named} is an option of TLS: write {_TLS}:// for {_PLAIN}://"
            )
    return addresses.removesuffix("/"), Security(**options) if options else None


def _options(query: str) -> dict[str, Any]:
    known = [each for each in NAMED_OPTIONS if each not in _NOT_HERE]
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise ConfigurationError(
                f"bootstrap_servers: {name!r:.40} has no place in a URL; these have:"
                f" {', '.join(known)}"
            )
        if name in options:
            raise ConfigurationError(f"bootstrap_servers: {name} is said twice")
        options[name] = value
    return options
