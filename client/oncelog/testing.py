"""Tests get a cluster from here: ``from oncelog.testing import Cluster``.

What is behind it needs a broker's dependencies: ``pip install 'oncelog[testing]'``. With that
installed pytest has the fixtures ``oncelog_cluster``, ``oncelog_bootstrap`` and ``oncelog_topic``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oncelog_testing

if TYPE_CHECKING:
    from oncelog_testing import (
        AsyncCluster,
        Cluster,
        ClusterClock,
        ClusterClosedError,
        Fault,
        NotRunningError,
        Scoped,
    )

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
    return getattr(oncelog_testing, name)


def __dir__() -> list[str]:
    return __all__
