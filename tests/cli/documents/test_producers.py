"""A partition that cannot tell of its producers does not hide those of others."""

from __future__ import annotations

from typing import Any

from oncelog import Admin
from oncelog_cli.documents.producers import described_producers
from oncelog_cli.group_offsets import Chosen
from oncelog_protocol.messages.transaction_admin import DescribedProducer
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster


async def test_filters_and_failures(fake: AdminCluster, asker: Admin) -> None:
    fake.create_topic("t", 2)
    fake.producers[TopicPartition("t", 0)] = [
        DescribedProducer(7, 4, 3, 1_000_000_000_000, 2, 50),
        DescribedProducer(8, 0, -1, -1),
    ]

    async def ids(**options: Any) -> list[int]:
        answer = await described_producers(asker, Chosen(("t",)), **options)
        assert not answer.failures
        return [row["producer_id"] for row in answer.document["producers"]]

    assert await ids() == [7, 8]
    assert await ids(only_open=True) == [7]
    assert await ids(producer_ids=[8]) == [8]
    answer = await described_producers(asker, Chosen(("none", "t"), (("t", 7),)))
    assert [each.item for each in answer.failures] == ["none", "t-7"]
    assert [row["last_sequence"] for row in answer.document["producers"]] == [3, None]
    by_expression = await described_producers(asker, ["[tx]"])
    assert by_expression.document == answer.document
