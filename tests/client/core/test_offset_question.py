"""Leaders are asked for an offset of each of their partitions, in one request."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog import Admin, TopicPartition
from oncelog.core.coordinators import ATTEMPT_S
from oncelog.core.offset_question import OffsetQuestion
from oncelog.errors import ApiError
from oncelog_protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Question(OffsetQuestion["int | ApiError"]):
    def outcome(self, tp: TopicPartition, error: ApiError | None, item: Any) -> int | ApiError:
        return error or int(item.offset)


async def test_a_request_names_timestamps_epochs_and_the_level() -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t", 2)
        cluster.create_topic("u")
        cluster.partition(*T1).leader_epoch = 4
        async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
            now = asyncio.get_running_loop().time()
            question = Question(admin._router, {T1: -1, U0: 5, T0: -2}, 1, now + 1_000)
            assert await question.ask() == [0, -1, 0]
            request, give_up_at = question.request([T1, U0, T0])
            assert request == ListOffsetsRequest(
                1,
                [
                    ListOffsetsTopic(
                        "t", [ListOffsetsPartition(1, -1, 4), ListOffsetsPartition(0, -2, 0)]
                    ),
                    ListOffsetsTopic("u", [ListOffsetsPartition(0, 5, 0)]),
                ],
            )
            assert now < give_up_at < now + 2 * ATTEMPT_S, "a silent leader is asked once more"
