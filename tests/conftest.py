"""Every test may use these: hypothesis profiles, and a real ZooKeeper for those that ask for it.

Fakes and helpers are imported from ``support``, not fixtures, so that a reader sees where they are.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from oncelog_broker.log_levels import LOGGERS
from support.zookeeper import tls_zookeeper, zookeeper

__all__ = ["tls_zookeeper", "zookeeper"]

# The same examples on every run: a test does not fail today because of yesterday's luck.
# `make fuzz` looks further, with new examples each time.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", deadline=None, max_examples=5_000, suppress_health_check=[HealthCheck.too_slow]
)
# `make quick`: enough to see a mistake in what one has just written. A test that wants more or
# fewer examples than others says how many times as many, so that it draws fewer here as well.
settings.register_profile("quick", settings.get_profile("steady"), max_examples=10)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "steady")
settings.load_profile(PROFILE)

# A Java of Spark lives for two minutes here. What its second compiler and the threads of a parallel
# collector cost is more than they bring: the demo of the pipeline takes two thirds of the time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

QUICK_OF_A_RANGE = 3
"""How many tests of a range, such as of seeds, `make quick` runs."""


# A shell gives its background jobs an ignored SIGINT, which every child would inherit: tests that
# press Ctrl+C would wait for ever. A handler of our own is the default to a child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


TIMEOUT_AGAIN_S = 30.0


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> Generator[None, Any, Any]:
    """Raise the error of a test that takes too long again and again, until the test has ended.

    The signal raises it wherever the process is. asyncio swallows what a callback raises, and kazoo
    what its threads raise: after one such error the test would go on for ever.
    """
    result = yield
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    if left_s:
        signal.setitimer(signal.ITIMER_REAL, left_s, TIMEOUT_AGAIN_S)
    return result


@pytest.fixture(autouse=True)
def log_lines_go_where_they_went() -> Iterator[None]:
    """Fail a test that leaves its own handler of log lines behind: its stream is closed by then,
    and every later line of this process is an error in somebody else's test."""
    before = _handlers_of_tests()
    yield
    left = _handlers_of_tests() - before
    for owner, handler in left:
        owner.removeHandler(handler)
    assert not left, "this test configures logging and does not put it back"


def _handlers_of_tests() -> set[tuple[logging.Logger, logging.Handler]]:
    """Return the handlers of log lines that pytest itself has not made."""
    owners = (logging.getLogger(), logging.getLogger(LOGGERS["audit"]))
    return {
        (owner, handler)
        for owner in owners
        for handler in owner.handlers
        if not type(handler).__module__.startswith("_pytest")
    }


COUNTED_MARKS = frozenset({"hostile", "cve", "ablation"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--nightly``: the tests with that mark too; ``--quiet-laps``: for `security-check`."""
    parser.addoption("--nightly", action="store_true", help="run what takes minutes as well")
    parser.addoption(
        "--quiet-laps", type=int, default=1, help="records of a bystander before an attack begins"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked nightly, unless it was asked for, and most of a range when quick."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if _is_left_out(config, item) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
    for item in kept:  # a report knows no marks, and `make security-check` counts by reports
        item.user_properties.extend(
            (mark.name, str(each))
            for mark in item.iter_markers()
            if mark.name in COUNTED_MARKS
            for each in mark.args
        )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage from all that is collected here: sixteen thousand tests and
    their modules stay to the end, and each full search for garbage would look at them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Keep the collector of garbage from what is left of each file: modules that it has imported,
    reports. A test that asks for a full search, or meets one, pays for its own objects alone."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def _is_left_out(config: pytest.Config, item: Any) -> bool:
    if item.get_closest_marker("nightly") and not config.getoption("--nightly"):
        return True
    return PROFILE == "quick" and any(
        item.callspec.params[mark.args[0]] in mark.args[1][QUICK_OF_A_RANGE:]
        for mark in item.iter_markers("parametrize")
        if isinstance(mark.args[1], range)
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one more than there are cores: tests wait nearly as often as they work. With two more
    a machine is so full that tests of failover meet leaders which are only slow."""
    return (os.cpu_count() or 1) + 1


WITH_SPARK = ("tests/pipeline/spark/", "tests/pipeline/runner/test_dataflow.py")
LONGEST = (
    "spark",
    "tests/house/test_ratchet.py",
    "tests/cli/demo/test_pipeline_job.py",
    "tests/deploy/test_containers.py",
    "tests/docs/test_pages.py",
    "tests/console/browser/",
    "tests/broker/log/test_crash_points.py",
    "tests/observability/",
    "tests/integration/",
    "tests/simulation/",
    "tests/model/",
    "tests/fuzz/",
)
"""Files or folders that begin first, so that no worker is left alone with one at the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files go to workers as a whole, and all that need Spark to one: they share its session."""
    from xdist.scheduler import LoadScopeScheduling

    class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
        """It hands out the longest test of what is left."""

        def _assign_work_unit(self, node: Any) -> None:
            left = self.workqueue
            heavy = (name for begin in LONGEST for name in left if name.startswith(begin))
            first = next(heavy, None)
            if first is not None:
                left.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    scheduler = LongestFirst(config, log)
    scheduler._split_scope = _worker_of
    return scheduler


def _worker_of(test: str) -> str:
    return "spark" if test.startswith(WITH_SPARK) else test.partition("::")[0]
