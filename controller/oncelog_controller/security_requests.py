"""Requests for ACLs, users and quotas begin and end alike. Pure."""

from __future__ import annotations

from typing import Protocol

from oncelog_controller.acknowledgements import AcknowledgedResponse, SecurityAcknowledgements
from oncelog_controller.core import Core
from oncelog_controller.events import RequestReceived
from oncelog_controller.replies import refusal
from oncelog_controller.security import ClusterSecurity
from oncelog_protocol.errors import InvalidRequestError, SecurityDisabledError


class SecurityChangeRequest(Protocol):
    """It is a request that changes what the cluster keeps for its security."""

    validate_only: bool
    timeout_ms: int


def known_security(
    core: Core, event: RequestReceived, *, count: int, most: int, items: str
) -> ClusterSecurity | None:
    """Return what is known, or refuse the request.

    :param count: so many items the request has, of which it may have ``most``.
    :param items: what the refusal calls them.
    """
    security = core.cluster.security
    if security is None:
        text = "no listener has sasl_mechanisms, and the setting authorizer is not acl"
        answer = refusal(event.request, SecurityDisabledError.code, text)
    elif count > most:
        text = f"one request has at most {most} {items}"
        answer = refusal(event.request, InvalidRequestError.code, text)
    else:
        return security
    core.reply(event.request_id, answer)
    return None


def answer_change(
    core: Core,
    acknowledgements: SecurityAcknowledgements,
    event: RequestReceived,
    request: SecurityChangeRequest,
    response: AcknowledgedResponse,
) -> None:
    """Answer when all is written, with the version that there is then, and after the brokers have
    acknowledged it unless the request only asks what would be refused."""

    def settled() -> None:
        security = core.cluster.security
        assert security is not None
        patience_ms = None if request.validate_only else request.timeout_ms
        acknowledgements.answer(event.request_id, response, security.version, patience_ms)

    core.when_settled(settled)
