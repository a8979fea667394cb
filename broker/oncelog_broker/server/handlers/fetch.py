"""Fetch, v0, serves consumers (delayed until there is enough) and followers (sessions).

Consumers read below the high watermark, see ``replication.consumer_fetch``; followers read to the
log end over an incremental session that belongs to the connection, see
``replication.fetch_session``.

Whole-request errors: CLUSTER_AUTHORIZATION_FAILED (a replica id on a listener that is not internal,
or our own: a consumer that poses as a replica could fake the ISR, CVE-2018-1288),
STALE_BROKER_EPOCH, INVALID_REQUEST, INVALID_FETCH_SESSION_EPOCH. Per partition: those in
``messages.fetch``.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from oncelog_broker.server.request import ConnectionState, RequestContext, Respond
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidFetchSessionEpochError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.types import CONSUMER_REPLICA_ID, TopicPartition

NO_SESSION = -1
FULL_SESSION = 0


@dataclass(slots=True, eq=False)
class _ConsumerSlot:
    """It holds the delayed fetch of a consumer's connection, so that it goes when the
    connection does."""

    fetch: ConsumerFetch | None = None

    def close(self) -> None:
        """Forget the fetch, as the connection is gone."""
        if self.fetch is not None:
            self.fetch.close()


class FetchHandler:
    """It serves Fetch."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

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
        if not context.internal or request.replica_id == self._replicas.broker_id:
            raise ClusterAuthorizationFailedError(
                f"replica id {request.replica_id} on listener {context.listener}"
            )
        if not self._authorizer.authorize(context, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationFailedError

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
        fetch = ConsumerFetch.start(
            request,
            respond,
            lookup=lambda topic_partition: self._readable(context, topic_partition),
            deadlines=self._replicas.deadlines,
            now=self._replicas.now(),
            room=context.connection.room,
        )
        if fetch.done:
            return
        slot = context.connection.fetch_session
        if not isinstance(slot, _ConsumerSlot):
            slot = _ConsumerSlot()
            context.connection.keep_session(slot)
        # An older one that is still parked (pipelined fetches) answers by itself and is
        # dropped with its first look after the connection has gone.
        slot.fetch = fetch

    def _readable(self, context: RequestContext, topic_partition: TopicPartition) -> Partition:
        if not self._authorizer.authorize(context, READ, TOPIC, topic_partition.topic):
            raise TopicAuthorizationFailedError(f"may not read {topic_partition.topic}")
        return self._replicas.partition(topic_partition)
