"""The authorizer with ACLs denies everything that none allows.

The order of a decision: a super user may do everything; a broker may do what brokers do to each
other, and nothing else by itself; nobody else is served before the ACLs are known; then the entries
decide (:mod:`oncelog_protocol.acl_state`).

The ACLs are a state that is replaced as a whole, with a version that only grows. What was decided
is kept in one dictionary until the next version: the request path asks the same things again and
again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from oncelog_broker.server.audit import Audit, AuditedPeer
from oncelog_broker.server.request import RequestContext
from oncelog_broker.server.safeguards import SAFE, SecuritySafeguards
from oncelog_protocol.acl_state import AclDecision, AclState
from oncelog_protocol.acls import CLUSTER, CLUSTER_ACTION, AclBinding, AclPattern
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

KEPT_DECISIONS_MAX = 100_000
"""Decisions that are kept; then all are forgotten, and the next ones kept."""

KEPT_NAME_CHARS_MAX = 255
"""Decisions of longer names are not kept, so that strangers cannot fill the memory with names."""

UNKNOWN_VERSION = -1

SUPER_USER = AclDecision(True, None, "super_users names the principal")
BROKER = AclDecision(True, None, "brokers may do this to each other")


class AclAuthorizer:
    """It decides by ACLs."""

    def __init__(
        self,
        super_users: Collection[str] = (),
        safeguards: SecuritySafeguards = SAFE,
        *,
        audit: Audit | None = None,
    ) -> None:
        """Make an authorizer without a state; ``super_users`` are principals, ``User:name``.
        Denials are told to ``audit``, where there is one."""
        self._safeguards = safeguards
        self._audit = audit
        self._super_users = frozenset(super_users)
        self._state: AclState | None = None
        self._kept: dict[tuple[str, str, str, str, str | None], AclDecision] = {}
        self._names_hosts = False
        self._suspended = False
        self._followers: list[Callable[[], None]] = []

    def on_change(self, follower: Callable[[], None]) -> None:
        """Have ``follower`` called when other ACLs decide than before."""
        self._followers.append(follower)

    @property
    def version(self) -> int:
        """Return the version of the ACLs that decide, -1 while none are known."""
        return UNKNOWN_VERSION if self._state is None else self._state.version

    @property
    def state(self) -> AclState | None:
        """Return the ACLs that decide, None while none are known."""
        return self._state

    def suspend(self, suspended: bool) -> None:
        """Decide nothing for users while ``suspended``, as if no ACLs were known: they may have
        been changed."""
        self._suspended = suspended
        self._kept = {}
        self._tell()

    def replace(self, state: AclState) -> bool:
        """Decide by these ACLs from now on.

        Return whether they are newer than the present ones; if not, nothing has changed.
        """
        if self._safeguards.leaves_out(state.version <= self.version):
            return False
        self._state = state
        self._names_hosts = state.names_hosts
        self._kept = {}
        logger.info("acls_changed", version=state.version)
        self._tell()
        return True

    def change(
        self, base: int, version: int, changes: Mapping[AclPattern, Sequence[AclBinding]]
    ) -> bool:
        """Decide from now on by the ACLs of version ``base`` in which these patterns have these
        entries.

        Return whether ``base`` is the present version, or ``version`` is not newer; if neither, all
        ACLs are to be asked for.
        """
        state = self._state
        if self._safeguards.leaves_out(version <= self.version):
            return True
        if state is None or base != state.version:
            return False
        return self.replace(state.changed(version, changes))

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return whether the principal of ``context`` may do ``operation`` to the resource; if not,
        that goes on record.

        :raises BrokerNotAvailableError: the ACLs are not known yet.
        """
        decision = self.decision(context, operation, resource_type, resource_name)
        if not decision.allowed and self._audit is not None:
            peer = AuditedPeer.of(context)
            self._audit.denied(peer, operation, resource_type, resource_name, decision.reason)
        return decision.allowed

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        """Return whether there may be a resource of the type to which the principal may do
        ``operation``, whatever its name is (KIP-679).

        :raises BrokerNotAvailableError: the ACLs are not known yet.
        """
        return self.decision(context, operation, resource_type, None).allowed

    def denies(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Return whether an ACL denies ``operation`` to the principal; false where it is only not
        allowed.

        :raises BrokerNotAvailableError: the ACLs are not known yet.
        """
        return self.decision(context, operation, resource_type, resource_name).denied

    def decision(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str | None
    ) -> AclDecision:
        """Return whether the principal of ``context`` may do ``operation`` to the resource, or with
        None to some resource of the type, and the entry that decided.

        :raises BrokerNotAvailableError: the ACLs are not known yet.
        """
        if operation == CLUSTER_ACTION and resource_type == CLUSTER and context.is_broker:
            return BROKER
        host = context.peer.rpartition(":")[0] if self._names_hosts else ""
        key = (context.principal, host, operation, resource_type, resource_name)
        kept = self._kept.get(key)
        return self._decide(*key) if kept is None else kept

    def _tell(self) -> None:
        for follower in self._followers:
            follower()

    def _decide(
        self, principal: str, host: str, operation: str, resource_type: str, name: str | None
    ) -> AclDecision:
        if principal in self._super_users:
            return SUPER_USER
        if self._state is None or self._suspended:
            raise BrokerNotAvailableError("the ACLs in force are not known here yet")
        if name is None:
            decision = self._state.decide_any(principal, host, operation, resource_type)
        else:
            decision = self._state.decide(principal, host, operation, resource_type, name)
        if name is None or len(name) <= KEPT_NAME_CHARS_MAX:
            if len(self._kept) >= KEPT_DECISIONS_MAX:
                self._kept.clear()
            self._kept[principal, host, operation, resource_type, name] = decision
        return decision
