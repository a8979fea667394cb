"""A topic is copied exactly once while copiers and brokers die: a small version of ``make chaos``.

And the judge of it is judged: what it calls lost, doubled and out of order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.chaos import Round, Verdict, plans, play
from integration.copied import compare, value_of
from integration.processes import Processes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

MESSAGES = 1500
SECONDS = 5.0
SEED = 61


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running."""
    yield processes
    await processes.heal()


ROUNDS = plans(MESSAGES, 4, SECONDS, SEED)


@pytest.mark.parametrize("plan", ROUNDS, ids=lambda plan: str(plan.name))
async def test_a_topic_is_copied_exactly_once(
    cluster: Processes, tmp_path: Path, plan: Round
) -> None:
    verdict = Verdict()
    await play(cluster, tmp_path, plan, verdict)
    assert verdict.ok, verdict
    assert (verdict.count_in, verdict.count_out) == (MESSAGES, MESSAGES)
    assert verdict.broker_kills + verdict.client_kills > 0


async def test_what_is_given_up_half_way_ends_before_the_cluster_is_healed(
    cluster: Processes,
) -> None:
    begun = asyncio.Event()

    async def trouble() -> None:
        begun.set()
        await cluster.stop_cleanly(1)
        await asyncio.Event().wait()

    broker = cluster.cluster.broker(1)
    stopped = broker.pid
    async with cluster.harmed_by(trouble()):
        await begun.wait()
    assert broker.state == "running"
    assert broker.pid != stopped


def values(*numbers: int) -> list[bytes]:
    return [value_of(0, number) for number in numbers]


@pytest.mark.parametrize(
    ("copies", "lost", "doubled", "out_of_order"),
    [
        (values(0, 1, 2), 0, 0, 0),
        (values(0, 2), 1, 0, 0),
        (values(), 3, 0, 0),
        (values(0, 1, 1, 2), 0, 1, 0),
        (values(0, 1, 2, 0), 0, 1, 1),
        (values(0, 2, 1), 0, 0, 1),
        ([*values(0, 1, 2), b"nobody's"], 0, 1, 0),
        ([*values(0, 1), value_of(1, 2)], 1, 1, 0),
    ],
)
async def test_the_judge(copies: list[bytes], lost: int, doubled: int, out_of_order: int) -> None:
    found = compare({0: copies}, {0: 3})
    assert (found.lost, found.doubled, found.out_of_order) == (lost, doubled, out_of_order)
    assert found.count_out == len(copies)
    assert found.is_exact == (lost == doubled == out_of_order == 0)
