"""ACLs are made, shown and taken back by clients of Kafka."""

from __future__ import annotations

from pathlib import Path

from oncelog_broker.kafka.wire.messages.create_acls import (
    KafkaCreateAclsRequest,
    KafkaCreateAclsRequestAclCreation,
)
from oncelog_broker.kafka.wire.messages.delete_acls import (
    KafkaDeleteAclsRequest,
    KafkaDeleteAclsRequestFilter,
)
from oncelog_broker.kafka.wire.messages.describe_acls import KafkaDescribeAclsRequest
from support.kafka_client import connected
from support.kafka_cluster import KafkaCluster
from support.kafka_secured import SecuredKafkaCluster

ANY, MATCH, LITERAL = 1, 2, 3
TOPIC, CLUSTER, DELEGATION_TOKEN = 2, 4, 6
WRITE, DESCRIBE, ALLOW = 4, 8, 3
INVALID_REQUEST, SECURITY_DISABLED = 42, 54
EVERYTHING = KafkaDescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)


def acl(kind: int, name: str, operation: int) -> KafkaCreateAclsRequestAclCreation:
    return KafkaCreateAclsRequestAclCreation(kind, name, LITERAL, "User:app", "*", operation, ALLOW)


async def test_acls_are_made_and_taken_back(tmp_path: Path) -> None:
    async with SecuredKafkaCluster(tmp_path, 1) as cluster:
        client = await cluster.super_client()
        wanted = [
            acl(TOPIC, "t", WRITE),
            acl(DELEGATION_TOKEN, "t", DESCRIBE),
            acl(TOPIC, "t", DESCRIBE),
            acl(CLUSTER, "kafka-cluster", DESCRIBE),
            acl(CLUSTER, "kafka-cluster", WRITE),
        ]
        made = await client.ask(KafkaCreateAclsRequest(wanted), 3)
        codes = [each.error_code for each in made.results]
        assert codes == [0, INVALID_REQUEST, 0, 0, INVALID_REQUEST]
        assert "resource type 6 of Kafka" in made.results[1].error_message
        found = await client.ask(EVERYTHING, 3)
        assert (found.error_code, found.error_message) == (0, None)
        assert {
            (each.resource_type, each.resource_name, each.pattern_type): {
                (acl.principal, acl.host, acl.operation, acl.permission_type) for acl in each.acls
            }
            for each in found.resources
        } == {
            (TOPIC, "t", LITERAL): {
                ("User:app", "*", WRITE, ALLOW),
                ("User:app", "*", DESCRIBE, ALLOW),
            },
            (CLUSTER, "kafka-cluster", LITERAL): {("User:app", "*", DESCRIBE, ALLOW)},
        }
        filters = [
            KafkaDeleteAclsRequestFilter(99, None, ANY, None, None, ANY, ANY),
            KafkaDeleteAclsRequestFilter(TOPIC, "t", MATCH, None, None, ANY, ANY),
            KafkaDeleteAclsRequestFilter(CLUSTER, "kafka-cluster", ANY, None, None, ANY, ANY),
        ]
        gone = (await client.ask(KafkaDeleteAclsRequest(filters), 3)).filter_results
        assert [each.error_code for each in gone] == [INVALID_REQUEST, 0, 0]
        assert {each.operation for each in gone[1].matching_acls} == {WRITE, DESCRIBE}
        assert [each.resource_name for each in gone[2].matching_acls] == ["kafka-cluster"]
        assert (await client.ask(EVERYTHING, 1)).resources == []
        unknown = KafkaDescribeAclsRequest(ANY, None, ANY, None, None, 77, ANY)
        assert (await client.ask(unknown, 2)).error_code == INVALID_REQUEST
        client.close()


async def test_where_nobody_authenticates_each_is_refused(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        client = await connected(cluster)
        made = await client.ask(KafkaCreateAclsRequest([acl(TOPIC, "t", WRITE)]), 3)
        assert [each.error_code for each in made.results] == [SECURITY_DISABLED]
        client.close()
