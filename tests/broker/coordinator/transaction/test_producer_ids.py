"""Producer ids come, or it is said that they do not."""

from __future__ import annotations

from oncelog_broker.coordinator.transaction.producer_ids import ProducerIdRequests
from oncelog_runtime.tasks import Tasks
from support.transaction_world import ProducerIdCounter
from support.waiting import eventually


async def test_producer_ids_come_later_or_not_at_all() -> None:
    tasks, source = Tasks("test"), ProducerIdCounter()
    got: list[int | None] = []
    requests = ProducerIdRequests(source, tasks)
    requests.request(got.append)
    assert not got
    await eventually(lambda: got)
    source.is_empty = True
    requests.request(got.append)
    await eventually(lambda: len(got) == 2)
    assert got == [1000, None]
    await tasks.close()
    requests.request(got.append)
    assert len(got) == 2
