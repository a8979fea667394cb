"""Clients are known to real brokers by tokens, for as long as these last."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from oncelog import AclBinding, Admin, Consumer, Producer
from oncelog.errors import AuthenticationFailedError, TopicAuthorizationFailedError
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import SaslAuthenticationFailedError
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.sasl.client_authentication import ClientAuthentication
from oncelog_protocol.sasl.oauth_bearer import OAuthBearerClient
from support.certificates import Papers
from support.https_server import HttpsServer, answer
from support.server import Canary
from support.token_cluster import TokenCluster
from support.tokens import ISSUER, Issuer, claims_at, raw_token
from support.waiting import eventually


def may(kind: str, name: str, *operations: str) -> list[AclBinding]:
    """Return what allows the user of the tokens this."""
    return [
        AclBinding(kind, "LITERAL", name, "User:app", "*", operation, "ALLOW")
        for operation in operations
    ]


async def test_who_shows_a_token_does_what_acls_allow_its_user(tmp_path: Path) -> None:
    async with TokenCluster(tmp_path, 2) as cluster, cluster.admin() as admin:
        await cluster.create_topic("t", partitions=2, replication_factor=2)
        security = cluster.security(token=cluster.token)
        async with Admin(cluster.servers(), security=security) as own:
            who = await own.whoami()
        assert (who.principal, who.authenticated_by) == ("User:app", "OAUTHBEARER")
        (await admin.create_acls(may("TOPIC", "t", "DESCRIBE"))).raise_for_errors()
        options: dict[str, Any] = {"security": security, "enable_idempotence": False}
        async with Producer(cluster.servers(), **options) as producer:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send("t", b"refused", partition=0)
        rights = may("TOPIC", "t", "READ", "WRITE") + may("GROUP", "g", "READ")
        (await admin.create_acls(rights)).raise_for_errors()
        async with Producer(cluster.servers(), security=security) as producer:
            for number in range(20):
                await producer.send("t", b"%d" % number, partition=number % 2)
        async with Consumer(
            "t",
            bootstrap_servers=cluster.servers(),
            group_id="g",
            auto_offset_reset="earliest",
            security=security,
        ) as consumer:
            read = {(await consumer.getone()).value for _ in range(20)}
        assert read == {b"%d" % number for number in range(20)}


@pytest.mark.hostile(30)
async def test_a_token_that_is_not_good_is_refused(tmp_path: Path) -> None:
    async with TokenCluster(tmp_path, 1) as cluster:
        security = cluster.security(token=cluster.token(lasts_s=-61))
        with pytest.raises(AuthenticationFailedError, match="or the token"):
            async with Producer(cluster.servers(), security=security):
                pass
        refused = [
            cluster.token(aud="kafka"),
            cluster.token(iss=ISSUER + "x"),
            Issuer().token(claims_at(time.time())),
        ]
        ends = await cluster.attempts(refused)
        assert all(isinstance(end, SaslAuthenticationFailedError) for end in ends)
        assert cluster.known("app") == 0


@pytest.mark.hostile(34)
async def test_a_connection_ends_with_its_token(tmp_path: Path) -> None:
    async with TokenCluster(tmp_path, 1) as cluster:
        machine = ClientConnection("test")
        address = cluster.brokers[1].addresses["external"]
        channel = await cluster.papers.dialer().open(*address, machine, connect_timeout_s=5)
        shown = OAuthBearerClient(cluster.token(lasts_s=2))
        exchange = ClientAuthentication([shown], encrypted=True)
        reply = await channel.call(exchange.start(), timeout_s=5)
        assert exchange.next(reply.message) is None
        assert 0 < exchange.session_ms <= 2000
        assert cluster.known("app") == 1
        await eventually(lambda: channel.closed)  # it does not authenticate again
        assert cluster.known("app") == 0


@pytest.mark.slow
async def test_producing_and_consuming_go_on_from_token_to_token(tmp_path: Path) -> None:
    made: list[str] = []
    async with TokenCluster(tmp_path, 1) as cluster, cluster.admin() as admin:
        await cluster.create_topic("t")
        rights = may("TOPIC", "t", "READ", "WRITE")
        (await admin.create_acls(rights)).raise_for_errors()

        async def token() -> str:
            await asyncio.sleep(0.01)  # as if somebody else were asked for it
            made.append(cluster.token(lasts_s=8))
            return made[-1]

        security = cluster.security(token=token)
        async with (
            Producer(cluster.servers(), security=security) as producer,
            Consumer(
                "t",
                bootstrap_servers=cluster.servers(),
                auto_offset_reset="earliest",
                fetch_max_wait_ms=50,
                security=security,
            ) as consumer,
        ):
            await producer.send("t", b"0")
            assert (await consumer.getone()).value == b"0"
            accepted = cluster.brokers[1].listeners["external"].counters.accepted
            begun, number = len(made), 0
            while len(made) < begun + 4:
                number += 1
                await producer.send("t", b"%d" % number)
                assert (await consumer.getone()).value == b"%d" % number
            # The connections are those of before: each session was prolonged in time.
            assert cluster.brokers[1].listeners["external"].counters.accepted == accepted


@pytest.mark.hostile(31)
@pytest.mark.slow
async def test_a_flood_of_made_up_keys_hinders_nobody(tmp_path: Path) -> None:
    papers, issuer = Papers(tmp_path), Issuer()
    async with HttpsServer(papers.authority.server(), answer(issuer.document())) as server:
        settings = {"oidc_jwks_url": server.url(), "oidc_ca_file": papers.ca_file}
        async with TokenCluster(tmp_path / "brokers", 1, issuer=issuer, **settings) as cluster:
            dialer = cluster.security(token=cluster.token()).dialer()
            address = cluster.brokers[1].addresses["external"]
            first = await dialer.open(*address, ClientConnection("test"), connect_timeout_s=5)
            async with Canary(first, MetadataRequest(None)) as canary:
                assert len(server.requests) == 1
                head = {"alg": "ES256"}
                flood = [
                    raw_token({**head, "kid": f"x{n}"}, claims_at(), bytes(64)) for n in range(40)
                ]
                ends = await cluster.attempts(flood)
                refused = (SaslAuthenticationFailedError, ConnectionError)
                assert all(isinstance(end, refused) for end in ends), "some only after a while"
                assert len(server.requests) == 1
                other = await dialer.open(*address, ClientConnection("test"), connect_timeout_s=5)
                other.close()
                await canary.still_sings()
