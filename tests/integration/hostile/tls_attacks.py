"""These attacks come before and below the protocol: at sockets, TLS and certificates."""

from __future__ import annotations

import asyncio
import ssl
import struct
import tempfile
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from integration.hostile.attack import Attack
from integration.hostile.target import Target, end_of
from oncelog_protocol.messages.base import ApiKey
from support.certificates import Authority
from support.server import HELLO, RawPeer, frame, request_head
from support.tls_harness import Forger, HandPeer

ALERT, HANDSHAKE = 0x15, 0x16
AES_GCM, RC4_SHA, RC4_EXPORT, AES_CBC = 0xC02F, 0x0005, 0x0003, 0xC013
FLOOD_ROUNDS_MAX = 1000


def client_hello(version: int = 0x0303, suites: Iterable[int] = (AES_GCM,)) -> bytes:
    """Return the first record of a client that speaks this version and these suites at most."""
    listed = b"".join(struct.pack(">H", suite) for suite in suites)
    body = struct.pack(">H", version) + bytes(32) + b"\0"
    body += struct.pack(">H", len(listed)) + listed + b"\x01\0"
    message = b"\x01" + len(body).to_bytes(3) + body
    return struct.pack(">BHH", HANDSHAKE, min(version, 0x0301), len(message)) + message


async def silent(target: Target) -> None:
    """Connect, and say nothing: to any listener."""
    peers = [await target.raw(listener) for listener in target.addresses]
    for peer in peers:
        assert await end_of(peer) == b""


async def half_a_hello(target: Target) -> None:
    """Begin a handshake, and fall silent."""
    peer = await target.raw("external")
    peer.send(client_hello()[:20])
    assert await end_of(peer) == b""


async def hello_byte_by_byte(target: Target) -> None:
    """Send a handshake so slowly that it does not end in time, though it never rests."""
    peer = await target.raw("external")
    ending = asyncio.create_task(end_of(peer))
    for byte in client_hello() * 5:
        if ending.done():
            break
        peer.send(bytes([byte]))
        await asyncio.sleep(0.05)
    assert await ending == b""


async def another_protocol(target: Target) -> None:
    """Send plain frames to TLS, TLS to a plain port, and HTTP to both."""
    http = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"
    for listener, data in (
        ("external", HELLO),
        ("plain", client_hello()),
        ("external", http),
        ("plain", http),
    ):
        peer = await target.raw(listener)
        peer.send(data)
        assert b"HTTP" not in await end_of(peer), "a close, or an alert of TLS"


async def old_versions_and_weak_suites(target: Target) -> None:
    """Begin handshakes of SSLv3 to TLS 1.1, then of TLS 1.2 with RC4, CBC and export suites."""
    offers = [(version, [AES_GCM, AES_CBC]) for version in (0x0300, 0x0301, 0x0302)]
    offers += [(0x0303, [suite]) for suite in (RC4_SHA, RC4_EXPORT, AES_CBC)]
    for version, suites in offers:
        peer = await target.raw("external")
        peer.send(client_hello(version, suites))
        answer = await end_of(peer)
        assert answer[:1] in (b"", bytes([ALERT])), "no ServerHello"


async def old_clients(target: Target) -> None:
    """Let OpenSSL itself speak no more than TLS 1.1, and then CBC alone."""
    context = target.context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    await target.refuses("external", context, HELLO)
    context = target.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AES:!AESGCM:!AESCCM")
    await target.refuses("external", context, HELLO)


async def certificates_out_of_time_or_of_others(target: Target) -> None:
    """Show an expired certificate, one of tomorrow, one of another CA and a self-signed one."""
    now = datetime.now(UTC)
    authority, subject = target.papers.authority, [(NameOID.COMMON_NAME, "admin")]
    days = timedelta(days=1)
    leaves = [
        authority.odd(subject=subject, begins=now - 2 * days, ends=now - days),
        authority.odd(subject=subject, begins=now + days, ends=now + 2 * days),
        Authority().issue("127.0.0.1", common_name="admin"),
        trustme.CA().issue_cert("127.0.0.1", common_name="admin"),
    ]
    for leaf in leaves:
        await target.refuses("certified", target.context(leaf), HELLO)


async def certificates_of_servers(target: Target) -> None:
    """Show a certificate that is good for servers alone."""
    leaf = target.papers.authority.odd(
        subject=[(NameOID.COMMON_NAME, "admin")], purposes=[ExtendedKeyUsageOID.SERVER_AUTH]
    )
    await target.refuses("certified", target.context(leaf), HELLO)


