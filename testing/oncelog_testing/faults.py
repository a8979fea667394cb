"""A test puts faults between clients and brokers: errors, delays, lost answers, silence.

Rules
-----
* A fault acts at a broker, on whole requests, before or after the product's own handler; nothing
  of the product is replaced. What is not carried out certainly had no effect.
* Each fault says which requests it is for. Unless told otherwise these are requests of clients:
  what brokers say to each other goes on. The cluster's own helpers are never hit, except by the
  pause of a broker.
* The first fault that fits is taken; a fault with a ``count`` is spent after so many hits.
* Order within a connection is kept: answers leave in the order of requests, so those behind a
  request that is held or delayed wait too. A hold therefore has no count: it would let later
  requests of its kind overtake.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.server.connection import Answering
from oncelog_broker.server.request import Buffer, RequestContext
from oncelog_broker.server.request_dispatcher import RequestDispatcher
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import ApiError, RemoteProtocolError
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.metadata import MetadataResponse
from oncelog_testing.answers import refuse, refuse_topics, topics_of

__all__ = ["OWN_CLIENT", "Fault", "FaultAction", "FaultPlan", "Match", "TestableBroker"]

OWN_CLIENT = "oncelog-testing"
"""Client id of the cluster's own helpers."""

Answer = Callable[[Any, Sequence[Buffer], bool], None]
"""It takes an answer: its message, its payload, and whether the connection ends behind it."""

_SENDER = re.compile(r"(?:broker|controller)-(\d+)")


class FaultAction(Enum):
    """It says what becomes of a request."""

    FAIL = "fail"
    DELAY = "delay"
    DROP_REQUEST = "drop before"
    DROP_REPLY = "drop after"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """It says which requests a fault is for. None: any."""

    api: ApiKey | None = None
    broker: int | None = None
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    between_brokers: bool = False
    """Whether requests of brokers and controllers count too."""
    senders: frozenset[int] | None = None
    """Only requests that these brokers have sent match."""
    everything: bool = False
    """Whether the cluster's own helpers count too."""

    def fits(self, broker_id: int, context: RequestContext, request: Request) -> bool:
        """Return whether a request that arrived at a broker is meant."""
        if self.broker is not None and self.broker != broker_id:
            return False
        if self.api is not None and request.api_key != self.api:
            return False
        if self.senders is not None and sender_of(context) not in self.senders:
            return False
        if not self.everything and context.client_id.startswith(OWN_CLIENT):
            return False
        if context.is_broker and not (self.between_brokers or self.everything):
            return False
        if self.client_id is not None and context.client_id != self.client_id:
            return False
        if self.topic is not None and self.topic not in topics_of(request):
            return False
        if self.group is not None and not _names_group(request, self.group):
            return False
        return self.transactional_id is None or (
            getattr(request, "transactional_id", None) == self.transactional_id
        )


def sender_of(context: RequestContext) -> int | None:
    """Return the broker that sent a request; None for a client."""
    found = _SENDER.match(context.client_id) if context.is_broker else None
    return None if found is None else int(found[1])


def _names_group(request: Request, group: str) -> bool:
    named = (getattr(request, "group_id", None), getattr(request, "key", None))
    return group in named or group in (getattr(request, "groups", None) or ())


class Fault:
    """It is one fault, in force from its making until ``remove``, the end of its ``with`` block, or
    its last hit. ``hits`` counts the requests that it has met."""

    def __init__(
        self,
        plan: FaultPlan,
        match: Match,
        act: FaultAction,
        *,
        count: int | None = None,
        error: type[ApiError] | None = None,
        seconds: float = 0.0,
    ) -> None:
        if count is not None and count < 1:
            raise ValueError(f"count={count}: a fault hits at least once")
        if act is FaultAction.HOLD and count is not None:
            raise ValueError("a hold has no count: later requests would overtake")
        if seconds < 0:
            raise ValueError(f"seconds={seconds}: time goes forward")
        self.match = match
        self.act = act
        self.count = count
        self.error = error
        self.seconds = seconds
        self.hits = 0
        self._plan = plan
        self._held: list[Callable[[], None]] = []
        plan.add(self)

    @property
    def active(self) -> bool:
        """Return whether it may still hit."""
        return self in self._plan.faults

    def remove(self) -> None:
        """Take it back; requests that it holds go on. Nothing happens when it is gone already."""
        self._plan.remove(self)

    def hold(self, go_on: Callable[[], None]) -> None:
        """Keep a request until the fault is removed."""
        self._held.append(go_on)

    def let_go(self) -> None:
        """Let the requests that are held go on, in their order. On the cluster's loop only."""
        held, self._held = self._held, []
        for go_on in held:
            go_on()

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        given = {
            name: value.name.lower() if isinstance(value, ApiKey) else value
            for name in Match.__dataclass_fields__
            if (value := getattr(self.match, name)) is not None and value is not False
        }
        which = ", ".join(f"{name}={value}" for name, value in given.items()) or "any request"
        what = self.error.name if self.error is not None else ""
        what = f"{self.seconds:g} s" if self.act is FaultAction.DELAY else what
        left = "" if self.count is None else f" of {self.count}"
        return f"<{' '.join(filter(None, (self.act.value, what)))} {which}; {self.hits}{left} hits>"


