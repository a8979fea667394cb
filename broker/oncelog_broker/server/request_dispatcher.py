"""The dispatcher finds the handler of an API key, and turns whatever goes wrong into an answer.

Order of checks: the peer speaks this API and version; the API may be used on this listener, and by
this peer; the broker is ready; then the handler. An :class:`ApiError` refuses the whole request;
any other exception of a handler is a bug, is logged with its traceback, and is answered with
UNKNOWN_SERVER_ERROR, except Produce: there the connection is closed, because that error has made
clients write twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.server.audit import Audit, AuditedPeer
from oncelog_broker.server.audited_changes import ChangeRecorder
from oncelog_broker.server.authorizer import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, Authorizer
from oncelog_broker.server.client_quotas import NO_QUOTAS, Quotas
from oncelog_broker.server.connection import Answering
from oncelog_broker.server.request import AsyncHandler, Handler, RequestContext
from oncelog_broker.server.request_stats import RequestStats
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import (
    ApiError,
    BrokerNotAvailableError,
    ClusterAuthorizationFailedError,
    IllegalSaslStateError,
    NotControllerError,
    OncelogError,
    ProtocolError,
    UnknownServerError,
    UnsupportedVersionError,
)
from oncelog_protocol.identity import Introduction
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.messages.handshake import ApiVersionsResponse
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.registry import supported_ranges
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks, TasksClosedError

logger = get_logger(__name__)


def refusal(request: Request | type[Request], code: int, message: str | None = None) -> Any:
    """Return an otherwise empty response that refuses the whole request."""
    cls = request if isinstance(request, type) else type(request)
    if cls is MetadataRequest:
        return MetadataResponse("", -1, error_code=code)
    if message is not None and "error_message" in {each.name for each in fields(cls.response)}:
        return cls.response(error_code=code, error_message=message)
    return cls.response(error_code=code)


UNAUTHENTICATED_APIS = frozenset({ApiKey.API_VERSIONS, ApiKey.AUTHENTICATE})
"""These are served to a peer that has not authenticated yet."""

ORDERS = frozenset(
    {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.UPDATE_SECURITY}
)
"""Only the controller gives these."""


class RequestDispatcher:
    """It is the table of handlers. ``handlers`` answer at once or by callback, ``async_handlers``
    in a supervised task of ``tasks``."""

    def __init__(
        self,
        tasks: Tasks,
        authorizer: Authorizer,
        *,
        audit: Audit | None = None,
        quotas: Quotas = NO_QUOTAS,
        safeguards: Safeguards = SAFE,
    ) -> None:
        self.ready = False
        """Until ``serve_clients``, clients get BROKER_NOT_AVAILABLE for everything but ApiVersions.
        Brokers and the controller are served."""
        self.stats = RequestStats()
        """All connections count here."""
        self.suspended = False
        """Clients are refused for now: see ``suspend_clients``."""
        self._tasks = tasks
        self._authorizer = authorizer
        self._audit = Audit() if audit is None else audit
        self._changes = ChangeRecorder(self._audit, authorizer)
        self._quotas = quotas
        self._safeguards = safeguards
        self._handlers: dict[int, Handler] = {}
        self._async_handlers: dict[int, AsyncHandler] = {}

    def serve_clients(self) -> None:
        """Serve clients from now on, beside brokers and the controller."""
        self.ready = True

    def suspend_clients(self, suspended: bool) -> None:
        """Refuse clients while ``suspended``, as before they were served first."""
        self.suspended = suspended

    def install(
        self, handlers: Mapping[ApiKey, Handler], async_handlers: Mapping[ApiKey, AsyncHandler]
    ) -> None:
        """Add handlers by API key. What changes the cluster goes on record."""
        for api, handler in handlers.items():
            self._handlers[api] = self._changes.following(api, handler)
        for api, async_handler in async_handlers.items():
            self._async_handlers[api] = self._changes.following_async(api, async_handler)

    @property
    def served(self) -> frozenset[int]:
        """Return the API keys that have a handler."""
        return frozenset(self._handlers) | frozenset(self._async_handlers)

    def dispatch(
        self, context: RequestContext, incoming: IncomingRequest, respond: Answering
    ) -> None:
        """Serve one request.

        :raises RemoteProtocolError: the request contradicts its own payload; the connection must
            be closed.
        """
        request = incoming.message
        if request is None:
            self._unsupported(incoming, respond)
            return
        self._quotas.charge_request(context, incoming.api_key, len(incoming.payload))
        handler = self._handlers.get(incoming.api_key)
        try:
            self._check(context, request)
            if handler is not None:
                handler.handle(context, request, incoming.payload, respond)
                return
            async_handler = self._async_handlers.get(incoming.api_key)
            if async_handler is None:
                raise UnsupportedVersionError(f"{ApiKey(incoming.api_key).name} is not served here")
            coro = self._serve(async_handler, context, request, respond)
            self._tasks.spawn(f"{ApiKey(incoming.api_key).name} of {context.peer}", coro)
        except ProtocolError:
            raise
        except Exception as exc:
            self._failed(context, request, respond, exc)

    def _check(self, context: RequestContext, request: Request) -> None:
        if context.connection.must_authenticate and request.api_key not in UNAUTHENTICATED_APIS:
            context.connection.end()
            raise IllegalSaslStateError("authenticate first")
        if _is_between_brokers(request):
            try:
                self._check_broker(context, request)
            except ClusterAuthorizationFailedError:
                context.connection.end()
                raise
        serves = self.ready and not self.suspended
        if not (serves or context.is_broker or request.api_key in UNAUTHENTICATED_APIS):
            raise BrokerNotAvailableError

    def _check_broker(self, context: RequestContext, request: Request) -> None:
        """Check that the broker asks whose name is in the request.

        :raises ClusterAuthorizationFailedError: it does not.
        """
        if not context.is_broker:
            raise ClusterAuthorizationFailedError(
                f"{type(request).__name__} is served to brokers only, on a connection that names "
                "the one that asks"
            )
        if self._safeguards.checks_askers(context.is_broker):
            _check_introduction(context.introduction, request)
        may = self._authorizer.decision(context, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        if not may.allowed:
            raise ClusterAuthorizationFailedError(may.reason)

    async def _serve(
        self,
        handler: AsyncHandler,
        context: RequestContext,
        request: Request,
        respond: Answering,
    ) -> None:
        try:
            response = await handler.handle_async(context, request)
        except Exception as exc:
            self._failed(context, request, respond, exc)
        else:
            respond(response)

    def _failed(
        self, context: RequestContext, request: Request, respond: Answering, exc: Exception
    ) -> None:
        if isinstance(exc, ClusterAuthorizationFailedError | NotControllerError):
            self._note_false_broker(context, request, exc)
        if respond.done:
            logger.error(
                "request_failed_after_answer", request=type(request).__name__, exc_info=exc
            )
            return
        if isinstance(exc, ApiError):
            respond(refusal(request, exc.code, str(exc)))
            return
        if isinstance(exc, TasksClosedError):
            # A request that was under way while the broker stopped. Nothing is wrong with it.
            logger.info("request_at_stop", request=type(request).__name__)
        else:
            expected = isinstance(exc, (OncelogError, OSError, TimeoutError))
            logger.error(
                "request_failed",
                request=type(request).__name__,
                error=exc,
                exc_info=None if expected else exc,
            )
        if request.api_key == ApiKey.PRODUCE:
            respond(None, close_after=True)
        else:
            stopping = isinstance(exc, TasksClosedError)
            code = BrokerNotAvailableError.code if stopping else UnknownServerError.code
            respond(refusal(request, code))

    def _note_false_broker(
        self, context: RequestContext, request: Request, error: ApiError
    ) -> None:
        """Put on record that somebody asked for what only brokers, or the controller, may."""
        is_order = request.api_key in ORDERS
        if is_order or (_is_between_brokers(request) and not isinstance(error, NotControllerError)):
            reason = f"{type(request).__name__}: {error}"
            peer = AuditedPeer.of(context)
            self._audit.denied(peer, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME, reason)

    @staticmethod
    def _unsupported(incoming: IncomingRequest, respond: Answering) -> None:
        """Name what is spoken here; the connection ends, as what follows may not be understood."""
        logger.debug(
            "request_not_spoken", api_key=incoming.api_key, api_version=incoming.api_version
        )
        respond(ApiVersionsResponse(UnsupportedVersionError.code, supported_ranges()))


def _is_between_brokers(request: Request) -> bool:
    return request.between_brokers or (type(request) is FetchRequest and request.replica_id >= 0)


def _check_introduction(introduction: Introduction, request: Request) -> None:
    """Check that a broker's peer meant this one, and speaks for itself.

    :raises ClusterAuthorizationFailedError: the connection named somebody else, or nobody.
    """
    name = type(request).__name__
    if not introduction.addressed or introduction.own_broker_id < 0:
        raise ClusterAuthorizationFailedError(
            f"{name} is served only on a connection that named this broker, its cluster and the "
            "broker that asks"
        )
    field = request.asker_field
    if field and getattr(request, field) != introduction.own_broker_id:
        raise ClusterAuthorizationFailedError(
            f"{name} of broker {getattr(request, field)} on a connection of broker "
            f"{introduction.own_broker_id}"
        )
