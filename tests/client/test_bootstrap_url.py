"""A URL says where brokers are, and how to connect to them."""

from __future__ import annotations

import pytest

from oncelog.bootstrap_url import split_url
from oncelog.config import Address, ConnectionOptions, parse_addresses
from oncelog.errors import ConfigurationError
from oncelog.security import Security


@pytest.mark.parametrize(
    ("text", "addresses", "security"),
    [
        ("a:1,b", "a:1,b", None),
        ("oncelog://a:1,b", "a:1,b", None),
        ("oncelogs://a:1", "a:1", Security(tls=True)),
        ("oncelogs://[::1]:9,b:1/", "[::1]:9,b:1", Security(tls=True)),
        (
            "oncelogs://a?ca_file=%2Fetc%2Fca.pem&server_name=x.org",
            "a",
            Security(tls=True, ca_file="/etc/ca.pem", server_name="x.org"),
        ),
        (
            "oncelogs://app%2B1@a?password_file=p",
            "a",
            Security(tls=True, username="app+1", password_file="p"),
        ),
        ("oncelog://app@a?password_file=p", "a", Security(username="app", password_file="p")),
    ],
)
def test_a_url(text: str, addresses: str, security: Security | None) -> None:
    assert split_url(text) == (addresses, security)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kafka://a:1", "'kafka' is no scheme"),
        ("oncelogs://a:1/topic", "has no path"),
        ("oncelogs://app:secret@a:1", "a URL with a password"),
        ("oncelogs://app@a:1", "username without a password"),
        ("oncelogs://a?password=x", "'password' has no place in a URL"),
        ("oncelogs://a?ssl_context=x", "'ssl_context' has no place in a URL"),
        ("oncelogs://a?tls=False", "'tls' has no place in a URL"),
        ("oncelogs://a?ca_file=x&ca_file=y", "ca_file is said twice"),
        ("oncelogs://a?ca_file=", "ca_file='': must be the path"),
        ("oncelogs://a?key_file=k", "key_file without certificate_file"),
        ("oncelog://a?ca_file=x", "write oncelogs://"),
        ("oncelogs://", "name at least one broker"),
    ],
)
def test_what_is_no_url(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_addresses(text)


def test_options_of_a_client() -> None:
    options = ConnectionOptions(bootstrap_servers="oncelogs://a:1?ca_file=c")
    assert options.addresses == (Address("a", 1),)
    assert options.chosen_security == Security(tls=True, ca_file="c")
    own = ConnectionOptions(bootstrap_servers=["a"], security=Security(tls=True))
    assert own.chosen_security == Security(tls=True)
    assert ConnectionOptions(bootstrap_servers="oncelog://a").chosen_security is None
    with pytest.raises(ConfigurationError, match="say it once"):
        ConnectionOptions(bootstrap_servers="oncelogs://a", security=Security(tls=True))
    with pytest.raises(ConfigurationError, match=r"must be an oncelog\.Security, not dict"):
        ConnectionOptions(bootstrap_servers="a", security={"tls": True})  # type: ignore[arg-type]
