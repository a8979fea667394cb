"""Certificates name one user or none; what their DER says is what the issuer wrote."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from oncelog_runtime.certificates import (
    PrincipalError,
    PrincipalKind,
    certificate_facts,
    pem_blocks,
    principal_of,
    revoked_certificates,
)
from support.certificates import Authority


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def named(*names: tuple[str, str], subject: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return a certificate as ``getpeercert`` decodes it."""
    return {"subjectAltName": names, "subject": subject}


def shown(authority: Authority, *names: x509.GeneralName, **options: Any) -> dict[str, Any]:
    """Return what a server gets to see of a client's certificate."""
    leaf = authority.odd(*names, **options)
    client, server = authority.client(), authority.server(trusting=True)
    leaf.configure_cert(client)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname="localhost"),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    found = ends[1].getpeercert()
    assert found
    return found


@pytest.mark.parametrize(
    ("kind", "principal"),
    [
        ("uri", "spiffe://prod/app"),
        ("dns", "app.prod"),
        ("cn", "app"),
        ("dn", r"CN=app,O=Sheep\, Inc\=,C=DE"),
    ],
)
def test_one_value_of_each_kind(authority: Authority, kind: PrincipalKind, principal: str) -> None:
    certificate = shown(
        authority,
        x509.UniformResourceIdentifier("spiffe://prod/app"),
        x509.DNSName("app.prod"),
        subject=[
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.ORGANIZATION_NAME, "Sheep, Inc="),
            (NameOID.COMMON_NAME, "app"),
        ],
    )
    assert principal_of(certificate, kind) == principal


@pytest.mark.parametrize(
    ("uri", "user"),
    [
        ("oncelog:broker-1", "broker-1"),
        ("oncelog:oncelog:x", "oncelog:x"),
        ("ONCELOG:app", "ONCELOG:app"),
        ("spiffe://oncelog:app", "spiffe://oncelog:app"),
    ],
)
def test_a_uri_of_ours_names_the_user_after_its_scheme(uri: str, user: str) -> None:
    assert principal_of(named(("URI", uri)), "uri") == user


def test_a_scheme_alone_names_nobody() -> None:
    with pytest.raises(PrincipalError, match="cannot be a user"):
        principal_of(named(("URI", "oncelog:")), "uri")


@pytest.mark.parametrize("kind", ["uri", "dns", "cn", "dn"])
@pytest.mark.hostile(9)
def test_a_certificate_without_a_user(kind: PrincipalKind) -> None:
    for certificate in ({}, named(("email", "a@b"))):
        with pytest.raises(PrincipalError, match="0 values"):
            principal_of(certificate, kind)


@pytest.mark.hostile(9)
def test_a_certificate_with_two_users() -> None:
    with pytest.raises(PrincipalError, match="2 values of the kind uri"):
        principal_of(named(("URI", "a"), ("DNS", "x"), ("URI", "a")), "uri")
    common = (("commonName", "a"),)
    with pytest.raises(PrincipalError, match="2 values of the kind cn"):
        principal_of(named(subject=(common, common)), "cn")
    with pytest.raises(PrincipalError, match="change tls.principal"):
        principal_of(named(("DNS", "a"), ("DNS", "b")), "dns")


@pytest.mark.parametrize("value", ["", "a\x00b", "x" * 256, "a\nb", "a\u202eb"])
def test_a_value_that_cannot_be_a_user(value: str) -> None:
    with pytest.raises(PrincipalError, match="cannot be a user"):
        principal_of(named(("URI", value)), "uri")


def test_the_longest_user() -> None:
    assert principal_of(named(("DNS", "x" * 255)), "dns") == "x" * 255


@pytest.mark.hostile(9)
def test_a_nul_within_a_certificate(authority: Authority) -> None:
    certificate = shown(authority, x509.UniformResourceIdentifier("urn:admin\x00.evil"))
    with pytest.raises(PrincipalError):
        principal_of(certificate, "uri")


def test_a_distinguished_name_cannot_pretend() -> None:
    written = principal_of(named(subject=((("commonName", "a,CN=admin"),),)), "dn")
    assert written == r"CN=a\,CN\=admin"
    assert principal_of(named(subject=((("commonName", " # "),),)), "dn") == r"CN=\ #\ "
    several = ((("commonName", "a"), ("userId", "b")), (("unknownName", "c"),))
    assert principal_of(named(subject=several), "dn") == "unknownName=c,CN=a+UID=b"


def test_facts_of_a_certificate(authority: Authority) -> None:
    begins = datetime(1999, 12, 31, 23, 59, 58, tzinfo=UTC)
    ends = datetime(2051, 1, 2, 3, 4, 5, tzinfo=UTC)
    leaf = authority.odd(x509.DNSName("a"), begins=begins, ends=ends)
    pem = leaf.cert_chain_pems[0].bytes()
    known = x509.load_pem_x509_certificate(pem)
    (der,) = pem_blocks(pem, "CERTIFICATE")
    facts = certificate_facts(der)
    assert facts.serial == known.serial_number
    assert facts.issuer == known.issuer.public_bytes()
    assert facts.not_before_s == begins.timestamp()
    assert facts.not_after_s == ends.timestamp()


def test_what_a_list_revokes(authority: Authority) -> None:
    leaves = [authority.issue(f"host{number}") for number in range(3)]
    (der,) = pem_blocks(authority.revocations(*leaves[:2]), "X509 CRL")
    facts = [
        certificate_facts(pem_blocks(leaf.cert_chain_pems[0].bytes(), "CERTIFICATE")[0])
        for leaf in leaves
    ]
    assert revoked_certificates(der) == {(each.issuer, each.serial) for each in facts[:2]}
    (empty,) = pem_blocks(authority.revocations(), "X509 CRL")
    assert revoked_certificates(empty) == frozenset()


def test_der_that_was_changed_is_read_or_refused(authority: Authority) -> None:
    """Every prefix is refused, and no changed byte leads to another error."""
    (der,) = pem_blocks(authority.issue("a").cert_chain_pems[0].bytes(), "CERTIFICATE")
    (crl,) = pem_blocks(authority.revocations(authority.issue("b")), "X509 CRL")
    for data, read in ((der, certificate_facts), (crl, revoked_certificates)):
        for size in range(1, len(data)):
            with pytest.raises(ValueError):
                read(data[:size])
        for at in range(len(data)):
            for value in (0, data[at] ^ 1, 0xFF):
                try:
                    read(data[:at] + bytes([value]) + data[at + 1 :])
                except ValueError:
                    pass


@pytest.mark.parametrize("pem", [b"-----BEGIN CERTIFICATE-----\nAAAA\n", b"-----END X-----"])
def test_a_file_that_is_half_written(pem: bytes) -> None:
    with pytest.raises(ValueError, match="ends within a block"):
        pem_blocks(pem, "CERTIFICATE")


def test_blocks_of_other_names_are_passed_over(authority: Authority) -> None:
    leaf = authority.issue("a")
    assert len(pem_blocks(leaf.private_key_and_cert_chain_pem.bytes(), "CERTIFICATE")) == 1
