"""DescribeUserScramCredentials and AlterUserScramCredentials of Kafka are translated here.

Rules
-----
* A client sends SaltedPassword, which is as good as the password. The broker derives the keys from
  it and keeps nothing else [S7]. From another machine it is taken over TLS only.
* A new password is the only one: a user has the mechanisms of the last change, as among our own
  clients. So one of several mechanisms cannot be taken away by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.alter_user_scram_credentials import (
    KafkaAlterUserScramCredentialsRequest,
    KafkaAlterUserScramCredentialsRequestScramCredentialUpsertion,
    KafkaAlterUserScramCredentialsResponse,
    KafkaAlterUserScramCredentialsResponseResult,
)
from oncelog_broker.kafka.wire.messages.describe_user_scram_credentials import (
    KafkaDescribeUserScramCredentialsRequest,
    KafkaDescribeUserScramCredentialsResponse,
    KafkaDescribeUserScramCredentialsResponseCredentialInfo,
    KafkaDescribeUserScramCredentialsResponseResult,
)
from oncelog_broker.server.newcomers import is_loopback
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import (
    ApiError,
    DuplicateResourceError,
    InvalidRequestError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from oncelog_protocol.messages.users import (
    CREATE,
    DELETE,
    SET_PASSWORD,
    AlteredUser,
    AlterUsersRequest,
    DescribedUser,
    DescribeUsersRequest,
    UserWish,
)
from oncelog_protocol.sasl.credential import Mechanism, ScramCredential
from oncelog_protocol.sasl.user import CredentialRow

MECHANISMS: Final = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}
"""Mechanisms by Kafka's numbers."""

_NUMBERS = {str(mechanism): number for number, mechanism in MECHANISMS.items()}


def describe_user_scram_credentials(
    exchange: KafkaExchange, request: KafkaDescribeUserScramCredentialsRequest
) -> None:
    """Tell users and their mechanisms. No key is told."""
    names = [each.name for each in request.users or ()]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        rows = [
            KafkaDescribeUserScramCredentialsResponseResult(
                each.name,
                exchange.code(each.error_code),
                each.error_message,
                [
                    KafkaDescribeUserScramCredentialsResponseCredentialInfo(
                        _NUMBERS[found.mechanism], found.iterations
                    )
                    for found in each.mechanisms
                ],
            )
            for each in answer.users
        ]
        code = exchange.code(answer.error_code)
        exchange.answer(
            KafkaDescribeUserScramCredentialsResponse(0, code, answer.error_message, rows)
        )

    exchange.ask(DescribeUsersRequest(names or None), then)


def alter_user_scram_credentials(
    exchange: KafkaExchange, request: KafkaAlterUserScramCredentialsRequest
) -> None:
    """Give users their passwords, or delete them; each user is answered once."""
    deleted = [each.name for each in request.deletions]
    names = list(dict.fromkeys(deleted + [each.name for each in request.upsertions]))
    results: dict[str, AlteredUser] = {}

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        known = {each.name: each for each in answer.users if not each.error_code}
        wishes = []
        for name in names:
            try:
                wishes.append(_wish_of(exchange, request, name, known, sure=not answer.error_code))
            except ApiError as error:
                results[name] = AlteredUser(name, error.code, str(error))
        exchange.ask(AlterUsersRequest(wishes), altered)

    def altered(answer: Any, _: Sequence[Buffer]) -> None:
        results.update({each.name: each for each in answer.results})
        rows = []
        for name in names:
            told = results.get(name) or AlteredUser(name, answer.error_code)
            rows.append(
                KafkaAlterUserScramCredentialsResponseResult(
                    name, exchange.code(told.error_code), told.error_message
                )
            )
        exchange.answer(KafkaAlterUserScramCredentialsResponse(results=rows), counted=answer)

    exchange.ask(DescribeUsersRequest(names), then)


def _wish_of(
    exchange: KafkaExchange,
    request: KafkaAlterUserScramCredentialsRequest,
    name: str,
    known: dict[str, DescribedUser],
    *,
    sure: bool,
) -> UserWish:
    """Return what is to become of a user.

    :param known: the users that there are, of those that are asked for.
    :param sure: whether it is known which there are: whoever may not see that sets a password.
    :raises ApiError: it cannot be done.
    """
    upserted = [each for each in request.upsertions if each.name == name]
    deleted = [each.mechanism for each in request.deletions if each.name == name]
    mechanisms = [each.mechanism for each in upserted] + deleted
    if not set(mechanisms) <= set(MECHANISMS):
        raise UnsupportedSaslMechanismError("a mechanism is not known here")
    if len(set(mechanisms)) != len(mechanisms):
        raise DuplicateResourceError("a user's mechanism may be named once")
    if upserted:
        rows = [_credential_of(exchange, each) for each in upserted]
        return UserWish(name, SET_PASSWORD if name in known or not sure else CREATE, rows)
    found = known.get(name)
    has = set() if found is None else {_NUMBERS[each.mechanism] for each in found.mechanisms}
    if sure and not set(deleted) <= has:
        raise ResourceNotFoundError("the user has no password of that mechanism")
    if sure and has != set(deleted):
        raise InvalidRequestError("the user has one of another mechanism: delete both, or set one")
    return UserWish(name, DELETE)


def _credential_of(
    exchange: KafkaExchange,
    each: KafkaAlterUserScramCredentialsRequestScramCredentialUpsertion,
) -> CredentialRow:
    """Return what the cluster keeps of a password.

    :raises UnacceptableCredentialError: it cannot be taken.
    """
    host = exchange.context.peer.rpartition(":")[0]
    if not (exchange.context.connection.encrypted or is_loopback(host)):
        raise UnacceptableCredentialError("a password is set over TLS: others may have read it")
    mechanism = MECHANISMS[each.mechanism]
    credential = ScramCredential.of_salted(
        mechanism, each.salted_password, each.salt, each.iterations
    )
    return CredentialRow.of(credential)
