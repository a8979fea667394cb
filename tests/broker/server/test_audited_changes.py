"""The audit reads from request and answer what was to change, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_broker.server.audit import AUDIT_LOGGER, Audit
from oncelog_broker.server.audited_changes import (
    CHANGES,
    MOVES_OF_LINE_MAX,
    NOT_BY_AN_ACL,
    REFUSED_MAX,
    ChangeRecorder,
)
from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_protocol.acls import ALLOW, LITERAL, TOPIC, WRITE, AclBinding, AclBindingFilter
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidConfigError,
    InvalidReplicaAssignmentError,
    LogDirNotFoundError,
    NotControllerError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
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
from oncelog_protocol.messages.admin import RESOURCE_BROKER, RESOURCE_TOPIC
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.sasl.user import CredentialRow
from support.sasl import CREDENTIALS
from support.server import DenyAll, answer

ENTRY = AclBinding(TOPIC, LITERAL, "t", "User:app", "*", WRITE, ALLOW)
SENTENCE = "User:app may WRITE topic t from anywhere"
KEYS = [CredentialRow.of(each) for each in CREDENTIALS.values()]


class Answers:
    """It answers with what the test says, or raises it."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def handle(self, context: Any, request: Any, payload: Any, respond: Any) -> None:
        if isinstance(self.said, Exception):
            raise self.said
        respond(self.said)


async def recorded(
    caplog: pytest.LogCaptureFixture,
    request: Any,
    said: Any,
    authorizer: Authorizer | None = None,
) -> list[tuple[str, str, str]]:
    """Return (resource, detail, outcome) of what goes on record with an answer."""
    caplog.clear()
    caplog.set_level("INFO", logger=AUDIT_LOGGER)
    recorder = ChangeRecorder(Audit(), authorizer or AllowAllAuthorizer())
    handler = recorder.following(ApiKey(request.api_key), Answers(said))
    if isinstance(said, Exception):
        with pytest.raises(type(said)):
            answer(handler, request)
    else:
        assert answer(handler, request) is said
    lines: list[Any] = [record.msg for record in caplog.records]
    return [(line["resource"], line["detail"], line["outcome"]) for line in lines]


def test_what_sounds_like_a_change_is_one() -> None:
    words = ("CREATE_", "DELETE_", "ALTER_", "ELECT_", "ABORT_", "OFFSET_DELETE")
    sound = {api for api in ApiKey if api.name.startswith(words)}
    assert sound - set(CHANGES) == {ApiKey.ALTER_PARTITION}, "it is between brokers"


async def test_topics(caplog: pytest.LogCaptureFixture) -> None:
    compacted = [admin.ConfigEntry("cleanup_policy", "compact")]
    wanted = [admin.CreatableTopic("a", 3, 2, None, compacted), admin.CreatableTopic("b", 1, 1)]
    refused = admin.TopicResult("b", TopicAuthorizationFailedError.code)
    said: Any = admin.CreateTopicsResponse(0, [admin.TopicResult("a"), refused])
    assert await recorded(caplog, admin.CreateTopicsRequest(wanted, 1000), said) == [
        ("topic:a", "partitions=3 replication_factor=2 cleanup_policy=compact", "done"),
        ("topic:b", "partitions=1 replication_factor=1", "TOPIC_AUTHORIZATION_FAILED"),
    ]
    only_asked = admin.CreateTopicsRequest(wanted, 1000, validate_only=True)
    assert await recorded(caplog, only_asked, said) == []
    elsewhere = admin.CreateTopicsResponse(NotControllerError.code, [refused])
    assert await recorded(caplog, admin.CreateTopicsRequest(wanted, 1000), elsewhere) == [
        ("topic:b", "partitions=1 replication_factor=1", "TOPIC_AUTHORIZATION_FAILED"),
    ], "the controller puts the other one on record"
    said = admin.DeleteTopicsResponse(0, [admin.TopicResult("a")])
    assert await recorded(caplog, admin.DeleteTopicsRequest(["a"], 1000), said) == [
        ("topic:a", "", "done")
    ]
    said = admin.CreatePartitionsResponse(0, [admin.TopicResult("a")])
    growing = admin.CreatePartitionsRequest([admin.PartitionGrowth("a", 9)], 1000)
    assert await recorded(caplog, growing, said) == [("topic:a", "partitions=9", "done")]


