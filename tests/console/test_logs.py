"""Lines of the console say when, how grave, and what."""

from __future__ import annotations

import io

import pytest

from oncelog_console.logs import configure_logging
from oncelog_runtime.structured_logging import get_logger

pytestmark = pytest.mark.usefixtures("logging_as_before")


def test_a_line_has_its_event_and_fields() -> None:
    stream = io.StringIO()
    configure_logging(stream)
    get_logger("oncelog_console.test").info("console_signed_in", who="alice")
    (line,) = stream.getvalue().splitlines()
    assert " INFO " in line
    assert line.endswith("console_signed_in who=alice")
