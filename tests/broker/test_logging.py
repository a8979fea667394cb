"""These tests check the shape of log lines."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_broker.log_levels import set_levels
from oncelog_broker.logging import REPEAT_INTERVAL_S, configure_logging
from oncelog_runtime.structured_logging import get_logger


class Clock:
    """It is what an event loop would say."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    set_levels("debug", {})
    root.setLevel(level)


def written(log_format: str, level: str = "info", **levels: str) -> str:
    out = io.StringIO()
    configure_logging(log_format, level, 7, out, levels=levels)
    logger = get_logger("oncelog_broker.server.test")
    logger.debug("topic_moved", topic="one", places=[1, 2])
    logger.warning("topic_moved", topic="t-0", places=(1, {2}))
    try:
        raise ValueError("why")
    except ValueError as error:
        logger.exception("thing_failed", error=error)
    logging.getLogger("another").warning("%s has %d", "one", 2)
    return out.getvalue()


@pytest.mark.parametrize("log_format", ["json", "auto"])
def test_lines_are_json_for_machines(log_format: str) -> None:
    first, second, third = (json.loads(line) for line in written(log_format).splitlines())
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "event": "topic_moved",
        "level": "warning",
        "logger": "oncelog_broker.server.test",
        "broker": 7,
        "topic": "t-0",
        "places": [1, ["2"]],
    }
    assert (second["event"], second["error"]) == ("thing_failed", "ValueError: why")
    assert "ValueError: why" in second["exception"]
    assert (third["event"], third["message"]) == ("unnamed", "one has 2")


def test_lines_are_text_for_people() -> None:
    text = written("text")
    first, second, *_ = text.splitlines()
    said = "] topic_moved [oncelog_broker.server.test] topic=t-0 places=[1, ['2']]"
    assert first.endswith(said)
    assert "[warning" in first
    assert second.endswith("thing_failed [oncelog_broker.server.test] error='ValueError: why'")
    assert "\nValueError: why\n" in text
    assert text.endswith("one has 2 [another]\n")
    assert "topic=one" not in text
    assert "topic=one places=[1, 2]" in written("text", "debug")


def test_a_room_may_say_more() -> None:
    assert "topic=one" in written("text", "error", server="debug")
    assert "topic=one" not in written("text", "error", replication="debug")


def lines_of(repeat_max: int, clock: Clock, out: io.StringIO) -> list[dict[str, Any]]:
    """Write ten lines of one, one of another, and after the interval one more."""
    configure_logging("json", "debug", 7, out, repeat_max=repeat_max, now_s=clock)
    logger = get_logger("oncelog_broker.test")
    for _ in range(10):
        logger.info("topic_moved", topic="a")
    logger.info("topic_moved", topic="b")
    clock.now_s += REPEAT_INTERVAL_S
    logger.info("topic_moved", topic="c")
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_repetitions_are_counted_and_told() -> None:
    lines = lines_of(3, Clock(), io.StringIO())
    assert [line.get("topic", line["event"]) for line in lines] == [
        "a", "a", "a", "b", "lines_suppressed", "c",
    ]  # fmt: skip
    told = lines[4]
    assert (told["suppressed"], told["suppressed_event"], told["about"]) == (7, "topic_moved", "a")


def test_without_a_limit_all_are_written() -> None:
    assert len(lines_of(0, Clock(), io.StringIO())) == 12


def test_what_was_left_out_is_told_at_the_end_too() -> None:
    out = io.StringIO()
    configure_logging("json", "info", 7, out, repeat_max=1, now_s=Clock())
    logger = get_logger("oncelog_broker.test")
    for _ in range(5):
        logger.error("thing_failed", error="x")
    logging.getLogger().handlers[0].close()
    last = json.loads(out.getvalue().splitlines()[-1])
    assert (last["event"], last["suppressed"], last["level"]) == ("lines_suppressed", 4, "error")


@pytest.mark.parametrize("level", ["debug", "critical"])
def test_what_is_asked_for_and_what_must_never_be_is_always_written(level: str) -> None:
    out = io.StringIO()
    configure_logging("json", "debug", 7, out, repeat_max=1, now_s=Clock())
    for _ in range(5):
        getattr(get_logger("oncelog_broker.test"), level)("thing_failed", error="x")
    assert len(out.getvalue().splitlines()) == 5


def test_a_broker_does_not_load_what_it_has_no_use_for() -> None:
    """They are 5 MB, and colour tracebacks, run green threads, or look for names that are like
    another. Who wants them can still load them."""
    program = (
        "import sys, oncelog_broker.__main__, oncelog_broker.app\n"
        "assert not {'rich', 'pygments', 'greenlet', 'difflib'} & set(sys.modules)\n"
        "import rich.console"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
