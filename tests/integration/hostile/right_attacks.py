"""Peers who are known try for more than they may: rows 37 to 52."""

from __future__ import annotations

from integration.hostile.attack import Attack
from integration.hostile.target import Target
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    DENY,
    LITERAL,
    PREFIXED,
    TOPIC,
    WRITE,
    AclBinding,
    AclBindingFilter,
)
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidConfigError,
    InvalidRequestError,
    NotControllerError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.identity import Identity
from oncelog_protocol.limits import ACLS_OF_REQUEST_MAX
from oncelog_protocol.messages.acls import CreateAclsRequest, DescribeAclsRequest
from oncelog_protocol.messages.admin import (
    RESOURCE_BROKER,
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigEntry,
    CreatableTopic,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.replication import LeaderAndIsrRequest
from oncelog_protocol.messages.security import UpdateSecurityRequest
from support.hand_records import produce

NOT_A_BROKER = ClusterAuthorizationFailedError.code
HIDDEN = TopicAuthorizationFailedError.code
SECURED = {
    "authorizer": "none",
    "super_users": '["User:app"]',
    "broker_principal": "User:app",
    "inter_broker_user": "app",
    "inter_broker_password_file": "/etc/passwd",
    "connections_max_reauth_ms": "1",
    "metrics_token_file": "/etc/passwd",
    "listeners.external.sasl_mechanisms": '["PLAIN"]',
    "listeners.external.tls_client_auth": "none",
}
"""Settings by which a user would be more than it is."""


async def forged_replica(target: Target) -> None:
    """Fetch as a broker, and be one that it is not."""
    asked = [FetchTopic("hidden", [FetchPartition(0, 0, 1 << 16)])]
    fetch = FetchRequest(2, -1, 0, 0, 1 << 20, 0, 0, asked)
    # By a password, and by a certificate, on the listener between brokers as well.
    for channel in (
        await target.user(),
        await target.channel("internal", name="client"),
        await target.channel("internal", name="client", own_broker_id=2),
        await target.channel("internal", name="broker-3", own_broker_id=2),
    ):
        assert (await target.ask(channel, fetch)).error_code == NOT_A_BROKER
        await target.is_closed(channel)


async def forged_orders(target: Target) -> None:
    """Order as a controller, being a user, and being a broker that is none."""
    user = await target.user()
    cluster = (await target.ask(user, MetadataRequest([]))).cluster_id
    meant = Identity(cluster, 1)
    for controller, code in ((1, NOT_A_BROKER), (2, NotControllerError.code)):
        for order in (
            LeaderAndIsrRequest(controller, 99, 1 << 40, False, [], []),
            UpdateSecurityRequest(controller, 99, 1 << 40, -1, 99),
        ):
            channel = await target.channel("internal", name="client", meant=meant)
            assert (await target.ask(channel, order)).error_code == NOT_A_BROKER
            await target.is_closed(channel)
            channel = await target.channel(
                "internal", name="broker-2", own_broker_id=2, meant=meant
            )
            answer = await target.ask(channel, order)
            assert answer.error_code == code, (order, answer)


async def hidden_topic(target: Target) -> None:
    """Tell a topic that one may not see from one that is not there."""
    channel = await target.user()
    for request in (MetadataRequest, _list_offsets):
        hidden, absent = [
            repr(await target.ask(channel, request([topic]))).replace(topic, "...")
            for topic in ("hidden", "absent")
        ]
        assert hidden == absent


def _list_offsets(topics: list[str]) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(0, -2)]
    return ListOffsetsRequest(0, [ListOffsetsTopic(topic, asked) for topic in topics])


async def topics_of_others(target: Target) -> None:
    """Create a topic that is there, to learn that it is: as for one that is not, it is refused."""
    channel = await target.user()
    topics = [CreatableTopic(topic, 1, 1) for topic in ("hidden", "absent")]
    for validate_only in (True, False):
        answer = await target.ask(channel, CreateTopicsRequest(topics, 5000, validate_only))
        hidden, absent = answer.topics
        assert hidden.error_code == absent.error_code == HIDDEN
        texts = [str(each.error_message).replace(each.topic, "...") for each in (hidden, absent)]
        assert texts[0] == texts[1]


