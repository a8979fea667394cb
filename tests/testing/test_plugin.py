"""The fixtures give a test its cluster, and end it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from oncelog_testing import Cluster
from oncelog_testing.plugin import POOL_MAX, Pool


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


def test_a_cluster_that_is_as_it_was_is_used_again(pool: Pool) -> None:
    cluster = pool.take({})
    cluster.hold("produce")
    cluster.disk_full(1)
    pool.give_back({}, cluster)
    assert pool.take({}) is cluster
    assert not cluster.faults
    topic = cluster.create_topic("t")
    cluster.produce(topic, ["there is room again"])
    pool.give_back({}, cluster)


@pytest.mark.parametrize(
    "work",
    [
        lambda cluster: cluster.advance(1),
        lambda cluster: cluster.kill(1),
        lambda cluster: cluster.restart(1),
        lambda cluster: cluster.pause(1),
    ],
)
def test_one_that_bears_traces_is_not(pool: Pool, work: Callable[[Cluster], object]) -> None:
    cluster = pool.take({})
    work(cluster)
    pool.give_back({}, cluster)
    another = pool.take({})
    assert another is not cluster
    assert not another.dirty
    pool.give_back({}, another)


def test_other_options_make_another(pool: Pool) -> None:
    plain, two = pool.take({}), pool.take({"brokers": 2})
    assert (plain.brokers, two.brokers) == ([1], [1, 2])
    pool.give_back({}, plain)
    pool.give_back({"brokers": 2}, two)
    assert pool.take({"brokers": 2}) is two
    pool.give_back({"brokers": 2}, two)


def test_a_pool_keeps_so_many(pool: Pool) -> None:
    made = [pool.take({"seed": seed}) for seed in range(POOL_MAX + 1)]
    for seed, cluster in enumerate(made):
        pool.give_back({"seed": seed}, cluster)
    assert list(pool.idle.values()) == made[1:]


@pytest.fixture(scope="session")
def oncelog_options() -> dict[str, int]:
    return {"brokers": 2, "min_insync_replicas": 2}


@pytest.mark.oncelog(brokers=1)
class TestOptions:
    """A nearer mark is stronger than the fixture."""

    def test_of_the_class(self, oncelog_cluster: Cluster) -> None:
        assert oncelog_cluster.brokers == [1]
        assert oncelog_cluster.core.machine(1).config().min_insync_replicas == 2

    @pytest.mark.oncelog(brokers=3)
    def test_of_the_test(self, oncelog_cluster: Cluster) -> None:
        assert oncelog_cluster.brokers == [1, 2, 3]


def test_names_are_new(
    oncelog_name: str, oncelog_topic: str, oncelog_bootstrap: str, oncelog_cluster: Cluster
) -> None:
    assert oncelog_name.startswith("test-names-are-new-")
    assert oncelog_topic == oncelog_name
    assert oncelog_bootstrap == oncelog_cluster.bootstrap


@pytest.mark.parametrize("what", ["/ü " * 100])
def test_names_are_fit_for_topics(oncelog_topic: str, what: str) -> None:
    assert oncelog_topic.startswith("test-names-are-fit-for-topics-")


def test_every_run_of_pytest_imports_it_so_it_is_light() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import oncelog_testing.plugin;"
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('oncelog')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "['oncelog_testing', 'oncelog_testing.plugin']"
