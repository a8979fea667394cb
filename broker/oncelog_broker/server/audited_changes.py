"""A table says which APIs change the cluster, and what a request of each would change.

Their handlers are followed: what became of each change goes on record when it is answered, also
when it was refused. Not on record are requests that only ask what would be refused
(``validate_only``), and those that another broker has to be asked (NOT_CONTROLLER).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from oncelog_broker.server.access import CREATE_TOPIC, Access
from oncelog_broker.server.audit import DONE, Audit, AuditedPeer, named
from oncelog_broker.server.authorizer import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_NAME,
    DELETE,
    GROUP,
    TOPIC,
    Authorizer,
)
from oncelog_broker.server.request import AsyncHandler, Buffer, Handler, RequestContext, Respond
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    BrokerNotAvailableError,
    NotControllerError,
    UnknownServerError,
    error_for,
)
from oncelog_protocol.messages import (
    acls,
    admin,
    broker_states,
    groups,
    moves,
    quotas,
    transaction_admin,
    users,
)
from oncelog_protocol.messages.base import ApiKey

_CLUSTER = Access(ALTER, CLUSTER)
_CLUSTER_CONFIGS = Access(ALTER_CONFIGS, CLUSTER)
_TOPIC_CONFIGS = Access(ALTER_CONFIGS, TOPIC)
_DELETE_TOPIC = Access(DELETE, TOPIC)
_DELETE_GROUP = Access(DELETE, GROUP)

NOT_BY_AN_ACL = "not by an ACL: it is the asker's own"
"""It stands for the ACL where somebody changes what is its own: the password."""


@dataclass(frozen=True, slots=True)
class Change:
    """It is one thing that a request would change."""

    access: Access
    name: str
    """The name of the resource that the access is to."""
    detail: str
    error_code: int
    shown: str = ""
    """The resource on record, where it is not the one that the access is to."""


MOVES_OF_LINE_MAX = 100
"""So many partitions of a topic that move go on record in one line."""

REFUSED_MAX = 20
"""So many refused items of one request go on record by name; the others are counted."""

Changes: TypeAlias = Callable[[Any, Any], Iterator[Change]]
"""It returns what a request would change, with what its answer says of each."""


def _code(results: Sequence[Any], index: int, response: Any) -> int:
    """Return what became of one item: its own error, or that of the whole request."""
    own = results[index].error_code if index < len(results) else NO_ERROR
    return int(own or response.error_code)


def _topic_codes(response: Any) -> dict[str, int]:
    return {result.topic: result.error_code for result in response.topics}


def _settings(entries: Sequence[admin.ConfigEntry]) -> str:
    return " ".join(
        f"{each.key} removed" if each.value is None else f"{each.key}={each.value}"
        for each in entries
    )


def _created_topics(
    request: admin.CreateTopicsRequest, response: admin.CreateTopicsResponse
) -> Iterator[Change]:
    codes = _topic_codes(response)
    for topic in request.topics if not request.validate_only else ():
        detail = (
            f"partitions={topic.partition_count} replication_factor={topic.replication_factor} "
            f"{_settings(topic.configs)}"
        )
        code = codes.get(topic.topic) or response.error_code
        yield Change(CREATE_TOPIC, topic.topic, detail.rstrip(), code)


def _deleted_topics(
    request: admin.DeleteTopicsRequest, response: admin.DeleteTopicsResponse
) -> Iterator[Change]:
    codes = _topic_codes(response)
    for topic in request.topics:
        yield Change(_DELETE_TOPIC, topic, "", codes.get(topic) or response.error_code)


def _grown_topics(
    request: admin.CreatePartitionsRequest, response: admin.CreatePartitionsResponse
) -> Iterator[Change]:
    codes = _topic_codes(response)
    for topic in request.topics if not request.validate_only else ():
        detail = f"partitions={topic.partition_count}"
        code = codes.get(topic.topic) or response.error_code
        yield Change(Access(ALTER, TOPIC), topic.topic, detail, code)


def _deleted_records(
    request: admin.DeleteRecordsRequest, response: admin.DeleteRecordsResponse
) -> Iterator[Change]:
    for index, topic in enumerate(request.topics):
        detail = " ".join(f"{each.partition}<{each.before_offset}" for each in topic.partitions)
        answered = response.topics[index].partitions if index < len(response.topics) else ()
        failed = (each.error_code for each in answered if each.error_code)
        code = next(failed, response.error_code)
        yield Change(_DELETE_TOPIC, topic.topic, f"partitions and offsets {detail}", code)


def _altered_configs(
    request: admin.AlterConfigsRequest, response: admin.AlterConfigsResponse
) -> Iterator[Change]:
    for index, item in enumerate(request.resources if not request.validate_only else ()):
        code = _code(response.resources, index, response)
        of_topic = item.resource_type == admin.RESOURCE_TOPIC
        # What is refused may have been meant for something else: a secret is not kept here.
        detail = " ".join(each.key for each in item.entries) if code else _settings(item.entries)
        if of_topic:
            yield Change(_TOPIC_CONFIGS, item.resource_name, detail, code)
        else:
            shown = f"broker:{item.resource_name}"
            yield Change(_CLUSTER_CONFIGS, CLUSTER_NAME, detail, code, shown)


def _elections(
    request: admin.ElectLeadersRequest, response: admin.ElectLeadersResponse
) -> Iterator[Change]:
    kind = "unclean" if request.unclean else "preferred"
    which = "all partitions"
    if request.partitions is not None:
        which = " ".join(f"{each.topic}-{each.partition}" for each in request.partitions)
    yield Change(_CLUSTER, CLUSTER_NAME, f"{kind} election of {which}", response.error_code)


def _moves(
    request: moves.AlterPartitionReassignmentsRequest,
    response: moves.AlterPartitionReassignmentsResponse,
) -> Iterator[Change]:
    told: dict[tuple[str, int], list[str]] = {}
    for index, item in enumerate(request.items if not request.validate_only else ()):
        to = "cancelled" if item.target is None else "to " + ",".join(map(str, item.target))
        code = _code(response.items, index, response)
        told.setdefault((item.topic, code), []).append(f"{item.partition} {to}")
    for (topic, code), each in told.items():
        for start in range(0, len(each), MOVES_OF_LINE_MAX):
            some = "; ".join(each[start : start + MOVES_OF_LINE_MAX])
            yield Change(_CLUSTER, CLUSTER_NAME, f"replicas of {topic}: {some}", code)


def _replica_places(
    request: admin.AlterReplicaLogDirsRequest, response: admin.AlterReplicaLogDirsResponse
) -> Iterator[Change]:
    for index, item in enumerate(request.replicas if not request.validate_only else ()):
        code = _code(response.results, index, response)
        detail = f"replica of {item.topic}-{item.partition} to {item.path}"
        yield Change(_CLUSTER, CLUSTER_NAME, detail, code)


def _altered_broker_states(
    request: broker_states.AlterBrokerStatesRequest,
    response: broker_states.AlterBrokerStatesResponse,
) -> Iterator[Change]:
    if request.validate_only:
        return
    shown, code = f"broker:{request.broker_id}", response.error_code
    yield Change(_CLUSTER, CLUSTER_NAME, f"wanted {request.wanted}", code, shown)
    for each in request.accept_loss:
        detail = f"records of {each.topic}-{each.partition} given up"
        yield Change(_CLUSTER, CLUSTER_NAME, detail, code, shown)


def _created_acls(
    request: acls.CreateAclsRequest, response: acls.CreateAclsResponse
) -> Iterator[Change]:
    for index, entry in enumerate(request.entries if not request.validate_only else ()):
        code = _code(response.results, index, response)
        yield Change(_CLUSTER, CLUSTER_NAME, f"added: {entry.sentence()}", code)


def _deleted_acls(
    request: acls.DeleteAclsRequest, response: acls.DeleteAclsResponse
) -> Iterator[Change]:
    for index, chosen in enumerate(request.filters if not request.validate_only else ()):
        code = _code(response.results, index, response)
        entries = response.results[index].entries if index < len(response.results) else []
        if code:
            yield Change(_CLUSTER, CLUSTER_NAME, f"to remove: {chosen}", code)
        for entry in entries:
            yield Change(_CLUSTER, CLUSTER_NAME, f"removed: {entry.sentence()}", code)


def _altered_quotas(
    request: quotas.AlterQuotasRequest, response: quotas.AlterQuotasResponse
) -> Iterator[Change]:
    for index, change in enumerate(request.changes if not request.validate_only else ()):
        entity = {
            "user": change.user,
            "client_id": change.client_id,
            "address": change.address,
        }
        of = " ".join(f"{kind}={name}" for kind, name in entity.items() if name is not None)
        value = "removed" if change.value is None else f"= {change.value:g}"
        code = _code(response.results, index, response)
        yield Change(_CLUSTER_CONFIGS, CLUSTER_NAME, f"{change.key} of {of} {value}", code)


def _altered_users(
    request: users.AlterUsersRequest, response: users.AlterUsersResponse
) -> Iterator[Change]:
    for index, wish in enumerate(request.wishes if not request.validate_only else ()):
        code = _code(response.results, index, response)
        yield Change(_CLUSTER, CLUSTER_NAME, wish.action, code, f"user:{wish.name}")


def _aborted_transaction(
    request: transaction_admin.AbortTransactionRequest,
    response: transaction_admin.AbortTransactionResponse,
) -> Iterator[Change]:
    detail = (
        f"transaction of producer {request.producer_id} in {request.topic}-{request.partition} "
        "aborted"
    )
    yield Change(_CLUSTER, CLUSTER_NAME, detail, response.error_code)


def _deleted_groups(
    request: groups.DeleteGroupsRequest, response: groups.DeleteGroupsResponse
) -> Iterator[Change]:
    for index, group in enumerate(request.groups):
        code = _code(response.groups, index, response)
        yield Change(_DELETE_GROUP, group, "", code)


def _deleted_offsets(
    request: groups.OffsetDeleteRequest, response: groups.OffsetDeleteResponse
) -> Iterator[Change]:
    detail = "offsets of " + " ".join(topic.topic for topic in request.topics)
    yield Change(_DELETE_GROUP, request.group_id, detail, response.error_code)


CHANGES: Mapping[ApiKey, Changes] = {
    ApiKey.CREATE_TOPICS: _created_topics,
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.CREATE_PARTITIONS: _grown_topics,
    ApiKey.DELETE_RECORDS: _deleted_records,
    ApiKey.ALTER_CONFIGS: _altered_configs,
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _moves,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _replica_places,
    ApiKey.ALTER_BROKER_STATES: _altered_broker_states,
    ApiKey.CREATE_ACLS: _created_acls,
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_USERS: _altered_users,
    ApiKey.ALTER_QUOTAS: _altered_quotas,
    ApiKey.ABORT_TRANSACTION: _aborted_transaction,
    ApiKey.DELETE_GROUPS: _deleted_groups,
    ApiKey.OFFSET_DELETE: _deleted_offsets,
}
"""These APIs change the cluster."""


class ChangeRecorder:
    """It puts on record what became of requests that change the cluster."""

    def __init__(self, audit: Audit, authorizer: Authorizer) -> None:
        self._audit = audit
        self._authorizer = authorizer

    def following(self, api: ApiKey, handler: Handler) -> Handler:
        """Return the handler, followed if its API changes the cluster."""
        return _Followed(api, handler, self) if api in CHANGES else handler

    def following_async(self, api: ApiKey, handler: AsyncHandler) -> AsyncHandler:
        """Return the handler, followed if its API changes the cluster."""
        return _FollowedAsync(api, handler, self) if api in CHANGES else handler

    def answered(self, api: ApiKey, context: RequestContext, request: Any, response: Any) -> None:
        """Put on record what an answer says."""
        peer, refused = AuditedPeer.of(context), 0
        for change in CHANGES[api](request, response):
            if change.error_code == NotControllerError.code:
                continue
            if change.error_code:  # a request may name more than the loop has time to tell of
                refused += 1
                if refused > REFUSED_MAX:
                    continue
            outcome = error_for(change.error_code).name if change.error_code else DONE
            resource = change.shown or named(change.access.resource_type, change.name)
            reason = self._reason(context, change)
            self._audit.changed(peer, api.name, resource, change.detail, outcome, reason)
        if refused > REFUSED_MAX:
            self._audit.left_out(peer, api.name, refused - REFUSED_MAX)

    def failed(
        self, api: ApiKey, context: RequestContext, request: Any, error: BaseException
    ) -> None:
        """Put on record that a request was refused as a whole."""
        code = error.code if isinstance(error, ApiError) else UnknownServerError.code
        self.answered(api, context, request, type(request).response(error_code=code))

    def _reason(self, context: RequestContext, change: Change) -> str:
        try:
            decision = change.access.decision(self._authorizer, context, change.name)
        except BrokerNotAvailableError as error:
            return str(error)
        if change.error_code == NO_ERROR and not decision.allowed:
            return NOT_BY_AN_ACL
        return decision.reason


@dataclass(frozen=True, slots=True)
class _Followed:
    """It is a handler whose answers go on record."""

    api: ApiKey
    handler: Handler
    recorder: ChangeRecorder

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """Serve the request as the handler does."""

        def answer(message: Any, payload: Sequence[Buffer] = ()) -> None:
            self.recorder.answered(self.api, context, request, message)
            respond(message, payload)

        try:
            self.handler.handle(context, request, payload, answer)
        except ApiError as error:
            self.recorder.failed(self.api, context, request, error)
            raise


@dataclass(frozen=True, slots=True)
class _FollowedAsync:
    """It is such a handler whose answer is awaited."""

    api: ApiKey
    handler: AsyncHandler
    recorder: ChangeRecorder

    async def handle_async(self, context: RequestContext, request: Any) -> Any:
        """Serve the request as the handler does."""
        try:
            response = await self.handler.handle_async(context, request)
        except Exception as error:
            self.recorder.failed(self.api, context, request, error)
            raise
        self.recorder.answered(self.api, context, request, response)
        return response
