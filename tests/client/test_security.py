"""Options of security are checked when they are made, and every client takes them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog import (
    Admin,
    AuthenticationFailedError,
    Consumer,
    Producer,
    Security,
    SharedTransaction,
    TlsError,
    blocking,
    join,
)
from oncelog.errors import ConfigurationError, DeliveryTimeoutError, NoBrokersAvailableError
from oncelog.security import TokenOption
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.sasl.credential import Mechanism
from support.client_papers import ClientPapers
from support.fake_cluster import FakeCluster, values_of
from support.fake_security import FakeSecurity
from support.waiting import eventually


@pytest.fixture
def papers(tmp_path: Path) -> ClientPapers:
    return ClientPapers(tmp_path / "papers")


# ---- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "security says nothing: give ca_file, or tls=True"),
        ({"tls": False}, "tls=False: must be True"),
        ({"ca_file": ""}, "ca_file='': must be the path of a file"),
        ({"ca_file": 3}, "ca_file=3: must be the path of a file"),
        ({"tls": True, "server_name": ""}, "server_name='': must be a text"),
        ({"key_file": "k"}, "key_file without certificate_file: .* go together"),
        ({"certificate_file": "c"}, "certificate_file without key_file"),
        ({"ca_file": "c", "key_password_file": "k"}, "key_password_file without key_file"),
        ({"username": "app"}, "username without a password"),
        ({"password": "s3cret"}, "password without username"),
        ({"password_file": "f"}, "password_file without username"),
        ({"username": "app", "password": "s3cret", "password_file": "f"}, "give one of them"),
        ({"username": "a pp", "password": "s3cret"}, "no user can have this name"),
        ({"username": "app", "password": ""}, "password: "),
        ({"username": "app", "password": 3}, "password must be text"),
        ({"username": "app", "password": "s3cret", "mechanism": "MD5"}, "must be one of SCRAM"),
        ({"ca_file": "c", "mechanism": "PLAIN"}, "needs username and password"),
        ({"ca_file": "c", "mechanism": "OAUTHBEARER"}, "needs a token"),
        ({"ca_file": "c", "token": "s3cret", "username": "app"}, "the token says who this is"),
        ({"ca_file": "c", "token": "s3cret", "token_file": "f"}, "give one of them"),
        ({"ca_file": "c", "token_file": "f", "username": "app"}, "the token says who this is"),
        ({"ca_file": "c", "token_file": 3}, "token_file=3: must be the path of a file"),
        ({"token_file": "f"}, "a token shows a secret"),
        ({"ca_file": "c", "token": 3}, "token must be text, or a function"),
        ({"username": "app", "password": "s3cret", "mechanism": "PLAIN"}, "so it needs TLS"),
        ({"token": "s3cret"}, "a token shows a secret"),
        ({"ssl_context": "x"}, "ssl_context must be an ssl.SSLContext, not str"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        Security(**options)
    assert "s3cret" not in str(caught.value)


def test_what_fits() -> None:
    assert Security(tls=True) == Security(tls=True)
    Security(ca_file=Path("ca.pem"), certificate_file="c", key_file="k")
    assert "ca.pem" in repr(Security(ca_file="ca.pem"))
    for shown in (
        Security(username="app", password="s3cret"),
        Security(tls=True, token="s3cret"),
    ):
        assert "s3cret" not in repr(shown)


def context_for(papers: ClientPapers, *steps: Callable[[ssl.SSLContext], object]) -> ssl.SSLContext:
    """Return a context that trusts these papers, after some steps."""
    context = ssl.create_default_context(cafile=papers.ca_file)
    context.hostname_checks_common_name = False
    for step in steps:
        step(context)
    return context


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("check_hostname", False, "does not verify certificates of brokers and their names"),
        ("hostname_checks_common_name", True, "set hostname_checks_common_name = False"),
        ("minimum_version", ssl.TLSVersion.MINIMUM_SUPPORTED, "versions below TLS 1.2"),
    ],
)
def test_a_context_that_verifies_less_is_refused(
    papers: ClientPapers, setting: str, value: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Security(ssl_context=context_for(papers, lambda it: setattr(it, setting, value)))


def test_a_context_stands_instead_of_files(papers: ClientPapers) -> None:
    with pytest.raises(ConfigurationError, match="ssl_context and ca_file: load the file"):
        papers.security(ssl_context=context_for(papers))
    Security(ssl_context=context_for(papers), username="app", password="x", mechanism="PLAIN")


# ---- clients -----------------------------------------------------------------------------------


async def test_a_producer_and_a_consumer_over_tls(papers: ClientPapers) -> None:
    security = papers.security()
    async with FakeCluster(2, tls=papers.server()) as cluster:
        cluster.create_topic("t", 2)
        async with Producer(cluster.bootstrap, security=security) as producer:
            for number in range(20):
                await producer.send("t", b"%d" % number)
        read: set[bytes | None] = set()
        async with Consumer(
            "t",
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
            security=security,
        ) as consumer:
            async for record in consumer:
                read.add(record.value)
                if len(read) == 20:
                    break
        assert read == {b"%d" % number for number in range(20)}


async def test_admin_by_a_url(papers: ClientPapers) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        cluster.create_topic("t")
        servers = f"oncelogs://{cluster.bootstrap}?ca_file={papers.ca_file}"
        async with Admin(servers) as admin:
            assert await admin.list_topics() == ["t"]


async def test_a_shared_transaction_over_tls(papers: ClientPapers) -> None:
    security = papers.security()
    async with FakeCluster(1, tls=papers.server()) as cluster:
        cluster.create_topic("t")
        shared = await SharedTransaction.begin(
            bootstrap_servers=cluster.bootstrap, transactional_id="x", tag=1, security=security
        )
        async with await join(shared.ticket, writer="w", security=security) as writer:
            await writer.send("t", b"1")
        await shared.commit([writer.receipt])
        assert values_of(cluster, "t") == {0: [b"1"]}


async def test_a_client_shows_its_certificate(papers: ClientPapers) -> None:
    certificate, key = papers.issue("app")
    async with FakeCluster(1, tls=papers.server("required")) as cluster:
        security = papers.security(certificate_file=certificate, key_file=key)
        async with Admin(cluster.bootstrap, security=security):
            pass
        with pytest.raises(TlsError, match="the peer wants a certificate of this side"):
            async with Admin(cluster.bootstrap, security=papers.security()):
                pass


async def test_start_says_why_a_broker_is_not_trusted(papers: ClientPapers, tmp_path: Path) -> None:
    other = ClientPapers(tmp_path / "other")
    async with FakeCluster(1, tls=papers.server()) as cluster:
        with pytest.raises(TlsError) as caught:
            async with Producer(cluster.bootstrap, security=other.security()):
                pass
        assert caught.value.address == cluster.bootstrap
        assert "not signed by a trusted CA" in caught.value.cause
        assert "name the CA" in caught.value.remedy
        with pytest.raises(TlsError, match="for another name"):
            async with Consumer(
                bootstrap_servers=cluster.bootstrap, security=papers.security(server_name="o.org")
            ):
                pass
        with pytest.raises(TlsError, match=r"no-such\.pem cannot be read"):
            async with Admin(cluster.bootstrap, security=Security(ca_file="no-such.pem")):
                pass


async def test_a_context_of_the_users(papers: ClientPapers) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        security = Security(ssl_context=context_for(papers))
        async with Admin(cluster.bootstrap, security=security) as admin:
            assert await admin.list_topics() == []
        other = Security(ssl_context=context_for(papers), server_name="o.org")
        with pytest.raises(TlsError, match="for another name"):
            async with Admin(cluster.bootstrap, security=other):
                pass


async def test_a_broker_without_tls_is_named() -> None:
    async with FakeCluster(1) as cluster:
        servers = cluster.bootstrap.replace("127.0.0.1", "oncelogs://127.0.0.1")
        with pytest.raises((TlsError, ConnectionError)) as caught:
            async with Admin(servers):
                pass
        assert cluster.bootstrap in str(caught.value)


def test_the_blocking_face_says_it_too(papers: ClientPapers) -> None:
    with pytest.raises(TlsError, match=r"no-such\.pem"):
        blocking.Producer("127.0.0.1:9", security=Security(ca_file="no-such.pem")).start()
    with pytest.raises(TlsError, match=r"no-such\.pem"):
        blocking.SharedTransaction.begin(
            bootstrap_servers="127.0.0.1:9",
            transactional_id="x",
            tag=1,
            security=Security(ca_file="no-such.pem"),
        )


# ---- users -------------------------------------------------------------------------------------


def asking(cluster: FakeCluster, *mechanisms: Mechanism, encrypted: bool = True) -> FakeSecurity:
    """Let the brokers ask who their clients are; return what they know of them."""
    cluster.security = FakeSecurity(*mechanisms, encrypted=encrypted)
    cluster.security.passwords["app"] = "secret"
    cluster.security.tokens["abc.def"] = "bearer"
    return cluster.security


async def test_a_password_is_proven_without_tls() -> None:
    async with FakeCluster(1) as cluster:
        known = asking(cluster, Mechanism.SCRAM_SHA_256, encrypted=False)
        cluster.create_topic("t")
        security = Security(username="app", password="secret")
        async with Producer(cluster.bootstrap, security=security) as producer:
            await producer.send("t", b"1")
        assert set(known.authenticated) == {"app"}


@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_512, Mechanism.PLAIN])
async def test_a_password_from_a_file(papers: ClientPapers, mechanism: Mechanism) -> None:
    path = papers.secret("secret")
    async with FakeCluster(1, tls=papers.server()) as cluster:
        known = asking(cluster, mechanism)
        named = None if mechanism is Mechanism.SCRAM_SHA_512 else str(mechanism)
        security = papers.security(username="app", password_file=path, mechanism=named)
        async with Admin(cluster.bootstrap, security=security):
            assert known.authenticated[0] == "app"


async def made_token() -> str:
    return "abc.def"


@pytest.mark.parametrize("token", ["abc.def", lambda: "abc.def", made_token])
async def test_a_token(papers: ClientPapers, token: TokenOption) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        known = asking(cluster, Mechanism.OAUTHBEARER)
        async with Admin(cluster.bootstrap, security=papers.security(token=token)):
            assert known.authenticated[0] == "bearer"


async def test_a_token_in_a_file_named_by_a_url(papers: ClientPapers) -> None:
    path = papers.secret("abc.def")
    async with FakeCluster(1, tls=papers.server()) as cluster:
        known = asking(cluster, Mechanism.OAUTHBEARER)
        options = f"ca_file={papers.ca_file}&token_file={path}"
        async with Admin(f"oncelogs://{cluster.bootstrap}?{options}"):
            assert known.authenticated[0] == "bearer"


async def test_a_function_that_gives_no_token_is_left_in_time(papers: ClientPapers) -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async with FakeCluster(1, tls=papers.server()) as cluster:
        asking(cluster, Mechanism.OAUTHBEARER)
        with pytest.raises(NoBrokersAvailableError, match="timed out"):
            async with Admin(
                cluster.bootstrap, security=papers.security(token=never), connect_timeout_ms=100
            ):
                pass


def no_token() -> str:
    raise LookupError("s3cret")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"username": "app", "password": "wrong"}, "check user name and password"),
        ({"username": "none", "password": "secret"}, "check user name and password"),
        (
            {"username": "app", "password": "secret", "mechanism": "SCRAM-SHA-512"},
            "does not take SCRAM-SHA-512; it takes SCRAM-SHA-256",
        ),
        ({"username": "app", "password_file": "no-such"}, "the file no-such cannot be read"),
        ({"token": no_token}, "the function of the token has failed with LookupError"),
        ({"token": lambda: ""}, "the function returned no token"),
        ({}, "the brokers want to know who asks"),
    ],
)
async def test_a_client_that_is_not_believed(
    papers: ClientPapers, options: dict[str, Any], said: str
) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        asking(cluster, Mechanism.SCRAM_SHA_256)
        with pytest.raises(AuthenticationFailedError, match=said) as caught:
            async with Admin(cluster.bootstrap, security=papers.security(**options)):
                pass
        assert caught.value.address == cluster.bootstrap
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("mechanism", list(Mechanism))
async def test_no_credential_goes_to_a_server_of_another_name(
    papers: ClientPapers, mechanism: Mechanism
) -> None:
    asked = 0

    def token() -> str:
        nonlocal asked
        asked += 1
        return "abc.def"

    user = {"username": "app", "password": "secret"}
    who = {"token": token} if mechanism is Mechanism.OAUTHBEARER else user
    async with FakeCluster(1, tls=papers.server()) as cluster:
        asking(cluster, mechanism)
        security = papers.security(server_name="o.org", mechanism=str(mechanism), **who)
        with pytest.raises(TlsError, match="for another name"):
            async with Admin(cluster.bootstrap, security=security):
                pass
        assert (cluster.requests, asked) == ([], 0)
        known = papers.security(mechanism=str(mechanism), **who)
        async with Admin(cluster.bootstrap, security=known):
            assert cluster.requests


async def test_a_session_goes_on(papers: ClientPapers) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        known = asking(cluster, Mechanism.SCRAM_SHA_256)
        known.session_ms = 50
        security = papers.security(username="app", password="secret")
        async with Admin(cluster.bootstrap, security=security) as admin:
            await eventually(lambda: len(known.authenticated) >= 4)
            assert await admin.list_topics() == []


# ---- a broker is no longer trusted -------------------------------------------------------------


async def change_authority(cluster: FakeCluster, papers: ClientPapers) -> None:
    """Restart the brokers with certificates of another CA."""
    cluster.tls = papers.server()
    for broker in cluster.brokers.values():
        await broker.stop()
        await broker.start()


async def test_records_fail_with_the_reason(papers: ClientPapers, tmp_path: Path) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap, security=papers.security()) as producer:
            await producer.send("t", b"1")
            await change_authority(cluster, ClientPapers(tmp_path / "other"))
            deliveries = [await producer.enqueue("t", b"2"), await producer.enqueue("t", b"3")]
            for delivery in deliveries:
                with pytest.raises(TlsError, match="not signed by a trusted CA") as caught:
                    await delivery
                assert caught.value.definite
            await change_authority(cluster, papers)

            async def heals() -> bool:
                try:
                    await producer.send("t", b"4")
                except (TlsError, DeliveryTimeoutError):
                    return False
                return True

            while not await heals():
                pass
        assert values_of(cluster, "t")[0] == [b"1", b"4"]


async def test_a_consumer_hears_of_it(papers: ClientPapers, tmp_path: Path) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        cluster.create_topic("t")
        async with Consumer(
            "t", bootstrap_servers=cluster.bootstrap, security=papers.security()
        ) as consumer:
            await eventually(
                lambda: any(isinstance(request, FetchRequest) for _, request in cluster.requests)
            )
            await change_authority(cluster, ClientPapers(tmp_path / "other"))
            with pytest.raises(TlsError, match="not signed by a trusted CA"):
                await consumer.getone()


async def test_a_member_of_a_group_hears_of_it(papers: ClientPapers, tmp_path: Path) -> None:
    async with FakeCluster(1, tls=papers.server()) as cluster:
        cluster.create_topic("t")
        async with Consumer(
            "t", bootstrap_servers=cluster.bootstrap, group_id="g", security=papers.security()
        ) as consumer:
            await change_authority(cluster, ClientPapers(tmp_path / "other"))
            with pytest.raises(TlsError, match="not signed by a trusted CA"):
                await consumer.getone()
