"""DescribeQuotas and AlterQuotas are served here. Pure.

Rules
-----
* A change that is refused takes no other with it. Changes of one request are made in their order,
  and written in one multi that sets the version.
* A change that changes nothing is no error: no version is spent, and nobody has to be told. To take
  away a quota that is not there is one of these.
* A change is answered when the brokers have acknowledged it (``acknowledgements``).
"""

from __future__ import annotations

from oncelog_controller import quota_nodes
from oncelog_controller.acknowledgements import SecurityAcknowledgements
from oncelog_controller.core import Core
from oncelog_controller.events import RequestReceived
from oncelog_controller.security import ClusterSecurity
from oncelog_controller.security_requests import answer_change, known_security
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    PolicyViolationError,
)
from oncelog_protocol.messages.quotas import (
    AlteredQuota,
    AlterQuotasRequest,
    AlterQuotasResponse,
    DescribeQuotasRequest,
    DescribeQuotasResponse,
    QuotaChange,
)
from oncelog_protocol.quotas import EntityQuotas, QuotaEntity, check_value
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

Changes = dict[QuotaEntity, dict[str, float]]
"""They are entities with all quotas that they are to have."""


class QuotaRequests:
    """It serves what is asked of quotas."""

    def __init__(self, core: Core, acknowledgements: SecurityAcknowledgements) -> None:
        self._core = core
        self._acknowledgements = acknowledgements

    def describe(self, event: RequestReceived, request: DescribeQuotasRequest) -> None:
        """List the quotas of the entities that the filter chooses, by kind and name."""
        security = self._security(event)
        if security is None:
            return
        found = [entity for entity in security.quotas if request.wanted.matches(entity)]
        found.sort(key=lambda entity: (entity.kind, [name or "" for name in entity]))
        quotas = [
            EntityQuotas.of(entity, sorted(security.quotas_of(entity).items())) for entity in found
        ]
        response = DescribeQuotasResponse(quotas=quotas, version=security.version)
        self._core.reply(event.request_id, response)

    def alter(self, event: RequestReceived, request: AlterQuotasRequest) -> None:
        """Change quotas."""
        security = self._security(event, len(request.changes))
        if security is None:
            return
        changes, results = _made(security, request.changes)
        response = AlterQuotasResponse(NO_ERROR, results)
        if changes and not request.validate_only:

            def applied() -> None:
                security.take_quotas(changes)
                self._core.order_security({}, {}, changes)
                logger.info("quotas_written", version=security.version, entities=len(changes))

            self._core.write(quota_nodes.write_quotas(security, changes), applied)
        answer_change(self._core, self._acknowledgements, event, request, response)

    def _security(self, event: RequestReceived, count: int = 0) -> ClusterSecurity | None:
        """Return what is known, or refuse the request."""
        most = limits.QUOTAS_OF_REQUEST_MAX
        return known_security(self._core, event, count=count, most=most, items="changes of quotas")


def _made(
    security: ClusterSecurity, wishes: list[QuotaChange]
) -> tuple[Changes, list[AlteredQuota]]:
    """Return what entities are to have that is not so already, and what became of each wish."""
    changes: Changes = {}
    room = _QuotaRoom(security)
    results = []
    for wish in wishes:
        try:
            entity = QuotaEntity(wish.user, wish.client_id, wish.address).checked()
            entity.check_key(wish.key)
            values = changes[entity] if entity in changes else dict(security.quotas_of(entity))
            if wish.value is None:
                room.give_back(entity, values.pop(wish.key, None) is not None)
            else:
                check_value(wish.key, wish.value)
                room.take(entity, wish.key not in values)
                values[wish.key] = float(wish.value)
            changes[entity] = values
            results.append(AlteredQuota())
        except ApiError as error:
            results.append(AlteredQuota(error.code, str(error)))
    # A node that could not be read is written over, and so is there without values.
    return {
        entity: values
        for entity, values in changes.items()
        if values != security.quotas_of(entity) or (not values and entity in security.quotas)
    }, results


class _QuotaRoom:
    """It counts what the cluster's quotas take, with what a request changes."""

    def __init__(self, security: ClusterSecurity) -> None:
        counts = {entity: len(stored.values) for entity, stored in security.quotas.items()}
        self._count = sum(counts.values())
        self._chars = sum(_chars(entity) * count for entity, count in counts.items())

    def take(self, entity: QuotaEntity, is_new: bool) -> None:
        """Count a quota if it is a new one.

        :raises PolicyViolationError: there is no room for it.
        """
        if not is_new:
            return
        if self._count >= limits.QUOTAS_MAX:
            raise PolicyViolationError(
                f"the cluster has {limits.QUOTAS_MAX} quotas, the most it may"
            )
        if self._chars + _chars(entity) > limits.QUOTAS_CHARS_MAX:
            raise PolicyViolationError(
                "the names of the cluster's quotas would have more than "
                f"{limits.QUOTAS_CHARS_MAX} characters"
            )
        self._count += 1
        self._chars += _chars(entity)

    def give_back(self, entity: QuotaEntity, was_there: bool) -> None:
        """Count a quota no more if it was there."""
        if was_there:
            self._count -= 1
            self._chars -= _chars(entity)


def _chars(entity: QuotaEntity) -> int:
    return sum(len(name) for name in entity if name is not None)
