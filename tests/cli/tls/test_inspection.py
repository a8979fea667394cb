"""Faults of a certificate are found, in a file as at a server, and a remedy is named."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.exits import CommandError
from oncelog_cli.tls.authority import CertificateDirectory, Holder
from oncelog_cli.tls.inspection import Inspection, inspect_file, inspect_server
from oncelog_runtime.tls_contexts import ServerTls, TlsFiles
from support.clock import ManualClock

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def place(tmp_path: Path) -> CertificateDirectory:
    made = CertificateDirectory(tmp_path / "tls", NOW)
    made.make([Holder("broker-1", ("127.0.0.1",)), Holder("admin")], days=30)
    return made


@pytest.fixture
def others(tmp_path: Path) -> CertificateDirectory:
    made = CertificateDirectory(tmp_path / "others", NOW)
    made.make([Holder("admin")], days=30)
    return made


def looked_at(path: Path, **changed: Any) -> Inspection:
    given: dict[str, Any] = {"key": None, "ca": None, "now": NOW, "days_min": 7.0, **changed}
    return inspect_file(path, **given)


def problem(found: Inspection) -> str:
    (text,) = found.problems
    assert "Remedy: " in text
    return text


# -- files ---------------------------------------------------------------------------------------


def test_a_certificate_is_seen_with_its_key_and_ca(place: CertificateDirectory) -> None:
    found = looked_at(place.certificate_file("broker-1"))
    assert not found.problems
    (seen,) = found.certificates
    assert (seen.subject, seen.user, seen.hosts) == ("CN=broker-1", "broker-1", ["127.0.0.1"])
    assert (seen.purposes, seen.days_left) == (["server", "client"], 30)
    assert (seen.key_fits, seen.verified) == (True, True)
    (ca,) = looked_at(place.ca_file).certificates
    assert (ca.purposes, ca.user) == (["ca"], None)


def test_without_key_and_ca_nothing_is_said_of_them(
    place: CertificateDirectory, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.pem"
    alone.write_bytes(place.certificate_file("admin").read_bytes())
    (seen,) = looked_at(alone).certificates
    assert (seen.key_fits, seen.verified) == (None, None)


@pytest.mark.parametrize(
    ("days", "words"),
    [(30, "has expired"), (40, "has expired"), (25, "has 5.0 days left"), (-1, "is not valid yet")],
)
def test_a_certificate_out_of_its_time(place: CertificateDirectory, days: int, words: str) -> None:
    found = looked_at(place.certificate_file("admin"), now=NOW + timedelta(days=days))
    assert words in problem(found)


def test_a_key_that_does_not_fit(place: CertificateDirectory) -> None:
    found = looked_at(place.certificate_file("admin"), key=place.key_file("broker-1"))
    assert "does not fit" in problem(found)
    assert found.certificates[0].key_fits is False


def test_a_key_that_everybody_may_read(place: CertificateDirectory) -> None:
    place.key_file("admin").chmod(0o644)
    assert "everybody may read" in problem(looked_at(place.certificate_file("admin")))


def test_a_certificate_of_another_ca(
    place: CertificateDirectory, others: CertificateDirectory
) -> None:
    found = looked_at(place.certificate_file("admin"), ca=others.ca_file)
    assert "is not from a CA in" in problem(found)
    assert found.certificates[0].verified is False


def test_a_chain_leads_to_its_ca_only_over_cas(place: CertificateDirectory, tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"
    parts = [place.certificate_file("admin"), place.ca_file]
    chain.write_bytes(b"".join(part.read_bytes() for part in parts))
    found = looked_at(chain, ca=place.ca_file)
    assert [seen.verified for seen in found.certificates] == [True, None]


def test_what_is_no_certificate(place: CertificateDirectory, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        looked_at(tmp_path / "none.pem")
    with pytest.raises(CommandError, match="no certificate"):
        looked_at(place.key_file("admin"))
    place.key_file("admin").write_text("nonsense")
    with pytest.raises(CommandError, match="no private key"):
        looked_at(place.certificate_file("admin"))


# -- servers -------------------------------------------------------------------------------------


class Silent(asyncio.BufferedProtocol):
    """It says nothing, as a broker that waits for a request."""

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1024)


class Greeter(Silent):
    """It speaks first, and not TLS."""

    def connection_made(self, transport: Any) -> None:
        transport.write(b"no TLS here\r\n")
        transport.close()


def _protected(tls: ServerTls) -> asyncio.BufferedProtocol:
    return tls.protect(Silent())


@contextlib.asynccontextmanager
async def server(
    place: CertificateDirectory | None, *, asks: bool = False, at: datetime = NOW
) -> AsyncIterator[int]:
    """Serve on a port, plain or with the certificate of broker-1; ``asks``: clients for theirs."""
    protocol: Callable[[], asyncio.BufferedProtocol] = Greeter
    if place is not None:
        files = TlsFiles(
            min_version="1.3",
            certificate_file=str(place.certificate_file("broker-1")),
            key_file=str(place.key_file("broker-1")),
            ca_file=str(place.ca_file),
        )
        tls = ServerTls(
            files, "required" if asks else "none", ManualClock(int(at.timestamp()) * 1000)
        )
        protocol = functools.partial(_protected, tls)
    listening = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def dialled(port: int, **changed: Any) -> Inspection:
    given: dict[str, Any] = {
        "ca": None,
        "server_name": None,
        "pair": None,
        "now": NOW,
        "days_min": 7.0,
        **changed,
    }
    return await asyncio.to_thread(inspect_server, "127.0.0.1", port, **given)


async def test_a_server_is_verified_by_its_ca(place: CertificateDirectory) -> None:
    async with server(place) as port:
        found = await dialled(port, ca=place.ca_file)
    assert not found.problems
    assert found.remarks == ["it speaks TLSv1.3"]
    (seen,) = found.certificates
    assert (seen.user, seen.verified, seen.key_fits) == ("broker-1", True, None)


async def test_a_server_of_another_ca(
    place: CertificateDirectory, others: CertificateDirectory
) -> None:
    async with server(place) as port:
        for ca in (others.ca_file, None):
            found = await dialled(port, ca=ca)
            assert "cannot be verified" in problem(found)
            assert found.certificates[0].verified is False


async def test_a_server_of_another_name(place: CertificateDirectory) -> None:
    async with server(place) as port:
        found = await dialled(port, ca=place.ca_file, server_name="elsewhere")
    assert "is for 127.0.0.1, and not for elsewhere" in problem(found)


async def test_a_server_that_asks_for_certificates(
    place: CertificateDirectory, others: CertificateDirectory
) -> None:
    async with server(place, asks=True) as port:
        found = await dialled(port, ca=place.ca_file)
        assert not found.problems
        assert "only clients that show a certificate" in found.remarks[1]
        own = (place.certificate_file("admin"), place.key_file("admin"))
        found = await dialled(port, ca=place.ca_file, pair=own)
        assert (found.problems, len(found.remarks)) == ([], 1)
        strange = (others.certificate_file("admin"), others.key_file("admin"))
        found = await dialled(port, ca=place.ca_file, pair=strange)
        assert "refuses this client" in problem(found)


async def test_a_server_whose_certificate_has_expired(place: CertificateDirectory) -> None:
    before = NOW - timedelta(days=2)
    CertificateDirectory(place.directory, before).renew(["broker-1"], days=1)
    async with server(place, at=before) as port:
        found = await dialled(port, ca=place.ca_file)
    assert "has expired" in problem(found)


async def test_who_does_not_speak_tls(place: CertificateDirectory) -> None:
    async with server(None) as port:
        with pytest.raises(CommandError, match="does not speak TLS"):
            await dialled(port, ca=place.ca_file)
    with pytest.raises(CommandError, match="cannot be reached"):
        await dialled(port, ca=place.ca_file)


async def test_files_of_the_client_that_are_no_good(
    place: CertificateDirectory, others: CertificateDirectory
) -> None:
    for given in (
        {"ca": place.directory / "none.pem"},
        {"pair": (place.certificate_file("admin"), others.key_file("admin"))},
    ):
        with pytest.raises(CommandError, match="not usable for TLS"):
            await dialled(1, **given)
