"""The fake cluster takes brokers out of service as far as a test says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from oncelog_protocol.errors import BrokerIdNotRegisteredError, InvalidRequestError
from oncelog_protocol.messages.broker_states import (
    WANTED,
    AlterBrokerStatesRequest,
    AlterBrokerStatesResponse,
)
from oncelog_protocol.messages.metadata import ACTIVE

__all__ = ["FakeServices"]


@dataclass
class FakeServices:
    """A test says in ``left`` what answers are to tell of a broker, one after the other; the last
    one is told again and again."""

    states: dict[int, str] = field(default_factory=dict)
    left: dict[int, list[AlterBrokerStatesResponse]] = field(default_factory=dict)

    def state_of(self, broker_id: int) -> str:
        """Return what was made of a broker."""
        return self.states.get(broker_id, ACTIVE)

    def altered(
        self, brokers: Collection[int], request: AlterBrokerStatesRequest
    ) -> AlterBrokerStatesResponse:
        """Return the controller's answer."""
        if request.broker_id not in brokers:
            text = f"there is no broker {request.broker_id}, nor was there one"
            return AlterBrokerStatesResponse(BrokerIdNotRegisteredError.code, text)
        if request.wanted not in WANTED:
            return AlterBrokerStatesResponse(InvalidRequestError.code, "no such state")
        if not request.validate_only:
            self.states[request.broker_id] = request.wanted
        told = self.left.get(request.broker_id, [AlterBrokerStatesResponse()])
        answer = told.pop(0) if len(told) > 1 else told[0]
        return replace(answer, state=answer.state or request.wanted)
