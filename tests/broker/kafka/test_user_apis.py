"""Users are shown to clients of Kafka, given passwords by them, and deleted."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from oncelog_broker.kafka.wire.messages.alter_user_scram_credentials import (
    KafkaAlterUserScramCredentialsRequest,
    KafkaAlterUserScramCredentialsRequestScramCredentialDeletion,
    KafkaAlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from oncelog_broker.kafka.wire.messages.describe_user_scram_credentials import (
    KafkaDescribeUserScramCredentialsRequest,
    KafkaDescribeUserScramCredentialsRequestUserName,
)
from oncelog_protocol.sasl.credential import Mechanism
from support.kafka_client import RawClient
from support.kafka_secured import SecuredKafkaCluster
from support.sasl import SALT

SHA_256, SHA_512 = 1, 2
HASHES = {SHA_256: "sha256", SHA_512: "sha512"}
INVALID_REQUEST, UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL = 42, 33, 93
RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE = 91, 92
deletion = KafkaAlterUserScramCredentialsRequestScramCredentialDeletion
name_of = KafkaDescribeUserScramCredentialsRequestUserName


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, password: bytes = b"pencil"
) -> KafkaAlterUserScramCredentialsRequestScramCredentialUpsertion:
    """Return what clients of Kafka send for a password."""
    hash_name = HASHES.get(mechanism, "sha256")
    salted = hashlib.pbkdf2_hmac(hash_name, password, SALT, iterations)
    return KafkaAlterUserScramCredentialsRequestScramCredentialUpsertion(
        name, mechanism, iterations, SALT, salted
    )


async def altered(client: RawClient, deletions: list[Any], upsertions: list[Any]) -> dict[str, int]:
    """Return the code of each user."""
    request = KafkaAlterUserScramCredentialsRequest(deletions, upsertions)
    answer = await client.ask(request, 0)
    return {each.user: each.error_code for each in answer.results}


async def described(client: RawClient, *names: str) -> dict[str, list[int] | int]:
    """Return the mechanisms of each user, or the code."""
    users = [name_of(each) for each in names] or None
    answer = await client.ask(KafkaDescribeUserScramCredentialsRequest(users), 0)
    assert answer.error_code == 0
    return {
        each.user: each.error_code or [found.mechanism for found in each.credential_infos]
        for each in answer.results
    }


async def test_users_come_and_go(tmp_path: Path) -> None:
    async with SecuredKafkaCluster(tmp_path, 1) as cluster:
        client = await cluster.super_client()
        wanted = [
            upsertion("app"),
            upsertion("both"),
            upsertion("both", SHA_512),
            upsertion("unknown", 7),
            upsertion("twice"),
            upsertion("twice"),
            upsertion("few", iterations=1),
            upsertion("a name"),
        ]
        wrong = upsertion("wrong")
        wrong.salted_password += b"?"
        assert await altered(client, [deletion("nobody", SHA_256)], [*wanted, wrong]) == {
            "nobody": RESOURCE_NOT_FOUND,
            "app": 0,
            "both": 0,
            "unknown": UNSUPPORTED_SASL_MECHANISM,
            "twice": DUPLICATE_RESOURCE,
            "few": UNACCEPTABLE_CREDENTIAL,
            "a name": UNACCEPTABLE_CREDENTIAL,
            "wrong": UNACCEPTABLE_CREDENTIAL,
        }
        assert await described(client) == {"app": [SHA_256], "both": [SHA_256, SHA_512]}
        kept = cluster.brokers[1].users.look_up(Mechanism.SCRAM_SHA_256, "app")
        assert kept is not None
        assert kept.check("pencil")
        assert await altered(client, [], [upsertion("app", SHA_512, password=b"pen")]) == {"app": 0}
        assert await described(client, "app", "nobody") == {
            "app": [SHA_512],
            "nobody": RESOURCE_NOT_FOUND,
        }
        some = [deletion("both", SHA_256), deletion("app", SHA_256)]
        assert await altered(client, some, []) == {
            "both": INVALID_REQUEST,
            "app": RESOURCE_NOT_FOUND,
        }
        every = [deletion("both", SHA_256), deletion("both", SHA_512), deletion("app", SHA_512)]
        assert await altered(client, every, []) == {"both": 0, "app": 0}
        assert await described(client) == {}
        client.close()


def test_a_salted_password_is_not_shown() -> None:
    shown = repr(KafkaAlterUserScramCredentialsRequest([], [upsertion("app")]))
    assert repr(upsertion("app").salted_password) not in shown