async def acls_that_lie(target: Target) -> None:
    """Write down ACLs that would mean something else than they say; and, as a user, any at all."""
    made = AclBinding(TOPIC, LITERAL, "t", "User:app", "*", ALL, ALLOW)
    channel = await target.user()
    assert (await target.ask(channel, CreateAclsRequest([made]))).error_code == NOT_A_BROKER
    assert (await target.ask(channel, DescribeAclsRequest(AclBindingFilter()))).error_code
    channel = await target.channel("certified", name="admin")
    names = [(PREFIXED, ""), (PREFIXED, "*"), (LITERAL, "a*"), (LITERAL, "a/b"), (LITERAL, "")]
    names += [(LITERAL, "a\u202eb"), (LITERAL, "x" * 1000)]
    entries = [AclBinding(TOPIC, *each, "User:app", "*", ALL, ALLOW) for each in names]
    answer = await target.ask(channel, CreateAclsRequest(entries))
    codes = [each.error_code for each in answer.results]
    assert codes == [InvalidRequestError.code] * len(names)
    assert all(each.error_message for each in answer.results)


async def denied_writer(target: Target) -> None:
    """Write where an ACL allows it and another denies it, however the other is written."""
    user = await target.user()
    assert (await produce(user, "t", 0, [b"allowed"])).error_code == 0
    denials = [(LITERAL, "t", "*", WRITE), (PREFIXED, "t", "*", ALL)]
    denials += [(LITERAL, "*", "127.0.0.0/8", WRITE)]
    async with target.admin() as admin:
        for pattern, name, host, operation in denials:
            entry = AclBinding(TOPIC, pattern, name, "User:app", host, operation, DENY)
            (await admin.create_acls([entry])).raise_for_errors()
            assert (await produce(user, "t", 0, [b"denied"])).error_code == HIDDEN, entry
            chosen = AclBindingFilter(principal="User:app", permission=DENY)
            (await admin.delete_acls([chosen])).raise_for_errors()
            assert (await produce(user, "t", 0, [b"allowed"])).error_code == 0


async def one_acl_many_times(target: Target) -> None:
    """Write down one ACL ten thousand times, in ten requests: there is one then."""
    channel = await target.channel("certified", name="admin")
    entry = AclBinding(TOPIC, LITERAL, "many", "User:app", "*", WRITE, ALLOW)
    for _ in range(10):
        answer = await target.ask(channel, CreateAclsRequest([entry] * ACLS_OF_REQUEST_MAX))
        assert {each.error_code for each in answer.results} == {0}
    too_many = CreateAclsRequest([entry] * (ACLS_OF_REQUEST_MAX + 1))
    assert (await target.ask(channel, too_many)).error_code == InvalidRequestError.code
    found = await target.ask(channel, DescribeAclsRequest(AclBindingFilter(name="many")))
    assert found.entries == [entry]


async def settings_of_security(target: Target) -> None:
    """Make oneself more by a setting: none that decides who may what is changed at run time."""
    wishes = [
        ConfigAlteration(RESOURCE_BROKER, broker, [ConfigEntry(name, value)])
        for broker in ("", "1")
        for name, value in SECURED.items()
    ]
    user = await target.user()
    admin = await target.channel("certified", name="admin")
    for wish in wishes:
        (result,) = (await target.ask(user, AlterConfigsRequest([wish]))).resources
        assert result.error_code == NOT_A_BROKER, wish
        (result,) = (await target.ask(admin, AlterConfigsRequest([wish]))).resources
        assert result.error_code == InvalidConfigError.code, wish
        assert "needs a restart" in str(result.error_message), result


ATTACKS = (
    Attack(37, forged_replica),
    Attack(38, forged_orders),
    Attack(41, hidden_topic),
    Attack(42, topics_of_others),
    Attack(43, denied_writer),
    Attack(44, acls_that_lie),
    Attack(46, one_acl_many_times),
    Attack(51, settings_of_security),
)
