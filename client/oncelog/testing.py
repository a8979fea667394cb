"""Tests get a cluster from here: ``from oncelog.testing import Cluster``.

What is behind it needs a broker's dependencies: ``pip install 'oncelog[testing]'``. With that
installed pytest has the fixtures ``oncelog_cluster``, ``oncelog_bootstrap`` and ``oncelog_topic``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oncelog_testing

if TYPE_CHECKING:
    from oncelog_testing import AsyncCluster as AsyncCluster
    from oncelog_testing import Cluster as Cluster
    from oncelog_testing import ClusterClock as ClusterClock
    from oncelog_testing import ClusterClosedError as ClusterClosedError
    from oncelog_testing import Fault as Fault
    from oncelog_testing import NotRunningError as NotRunningError
    from oncelog_testing import Scoped as Scoped
else:
    __all__ = oncelog_testing.__all__


def __getattr__(name: str) -> Any:
    return getattr(oncelog_testing, name)


def __dir__() -> list[str]:
    return oncelog_testing.__all__