async def test_records(caplog: pytest.LogCaptureFixture) -> None:
    wanted = [admin.DeleteRecordsPartition(0, 5), admin.DeleteRecordsPartition(1, 6)]
    request = admin.DeleteRecordsRequest([admin.DeleteRecordsTopic("t", wanted)], 1000)
    code = UnknownTopicOrPartitionError.code
    results = [
        admin.DeleteRecordsPartitionResult(0),
        admin.DeleteRecordsPartitionResult(1, -1, code),
    ]
    said = admin.DeleteRecordsResponse(0, [admin.DeleteRecordsTopicResult("t", results)])
    assert await recorded(caplog, request, said) == [
        ("topic:t", "partitions and offsets 0<5 1<6", "UNKNOWN_TOPIC_OR_PARTITION")
    ]


async def test_settings_that_were_refused_are_named_without_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entries = [admin.ConfigEntry("log_level", "debug"), admin.ConfigEntry("rack", None)]
    request = admin.AlterConfigsRequest(
        [
            admin.ConfigAlteration(RESOURCE_TOPIC, "t", entries),
            admin.ConfigAlteration(RESOURCE_BROKER, "1", entries),
        ]
    )
    code = InvalidConfigError.code
    said = admin.AlterConfigsResponse(
        0,
        [
            admin.ConfigResourceResult(RESOURCE_TOPIC, "t"),
            admin.ConfigResourceResult(RESOURCE_BROKER, "1", code),
        ],
    )
    assert await recorded(caplog, request, said) == [
        ("topic:t", "log_level=debug rack removed", "done"),
        ("broker:1", "log_level rack", "INVALID_CONFIG"),
    ]


async def test_elections_and_transactions(caplog: pytest.LogCaptureFixture) -> None:
    for partitions, told in (
        (None, "unclean election of all partitions"),
        ([admin.ElectionTarget("t", 1)], "unclean election of t-1"),
    ):
        request = admin.ElectLeadersRequest(True, partitions)
        assert await recorded(caplog, request, admin.ElectLeadersResponse()) == [
            ("cluster", told, "done")
        ]
    aborting = transaction_admin.AbortTransactionRequest("t", 0, 17, 2)
    refusal = ClusterAuthorizationFailedError()
    assert await recorded(caplog, aborting, refusal) == [
        ("cluster", "transaction of producer 17 in t-0 aborted", "CLUSTER_AUTHORIZATION_FAILED")
    ]


async def test_partitions_that_move_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    wishes = [moves.ReassignedPartition("t", n, [1, 2]) for n in range(MOVES_OF_LINE_MAX + 1)]
    cancelled = [moves.ReassignedPartition("u", 0, None), moves.ReassignedPartition("u", 1, [9])]
    request = moves.AlterPartitionReassignmentsRequest([*wishes, *cancelled])
    said = moves.AlterPartitionReassignmentsResponse(
        items=[moves.ReassignmentResult(item.topic, item.partition) for item in request.items]
    )
    said.items[-1].error_code = InvalidReplicaAssignmentError.code
    first, *rest = await recorded(caplog, request, said)
    assert first[1].startswith("replicas of t: 0 to 1,2; 1 to 1,2; 2 to 1,2")
    assert rest == [
        ("cluster", f"replicas of t: {MOVES_OF_LINE_MAX} to 1,2", "done"),
        ("cluster", "replicas of u: 0 cancelled", "done"),
        ("cluster", "replicas of u: 1 to 9", "INVALID_REPLICA_ASSIGNMENT"),
    ]
    asked = replace(request, validate_only=True)
    assert await recorded(caplog, asked, said) == []


async def test_replicas_that_go_to_other_directories(caplog: pytest.LogCaptureFixture) -> None:
    request = admin.AlterReplicaLogDirsRequest(
        [admin.ReplicaPlace("t", 0, "/b"), admin.ReplicaPlace("t", 1, "/none")]
    )
    said = admin.AlterReplicaLogDirsResponse(
        results=[
            admin.ReplicaPlaceResult("t", 0),
            admin.ReplicaPlaceResult("t", 1, LogDirNotFoundError.code),
        ]
    )
    assert await recorded(caplog, request, said) == [
        ("cluster", "replica of t-0 to /b", "done"),
        ("cluster", "replica of t-1 to /none", "LOG_DIR_NOT_FOUND"),
    ]
    assert await recorded(caplog, replace(request, validate_only=True), said) == []


