"""ISR proposals go to the controller: they are batched, and repeated until they are settled."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.replication.isr_sender import IsrSender
from oncelog_protocol.errors import NotControllerError, StaleBrokerEpochError
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionResponse,
    AlterPartitionResult,
)
from oncelog_runtime.channel import NotSentError
from oncelog_runtime.entropy import SeededEntropy
from support.replicas import Replicas
from support.room_settings import replica_settings
from support.waiting import eventually

CONFIG = replica_settings(isr_change_backoff_ms=1, isr_change_backoff_max_ms=4)


class Port:
    """This ``IsrPort`` plays a list of errors and refusals before it does what is asked."""

    def __init__(self, group: Replicas) -> None:
        self.group = group
        self.script: list[BaseException | AlterPartitionResponse] = []
        self.requests: list[list[AlterPartitionItem]] = []

    async def alter_partition(self, items: list[AlterPartitionItem]) -> AlterPartitionResponse:
        await asyncio.sleep(0)
        self.requests.append(items)
        if self.script:
            step = self.script.pop(0)
            if isinstance(step, BaseException):
                raise step
            return step
        return AlterPartitionResponse(
            0, [self.group._alter(self.group.leader_id, item) for item in items]
        )


async def proposal() -> tuple[Replicas, Port, IsrSender, asyncio.Task[None]]:
    group = Replicas(brokers=2, isr=[1])
    port = Port(group)
    sender = IsrSender(port, CONFIG, SeededEntropy(1))
    group.fetch(2)
    assert group.leader.partition.isr_item() is not None
    task = asyncio.get_running_loop().create_task(sender.run())
    return group, port, sender, task


async def settled(group: Replicas, sender: IsrSender, task: asyncio.Task[None]) -> None:
    sender.enqueue(group.leader.partition)
    await eventually(lambda: group.leader.partition.isr == (1, 2))
    assert len(sender) == 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_proposal_is_carried_and_its_answer_applied() -> None:
    group, port, sender, task = await proposal()
    await settled(group, sender, task)
    assert len(port.requests) == 1
    assert group.isr == [1, 2]


@pytest.mark.parametrize(
    "step",
    [
        TimeoutError("lost"),
        ConnectionResetError("lost"),
        NotSentError("dead"),
        NotControllerError(),
        AlterPartitionResponse(NotControllerError.code),
        AlterPartitionResponse(StaleBrokerEpochError.code),
        AlterPartitionResponse(0, []),
        AlterPartitionResponse(0, [AlterPartitionResult("t", 0, NotControllerError.code)]),
    ],
)
async def test_whatever_settles_nothing_is_asked_again(
    step: BaseException | AlterPartitionResponse,
) -> None:
    group, port, sender, task = await proposal()
    port.script = [step, step]
    await settled(group, sender, task)
    assert len(port.requests) == 3


async def test_a_partition_without_a_proposal_is_not_asked_for() -> None:
    group = Replicas(brokers=2)
    port = Port(group)
    sender = IsrSender(port, CONFIG, SeededEntropy(1))
    task = asyncio.get_running_loop().create_task(sender.run())
    sender.enqueue(group.leader.partition)
    await eventually(lambda: len(sender) == 0)
    assert port.requests == []
    task.cancel()


async def test_an_answer_for_a_former_epoch_changes_nothing() -> None:
    group, _, _, task = await proposal()
    item = group.leader.partition.isr_item()
    assert item is not None
    group.elect(1)
    result = AlterPartitionResult("t", 0, 0, 1, item.leader_epoch, [1, 2], 9)
    assert not group.leader.partition.isr_answered(item, result, group.now)
    assert group.leader.partition.isr == (1,)
    task.cancel()
