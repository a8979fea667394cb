"""Fetch, v0 and v1, serves consumers (delayed until there is enough) and followers (sessions).

Consumers read below the high watermark, see ``replication.consumer_fetch``; followers read to the
log end over an incremental session that belongs to the connection, see
``replication.fetch_session``.

Whole-request errors: CLUSTER_AUTHORIZATION_FAILED (a replica id on a listener that is not internal,
or our own: a consumer that poses as a replica could fake the ISR, CVE-2018-1288),
STALE_BROKER_EPOCH, INVALID_REQUEST, INVALID_FETCH_SESSION_EPOCH, THROTTLING_QUOTA_EXCEEDED
(``consumer_byte_rate`` is 0; who exceeds another one gets a batch, and its connection is held). Per
partition: those in ``messages.fetch``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from oncelog_broker.replication.consumer_fetch import ConsumerFetch
from oncelog_broker.replication.fetch_session import FollowerSession
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    READ,
    TOPIC,
    Authorizer,
)
from oncelog_broker.server.client_quotas import NO_QUOTAS, Quotas
from oncelog_broker.server.request import Buffer, ConnectionState, RequestContext, Respond
from oncelog_broker.server.request_prices import price_of_bytes
from oncelog_broker.server.safeguards import SAFE, SecuritySafeguards
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    InvalidFetchSessionEpochError,
    InvalidRequestError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.quotas import CONSUMER_BYTE_RATE, REQUEST_RATE
from oncelog_protocol.types import CONSUMER_REPLICA_ID, TopicPartition

NO_SESSION = -1
FULL_SESSION = 0


@dataclass(slots=True, eq=False)
class _ConsumerSlot:
    """It holds the delayed fetches of a consumer's connection, so that they go when the
    connection does. A consumer has one, but for one that does not wait for its answers."""

    _slots: dict[_ConsumerSlot, None]
    fetches: dict[ConsumerFetch, Callable[[], bool]] = field(default_factory=dict)
    """Each stands here with what says whether it may still read all that it reads."""

    def add(self, fetch: ConsumerFetch, allowed: Callable[[], bool]) -> None:
        """Hold one more, and let go of those that were answered."""
        self.fetches = {each: may for each, may in self.fetches.items() if not each.done}
        self.fetches[fetch] = allowed

    def look_again(self) -> None:
        """Have those answered that may not read any more."""
        for fetch, allowed in self.fetches.items():
            if not fetch.done and not allowed():
                fetch.role_changed()

    def close(self) -> None:
        """Forget the fetches, as the connection is gone."""
        self._slots.pop(self, None)
        for fetch in self.fetches:
            fetch.close()


class FetchHandler:
    """It serves Fetch."""

    def __init__(
        self,
        replicas: ReplicaManager,
        authorizer: Authorizer,
        quotas: Quotas = NO_QUOTAS,
        safeguards: SecuritySafeguards = SAFE,
    ) -> None:
        self._replicas = replicas
        self._authorizer = authorizer
        self._quotas = quotas
        self._safeguards = safeguards
        self._slots: dict[_ConsumerSlot, None] = {}

    def look_again(self) -> None:
        """Have fetches that wait answered, if they may not read any more what they wait for."""
        for slot in list(self._slots):
            slot.look_again()

    def handle(
        self,
        context: RequestContext,
        request: FetchRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer now or later.

        :raises ApiError: the whole request is refused, see the module.
        """
        if request.replica_id >= 0:
            self._check_replica(context, request)
            self._fetch_as_follower(context.connection, request, respond)
        elif request.replica_id == CONSUMER_REPLICA_ID:
            self._fetch_as_consumer(context, request, respond)
        else:
            raise InvalidRequestError(f"replica id {request.replica_id}")

    def _check_replica(self, context: RequestContext, request: FetchRequest) -> None:
        if not context.is_broker or request.replica_id == self._replicas.broker_id:
            raise ClusterAuthorizationFailedError(
                f"replica id {request.replica_id} on listener {context.listener}"
            )
        may = self._authorizer.decision(context, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        if not may.allowed:
            raise ClusterAuthorizationFailedError(may.reason)

    def _fetch_as_follower(
        self, connection: ConnectionState, request: FetchRequest, respond: Respond
    ) -> None:
        now = self._replicas.now()
        session = connection.fetch_session
        if request.session_epoch == FULL_SESSION:
            if isinstance(session, FollowerSession):
                session.end()
                connection.drop_session(session)
            session = FollowerSession(
                request.replica_id,
                lookup=self._replicas.partition,
                deadlines=self._replicas.deadlines,
                now=now,
                pace=self._replicas.paces.sent,
            )
            connection.keep_session(session)
        if not isinstance(session, FollowerSession) or session.replica_id != request.replica_id:
            raise InvalidFetchSessionEpochError("no session on this connection")
        session.handle(request, respond, now)

    def _fetch_as_consumer(
        self, context: RequestContext, request: FetchRequest, respond: Respond
    ) -> None:
        if request.session_epoch != NO_SESSION:
            raise InvalidFetchSessionEpochError("consumers have no sessions")
        room = context.connection.room
        left = self._quotas.left(context, CONSUMER_BYTE_RATE)
        if left is not None:
            if left <= 0:
                self._check_not_stopped(context)
            room = partial(self._room, context)
        if left is not None or self._quotas.left(context, REQUEST_RATE) is not None:
            respond = partial(self._answer, context, respond)
        may_read = self._safeguards.asked_again(
            partial(self._authorizer.authorize, context, READ, TOPIC)
        )
        fetch = ConsumerFetch.start(
            request,
            respond,
            lookup=lambda topic_partition: self._readable(may_read, topic_partition),
            deadlines=self._replicas.deadlines,
            now=self._replicas.now(),
            room=room,
        )
        if fetch.done:
            return
        slot = context.connection.fetch_session
        if not isinstance(slot, _ConsumerSlot):
            slot = _ConsumerSlot(self._slots)
            self._slots[slot] = None
            context.connection.keep_session(slot)
        slot.add(fetch, lambda: _may_read_all(may_read, request))

    def _check_not_stopped(self, context: RequestContext) -> None:
        if self._quotas.is_stopped(context, CONSUMER_BYTE_RATE):
            self._quotas.charge(context, CONSUMER_BYTE_RATE, 0)
            raise ThrottlingQuotaExceededError("consumer_byte_rate is 0")

    def _room(self, context: RequestContext) -> int:
        """Return how many bytes the answer may have: those of the quota, but one batch at least."""
        room = context.connection.room()
        left = self._quotas.left(context, CONSUMER_BYTE_RATE)
        return room if left is None else min(room, max(int(left), 1))

    def _answer(
        self,
        context: RequestContext,
        respond: Respond,
        message: FetchResponse,
        payload: Sequence[Buffer] = (),
    ) -> None:
        """Count what is read, and answer."""
        size = sum(map(len, payload))
        self._quotas.charge(context, CONSUMER_BYTE_RATE, size)
        self._quotas.charge(context, REQUEST_RATE, price_of_bytes(size))
        respond(message, payload)

    def _readable(
        self, may_read: Callable[[str], bool], topic_partition: TopicPartition
    ) -> Partition:
        if not may_read(topic_partition.topic):
            raise TopicAuthorizationFailedError(f"may not read {topic_partition.topic}")
        return self._replicas.partition(topic_partition)


def _may_read_all(may_read: Callable[[str], bool], request: FetchRequest) -> bool:
    try:
        return all(may_read(topic.topic) for topic in request.topics)
    except ApiError:
        return False
