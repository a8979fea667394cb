"""TLS proves who a peer is, whether it is a broker, and for how long."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme

from oncelog_broker.server import listener
from oncelog_broker.server.listener_security import OPEN, ListenerSecurity
from oncelog_broker.server.peer_identity import NOBODY_KNOWN
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_runtime.certificates import PrincipalError, certificate_facts
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.tls_contexts import ServerTls, TlsFiles
from support.certificates import Papers
from support.server import ServerUnderTest


def shown(issued: trustme.LeafCert, *, name: str = "app") -> Any:
    """Return what the layer tells of a connection whose peer showed this certificate."""
    der = ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())
    decoded = {"subject": ((("commonName", name),),), "subjectAltName": ()}
    return SimpleNamespace(getpeercert=lambda binary_form=False: der if binary_form else decoded)


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


def security(papers: Papers, **files: str) -> ListenerSecurity:
    certificate, key = papers.issue("server")
    named = TlsFiles(
        min_version="1.3",
        certificate_file=certificate,
        key_file=key,
        ca_file=papers.ca_file,
        **files,
    )
    tls = ServerTls(named, "required", SystemWallClock())
    return ListenerSecurity(tls, "cn", True, "User:b-{id}")


def test_without_a_certificate_a_peer_is_nobody() -> None:
    nothing: Any = SimpleNamespace(getpeercert=lambda binary_form=False: None)
    assert OPEN.peer(nothing) is NOBODY_KNOWN
    assert OPEN.fault_of(NOBODY_KNOWN, 1e12) == ""


def test_what_is_lacking_names_the_settings(papers: Papers) -> None:
    whole = security(papers)
    assert whole.lacks() == ""
    assert whole.tls is not None
    assert ListenerSecurity(whole.tls).lacks().startswith("authentication: set tls_client_auth")
    assert OPEN.lacks().startswith("neither encryption nor authentication: set tls_certificate_f")


async def said_at_start(security: ListenerSecurity, caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level("WARNING", logger="oncelog_broker.server.listener"):
        async with ServerUnderTest(security=security):
            pass
    return [record.getMessage() for record in caplog.records]


async def test_on_loopback_an_open_listener_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert await said_at_start(OPEN, caplog) == []


async def test_an_open_listener_beyond_loopback_says_so_once(
    papers: Papers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "is_loopback", lambda host: False)
    (line,) = await said_at_start(OPEN, caplog)
    assert line.startswith("listener_open_to_everybody listener=external")
    assert "neither encryption nor authentication: set tls_certificate_file" in line
    caplog.clear()
    asking = ListenerSecurity(proves_peers=True, sasl=(Mechanism.SCRAM_SHA_256,))
    (line,) = await said_at_start(asking, caplog)
    assert "lacks='encryption: set tls_certificate_file" in line
    caplog.clear()
    assert await said_at_start(security(papers), caplog) == []


def test_a_certificate_names_the_user_and_the_end(papers: Papers) -> None:
    issued = papers.authority.issue("127.0.0.1", common_name="app")
    rules, peer = security(papers), shown(issued)
    known = rules.peer(peer)
    assert known.principal == "User:app"
    ends_s = certificate_facts(peer.getpeercert(True)).not_after_s
    assert rules.fault_of(known, ends_s - 1) == ""
    assert "expired" in rules.fault_of(known, ends_s)


def test_a_certificate_without_the_name_that_is_asked_for_is_refused(papers: Papers) -> None:
    issued = papers.authority.issue("127.0.0.1")
    rules = ListenerSecurity(principal_kind="uri")
    with pytest.raises(PrincipalError):
        rules.peer(shown(issued))


def test_a_revoked_certificate_ends_its_connections(papers: Papers) -> None:
    kept, gone = (papers.authority.issue("127.0.0.1", common_name="app") for _ in range(2))
    lists = papers.directory / "revoked.pem"
    lists.write_bytes(papers.authority.revocations(gone))
    rules = security(papers, crl_file=str(lists))
    faults = [rules.fault_of(rules.peer(shown(each)), 0) for each in (kept, gone)]
    assert faults[0] == ""
    assert "revoked" in faults[1]


@pytest.mark.parametrize(
    ("proves", "principal", "believed"),
    [(False, "User:ANONYMOUS", True), (True, "User:b-2", True), (True, "User:b-22", False)],
)
def test_a_peer_is_the_broker_that_it_proves_to_be(
    proves: bool, principal: str, believed: bool
) -> None:
    rules = ListenerSecurity(proves_peers=proves, broker_principal="User:b-{id}")
    assert rules.is_broker(2, principal) is believed
