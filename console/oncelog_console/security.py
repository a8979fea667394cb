"""Requests are refused here before a page sees them; answers get headers that bind browsers.

Sources of the rules: DNS rebinding is met by names that this server goes by (``Host``); cross-site
posts by ``Origin`` and ``Sec-Fetch-Site`` (Fetch Metadata, W3C); script in what is shown by a
Content Security Policy (W3C, level 3) without any ``unsafe`` word.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
BODY_BYTES_MAX = 64 * 1024
FORM_FIELDS_MAX = 200

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    # "no-referrer" would have browsers send "Origin: null" with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Every answer has them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request is answered with this, and nothing else is done."""

    status: HTTPStatus
    text: str


def refusal_of(
    method: str, scheme: str, headers: Mapping[str, str], port: int, names: Collection[str]
) -> Refusal | None:
    """Return why a request is refused, or None.

    :param port: the one on which this server listens.
    :param names: hosts that are allowed beside those of the loopback address, with any port: a
        proxy may stand in front.
    """
    host = headers.get("host", "")
    if not is_own_name(host, port, names):
        return Refusal(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"this console is not known as {host!r}; start it with --allowed-host to allow a name",
        )
    if method in ("GET", "HEAD"):
        return None
    if method != "POST":
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET, HEAD and POST are answered")
    if not is_same_origin(headers, scheme, host):
        return Refusal(HTTPStatus.FORBIDDEN, "a change must come from a page of this console")
    return None


def is_own_name(host: str, port: int, names: Collection[str]) -> bool:
    """Return whether a ``Host`` header names this server."""
    try:
        parts = urlsplit(f"//{host}")
        name, named_port = parts.hostname, parts.port
    except ValueError:
        return False
    if name is None or parts.netloc != host or "@" in host:
        return False
    if name in names:
        return True
    return name in LOOPBACK_NAMES and (80 if named_port is None else named_port) == port


def is_same_origin(headers: Mapping[str, str], scheme: str, host: str) -> bool:
    """Return whether a post comes from a page of the same origin: both headers agree that are
    there, and one of them is."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is None and site is None:
        return False
    return origin in (None, f"{scheme}://{host}") and site in (None, "same-origin")
