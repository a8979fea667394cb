"""The audit puts on record who was let in, who was refused, and who changed the cluster.

Rules
-----
* It writes under the logger ``oncelog.audit``, whatever the level of other lines is. Where the
  lines go is the process's affair (``oncelog_broker.logging``).
* What was allowed and only read or written is not on record: there is no end to it.
* A change that was carried out is always on record. Of all else one line in ``INTERVAL_S`` is
  written about the same peer and the same thing. The others are counted, and told when the interval
  is over, or when the broker stops.
* Peers choose names and ids: they are cut, and so many of them at most are remembered as
  ``Repetitions`` does.
* No line has a password, a key or a token. Nobody hands one in.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import NamedTuple

from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acls import CLUSTER
from oncelog_runtime.logs import OVERDUE_MAX, Overdue, Repetitions, Subject
from oncelog_runtime.structured_logging import get_logger

AUDIT_LOGGER = "oncelog.audit"

logger = get_logger(AUDIT_LOGGER)

INTERVAL_S = 10.0
"""One line about the same thing is written in so many seconds."""

PAUSE_S = 0.01
"""The loop has so many seconds for others before more is told that is overdue."""

TEXT_CHARS_MAX = 1000
"""A field has so many characters at most; what is longer is cut."""

NAME_CHARS_MAX = 255
"""A name within the subject that is remembered has so many characters at most."""

DONE = "done"
"""It is the outcome of a change that was carried out."""


class AuditedPeer(NamedTuple):
    """It says who did something, or tried to."""

    principal: str
    address: str
    """Host and port of the peer."""
    listener: str
    client_id: str

    @classmethod
    def of(cls, context: RequestContext) -> AuditedPeer:
        """Return who asks."""
        return cls(context.principal, context.peer, context.listener, context.client_id)

    @property
    def host(self) -> str:
        """Return the address without the port, which differs with each connection."""
        return self.address.rpartition(":")[0]


class Audit:
    """It is one broker's. Use it within the running loop."""

    def __init__(self) -> None:
        self.denials: Counter[tuple[str, str]] = Counter()
        """So many denials there were of each operation on each type of resource."""
        self.authentications: Counter[tuple[str, str]] = Counter()
        """So many authentications there were by each mechanism with each outcome."""
        self._repetitions = Repetitions(1, INTERVAL_S)
        self._timer: asyncio.TimerHandle | None = None

    def authenticated(self, peer: AuditedPeer, mechanism: str) -> None:
        """Note that a peer has proved who it is."""
        self.authentications[mechanism, "success"] += 1
        if self._passes("audit_authenticated", peer.principal, "at", peer.host, peer.listener):
            logger.info(
                "audit_authenticated",
                **_of_peer(peer),
                mechanism=mechanism,
            )

    def authentication_failed(self, peer: AuditedPeer, mechanism: str, reason: str) -> None:
        """Note that a peer has not proved who it is; ``reason`` is not told to it."""
        self.authentications[mechanism, "failure"] += 1
        if self._passes("audit_authentication_failed", peer.host, peer.listener, reason):
            logger.warning(
                "audit_authentication_failed",
                **_of_peer(peer),
                mechanism=mechanism,
                reason=_cut(reason),
            )

    def denied(
        self, peer: AuditedPeer, operation: str, resource_type: str, name: str, reason: str
    ) -> None:
        """Note that a peer asked for what it may not; ``reason`` is the ACL that decided, or what
        stands instead of one."""
        self.denials[operation, resource_type] += 1
        resource = named(resource_type, name)
        if self._passes("audit_denied", peer.principal, operation, resource):
            logger.warning(
                "audit_denied",
                **_of_peer(peer),
                operation=operation,
                resource=_cut(resource),
                acl=_cut(reason),
            )

    def changed(
        self, peer: AuditedPeer, api: str, resource: str, detail: str, outcome: str, reason: str
    ) -> None:
        """Note that a peer has changed the cluster, or tried to.

        :param outcome: DONE, or the name of the error.
        :param reason: the ACL that decided, or what stands instead of one.
        """
        if outcome == DONE or self._passes("audit_change", peer.principal, api, resource, outcome):
            logger.info(
                "audit_change",
                **_of_peer(peer),
                api=api,
                resource=_cut(resource),
                detail=_cut(detail),
                outcome=outcome,
                acl=_cut(reason),
            )

    def left_out(self, peer: AuditedPeer, api: str, count: int) -> None:
        """Note that so many refused items of a request are not on record by name."""
        logger.info(
            "audit_lines_suppressed",
            suppressed_event="audit_change",
            about=f"{peer.principal} {api}",
            suppressed=count,
        )

    def close(self) -> None:
        """Tell what was left out and not told yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        _tell(self._repetitions.rest())

    def _passes(self, event: str, *about: str) -> bool:
        """Return whether a line is written. One that is not is counted, and told later."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        _tell(self._repetitions.overdue(now))
        text = " ".join(each[:NAME_CHARS_MAX] for each in about)
        if self._repetitions.passes(Subject(AUDIT_LOGGER, logging.INFO, event, text), now):
            return True
        if self._timer is None:
            self._timer = loop.call_later(INTERVAL_S, self._look)
        return False

    def _look(self) -> None:
        """Tell what is overdue, some of it at a time. What was left out since the timer began is
        told by the next one."""
        self._timer = None
        loop = asyncio.get_running_loop()
        overdue = self._repetitions.overdue(loop.time())
        _tell(overdue)
        if self._repetitions.pending:
            delay_s = PAUSE_S if len(overdue) == OVERDUE_MAX else INTERVAL_S
            self._timer = loop.call_later(delay_s, self._look)


def named(resource_type: str, name: str) -> str:
    """Return a resource as people write it: ``topic:orders``, ``cluster``."""
    kind = resource_type.lower().replace("_", "-")
    return kind if resource_type == CLUSTER else f"{kind}:{name}"


def _of_peer(peer: AuditedPeer) -> dict[str, str]:
    """Return the fields with which each line says who it was."""
    return {
        "principal": peer.principal,
        "address": peer.address,
        "listener": peer.listener,
        "client_id": _cut(peer.client_id),
    }


def _tell(overdue: list[Overdue]) -> None:
    for subject, suppressed in overdue:
        logger.info(
            "audit_lines_suppressed",
            suppressed_event=subject.event,
            about=subject.about,
            suppressed=suppressed,
        )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}..."
