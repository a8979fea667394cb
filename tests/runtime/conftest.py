"""Async tests of this room run on both loops of production: their transports are not alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tell pytest-asyncio the loops of each test of this folder."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
