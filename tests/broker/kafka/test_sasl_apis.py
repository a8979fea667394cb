"""Clients of Kafka are authenticated, once and again; a wrong way to do it is refused."""

from __future__ import annotations

import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.kafka.wire.declaration import KafkaRequest
from oncelog_broker.kafka.wire.messages.api_versions import KafkaApiVersionsRequest
from oncelog_broker.kafka.wire.messages.metadata import KafkaMetadataRequest
from oncelog_broker.kafka.wire.messages.sasl_authenticate import (
    KafkaSaslAuthenticateRequest,
    KafkaSaslAuthenticateResponse,
)
from oncelog_broker.kafka.wire.messages.sasl_handshake import KafkaSaslHandshakeRequest
from oncelog_protocol import limits
from support.kafka_client import RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.kafka_secured import SecuredKafkaCluster
from support.sasl import final_by_hand
from support.waiting import eventually

FIRST = b"n,,n=app,r=fyko+d2lbbFgONRv9qkxdawL"
ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM, SASL_AUTHENTICATION_FAILED = 34, 33, 58
SCRAM = KafkaSaslHandshakeRequest("SCRAM-SHA-256")
PLAIN = KafkaSaslHandshakeRequest("PLAIN")
REAUTH_MS = 60_000


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecuredKafkaCluster]:
    settings = {"connections_max_reauth_ms": REAUTH_MS}
    async with SecuredKafkaCluster(tmp_path, 1, **settings) as started:
        await started.add_user()
        yield started


async def encrypted(cluster: SecuredKafkaCluster) -> RawClient:
    """Return a client on the listener that speaks TLS."""
    context = ssl.create_default_context(cafile=cluster.papers.ca_file)
    return await connected(cluster, ssl=context)


async def by_scram(client: RawClient, version: int = 2) -> KafkaSaslAuthenticateResponse:
    """Authenticate as the user; return the last answer."""
    named = await client.ask(SCRAM, 1)
    assert named.error_code == 0
    challenge = await client.ask(KafkaSaslAuthenticateRequest(FIRST), version)
    assert (challenge.error_code, challenge.session_lifetime_ms) == (0, 0)
    final = final_by_hand(FIRST, challenge.auth_bytes)
    answer: KafkaSaslAuthenticateResponse = await client.ask(
        KafkaSaslAuthenticateRequest(final), version
    )
    return answer


def known(cluster: SecuredKafkaCluster, listener: str) -> list[str]:
    """Return who is connected."""
    connections = cluster.brokers[1].listeners[listener].connections
    return [each.state.known.principal for each in connections]


async def test_a_client_authenticates_and_does_so_again(cluster: SecuredKafkaCluster) -> None:
    for version in (0, 1, 2):
        client = await connected(cluster, listener="kafka-plain")
        spoken = await client.ask(KafkaApiVersionsRequest("raw", "1"), 3)
        assert {17, 36} <= {each.api_key for each in spoken.api_keys}
        for _ in range(2):
            answer = await by_scram(client, version)
            assert (answer.error_code, answer.error_message) == (0, None)
            assert answer.session_lifetime_ms == (REAUTH_MS if version else 0)
            assert known(cluster, "kafka-plain") == ["User:app"]
            assert (await client.ask(KafkaMetadataRequest([]), 12)).topics == []
        client.close()
        await eventually(lambda: not known(cluster, "kafka-plain"))


async def test_what_a_listener_takes(cluster: SecuredKafkaCluster) -> None:
    client = await connected(cluster, listener="kafka-plain")
    assert (await client.ask(SCRAM, 1)).mechanisms == ["SCRAM-SHA-256"]
    client.close()
    for mechanism in ("PLAIN", "GSSAPI", "", "x" * 1000):
        client = await connected(cluster, listener="kafka-plain")
        refused = await client.ask(KafkaSaslHandshakeRequest(mechanism), 1)
        assert refused.error_code in (UNSUPPORTED_SASL_MECHANISM, 42), mechanism
        assert refused.mechanisms == ["SCRAM-SHA-256"]
        await is_closed(client)
    client = await encrypted(cluster)
    taken = await client.ask(PLAIN, 0)
    assert taken.mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
    client.close()


