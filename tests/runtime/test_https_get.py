"""A document over https is fetched whole, from whom it was meant to be, or not at all."""

from __future__ import annotations

import asyncio
import socket

import pytest

from oncelog_runtime.https_get import HttpsError, check_https_url, https_get
from support.certificates import Authority
from support.https_server import (
    Answer,
    HttpsServer,
    answer,
    chunked,
    redirect,
    silent,
    slow,
    status,
    too_large,
)

DOCUMENT = b'{"keys": []}'
BYTES_MAX = 1000


async def fetched(url: str, authority: Authority, timeout_s: float = 10) -> bytes:
    context = authority.client()
    return await asyncio.to_thread(
        https_get, url, context, timeout_s=timeout_s, bytes_max=BYTES_MAX
    )


@pytest.mark.parametrize(
    "give", [answer(DOCUMENT), chunked(DOCUMENT), answer(b"x" * BYTES_MAX), answer(b"")]
)
async def test_a_document(give: Answer) -> None:
    authority = Authority()
    async with HttpsServer(authority.server(), give) as server:
        found = await fetched(server.url("/a/b?c=d"), authority)
        assert found in (DOCUMENT, b"x" * BYTES_MAX, b"")
        (head,) = server.requests
    assert head.startswith(b"GET /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Cookie" not in head
    assert b"Authorization" not in head


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (status("404 Not Found"), "status 404"),
        (status("500 No"), "status 500"),
        (status("204 No Content"), "status 204"),
        (redirect("https://127.0.0.1/keys"), "redirects, which is not followed"),
        (redirect("file:///etc/passwd"), "redirects, which is not followed"),
        (answer(b"x" * (BYTES_MAX + 1)), "more than 1000 bytes"),
        (chunked(b"x" * (BYTES_MAX + 1)), "more than 1000 bytes"),
        (too_large(1 << 30), "more than 1000 bytes"),
        (too_large(None), "more than 1000 bytes"),
        (too_large(BYTES_MAX - 1), None),
        (answer(b"", "HTTP/1.1 200 OK\r\nX: " + "x" * 70_000), "LineTooLong|too much"),
        (answer(b"", "HTTP/1.1 200 OK" + "\r\nX: y" * 20_000), "HTTPException|too much"),
        (answer(b"", "x" * 70_000), "LineTooLong|too much"),
        (answer(b"", "SSH-2.0"), "BadStatusLine"),
    ],
)
async def test_what_is_no_document(give: Answer, said: str | None) -> None:
    authority = Authority()
    async with HttpsServer(authority.server(), give) as server:
        if said is None:
            assert await fetched(server.url(), authority) == b"x" * (BYTES_MAX - 1)
            return
        with pytest.raises(HttpsError, match=said):
            await fetched(server.url(), authority)


@pytest.mark.parametrize("give", [silent, slow(0.01), slow(0.01, b"HTTP/1.1 200 OK\r\n\r\n")])
async def test_who_is_slow_is_left_alone(give: Answer) -> None:
    """Each byte comes in time, the last one never."""
    authority = Authority()
    async with HttpsServer(authority.server(), give) as server:
        with pytest.raises(HttpsError, match=r"no whole answer within 0\.5 s"):
            await fetched(server.url(), authority, timeout_s=0.5)


async def test_only_who_proves_the_name_is_asked() -> None:
    authority = Authority()
    async with HttpsServer(authority.server("other.example"), answer(DOCUMENT)) as server:
        with pytest.raises(HttpsError, match="the certificate is not trusted"):
            await fetched(server.url(), authority)
        with pytest.raises(HttpsError, match="the certificate is not trusted"):
            await fetched(server.url(host="localhost"), authority)
        assert server.requests == []
    async with HttpsServer(Authority().server(), answer(DOCUMENT)) as server:
        with pytest.raises(HttpsError, match="the certificate is not trusted"):
            await fetched(server.url(), authority)
        assert server.requests == []


async def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(HttpsError, match="Connection refused"):
            await fetched(f"https://127.0.0.1:{port}/", Authority())


@pytest.mark.cve("2025-27817")
@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://issuer.example/keys",
        "ftp://issuer.example/keys",
        "HTTPS://",
        "https:/issuer.example/keys",
        "issuer.example/keys",
        "",
        "https://user:secret@issuer.example/",
        "https://issuer.example:0/",
        "https://issuer.example:70000/",
        "https://issuer.example/#part",
        "https://issuer.example/a b",
        "https://issuer.example/\r\nX: y",
        "https://issuer.exämple/",
        "https://issuer.example/" + "x" * 2048,
        "https://[::1/",
    ],
)
def test_what_is_no_url_to_be_fetched(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_https_url(url)
    assert "secret" not in str(caught.value)
    assert check_https_url("https://[::1]:8443/keys?x=y").port == 8443
