"""The admin client sets, takes away and lists quotas, and says which of them count for somebody.

They are Kafka's client quotas (KIP-546). An entity (:class:`~oncelog.QuotaEntity`) is a user, a
client id or both, or an address; ``DEFAULT_ENTITY`` as a part stands for each one that has no quota
of its own. Keys and units: :mod:`oncelog_protocol.quotas`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, item_error
from oncelog.admin.results import Results
from oncelog.errors import ApiError, ConfigurationError
from oncelog_protocol import limits
from oncelog_protocol.messages import quotas as wire
from oncelog_protocol.quotas import (
    ADDRESS_QUOTA_KEYS,
    CLIENT_QUOTA_KEYS,
    CONNECTION_CREATION_RATE,
    CONNECTIONS,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    KeyQuotas,
    QuotaEntity,
    QuotaFilter,
)

__all__ = [
    "ADDRESS_QUOTA_KEYS",
    "CLIENT_QUOTA_KEYS",
    "CONNECTIONS",
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "DEFAULT_ENTITY",
    "PRODUCER_BYTE_RATE",
    "REQUEST_RATE",
    "QuotaAdmin",
    "QuotaAlteration",
    "QuotaEntity",
    "QuotaFilter",
    "QuotaOutcome",
    "effective_quotas",
]

QuotaValues = Mapping[str, float]
"""They are the quotas of one entity, by their keys."""


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """It says what quotas of an entity are to be; None takes one away, others stay."""

    entity: QuotaEntity
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class QuotaOutcome:
    """It says what became of one quota."""

    entity: QuotaEntity
    key: str
    error: ApiError | None = None


class QuotaAdmin(AdminCalls):
    """It is the admin client's part for quotas."""

    async def alter_quotas(
        self,
        alterations: Iterable[QuotaAlteration],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[QuotaOutcome]:
        """Set quotas and take them away, and return when all brokers count by them.

        There is an outcome for each key, in order. To take away what is not there is no error.
        Errors of items: INVALID_REQUEST (there can be no such entity, key or value; the text says
        why), POLICY_VIOLATION (too many).

        :raises SecurityDisabledError: the cluster keeps no quotas.
        :raises ConfigurationError: a value is no number; nothing was sent.
        """
        deadline = self._deadline(timeout_ms)
        changes = [
            (each.entity, key, None if value is None else _number(key, value))
            for each in alterations
            for key, value in each.values.items()
        ]
        outcomes: list[QuotaOutcome] = []
        for first in range(0, len(changes), limits.QUOTAS_OF_REQUEST_MAX):
            some = changes[first : first + limits.QUOTAS_OF_REQUEST_MAX]
            left_ms = self._left_ms(deadline)
            sent = [wire.QuotaChange(*entity, key, value) for entity, key, value in some]
            request = wire.AlterQuotasRequest(sent, validate_only, left_ms)
            response = await self._on_controller(request, left_ms)
            outcomes += [
                QuotaOutcome(entity, key, item_error(item.error_code, item.error_message))
                for (entity, key, _), item in zip(some, response.results, strict=True)
            ]
        return Results(outcomes)

    async def describe_quotas(
        self, wanted: QuotaFilter | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[QuotaEntity, QuotaValues]:
        """Return the quotas of the entities that a filter chooses (default: all).

        An entity whose quotas the store has, but cannot be read, is there without values.

        :raises SecurityDisabledError: the cluster keeps no quotas.
        """
        request = wire.DescribeQuotasRequest(wanted or QuotaFilter())
        response = await self._on_controller(request, timeout_ms)
        return {
            each.entity: {value.key: value.value for value in each.values}
            for each in response.quotas
        }


def effective_quotas(
    quotas: Mapping[QuotaEntity, QuotaValues], principal: str, client_id: str
) -> dict[str, tuple[float, QuotaEntity]]:
    """Return what counts for a principal, ``User:name``, with a client id: by key the value, and
    the entity that has it.

    Brokers find it by the same code. Super users and brokers have no quotas at all.
    """
    found = {}
    for key in CLIENT_QUOTA_KEYS:
        of_key = KeyQuotas()
        for entity, values in quotas.items():
            if entity.address is None and key in values:
                of_key.put(entity, values[key])
        quota = of_key.find(principal, client_id)
        if quota is not None:
            entity, value = quota
            found[key] = (value, entity)
    return found


def _number(key: str, value: float) -> float:
    """Return a value as it is sent; whether it may be is for the controller to say.

    :raises ConfigurationError: it is no number.
    """
    if type(value) not in (int, float):
        raise ConfigurationError(f"{key}={value!r} is no number")
    try:
        return float(value)
    except OverflowError:
        raise ConfigurationError(f"{key} is larger than any quota can be") from None
