"""Quotas are shown to clients of Kafka, and changed by them."""

from __future__ import annotations

from pathlib import Path

from oncelog_broker.kafka.wire.messages.alter_client_quotas import (
    KafkaAlterClientQuotasRequest,
    KafkaAlterClientQuotasRequestEntityData,
    KafkaAlterClientQuotasRequestEntryData,
    KafkaAlterClientQuotasRequestOpData,
)
from oncelog_broker.kafka.wire.messages.describe_client_quotas import (
    KafkaDescribeClientQuotasRequest,
    KafkaDescribeClientQuotasRequestComponentData,
)
from support.kafka_client import RawClient
from support.kafka_secured import SecuredKafkaCluster

INVALID_REQUEST = 42
RATE = "producer_byte_rate"
EXACT, DEFAULT, SPECIFIED = range(3)
Entity = dict[str, str | None]
component = KafkaDescribeClientQuotasRequestComponentData


def entry(
    entity: Entity, value: float | None, key: str = RATE
) -> KafkaAlterClientQuotasRequestEntryData:
    return KafkaAlterClientQuotasRequestEntryData(
        [KafkaAlterClientQuotasRequestEntityData(kind, name) for kind, name in entity.items()],
        [KafkaAlterClientQuotasRequestOpData(key, value or 0.0, remove=value is None)],
    )


async def described(
    client: RawClient,
    *components: KafkaDescribeClientQuotasRequestComponentData,
    strict: bool = False,
) -> list[tuple[Entity, float]]:
    """Return the entities that are chosen, each with the value of its only quota."""
    request = KafkaDescribeClientQuotasRequest(list(components), strict)
    answer = await client.ask(request, 1)
    assert (answer.error_code, answer.error_message) == (0, None)
    return [
        ({part.entity_type: part.entity_name for part in each.entity}, each.values[0].value)
        for each in answer.entries
    ]


async def test_quotas_are_set_and_taken_away(tmp_path: Path) -> None:
    till: Entity = {"user": "till"}
    both: Entity = {"user": "till", "client-id": None}
    address: Entity = {"ip": "10.1.2.3"}
    async with SecuredKafkaCluster(tmp_path, 1) as cluster:
        client = await cluster.super_client()
        wanted = [
            entry(till, 1000.0),
            entry({"planet": "mars"}, 1.0),
            entry(both, 500.0),
            entry(address, 7.0, "connection_creation_rate"),
            entry(till, 5.0, "request_percentage"),
            entry({"user": ""}, 5.0),
        ]
        made = await client.ask(KafkaAlterClientQuotasRequest(wanted), 1)
        codes = [each.error_code for each in made.entries]
        assert codes == [0, INVALID_REQUEST, 0, 0, INVALID_REQUEST, INVALID_REQUEST]
        assert [part.entity_name for part in made.entries[2].entity] == ["till", None]
        every = await described(client)
        assert len(every) == 3
        of_till = component("user", EXACT, "till")
        assert await described(client, of_till, strict=True) == [(till, 1000.0)]
        assert len(await described(client, of_till)) == 2
        with_client = component("client-id", SPECIFIED, None)
        assert await described(client, with_client) == [(both, 500.0)]
        assert await described(client, component("client-id", DEFAULT, None)) == [(both, 500.0)]
        assert await described(client, component("ip", SPECIFIED, None)) == [(address, 7.0)]
        for bad in ([of_till, of_till], [component("user", 9, None)], [component("x", 2, None)]):
            refused = await client.ask(KafkaDescribeClientQuotasRequest(bad), 1)
            assert (refused.error_code, refused.entries) == (INVALID_REQUEST, None)
        only_looked = KafkaAlterClientQuotasRequest([entry(till, None)], validate_only=True)
        assert (await client.ask(only_looked, 0)).entries[0].error_code == 0
        assert len(await described(client, of_till)) == 2
        gone = KafkaAlterClientQuotasRequest([entry(till, None), entry(both, None)])
        assert {each.error_code for each in (await client.ask(gone, 0)).entries} == {0}
        assert await described(client, of_till) == []
        client.close()
