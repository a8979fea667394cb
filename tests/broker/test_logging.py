"""The shape of log lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from oncelog_broker.logging import configure_logging


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(log_format: str, level: str = "info") -> str:
    out = io.StringIO()
    configure_logging(log_format, level, 7, out)
    log = logging.getLogger("oncelog_broker.test")
    log.debug("not at this level")
    log.warning("%s has %d", "one", 2)
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("it failed")
    return out.getvalue()


@pytest.mark.parametrize("log_format", ["json", "auto"])
def test_lines_are_json_for_machines(log_format: str) -> None:
    first, second = (json.loads(line) for line in written(log_format).splitlines())
    assert first["event"] == "one has 2"
    assert (first["level"], first["logger"], first["broker"]) == (
        "warning",
        "oncelog_broker.test",
        7,
    )
    assert "ValueError: why" in second["exception"]


def test_lines_are_text_for_people() -> None:
    text = written("text")
    assert "one has 2" in text.splitlines()[0]
    assert "ValueError: why" in text
    assert "not at this level" in written("text", "debug")
