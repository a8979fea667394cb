"""A console starts and ends with all of its parts."""

from __future__ import annotations

import pytest

from oncelog.errors import NoBrokersAvailableError
from oncelog_console.clients import ClusterClients
from oncelog_console.console import Console
from oncelog_console.settings import ConsoleSettings
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SeededEntropy


async def test_without_a_broker_it_does_not_start() -> None:
    clients = ClusterClients("127.0.0.1:1")
    console = Console(clients, ConsoleSettings(), SystemWallClock(), SeededEntropy(1))
    with pytest.raises(NoBrokersAvailableError):
        await console.__aenter__()
