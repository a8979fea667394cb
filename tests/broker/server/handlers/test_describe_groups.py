"""DescribeGroups tells members, offsets, and the lag that the ends of partitions make of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import DESCRIBE, GROUP, TOPIC, AllowAllAuthorizer
from oncelog_broker.server.handlers.describe_groups import DescribeGroupsHandler
from oncelog_protocol.errors import GroupAuthorizationFailedError, GroupIdNotFoundError
from oncelog_protocol.messages.groups import DescribedGroup, DescribeGroupsRequest
from oncelog_protocol.types import TopicPartition
from support.group_world import GroupWorld
from support.server import Only, make_context


class Ends:
    """Partitions end where the test says; that is unknown by default."""

    def __init__(self, known: dict[TopicPartition, tuple[int, int]] | None = None) -> None:
        self.known = known or {}
        self.asked: list[list[TopicPartition]] = []

    async def fetch(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        self.asked.append(list(partitions))
        await asyncio.sleep(0)
        return {tp: self.known.get(tp) for tp in self.asked[-1]}


async def test_lag() -> None:
    world = GroupWorld()
    for partition, offset in enumerate([40, 100, 120, 7]):
        world.commit_offset(offset, partition=partition)
    world.commit_offset(1, group="h")
    ends = Ends({TopicPartition("t", n): (5, 100) for n in range(3)})
    handler = DescribeGroupsHandler(world.groups, AllowAllAuthorizer(), ends)
    response = await handler.handle_async(make_context(), DescribeGroupsRequest(["g", "h"]))
    first, second = response.groups
    assert [(o.partition, o.log_start_offset, o.end_offset, o.lag) for o in first.offsets] == [
        (0, 5, 100, 60),
        (1, 5, 100, 0),
        (2, 5, 100, 0),
        (3, -1, -1, -1),
    ]
    assert second.offsets[0].lag == 99
    assert ends.asked == [[TopicPartition("t", n) for n in range(4)]], "each partition once"


async def test_without_offsets_nobody_is_asked() -> None:
    world = GroupWorld()
    world.commit_offset()
    ends = Ends()
    handler = DescribeGroupsHandler(world.groups, AllowAllAuthorizer(), ends)
    request = DescribeGroupsRequest(["g"], include_offsets=False)
    response = await handler.handle_async(make_context(), request)
    assert response.groups[0].offsets == []
    assert ends.asked == []


async def test_each_for_itself() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(1)
    player.commit(1, topic="secret")
    world.commit_offset(group="hidden")
    allowed = Only((DESCRIBE, GROUP, "g"), (DESCRIBE, GROUP, "missing"), (DESCRIBE, TOPIC, "t"))
    handler = DescribeGroupsHandler(world.groups, allowed, Ends())
    asked = DescribeGroupsRequest(["hidden", "missing", "g"])
    hidden, missing, known = (await handler.handle_async(make_context(), asked)).groups
    assert (hidden.group_id, hidden.error_code) == ("hidden", GroupAuthorizationFailedError.code)
    assert (missing.error_code, missing.state) == (GroupIdNotFoundError.code, "Dead")
    assert (known.error_code, known.state, len(known.members)) == (0, "Stable", 1)
    assert [offset.topic for offset in known.offsets] == ["t"]


class SlowGroups(GroupCoordinator):
    """It answers when the test says so."""

    def __init__(self, world: GroupWorld) -> None:
        super().__init__(world)
        self.parked: list[Callable[[list[DescribedGroup]], None]] = []

    def describe(
        self,
        groups: Sequence[str],
        include_offsets: bool,
        respond: Callable[[list[DescribedGroup]], None],
    ) -> None:
        self.parked.append(respond)


async def test_an_answer_that_nobody_waits_for_any_more() -> None:
    groups = SlowGroups(GroupWorld())
    handler = DescribeGroupsHandler(groups, AllowAllAuthorizer(), Ends())
    coro = handler.handle_async(make_context(), DescribeGroupsRequest(["g"]))
    task = asyncio.get_running_loop().create_task(coro)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    groups.parked[0]([DescribedGroup("g")])
    assert task.cancelled()
