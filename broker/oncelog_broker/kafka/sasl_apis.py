"""SaslHandshake and SaslAuthenticate of Kafka are translated here.

Rules
-----
* A client names its mechanism first, and authenticates by it then; to authenticate again it does
  both again (KIP-368). The exchange itself is that of our own clients, with its delays and records.
* Whoever fails, or does it in another order, is told so, and the connection ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.sasl_authenticate import (
    KafkaSaslAuthenticateRequest,
    KafkaSaslAuthenticateResponse,
)
from oncelog_broker.kafka.wire.messages.sasl_handshake import (
    KafkaSaslHandshakeRequest,
    KafkaSaslHandshakeResponse,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import IllegalSaslStateError
from oncelog_protocol.messages.authentication import AuthenticateRequest
from oncelog_protocol.sasl.server_authentication import taken_of


def sasl_handshake(exchange: KafkaExchange, request: KafkaSaslHandshakeRequest) -> None:
    """Note the mechanism that the client is about to authenticate by."""
    connection = exchange.context.connection
    taken = taken_of(exchange.mechanisms, connection.encrypted)
    told = [str(each) for each in taken]
    under_way = connection.named_mechanism or connection.authentication is not None
    if not exchange.mechanisms or under_way:
        connection.end()
        exchange.answer(KafkaSaslHandshakeResponse(IllegalSaslStateError.code))
        return
    if request.mechanism in taken:
        connection.names(request.mechanism)
        exchange.answer(KafkaSaslHandshakeResponse(0, told))
        return

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        connection.end()
        exchange.answer(KafkaSaslHandshakeResponse(exchange.code(answer.error_code), told))

    exchange.ask(AuthenticateRequest(request.mechanism, b""), then)


def sasl_authenticate(exchange: KafkaExchange, request: KafkaSaslAuthenticateRequest) -> None:
    """Take one message of the exchange."""
    connection = exchange.context.connection
    if not connection.named_mechanism:
        connection.end()
        text = "name a mechanism by SaslHandshake first"
        exchange.answer(KafkaSaslAuthenticateResponse(IllegalSaslStateError.code, text))
        return

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if answer.error_code:
            connection.end()
        exchange.answer(
            KafkaSaslAuthenticateResponse(
                exchange.code(answer.error_code),
                answer.error_message,
                answer.data,
                answer.session_ms,
            )
        )

    exchange.ask(AuthenticateRequest(connection.named_mechanism, request.auth_bytes), then)
