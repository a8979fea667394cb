"""Keys come from a file or over https, and not too much of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_broker.server.oidc.key_source import DOCUMENT_BYTES_MAX, KeyFile, KeyUrl
from oncelog_broker.server.oidc.signing_keys import KeySetError
from oncelog_runtime.files import SystemFiles
from oncelog_runtime.https_get import HttpsError
from oncelog_runtime.threads import Threads
from support.certificates import Authority
from support.https_server import HttpsServer, answer


async def test_a_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    source = KeyFile(SystemFiles(), str(path))
    with pytest.raises(FileNotFoundError):
        await source.read()
    for content in (b"{}", b"x" * DOCUMENT_BYTES_MAX):
        path.write_bytes(content)
        assert await source.read() == content
    path.write_bytes(b"x" * (DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(KeySetError, match="more than 262144 bytes"):
        await source.read()


async def test_a_document_is_fetched_with_the_context_of_now() -> None:
    authority, other, threads = Authority(), Authority(), Threads(1, "test")
    contexts = [other.client(), authority.client()]
    async with HttpsServer(authority.server(), answer(b"x" * DOCUMENT_BYTES_MAX)) as server:
        source = KeyUrl(server.url(), lambda: contexts.pop(0), threads)
        with pytest.raises(HttpsError, match="not trusted"):
            await source.read()
        assert await source.read() == b"x" * DOCUMENT_BYTES_MAX
    threads.close()


@pytest.mark.cve("2025-27817")
@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://issuer.example/keys", ""])
def test_a_url_is_https(url: str) -> None:
    with pytest.raises(ValueError):
        KeyUrl(url, Authority().client, Threads(1, "test"))
