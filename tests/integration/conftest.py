"""The whole folder has one cluster of real processes: starting it takes about two seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.processes import Processes


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Three brokers and a ZooKeeper are started, and ended at the end."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    running = Processes(directory)
    running.cluster.start()
    yield running
    running.cluster.stop()