async def test_acls(caplog: pytest.LogCaptureFixture) -> None:
    said: Any = acls.CreateAclsResponse(RequestTimedOutError.code, [acls.CreatedAcl()])
    assert await recorded(caplog, acls.CreateAclsRequest([ENTRY]), said) == [
        ("cluster", f"added: {SENTENCE}", "REQUEST_TIMED_OUT")
    ]
    removing = acls.DeleteAclsRequest([AclBindingFilter(name="t")])
    said = acls.DeleteAclsResponse(0, [acls.DeletedAcls(entries=[ENTRY])])
    assert await recorded(caplog, removing, said) == [("cluster", f"removed: {SENTENCE}", "done")]
    ((_, detail, outcome),) = await recorded(caplog, removing, ClusterAuthorizationFailedError())
    assert detail.startswith("to remove: AclBindingFilter(")
    assert outcome == "CLUSTER_AUTHORIZATION_FAILED"


async def test_users_are_told_without_their_keys(caplog: pytest.LogCaptureFixture) -> None:
    wishes = [users.UserWish("app", users.CREATE, KEYS), users.UserWish("old", users.DELETE)]
    said = users.AlterUsersResponse(0, [users.AlteredUser("app"), users.AlteredUser("old", 91)])
    assert await recorded(caplog, users.AlterUsersRequest(wishes), said) == [
        ("user:app", "CREATE", "done"),
        ("user:old", "DELETE", "RESOURCE_NOT_FOUND"),
    ]
    own = users.AlterUsersRequest([users.UserWish("test", users.SET_PASSWORD, KEYS)])
    await recorded(caplog, own, users.AlterUsersResponse(0, [users.AlteredUser("test")]), DenyAll())
    (line,) = [record.msg for record in caplog.records]
    assert line["acl"] == NOT_BY_AN_ACL  # type: ignore[index]


async def test_brokers_out_of_service(caplog: pytest.LogCaptureFixture) -> None:
    lost = [broker_states.LostPartition("orders", 3)]
    request = broker_states.AlterBrokerStatesRequest(2, "decommissioning", lost)
    said = broker_states.AlterBrokerStatesResponse()
    assert await recorded(caplog, request, said) == [
        ("broker:2", "wanted decommissioning", "done"),
        ("broker:2", "records of orders-3 given up", "done"),
    ]
    only_asked = broker_states.AlterBrokerStatesRequest(2, "draining", [], True)
    assert await recorded(caplog, only_asked, said) == []


async def test_quotas(caplog: pytest.LogCaptureFixture) -> None:
    changes = [
        quotas.QuotaChange("app", None, None, "request_rate", 50.0),
        quotas.QuotaChange(None, None, "192.0.2.7", "connections", None),
    ]
    said = quotas.AlterQuotasResponse(0, [quotas.AlteredQuota(), quotas.AlteredQuota(42)])
    assert await recorded(caplog, quotas.AlterQuotasRequest(changes), said) == [
        ("cluster", "request_rate of user=app = 50", "done"),
        ("cluster", "connections of address=192.0.2.7 removed", "INVALID_REQUEST"),
    ]


async def test_groups(caplog: pytest.LogCaptureFixture) -> None:
    said: Any = groups.DeleteGroupsResponse(0, [groups.GroupResult("g")])
    assert await recorded(caplog, groups.DeleteGroupsRequest(["g"]), said) == [
        ("group:g", "", "done")
    ]
    request = groups.OffsetDeleteRequest("g", [groups.OffsetFetchTopic("t", [0])])
    assert await recorded(caplog, request, groups.OffsetDeleteResponse()) == [
        ("group:g", "offsets of t", "done")
    ]


async def test_of_very_many_refusals_few_are_told_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One request that names 50,000 groups held a broker's loop for longer than 20 s."""
    names = [f"g-{index}" for index in range(REFUSED_MAX + 5)]
    said = groups.DeleteGroupsResponse(0, [groups.GroupResult(name, 69) for name in names])
    caplog.set_level("INFO", logger=AUDIT_LOGGER)
    recorder = ChangeRecorder(Audit(), AllowAllAuthorizer())
    handler = recorder.following(ApiKey.DELETE_GROUPS, Answers(said))
    answer(handler, groups.DeleteGroupsRequest(names))
    lines: list[Any] = [record.msg for record in caplog.records]
    assert [line["event"] for line in lines[:-1]] == ["audit_change"] * REFUSED_MAX
    assert (lines[-1]["event"], lines[-1]["suppressed"]) == ("audit_lines_suppressed", 5)
