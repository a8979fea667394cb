"""Loops for the suites of this folder are chosen here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import pytest
import uvloop

from simulation.contract import ContractLoop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

SIMULATIONS: dict[str, LoopFactory] = {
    f"simulation-{seed}": partial(ContractLoop, seed) for seed in (1, 2, 3, 4)
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, LoopFactory]:
    """Tell pytest-asyncio the loops of each test of this folder."""
    if item.path.name == "test_streams.py":
        return {
            "asyncio": asyncio.new_event_loop,
            "uvloop": uvloop.new_event_loop,
            **SIMULATIONS,
        }
    if item.path.name == "test_metadata_store.py":
        return {"asyncio": asyncio.new_event_loop, **SIMULATIONS}
    return {"asyncio": asyncio.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A store of the simulator runs in a simulation, the others do not."""
    items[:] = [item for item in items if not is_contradiction(item)]


def is_contradiction(item: pytest.Item) -> bool:
    """Return whether loop and harness of a test do not go together."""
    call = getattr(item, "callspec", None)
    if call is None or "harness" not in call.params:
        return False
    return ("simulation" in call.params["harness"]) != any(name in call.id for name in SIMULATIONS)
