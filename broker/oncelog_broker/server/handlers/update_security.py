"""The controller tells this broker by UpdateSecurity what it decides by.

What is listed in slices counts when the last has come: no decision is made on a part. An older
version than the present one is acknowledged and changes nothing; a change to another version than
the present one is not taken, and the answer asks for everything.

Whole-request errors: see controller_fence; INVALID_REQUEST (a slice without those before it, or an
ACL or a quota that cannot be), UNACCEPTABLE_CREDENTIAL (a user who cannot be).
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.known_quotas import KnownQuotas
from oncelog_broker.server.request import RequestContext
from oncelog_broker.server.users import Users
from oncelog_protocol.acl_state import AclState
from oncelog_protocol.acls import AclBinding, AclPattern
from oncelog_protocol.errors import NO_ERROR, InvalidRequestError
from oncelog_protocol.messages.security import (
    FULL,
    UpdateSecurityRequest,
    UpdateSecurityResponse,
)
from oncelog_protocol.quotas import QuotaEntity
from oncelog_protocol.sasl.user import ScramUser


class _Changes(NamedTuple):
    acls: dict[AclPattern, tuple[AclBinding, ...]]
    users: dict[str, ScramUser | None]
    quotas: dict[QuotaEntity, dict[str, float]]

    def merged_with(self, newer: _Changes) -> _Changes:
        """Return both; what is newer counts."""
        return _Changes(
            {**self.acls, **newer.acls},
            {**self.users, **newer.users},
            {**self.quotas, **newer.quotas},
        )


class UpdateSecurityHandler:
    """It fences, and hands what has come to the authorizer, to the users and to the quotas."""

    def __init__(
        self,
        fence: ControllerFence,
        authorizer: AclAuthorizer,
        users: Users,
        quotas: KnownQuotas,
    ) -> None:
        self._fence = fence
        self._authorizer = authorizer
        self._users = users
        self._quotas = quotas
        self._begun: tuple[tuple[int, int], _Changes] | None = None
        """Slices of this controller epoch and version have come, but not the last."""

    async def handle_async(
        self, context: RequestContext, request: UpdateSecurityRequest
    ) -> UpdateSecurityResponse:
        """Decide by what has come before the answer leaves."""
        await self._fence.admit(
            request.controller_id, request.controller_epoch, request.broker_epoch
        )
        changes = _Changes(
            {
                AclPattern(each.resource_type, each.pattern_type, each.name): tuple(
                    entry.checked() for entry in each.entries
                )
                for each in request.acls
            },
            {row.name: row.checked() for row in request.users},
            {each.entity: each.checked() for each in request.quotas},
        )
        taken = True
        if request.base == FULL:
            self._take_slice(request, changes)
        else:
            # All are told, even when one does not take it: a revocation counts at once.
            between = (request.base, request.version)
            acls_taken = self._authorizer.change(*between, changes.acls)
            users_taken = self._users.change(*between, changes.users)
            quotas_taken = self._quotas.change(*between, changes.quotas)
            taken = acls_taken and users_taken and quotas_taken
        version = min(self._authorizer.version, self._users.version, self._quotas.version)
        return UpdateSecurityResponse(NO_ERROR, version, not taken)

    def _take_slice(self, request: UpdateSecurityRequest, changes: _Changes) -> None:
        key = (request.controller_epoch, request.version)
        if not request.first:
            if self._begun is None or self._begun[0] != key:
                raise InvalidRequestError("a slice came without those before it")
            changes = self._begun[1].merged_with(changes)
        self._begun = None if request.last else (key, changes)
        if request.last:
            state = AclState(request.version).changed(request.version, changes.acls)
            self._authorizer.replace(state)
            users = [user for user in changes.users.values() if user is not None]
            self._users.replace(request.version, request.secret, users)
            self._quotas.replace(request.version, changes.quotas)
