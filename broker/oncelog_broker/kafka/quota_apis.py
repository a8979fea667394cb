"""DescribeClientQuotas and AlterClientQuotas of Kafka are translated here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.alter_client_quotas import (
    KafkaAlterClientQuotasRequest,
    KafkaAlterClientQuotasRequestEntryData,
    KafkaAlterClientQuotasResponse,
    KafkaAlterClientQuotasResponseEntityData,
    KafkaAlterClientQuotasResponseEntryData,
)
from oncelog_broker.kafka.wire.messages.describe_client_quotas import (
    KafkaDescribeClientQuotasRequest,
    KafkaDescribeClientQuotasRequestComponentData,
    KafkaDescribeClientQuotasResponse,
    KafkaDescribeClientQuotasResponseEntityData,
    KafkaDescribeClientQuotasResponseEntryData,
    KafkaDescribeClientQuotasResponseValueData,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.quotas import (
    AlteredQuota,
    AlterQuotasRequest,
    DescribeQuotasRequest,
    QuotaChange,
)
from oncelog_protocol.quotas import DEFAULT_ENTITY, QuotaEntity, QuotaFilter

PARTS: Final = {"user": "user", "client-id": "client_id", "ip": "address"}
"""Parts of an entity by Kafka's names."""

EXACT, DEFAULT, SPECIFIED = range(3)
"""A component of a filter asks for one name, for the default, or for any that has the part."""


def describe_client_quotas(
    exchange: KafkaExchange, request: KafkaDescribeClientQuotasRequest
) -> None:
    """List the quotas of the entities that a filter chooses."""
    try:
        named = _names_of(request.components)
    except InvalidRequestError as error:
        exchange.answer(KafkaDescribeClientQuotasResponse(0, error.code, str(error), None))
        return
    asked = {PARTS[each.entity_type] for each in request.components}

    def is_chosen(entity: QuotaEntity) -> bool:
        has = {name for name in PARTS.values() if getattr(entity, name) is not None}
        return has == asked if request.strict else asked <= has

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        entries = [
            KafkaDescribeClientQuotasResponseEntryData(
                [
                    KafkaDescribeClientQuotasResponseEntityData(kafka, value or None)
                    for kafka, name in PARTS.items()
                    if (value := getattr(each.entity, name)) is not None
                ],
                [
                    KafkaDescribeClientQuotasResponseValueData(value.key, value.value)
                    for value in each.values
                ],
            )
            for each in answer.quotas
            if is_chosen(each.entity)
        ]
        code = exchange.code(answer.error_code)
        exchange.answer(
            KafkaDescribeClientQuotasResponse(
                0, code, answer.error_message, None if code else entries
            )
        )

    user, client_id, address = map(named.get, PARTS.values())
    exchange.ask(DescribeQuotasRequest(QuotaFilter(user, client_id, address)), then)


def _names_of(
    components: Sequence[KafkaDescribeClientQuotasRequestComponentData],
) -> dict[str, str]:
    """Return which names the parts of an entity must have.

    :raises InvalidRequestError: a part is not known here, or there twice, or asked in a way that is
        not known.
    """
    named: dict[str, str] = {}
    seen: set[str] = set()
    for each in components:
        part = PARTS.get(each.entity_type)
        if part is None or part in seen:
            raise InvalidRequestError(
                f"{each.entity_type[:40]!r} is no part of an entity, or twice"
            )
        seen.add(part)
        if each.match_type == EXACT and each.match:
            named[part] = each.match
        elif each.match_type == DEFAULT:
            named[part] = DEFAULT_ENTITY
        elif each.match_type != SPECIFIED:
            raise InvalidRequestError(f"a filter of {each.entity_type} by nothing")
    return named


def alter_client_quotas(exchange: KafkaExchange, request: KafkaAlterClientQuotasRequest) -> None:
    """Change quotas; each entity is answered for itself, by its first error."""
    changes: list[QuotaChange] = []
    refused: dict[int, AlteredQuota] = {}
    counts: list[int] = []
    for index, entry in enumerate(request.entries):
        try:
            wanted = _changes_of(entry)
        except InvalidRequestError as error:
            refused[index] = AlteredQuota(error.code, str(error))
            wanted = []
        changes += wanted
        counts.append(len(wanted))

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        made = iter(answer.results)
        missing = AlteredQuota(answer.error_code)
        rows = []
        for index, entry in enumerate(request.entries):
            results = [next(made, missing) for _ in range(counts[index])] or [missing]
            failed = next((each for each in results if each.error_code), results[0])
            told = refused.get(index, failed)
            entity = [
                KafkaAlterClientQuotasResponseEntityData(each.entity_type, each.entity_name)
                for each in entry.entity
            ]
            rows.append(
                KafkaAlterClientQuotasResponseEntryData(
                    exchange.code(told.error_code), told.error_message, entity
                )
            )
        exchange.answer(KafkaAlterClientQuotasResponse(entries=rows), counted=answer)

    exchange.ask(AlterQuotasRequest(changes, request.validate_only), then)


def _changes_of(entry: KafkaAlterClientQuotasRequestEntryData) -> list[QuotaChange]:
    """Return what one entity is to have.

    :raises InvalidRequestError: a part of it is not known here, or there twice.
    """
    named: dict[str, str | None] = dict.fromkeys(PARTS.values())
    for each in entry.entity:
        part = PARTS.get(each.entity_type)
        if part is None or named[part] is not None or each.entity_name == "":
            raise InvalidRequestError(
                f"{each.entity_type[:40]!r} is no part of an entity, twice, or empty"
            )
        named[part] = DEFAULT_ENTITY if each.entity_name is None else each.entity_name
    return [
        QuotaChange(**named, key=each.key, value=None if each.remove else each.value)
        for each in entry.ops
    ]