async def certificates_without_one_user(target: Target) -> None:
    """Show a certificate without a user, with two, with NUL in one, and no certificate."""
    name = NameOID.COMMON_NAME
    for subject in ([], [(name, "app"), (name, "admin")], [(name, "admin\0.evil")]):
        leaf = target.papers.authority.odd(x509.DNSName("admin"), subject=subject)
        await target.refuses("certified", target.context(leaf), HELLO)
    await target.refuses("certified", target.context(), HELLO)


async def endless_chain(target: Target) -> None:
    """Show a chain of 140 certificates, more than a handshake may have."""
    leaf = target.papers.authority.issue("127.0.0.1", common_name="admin")
    context = target.context()
    with tempfile.NamedTemporaryFile() as chain:
        chain.write(leaf.private_key_pem.bytes() + leaf.cert_chain_pems[0].bytes() * 140)
        chain.flush()
        context.load_cert_chain(chain.name)
    await target.refuses("certified", context, HELLO)


async def large_certificate(target: Target) -> None:
    """Show a certificate of 64 KiB and more."""
    names = [x509.DNSName(f"{number:060d}.test") for number in range(1000)]
    leaf = target.papers.authority.odd(*names, subject=[(NameOID.COMMON_NAME, "admin")])
    assert len(leaf.cert_chain_pems[0].bytes()) > 1 << 16
    await target.refuses("certified", target.context(leaf), HELLO)


async def forger(target: Target, folder: str) -> Forger:
    """Return a peer that has shaken hands, and makes its records itself."""
    context = target.context()
    context.check_hostname = False
    peer = await target.raw("external")
    made = Forger((peer.reader, peer.writer), context, Path(folder) / "keys")
    await made.shake_hands()
    return made


async def key_updates(target: Target) -> None:
    """Change the keys of a connection without end, and say nothing."""
    with tempfile.TemporaryDirectory() as folder:
        peer = await forger(target, folder)
        ending = asyncio.create_task(end_of(RawPeer(peer.reader, peer.writer)))
        for _ in range(FLOOD_ROUNDS_MAX):
            if ending.done():
                break
            peer.writer.write(b"".join(peer.key_update() for _ in range(100)))
            await asyncio.sleep(0)
        await ending


async def empty_records(target: Target) -> None:
    """Send records without content."""
    with tempfile.TemporaryDirectory() as folder:
        peer = await forger(target, folder)
        peer.writer.write(b"".join(peer.record(23, b"") for _ in range(100)))
        await end_of(RawPeer(peer.reader, peer.writer))


async def record_byte_by_byte(target: Target) -> None:
    """Send a record of 16 KiB a byte at a time, in the middle of a frame and where one begins."""
    for begun in (True, False):
        leaf = target.papers.authority.issue("127.0.0.1", common_name="app")
        context = target.context(leaf)
        context.check_hostname = False
        raw = await target.raw("certified")
        peer = HandPeer((raw.reader, raw.writer), context)
        await peer.shake_hands()
        await peer.write(HELLO)
        await peer.read()
        large = frame(request_head(ApiKey.FETCH, []), bytes(1 << 17))
        if begun:
            await peer.write(large[:100])
        peer.tls.write(large[100 : 100 + (1 << 14)])
        record = peer.outgoing.read()
        ending = asyncio.create_task(end_of(raw))
        for byte in record:
            if ending.done():
                break
            raw.send(bytes([byte]))
            await asyncio.sleep(0.02)
        await ending
        assert len(record) > 1 << 14


async def end_without_goodbye(target: Target) -> None:
    """Go in the middle of a frame without a word."""
    leaf = target.papers.authority.issue("127.0.0.1", common_name="app")
    peer = await target.raw("certified", target.context(leaf))
    peer.send(HELLO)
    await peer.response()
    peer.send(frame(request_head(ApiKey.METADATA, [None, False]))[:-1])
    await peer.close()


ATTACKS = (
    Attack(1, silent),
    Attack(1, half_a_hello),
    Attack(2, hello_byte_by_byte),
    Attack(3, another_protocol),
    Attack(4, old_versions_and_weak_suites),
    Attack(4, old_clients),
    Attack(5, certificates_out_of_time_or_of_others),
    Attack(8, certificates_of_servers),
    Attack(9, certificates_without_one_user),
    Attack(10, endless_chain),
    Attack(10, large_certificate),
    Attack(11, key_updates),
    Attack(11, empty_records),
    Attack(12, record_byte_by_byte),
    Attack(13, end_without_goodbye),
)