async def test_an_exchange_in_bare_frames(cluster: SecuredKafkaCluster) -> None:
    client = await encrypted(cluster)
    assert (await client.ask(PLAIN, 0)).error_code == 0
    client.send_frame(b"\0app\0pencil")
    assert await client.frame() == b""
    assert (await client.ask(KafkaMetadataRequest([]), 12)).topics == []
    client.close()
    client = await encrypted(cluster)
    assert (await client.ask(PLAIN, 0)).error_code == 0
    client.send_frame(b"\0app\0pen")
    await is_closed(client)


async def is_closed(client: RawClient) -> None:
    with pytest.raises(EOFError):
        await client.frame()
    client.close()


async def test_whoever_fails_is_told_so_and_closed(cluster: SecuredKafkaCluster) -> None:
    for data in (
        b"\0app\0pen",
        b"\0nobody\0pencil",
        b"other\0app\0pencil",
        b"",
        b"\xff",
        b"\0" * 9,
    ):
        client = await encrypted(cluster)
        await client.ask(PLAIN, 1)
        answer = await client.ask(KafkaSaslAuthenticateRequest(data), 2)
        assert answer.error_code == SASL_AUTHENTICATION_FAILED, data
        assert "the password or the token is not right" in answer.error_message
        await is_closed(client)
    client = await connected(cluster, listener="kafka-plain")
    await client.ask(SCRAM, 1)
    challenge = await client.ask(KafkaSaslAuthenticateRequest(FIRST), 2)
    final = final_by_hand(FIRST, challenge.auth_bytes, nonce="another")
    answer = await client.ask(KafkaSaslAuthenticateRequest(final), 2)
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    await is_closed(client)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([KafkaSaslAuthenticateRequest(FIRST)], id="no mechanism was named"),
        pytest.param([SCRAM, SCRAM], id="two were named"),
        pytest.param([SCRAM, KafkaSaslAuthenticateRequest(FIRST), SCRAM], id="one amid it"),
    ],
)
async def test_out_of_turn(cluster: SecuredKafkaCluster, steps: list[KafkaRequest]) -> None:
    client = await connected(cluster, listener="kafka-plain")
    for step in steps:
        answer: Any = await client.ask(step, 1)
    assert answer.error_code == ILLEGAL_SASL_STATE
    await is_closed(client)


async def test_hostile_clients_before_they_are_known(cluster: SecuredKafkaCluster) -> None:
    hello, data = KafkaApiVersionsRequest("raw", "1"), KafkaSaslAuthenticateRequest
    too_large = struct.pack(">i", limits.FRAME_BYTES_MAX_UNAUTHENTICATED)
    attacks: dict[str, list[tuple[KafkaRequest, int] | bytes]] = {
        "another API": [(KafkaMetadataRequest([]), 12)],
        "a large frame": [too_large],
        "a short frame": [b"\0\0\0\1?"],
        "greetings": [(hello, 3)] * 3,
        "data of 16 KiB and more": [(SCRAM, 1), (data(bytes(2**14 + 1)), 2)],
        "one too many at once": [(SCRAM, 1), *[(data(FIRST), 2)] * 3],
    }
    for what, steps in attacks.items():
        client = await connected(cluster, listener="kafka-plain")
        for step in steps:
            if isinstance(step, bytes):
                client.write(step)
            else:
                client.send(*step, [])
        assert await client.frames_until_the_end() <= 4, what
        client.close()
    assert known(cluster, "kafka-plain") == []


async def test_a_session_goes_on_as_the_same_user_only(cluster: SecuredKafkaCluster) -> None:
    await cluster.add_user("other")
    client = await encrypted(cluster)
    assert (await by_scram(client)).error_code == 0
    assert (await client.ask(PLAIN, 1)).error_code == 0
    answer = await client.ask(KafkaSaslAuthenticateRequest(b"\0other\0pencil"), 2)
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    await is_closed(client)


async def test_where_nobody_authenticates(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as open_cluster:
        for request in (PLAIN, KafkaSaslAuthenticateRequest(b"\0app\0pencil")):
            client = await connected(open_cluster)
            assert (await client.ask(request, 1)).error_code == ILLEGAL_SASL_STATE
            await is_closed(client)


def test_what_may_be_a_password_is_not_shown() -> None:
    shown = repr(KafkaSaslAuthenticateRequest(b"pencil")) + repr(
        KafkaSaslAuthenticateResponse(auth_bytes=b"pencil")
    )
    assert "pencil" not in shown
