"""Tests get a cluster here: real brokers and a controller in the caller's process, on memory.

Users import it as ``oncelog.testing``. Names are loaded when they are first used: pytest imports
this package in every run, for its fixtures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog_testing.clock import ClusterClock
    from oncelog_testing.cluster import AsyncCluster, Cluster
    from oncelog_testing.faces import Scoped
    from oncelog_testing.faults import Fault
    from oncelog_testing.machines import NotRunningError
    from oncelog_testing.thread import ClusterClosedError

_HOMES = {
    "AsyncCluster": "cluster",
    "Cluster": "cluster",
    "ClusterClock": "clock",
    "ClusterClosedError": "thread",
    "Fault": "faults",
    "NotRunningError": "machines",
    "Scoped": "faces",
}

__all__ = [
    "AsyncCluster",
    "Cluster",
    "ClusterClock",
    "ClusterClosedError",
    "Fault",
    "NotRunningError",
    "Scoped",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'oncelog_testing' has no attribute {name!r}")
    try:
        value = getattr(import_module(f"oncelog_testing.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0].startswith("oncelog"):
            raise
        raise ModuleNotFoundError(
            f"a cluster for tests needs {error.name}: pip install 'oncelog[testing]'",
            name=error.name,
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
