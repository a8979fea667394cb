"""Files are those of the moment; wrong ones do not replace good ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from oncelog_protocol.connection import ClientConnection
from oncelog_runtime.dialer import Dialer
from oncelog_runtime.tls_errors import TlsError
from support.client_papers import ClientPapers
from support.fake_cluster import FakeCluster


@pytest.fixture
def papers(tmp_path: Path) -> ClientPapers:
    return ClientPapers(tmp_path / "papers")


def lock(key: Path, password: bytes) -> None:
    loaded = load_pem_private_key(key.read_bytes(), None)
    encryption = BestAvailableEncryption(password)
    key.write_bytes(loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))


async def connect(cluster: FakeCluster, dialer: Dialer) -> None:
    """Connect to the first broker, and go away."""
    machine = ClientConnection("test", reuse=False)
    port = cluster.brokers[1].port
    channel = await dialer.open("127.0.0.1", port, machine, connect_timeout_s=5)
    channel.close()
    await channel.wait_closed()


async def test_a_ca_that_is_replaced(papers: ClientPapers, tmp_path: Path) -> None:
    other = ClientPapers(tmp_path / "other")
    async with FakeCluster(1, tls=papers.server()) as cluster:
        dialer = papers.security().dialer()
        await connect(cluster, dialer)
        papers.trust(other)
        with pytest.raises(TlsError, match="trusted CA"):
            await connect(cluster, dialer)


async def test_files_that_cannot_be_used_do_not_replace_others(
    papers: ClientPapers, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        dialer = papers.security().dialer()
        await connect(cluster, dialer)
        papers.trust("-----BEGIN CERTIFICATE-----\nhalf")
        await connect(cluster, dialer)
    assert "the former ones still are" in caplog.text


async def test_files_that_never_were_right(papers: ClientPapers) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        papers.trust("nothing")
        dialer = papers.security().dialer()
        with pytest.raises(TlsError, match="cannot be used"):
            await connect(cluster, dialer)
        papers.trust(papers)
        await connect(cluster, dialer)


async def test_a_key_with_a_password(papers: ClientPapers, tmp_path: Path) -> None:
    certificate, key = papers.issue("app")
    lock(Path(key), b"open")
    password = tmp_path / "password"
    password.write_text("shut\n")
    password.chmod(0o600)
    security = papers.security(
        certificate_file=certificate, key_file=key, key_password_file=password
    )
    async with FakeCluster(1, tls=papers.server("required")) as cluster:
        dialer = security.dialer()
        with pytest.raises(TlsError, match="cannot be read: see that both are PEM"):
            await connect(cluster, dialer)
        password.write_text("open\n")
        await connect(cluster, dialer)
        password.chmod(0o644)
        with pytest.raises(TlsError, match="everybody may read"):
            await connect(cluster, security.dialer())