class FaultPlan:
    """It has the faults of one cluster, in the order in which they were made. Any thread may change
    it."""

    def __init__(self, on_loop: Callable[[Callable[[], None]], object]) -> None:
        self.faults: tuple[Fault, ...] = ()
        """Replaced as a whole, so that brokers may look while a test changes it."""
        self._on_loop = on_loop

    def add(self, fault: Fault) -> None:
        """Put a fault in force."""
        self.faults = (*self.faults, fault)

    def remove(self, fault: Fault) -> None:
        """Take it out of force, and let go of what it holds."""
        self._drop(fault)
        self._on_loop(fault.let_go)

    def clear(self) -> None:
        """Take back all that are in force."""
        for fault in self.faults:
            self.remove(fault)

    def _drop(self, fault: Fault) -> None:
        self.faults = tuple(other for other in self.faults if other is not fault)

    def hit(self, broker_id: int, context: RequestContext, request: Request) -> Fault | None:
        """Return the fault that a request meets, counted."""
        for fault in self.faults:
            if fault.match.fits(broker_id, context, request):
                fault.hits += 1
                if fault.hits == fault.count:
                    self._drop(fault)
                return fault
        return None


class TestableBroker(Broker):
    """It is the product's broker with the faults of a cluster in front of its handlers."""

    __test__ = False  # not for pytest to collect

    def __init__(self, *args: Any, plan: FaultPlan, **kwargs: Any) -> None:
        self._plan = plan
        super().__init__(*args, **kwargs)

    def _make_dispatcher(self) -> RequestDispatcher:
        return FaultyDispatcher(self, self._plan)


class FaultyDispatcher(RequestDispatcher):
    """It looks whether a fault is for a request before it is served."""

    def __init__(self, broker: Broker, plan: FaultPlan) -> None:
        super().__init__(broker.tasks, broker.authorizer, audit=broker.audit, quotas=broker.quotas)
        self._broker_id = broker.broker_id
        self._plan = plan

    def dispatch(
        self, context: RequestContext, incoming: IncomingRequest, respond: Answering
    ) -> None:
        """See ``RequestDispatcher``."""
        request = incoming.message
        if request is None or not self._plan.faults:
            super().dispatch(context, incoming, respond)
            return
        fault = self._plan.hit(self._broker_id, context, request)
        if fault is None:
            super().dispatch(context, incoming, respond)
        elif fault.act is FaultAction.FAIL:
            self._fail(fault, context, incoming, respond)
        elif fault.act is FaultAction.DROP_REQUEST:
            respond.abort("a fault of the test: the request is lost")
        elif fault.act is FaultAction.HOLD:
            self._hold(fault, context, incoming, respond)
        else:
            super().dispatch(context, incoming, _Watched(respond, _after(fault, respond)))

    def _fail(
        self,
        fault: Fault,
        context: RequestContext,
        incoming: IncomingRequest,
        respond: Answering,
    ) -> None:
        request, error = incoming.message, fault.error
        assert request is not None
        assert error is not None
        if request.api_key != ApiKey.METADATA:
            respond(refuse(request, error))
            return

        def refused(message: Any, payload: Sequence[Buffer], close_after: bool) -> None:
            if isinstance(message, MetadataResponse):
                message = refuse_topics(message, error, fault.match.topic)
            respond(message, payload, close_after=close_after)

        super().dispatch(context, incoming, _Watched(respond, refused))

    def _hold(
        self,
        fault: Fault,
        context: RequestContext,
        incoming: IncomingRequest,
        respond: Answering,
    ) -> None:
        # The payload lies in the connection's buffer, which the next read overwrites.
        kept = replace(incoming, payload=memoryview(bytearray(incoming.payload)))

        def go_on() -> None:
            if context.connection.closed:
                return
            try:
                # What it meets now is another matter: a fault may have been made meanwhile.
                self.dispatch(context, kept, respond)
            except RemoteProtocolError as exc:
                respond.abort(str(exc))

        fault.hold(go_on)


class _Watched:
    """It is a slot whose answer passes through a function."""

    __slots__ = ("_slot", "_then", "done", "holding")

    def __init__(self, slot: Answering, then: Answer) -> None:
        self._slot = slot
        self._then = then
        self.done = False
        self.holding = slot.holding

    def __call__(
        self, message: Any, payload: Sequence[Buffer] = (), *, close_after: bool = False
    ) -> None:
        if self.done:
            raise RuntimeError("a request is answered twice")
        self.done = True
        self._then(message, payload, close_after)

    def abort(self, reason: str) -> None:
        """See ``Answering``."""
        self._slot.abort(reason)


def _after(fault: Fault, respond: Answering) -> Answer:
    """Return what becomes of the answer of a request that was carried out."""

    def lose(message: Any, payload: Sequence[Buffer], close_after: bool) -> None:
        respond.abort("a fault of the test: the answer is lost")

    def delay(message: Any, payload: Sequence[Buffer], close_after: bool) -> None:
        loop = asyncio.get_running_loop()
        later = partial(respond, message, payload, close_after=close_after)
        loop.call_later(fault.seconds, later)

    return lose if fault.act is FaultAction.DROP_REPLY else delay
