"""Contexts follow their files, refuse what they should, and go on when a file is wrong."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.tls_contexts import (
    ClientAuth,
    ClientTls,
    GivenTls,
    ServerTls,
    TlsFiles,
    TlsFilesError,
)
from oncelog_runtime.tls_errors import TlsError
from support.certificates import Authority
from support.tls_harness import HOST, Inner
from support.waiting import eventually

CLOCK = SystemWallClock()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


class Folder:
    """It has the files of both sides."""

    def __init__(self, path: Path, authority: Authority) -> None:
        self.path = path
        self.authority = authority
        self.ca = str(path / "ca.pem")
        self.crl = str(path / "crl.pem")
        (path / "ca.pem").write_bytes(authority.ca.cert_pem.bytes())

    def pair(self, name: str, leaf: trustme.LeafCert) -> dict[str, str]:
        certificate, key = self.path / f"{name}.pem", self.path / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        key.write_bytes(leaf.private_key_pem.bytes())
        return {"certificate_file": str(certificate), "key_file": str(key)}

    def server(
        self, leaf: trustme.LeafCert | None = None, auth: ClientAuth = "none", **options: Any
    ) -> ServerTls:
        pair = self.pair("server", leaf or self.authority.issue("localhost", HOST))
        files = TlsFiles(**{"min_version": "1.2", "ca_file": self.ca, **pair, **options})
        return ServerTls(files, auth, CLOCK)

    def client(self, leaf: trustme.LeafCert | None = None, **options: Any) -> ClientTls:
        pair = self.pair("client", leaf) if leaf is not None else {}
        name = options.pop("server_name", None)
        files = TlsFiles(**{"min_version": "1.2", "ca_file": self.ca, **pair, **options})
        return ClientTls(files, CLOCK, server_name=name)

    def revoke(self, *leaves: trustme.LeafCert) -> None:
        (self.path / "crl.pem").write_bytes(self.authority.revocations(*leaves))


@pytest.fixture
def folder(tmp_path: Path, authority: Authority) -> Folder:
    return Folder(tmp_path, authority)


@asynccontextmanager
async def port_of(server: ServerTls) -> AsyncIterator[int]:
    inners: list[Inner] = []

    def accept() -> asyncio.BufferedProtocol:
        inners.append(Inner(echo=True))
        return server.protect(inners[-1])

    loop = asyncio.get_running_loop()
    listening = await loop.create_server(accept, HOST, 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await eventually(lambda: all(inner.is_lost for inner in inners))
        await listening.wait_closed()


async def talk(port: int, client: ClientTls | GivenTls, host: str = "localhost") -> Inner:
    """Say hello to an echo; return the protocol when it was answered or is lost."""
    inner = Inner()
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: client.protect(inner, host), HOST, port)
    inner.transport.write(b"hello")
    await eventually(lambda: inner.got == b"hello" or inner.is_lost)
    return inner


async def outcome(server: ServerTls, client: ClientTls | GivenTls, host: str = "localhost") -> str:
    """Return how two sides get on: an empty text, or the cause of the failure."""
    async with port_of(server) as port:
        inner = await talk(port, client, host)
        inner.transport.abort()
        await eventually(lambda: inner.is_lost)
    if inner.got:
        return ""
    assert isinstance(inner.lost, TlsError), inner.lost
    return inner.lost.cause


# -- who gets on with whom -----------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", HOST, "localhost."])
async def test_the_name_that_is_dialled_is_verified(folder: Folder, host: str) -> None:
    assert await outcome(folder.server(), folder.client(), host) == ""
    assert "another name" in await outcome(folder.server(), folder.client(), "other.host")


async def test_another_name_may_be_meant(folder: Folder) -> None:
    server = folder.server(folder.authority.issue("brokers.internal"))
    assert await outcome(server, folder.client(server_name="brokers.internal")) == ""
    assert "another name" in await outcome(server, folder.client(), "localhost")


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ((), "localhost"),
        ((x509.DNSName("*.com"),), "example.com"),
        ((x509.DNSName("127.0.0.1"),), "127.0.0.1"),
        ((x509.IPAddress(ip_address("127.0.0.2")),), "127.0.0.1"),
        ((x509.DNSName("localhost\x00.evil"),), "localhost"),
    ],
)
@pytest.mark.hostile(6)
async def test_names_that_do_not_count(
    folder: Folder, names: tuple[x509.GeneralName, ...], host: str
) -> None:
    leaf = folder.authority.odd(*names, subject=[(NameOID.COMMON_NAME, host)])
    assert "another name" in await outcome(folder.server(leaf), folder.client(), host)


@pytest.mark.hostile(5)
async def test_an_expired_or_future_or_foreign_certificate(folder: Folder) -> None:
    now = datetime.now(UTC)
    name = x509.DNSName("localhost")
    before = folder.authority.odd(name, begins=now + timedelta(days=1), ends=now + timedelta(2))
    after = folder.authority.odd(name, begins=now - timedelta(2), ends=now - timedelta(days=1))
    for leaf, said in ((before, "not valid yet"), (after, "has expired")):
        with pytest.raises(TlsFilesError, match=said):
            folder.server(leaf)
    foreign = folder.server(Authority().issue("localhost"))
    assert "not signed by a trusted CA" in await outcome(foreign, folder.client())


@pytest.mark.hostile(8)
async def test_a_certificate_for_another_purpose(folder: Folder) -> None:
    name = x509.DNSName("localhost")
    of_client = folder.authority.odd(name, purposes=[ExtendedKeyUsageOID.CLIENT_AUTH])
    of_server = folder.authority.odd(name, purposes=[ExtendedKeyUsageOID.SERVER_AUTH])
    server = folder.server(of_client)
    assert "purpose" in await outcome(server, folder.client())
    server = folder.server(of_server, "required")
    assert await outcome(server, folder.client(of_client)) == ""
    assert "purpose" in await outcome(server, folder.client(of_server))


@pytest.mark.parametrize("auth", ["none", "optional", "required"])
async def test_certificates_of_clients(folder: Folder, auth: ClientAuth) -> None:
    server = folder.server(auth=auth)
    known = folder.client(folder.authority.issue("app"))
    assert await outcome(server, known) == ""
    nameless = await outcome(server, folder.client())
    assert ("wants a certificate" in nameless) is (auth == "required")
    stranger = folder.client(Authority().issue("app"))
    assert bool(await outcome(server, stranger)) is (auth != "none")


@pytest.mark.hostile(7)
async def test_a_revoked_client(folder: Folder) -> None:
    leaf = folder.authority.issue("app")
    folder.revoke()
    server = folder.server(auth="required", crl_file=folder.crl)
    client = folder.client(leaf)
    assert await outcome(server, client) == ""
    der = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())
    assert not server.is_revoked(der)
    folder.revoke(leaf)
    assert server.refresh()
    assert server.is_revoked(der)
    assert "revoked" in await outcome(server, client)
    assert await outcome(server, folder.client(folder.authority.issue("app"))) == ""


@pytest.mark.hostile(4)
async def test_versions_and_suites(folder: Folder) -> None:
    old = folder.client()
    old.context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await outcome(folder.server(), old) == ""
    assert "in common" in await outcome(folder.server(min_version="1.3"), old)
    for suites in ("ECDHE+AES:!AESGCM:!AESCCM", "AES128-GCM-SHA256"):
        weak = folder.client()
        weak.context.maximum_version = ssl.TLSVersion.TLSv1_2
        weak.context.set_ciphers(suites)
        assert await outcome(folder.server(), weak) == "the peer refused the handshake " + (
            "(sslv3 alert handshake failure)"
        )
    ancient = folder.client()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        ancient.context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        ancient.context.maximum_version = ssl.TLSVersion.TLSv1_1
    ancient.context.set_ciphers("ALL:@SECLEVEL=0")
    assert await outcome(folder.server(), ancient)


def test_what_every_context_has(folder: Folder) -> None:
    for context in (folder.server().context, folder.client().context):
        for option in (ssl.OP_NO_COMPRESSION, ssl.OP_NO_RENEGOTIATION, ssl.OP_NO_TICKET):
            assert context.options & option
        suites = [suite["name"] for suite in context.get_ciphers()]
        assert all(name.startswith(("TLS_", "ECDHE-")) for name in suites)
        assert all("GCM" in name or "CHACHA20" in name for name in suites)
    client = folder.client().context
    assert client.check_hostname
    assert client.verify_mode is ssl.CERT_REQUIRED
    assert not client.hostname_checks_common_name
    assert folder.server().context.num_tickets == 0


def test_the_systems_cas_are_for_servers_alone(folder: Folder) -> None:
    with pytest.raises(TlsFilesError, match="system's CAs are not taken"):
        folder.server(auth="optional", ca_file=None)
    assert folder.server(ca_file=None).context.cert_store_stats()["x509"] == 0
    assert folder.client().context.cert_store_stats()["x509"] == 1
    assert folder.client(ca_file=None).context.check_hostname


async def test_a_context_that_is_given_is_used_as_it_is(folder: Folder) -> None:
    context = folder.authority.client()
    with pytest.raises(ValueError, match="hostname_checks_common_name = False"):
        GivenTls(context)
    context.hostname_checks_common_name = False
    given = GivenTls(context, server_name="brokers.internal")
    assert not given.refresh()
    assert "another name" in await outcome(folder.server(), given)
    assert await outcome(folder.server(), GivenTls(context)) == ""
    assert "another name" in await outcome(folder.server(), GivenTls(context), "other.host")


# -- files that change ---------------------------------------------------------------------------


async def test_a_new_pair_is_for_new_connections(folder: Folder) -> None:
    server, client = folder.server(), folder.client()
    async with port_of(server) as port:
        first = await talk(port, client)
        assert not server.refresh()
        other = folder.authority.issue("localhost", "new.name")
        folder.pair("server", other)
        assert server.refresh()
        assert not server.refresh()
        second = await talk(port, client)
        for inner, count in ((first, 2), (second, 2)):
            names = inner.transport.get_extra_info("peercert")["subjectAltName"]
            assert (("DNS", "new.name") in names) is (inner is second)
            assert len(names) == count
        first.transport.write(b" again")
        await eventually(lambda: first.got == b"hello again")
        for inner in (first, second):
            inner.transport.abort()
        await eventually(lambda: first.is_lost and second.is_lost)


@pytest.mark.hostile(14)
async def test_a_wrong_pair_is_told_and_the_old_one_serves(folder: Folder) -> None:
    server, client = folder.server(), folder.client()
    context = server.context
    certificate, key = folder.path / "server.pem", folder.path / "server.key"
    right = certificate.read_bytes(), key.read_bytes()
    other = folder.authority.issue("localhost")
    new = other.cert_chain_pems[0].bytes()
    now = datetime.now(UTC)
    expired = folder.authority.odd(
        x509.DNSName("localhost"), begins=now - timedelta(2), ends=now - timedelta(1)
    )
    wrong = [
        (new, right[1], "does not fit"),
        (new[: len(new) // 2], other.private_key_pem.bytes(), "is not whole"),
        (new, other.private_key_pem.bytes()[:100], "is not whole"),
        (b"", right[1], "cannot be read"),
        (b"garbage", right[1], "cannot be read"),
        (expired.cert_chain_pems[0].bytes(), expired.private_key_pem.bytes(), "has expired"),
    ]
    for certificate_pem, key_pem, said in wrong:
        certificate.write_bytes(certificate_pem)
        key.write_bytes(key_pem)
        for _ in range(2):  # it is told as long as it is so
            with pytest.raises(TlsFilesError, match=said):
                server.refresh()
        assert server.context is context
    certificate.unlink()
    with pytest.raises(TlsFilesError, match="cannot be read"):
        server.refresh()
    assert await outcome(server, client) == ""
    folder.pair("server", other)
    assert server.refresh()
    assert server.context is not context


def test_days_left(folder: Folder) -> None:
    ends = datetime.now(UTC) + timedelta(days=10)
    server = folder.server(folder.authority.odd(x509.DNSName("localhost"), ends=ends))
    left = server.days_left()
    assert left is not None
    assert 9.9 < left <= 10
    assert folder.client().days_left() is None


def test_a_key_with_a_password(folder: Folder) -> None:
    leaf = folder.authority.issue("localhost")
    pair = folder.pair("locked", leaf)
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")
    )
    Path(pair["key_file"]).write_bytes(locked)
    files = TlsFiles(min_version="1.3", key_password="open sesame", **pair)
    assert "sesame" not in repr(files)
    ServerTls(files, "none", CLOCK)
    for password in (None, "", "open barley"):
        with pytest.raises(TlsFilesError, match="cannot be read"):
            ServerTls(TlsFiles(min_version="1.3", key_password=password, **pair), "none", CLOCK)


def test_files_that_do_not_suffice(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(TlsFilesError, match="needs a certificate"):
        ServerTls(TlsFiles(min_version="1.2"), "none", CLOCK)
    with pytest.raises(TlsFilesError, match="go together"):
        ClientTls(TlsFiles(min_version="1.2", key_file="x"), CLOCK)
    with pytest.raises(TlsFilesError, match="no CA"):
        ClientTls(TlsFiles(min_version="1.2", crl_file="x"), CLOCK)
    with pytest.raises(TlsFilesError, match="cannot be read"):
        folder.client(ca_file=str(tmp_path))
    (tmp_path / "empty").write_bytes(b"")
    for option in ("ca_file", "crl_file"):
        options: dict[str, Any] = {option: str(tmp_path / "empty")}
        with pytest.raises(TlsFilesError, match="cannot be used"):
            folder.client(**options)
