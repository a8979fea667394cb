"""What changes the cluster's security is answered when the brokers have taken it. Pure.

Rules
-----
* A change counts as taken when every registered broker that is not suspected has acknowledged its
  version, or a later one, in its present life. A suspected broker serves nobody that can reach it
  without us for long: it stops by itself (``security_stale_max_ms``).
* What nobody had to write is answered by the same rule: a request that is repeated because its
  answer was lost tells as much as the first.
* When the time of a request is over it is answered with REQUEST_TIMED_OUT and the ids of the
  brokers that have not acknowledged it. The change stays, and they are told it until they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from oncelog_controller.core import Core
from oncelog_protocol import limits
from oncelog_protocol.errors import RequestTimedOutError
from oncelog_protocol.messages.security import UpdateSecurityResponse


class AcknowledgedResponse(Protocol):
    """It is an answer that says who has not acknowledged what was changed."""

    error_code: int
    version: int
    unacknowledged: list[int]


@dataclass(frozen=True, slots=True)
class _Waiting:
    request_id: int
    response: AcknowledgedResponse
    deadline: float


class SecurityAcknowledgements:
    """It knows which version each broker has, and which answers wait for them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._taken: dict[int, tuple[int, int]] = {}
        """The version that each broker has acknowledged, after the epoch of its life."""
        self._waiting: list[_Waiting] = []

    def answer(
        self,
        request_id: int,
        response: AcknowledgedResponse,
        version: int,
        timeout_ms: int | None,
    ) -> None:
        """Answer with ``response`` when ``version`` has been acknowledged, or after the time-out.

        Call it when no write is pending: until then a request counts as interrupted.

        :param timeout_ms: None answers at once, since nothing was changed.
        """
        response.version = version
        if timeout_ms is None:
            self._core.reply(request_id, response)
            return
        patience_ms = min(max(timeout_ms, 0), limits.ACK_TIMEOUT_MS_MAX)
        deadline = self._core.now + patience_ms / 1000
        self._waiting.append(_Waiting(request_id, response, deadline))
        self.look()

    def order_answered(
        self, broker_id: int, broker_epoch: int, response: UpdateSecurityResponse
    ) -> None:
        """Note what a broker has now, and tell it everything if it asks for that."""
        self._taken[broker_id] = broker_epoch, response.version
        if response.wants_full:
            self._core.order_all_security(broker_id)

    def look(self) -> None:
        """Answer what needs no more acknowledgements."""
        for waiting in [each for each in self._waiting if not self._missing(each)]:
            self._finish(waiting)

    @property
    def deadline(self) -> float | None:
        """Return when the first answer that waits is due, on the loop's clock."""
        return min((waiting.deadline for waiting in self._waiting), default=None)

    def expire(self) -> None:
        """Answer what has waited long enough."""
        for waiting in [each for each in self._waiting if each.deadline <= self._core.now]:
            waiting.response.error_code = RequestTimedOutError.code
            waiting.response.unacknowledged = self._missing(waiting)
            self._finish(waiting)

    def _missing(self, waiting: _Waiting) -> list[int]:
        cluster, version = self._core.cluster, waiting.response.version
        return [
            broker_id
            for broker_id, broker in sorted(cluster.brokers.items())
            if broker_id not in cluster.suspected
            and self._taken.get(broker_id, (-1, -1)) < (broker.broker_epoch, version)
        ]

    def _finish(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        self._core.reply(waiting.request_id, waiting.response)
