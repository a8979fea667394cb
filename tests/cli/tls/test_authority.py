"""A CA of a directory makes certificates that brokers and clients use, and loses none."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from oncelog_cli.exits import CommandError, UsageError
from oncelog_cli.tls.authority import (
    CA_DAYS,
    CertificateDirectory,
    Holder,
    hosts_of,
    is_issued_by,
    parse_broker,
    read_certificates,
    read_key,
    user_of,
)
from oncelog_runtime.certificates import principal_of

NOW = datetime.now(UTC).replace(microsecond=0)
BROKER = Holder("broker-1", ("127.0.0.1", "localhost"))
ADMIN = Holder("admin")


@pytest.fixture
def place(tmp_path: Path) -> CertificateDirectory:
    return CertificateDirectory(tmp_path / "tls", NOW)


def contents(place: CertificateDirectory) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.directory.iterdir()}


def meet(
    place: CertificateDirectory, server: str, client: str, host: str = "localhost"
) -> ssl.SSLObject:
    """Have two certificates meet in a handshake; return the server's side of it."""
    accepts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepts.verify_mode = ssl.CERT_REQUIRED
    dials = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context, name in ((accepts, server), (dials, client)):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(place.ca_file)
        context.load_cert_chain(place.certificate_file(name), place.key_file(name))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = dials.wrap_bio(back, there, server_hostname=host)
    accepting = accepts.wrap_bio(there, back, server_side=True)
    for _ in range(3):
        for end in (dialling, accepting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return accepting


def test_a_ca_and_certificates_are_made(place: CertificateDirectory) -> None:
    made = place.make([BROKER, ADMIN], days=30)
    assert [(each.name, each.use) for each in made] == [
        ("ca", "ca"),
        ("broker-1", "broker"),
        ("admin", "client"),
    ]
    assert made[0].not_after == NOW + timedelta(days=CA_DAYS)
    assert {each.not_after for each in made[1:]} == {NOW + timedelta(days=30)}
    assert sorted(contents(place)) == sorted(
        f"{name}.{kind}" for name in ("ca", "broker-1", "admin") for kind in ("pem", "key")
    )
    for each in made:
        assert stat.S_IMODE(each.key_file.stat().st_mode) == 0o600
        assert stat.S_IMODE(each.certificate_file.stat().st_mode) == 0o644


def test_a_certificate_names_hosts_and_the_user(place: CertificateDirectory) -> None:
    place.make([Holder("b", ("::1", "b.example", "10.0.0.1"))], days=1)
    (certificate,) = read_certificates(place.certificate_file("b"))
    assert sorted(hosts_of(certificate)) == ["10.0.0.1", "::1", "b.example"]
    assert user_of(certificate) == "b"
    (ca,) = read_certificates(place.ca_file)
    assert (user_of(ca), hosts_of(ca)) == (None, [])


@pytest.mark.parametrize("client", ["admin", "broker-2"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_brokers_see_the_user_whom_a_certificate_is_for(
    place: CertificateDirectory, client: str, host: str
) -> None:
    place.make([BROKER, Holder("broker-2", ("b",)), ADMIN], days=1)
    peer = meet(place, "broker-1", client, host).getpeercert()
    assert peer is not None
    assert principal_of(peer, "uri") == client


def test_a_client_is_no_server_and_a_host_is_named(place: CertificateDirectory) -> None:
    place.make([BROKER, ADMIN], days=1)
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        meet(place, "admin", "broker-1")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        meet(place, "broker-1", "admin", "elsewhere")


def test_nothing_is_replaced_unasked(place: CertificateDirectory) -> None:
    place.make([BROKER, ADMIN], days=1)
    before = contents(place)
    with pytest.raises(CommandError, match="--renew admin"):
        place.make([Holder("app"), ADMIN], days=1)
    assert contents(place) == before
    made = place.make([Holder("app")], days=1)
    assert [each.name for each in made] == ["app"]
    assert {name: contents(place)[name] for name in before} == before
    place.make([ADMIN], days=1, force=True)
    changed = {name for name, content in contents(place).items() if before.get(name) != content}
    assert changed == {"admin.pem", "admin.key", "app.pem", "app.key"}


def test_a_renewed_certificate_is_for_the_same(place: CertificateDirectory) -> None:
    place.make([BROKER, ADMIN], days=1)
    before = contents(place)
    (renewed,) = place.renew(["broker-1", "broker-1"], days=400)
    assert (renewed.use, sorted(renewed.hosts)) == ("broker", sorted(BROKER.hosts))
    assert renewed.not_after == NOW + timedelta(days=400)
    changed = {name for name, content in contents(place).items() if before[name] != content}
    assert changed == {"broker-1.pem", "broker-1.key"}
    meet(place, "broker-1", "admin")


def test_no_certificate_outlives_its_ca(place: CertificateDirectory) -> None:
    place.make([ADMIN], days=1)
    later = CertificateDirectory(place.directory, NOW + timedelta(days=CA_DAYS - 1))
    (renewed,) = later.renew(["admin"], days=365)
    assert renewed.not_after == NOW + timedelta(days=CA_DAYS)
    latest = CertificateDirectory(place.directory, NOW + timedelta(days=CA_DAYS))
    with pytest.raises(CommandError, match="has expired"):
        latest.renew(["admin"], days=365)


def test_what_cannot_be_renewed(place: CertificateDirectory, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"ca\.pem cannot be read"):
        place.renew(["admin"], days=1)
    place.make([ADMIN], days=1)
    with pytest.raises(CommandError, match=r"other\.pem cannot be read"):
        place.renew(["other"], days=1)
    stranger = CertificateDirectory(tmp_path / "other", NOW)
    stranger.make([Holder("other")], days=1)
    place.certificate_file("other").write_bytes(contents(stranger)["other.pem"])
    with pytest.raises(CommandError, match="is not from"):
        place.renew(["other"], days=1)


def test_a_ca_that_is_not_whole_signs_nothing(place: CertificateDirectory, tmp_path: Path) -> None:
    place.make([ADMIN], days=1)
    before = contents(place)
    place.key_file("ca").unlink()
    with pytest.raises(CommandError, match=r"ca\.key cannot be read"):
        place.make([Holder("app")], days=1)
    place.key_file("ca").write_text("nonsense")
    with pytest.raises(CommandError, match="no private key"):
        place.make([Holder("app")], days=1)
    other = CertificateDirectory(tmp_path / "other", NOW)
    other.make([ADMIN], days=1)
    place.key_file("ca").write_bytes(contents(other)["ca.key"])
    with pytest.raises(CommandError, match="is not the key of"):
        place.make([Holder("app")], days=1)
    place.key_file("ca").write_bytes(before["ca.key"])
    place.ca_file.write_text("nonsense")
    with pytest.raises(CommandError, match="no certificate"):
        place.make([Holder("app")], days=1)
    assert not place.certificate_file("app").exists()


def test_what_signed_it_is_known(place: CertificateDirectory) -> None:
    place.make([ADMIN], days=1)
    (ca,), (admin,) = (read_certificates(place.certificate_file(n)) for n in ("ca", "admin"))
    assert is_issued_by(admin, ca)
    assert not is_issued_by(ca, admin)
    assert read_key(place.key_file("ca")).public_key() == ca.public_key()


@pytest.mark.parametrize("name", ["", "ca", "../x", "a/b", ".a", "-a", "a b", "x" * 65, "é"])
def test_names_that_no_certificate_has(name: str) -> None:
    with pytest.raises(UsageError, match="no name for a certificate"):
        Holder(name)


@pytest.mark.parametrize("host", ["a:9092", "*.a", "a..b", "-a", "é", "a" * 254, "a b"])
def test_hosts_that_no_certificate_has(host: str) -> None:
    with pytest.raises(UsageError, match="no host for a certificate"):
        Holder("b", (host,))


def test_a_broker_is_its_name_and_hosts() -> None:
    assert parse_broker("b=Broker.Example, [::1],::1") == Holder("b", ("broker.example", "::1"))
    for text in ("b", "b=", "b=,"):
        with pytest.raises(UsageError, match="expected NAME=HOST"):
            parse_broker(text)


def test_a_name_is_asked_for_once(place: CertificateDirectory) -> None:
    with pytest.raises(UsageError, match="twice"):
        place.make([ADMIN, Holder("admin", ("a",))], days=1)
    assert not place.directory.exists()
