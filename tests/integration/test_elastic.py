"""Three brokers become five and three again under load, and brokers die meanwhile: by night.

A round of ``make chaos-moves``, which says what happens in it; the test has smaller partitions, and
looks at no time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.chaos_moves import MovesRound, MovesVerdict
from integration.elastic import Elastic

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]

PACE = 4 << 20
BALLAST = 32 << 20


@pytest_asyncio.fixture
async def elastic(tmp_path: Path) -> AsyncIterator[Elastic]:
    """A cluster of three is running, of its own: it will not be what it was."""
    running = Elastic(tmp_path / "cluster", pace=PACE, ballast=BALLAST)
    try:
        await running.start()
        yield running
    finally:
        await running.stop()


async def play(elastic: Elastic, directory: Path, number: int, removed: tuple[int, int]) -> None:
    """Play one round, in which nothing may be amiss."""
    verdict = MovesVerdict()
    round_ = MovesRound(elastic, f"round-{number}", removed, verdict, estimate=False)
    await round_.play(directory, seed=number)
    assert round_.complaints == []
    assert verdict.count_in == verdict.count_out > 0
    assert (verdict.lost, verdict.doubled) == (0, 0)
    assert (verdict.brokers_added, verdict.brokers_removed, verdict.kills) == (2, 2, 4)
    assert verdict.moves_finished > 0
    assert verdict.moves_cancelled > 0
    assert elastic.in_service == {1, 2, 3, 4, 5} - set(removed)


async def test_three_brokers_become_five_and_three_again(elastic: Elastic, tmp_path: Path) -> None:
    await play(elastic, tmp_path, 0, (1, 4))


async def test_every_broker_is_replaced_once(elastic: Elastic, tmp_path: Path) -> None:
    for number, removed in enumerate([(1, 2), (3, 4), (5, 1)]):
        await play(elastic, tmp_path, number, removed)
