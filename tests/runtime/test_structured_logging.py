"""Loggers take names and fields, and hand them to the standard library."""

from __future__ import annotations

import logging

import pytest

from oncelog_runtime.logs import LogEvent
from oncelog_runtime.structured_logging import get_logger, structlog

NAME = "oncelog_runtime.test"


def test_a_line_has_a_name_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger(NAME)
    with caplog.at_level(logging.INFO):
        logger.debug("topic_moved", topic="a", before=1, after=2)
        logger.info("topic_moved", topic="a", before=1, args="100%")
        logger.info("all_quiet")
    first, second = caplog.records
    assert first.msg == LogEvent("topic_moved", topic="a", before=1, args="100%")
    assert first.getMessage() == "topic_moved topic=a before=1 args=100%"
    assert second.getMessage() == "all_quiet"


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_levels_are_those_of_the_methods(level: str, caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger(NAME)
    with caplog.at_level(logging.DEBUG):
        getattr(logger, level)("all_quiet")
        logger.log(logging.getLevelName(level.upper()), "all_quiet")
    assert [r.levelname for r in caplog.records] == [level.upper()] * 2
    assert {r.funcName for r in caplog.records} == {"test_levels_are_those_of_the_methods"}


def test_exceptions_come_along(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger(NAME)
    error = ValueError("why")
    logger.error("all_quiet", exc_info=error)
    try:
        raise error
    except ValueError:
        logger.exception("all_quiet")
    assert [r.exc_info[1] if r.exc_info else None for r in caplog.records] == [error, error]
    assert {r.funcName for r in caplog.records} == {"test_exceptions_come_along"}
    assert {str(r.msg) for r in caplog.records} == {"all_quiet"}


def test_structlog_of_users_neither_changes_nor_matters(caplog: pytest.LogCaptureFixture) -> None:
    assert not structlog.is_configured()

    def drop(logger: object, method: str, line: structlog.types.EventDict) -> str:
        raise structlog.DropEvent

    structlog.configure(processors=[drop], cache_logger_on_first_use=True)
    try:
        get_logger(NAME).warning("all_quiet", topic="a")
        assert structlog.get_config()["processors"] == [drop]
    finally:
        structlog.reset_defaults()
    assert [record.msg for record in caplog.records] == [LogEvent("all_quiet", topic="a")]
