"""Pytest finds these fixtures by their entry point: install ``oncelog[testing]`` and use them.

``oncelog_cluster``
    a running ``Cluster`` for this test. Clusters are shared between tests that leave them as they
    found them; one that was killed, paused, advanced (``Cluster.dirty``) is closed after the test,
    and the next test gets a new one.
``oncelog_bootstrap``
    its ``bootstrap_servers``.
``oncelog_topic``
    the name of a new topic with one partition that no other test has.
``oncelog_name``
    a name that no other test has, for groups, transactional ids and further topics.
``oncelog_options``
    what clusters are made with; override it, for a module or in ``conftest.py``, with a fixture
    that returns a dict: ``{"brokers": 3, "min_insync_replicas": 2}``.
``@pytest.mark.oncelog(brokers=3, ...)``
    the same for one test, class or module, on top of ``oncelog_options``.

Every pytest run imports this file: nothing heavy may be imported at its head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncelog_testing.cluster import Cluster

__all__ = [
    "oncelog_bootstrap",
    "oncelog_cluster",
    "oncelog_name",
    "oncelog_options",
    "oncelog_topic",
]

POOL_MAX = 4
"""Clusters that are kept for later tests; each holds some files, sockets and memory."""

NAME_CHARS_MAX = 60


def pytest_configure(config: pytest.Config) -> None:
    """Say what the marker is for (``--strict-markers``)."""
    config.addinivalue_line(
        "markers", "oncelog(**options): what this test's Oncelog cluster is made with"
    )


class Pool:
    """It keeps running clusters between two tests, by what they were made with."""

    def __init__(self) -> None:
        self.idle: dict[str, Cluster] = {}
        self.names = 0

    def take(self, options: dict[str, Any]) -> Cluster:
        """Return a cluster that nobody uses."""
        from oncelog_testing import Cluster

        idle = self.idle.pop(_key(options), None)
        return idle if idle is not None else Cluster(**options).start()

    def give_back(self, options: dict[str, Any], cluster: Cluster) -> None:
        """Keep it for the next test, unless this one has left traces."""
        if cluster.dirty or _key(options) in self.idle:
            cluster.close()
            return
        try:
            cluster.heal()
        except BaseException:
            cluster.close()
            raise
        self.idle[_key(options)] = cluster
        while len(self.idle) > POOL_MAX:
            self.idle.pop(next(iter(self.idle))).close()

    def close(self) -> None:
        """Close what is left."""
        while self.idle:
            self.idle.popitem()[1].close()


def _key(options: dict[str, Any]) -> str:
    return repr(sorted(options.items()))


@pytest.fixture(scope="session")
def _oncelog_pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def oncelog_options() -> dict[str, Any]:
    """See the module."""
    return {}


@pytest.fixture
def oncelog_cluster(
    request: pytest.FixtureRequest, _oncelog_pool: Pool, oncelog_options: dict[str, Any]
) -> Iterator[Cluster]:
    """Yield a running cluster; see the module."""
    options = dict(oncelog_options)
    for mark in reversed(list(request.node.iter_markers("oncelog"))):
        options.update(mark.kwargs)
    cluster = _oncelog_pool.take(options)
    try:
        yield cluster
    finally:
        _oncelog_pool.give_back(options, cluster)


@pytest.fixture
def oncelog_bootstrap(oncelog_cluster: Cluster) -> str:
    """Return where this test's clients begin."""
    return oncelog_cluster.bootstrap


@pytest.fixture
def oncelog_name(request: pytest.FixtureRequest, _oncelog_pool: Pool) -> str:
    """Return a name that no other test has: this test's, and a number."""
    _oncelog_pool.names += 1
    plain = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:NAME_CHARS_MAX]
    return f"{plain}-{_oncelog_pool.names}"


@pytest.fixture
def oncelog_topic(oncelog_cluster: Cluster, oncelog_name: str) -> str:
    """Return a new topic with one partition."""
    return oncelog_cluster.create_topic(oncelog_name)
