"""ACLs are decided here without one of their rules."""

from __future__ import annotations

from oncelog_broker.server.handlers.metadata import MetadataHandler
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acl_state import AclDecision, AclState
from oncelog_protocol.acls import ALLOW, IMPLIED_BY
from oncelog_protocol.errors import TopicAuthorizationFailedError
from oncelog_protocol.messages.metadata import MetadataTopic


class AllowWins(AclState):
    """An ALLOW wins over every DENY."""

    def decide(
        self, principal: str, host: str, operation: str, resource_type: str, name: str
    ) -> AclDecision:
        """Decide by the entries that allow, if one does."""
        allows = AclState.made_of(self.version, [e for e in self if e.permission == ALLOW])
        found = allows.decide(principal, host, operation, resource_type, name)
        if found.allowed:
            return found
        return super().decide(principal, host, operation, resource_type, name)


class DenyImplies(AclState):
    """A DENY of an operation denies those that an ALLOW of it would imply."""

    def decide(
        self, principal: str, host: str, operation: str, resource_type: str, name: str
    ) -> AclDecision:
        """Decide also by what implies the operation."""
        for more in IMPLIED_BY.get(operation, ()):
            found = super().decide(principal, host, more, resource_type, name)
            if found.denied:
                return found
        return super().decide(principal, host, operation, resource_type, name)


class UnauthorizedTold(MetadataHandler):
    """Who may not see a topic is told that it is there."""

    def _topic(self, context: RequestContext, name: str, create: bool) -> MetadataTopic:
        if name in self._image.topics and not self._may_see(context, name):
            return MetadataTopic(TopicAuthorizationFailedError.code, name, "", False)
        return super()._topic(context, name, create)
