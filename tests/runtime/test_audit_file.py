"""Lines of the audit reach their file, also a new one, and what a disk refuses is counted."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_broker.log_levels import LOGGERS
from oncelog_broker.logging import configure_logging
from oncelog_runtime.audit_file import AuditFile
from oncelog_runtime.structured_logging import get_logger
from support.waiting import eventually

logger = get_logger("oncelog.audit")


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    root, audit = logging.getLogger(), logging.getLogger(LOGGERS["audit"])
    handlers, level = list(root.handlers), root.level
    yield
    for each in list(audit.handlers):
        audit.removeHandler(each)
        each.close()
    audit.propagate = True
    audit.setLevel(logging.NOTSET)
    root.handlers[:] = handlers
    root.setLevel(level)


def opened(path: Path, level: str = "info") -> AuditFile:
    made = configure_logging("json", level, 7, audit_file=str(path))
    assert made is not None
    return made


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def denied(number: int) -> None:
    logger.warning("audit_denied", number=number)


def test_lines_go_to_the_file_alone_whatever_the_level_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = opened(tmp_path / "audit.log", level="critical")
    logger.info("audit_authenticated", principal="User:app")
    audit.close()
    (line,) = lines(tmp_path / "audit.log")
    assert (line["event"], line["principal"], line["broker"]) == (
        "audit_authenticated",
        "User:app",
        7,
    )
    assert line["logger"] == "oncelog.audit"
    assert capsys.readouterr().err == ""
    assert os.stat(tmp_path / "audit.log").st_mode & 0o007 == 0, "others may not read it"


def test_without_a_file_they_are_among_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert configure_logging("json", "critical", 7, repeat_max=1) is None
    for number in range(5):
        denied(number)
    assert capsys.readouterr().err.count("audit_denied") == 5, "they have a limit of their own"


async def test_a_file_that_is_moved_away_is_made_anew(tmp_path: Path) -> None:
    path, moved = tmp_path / "audit.log", tmp_path / "audit.log.1"
    audit = opened(path)
    denied(1)
    await eventually(lambda: path.stat().st_size > 0)
    path.rename(moved)
    denied(2)
    await eventually(path.exists)
    path.rename(tmp_path / "audit.log.2")
    path.touch()  # as logrotate does with `create`
    denied(3)
    audit.close()
    assert [line["number"] for line in lines(moved)] == [1]
    assert [line["number"] for line in lines(path)] == [3]


async def test_a_full_disk_costs_lines_and_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.log"
    path.symlink_to("/dev/full")
    audit = opened(path)
    for number in range(3):
        denied(number)
    await eventually(lambda: audit.lost == 3)
    path.unlink()  # there is room again
    denied(3)
    audit.close()
    first, second = lines(path)
    assert (first["event"], first["lost"]) == ("audit_lines_lost", 3)
    assert second["number"] == 3
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in said] == ["audit_not_written"]
    assert "No space left" in said[0]["reason"]


def test_a_disk_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    audit = AuditFile(str(path), logging.Formatter("%(message)s"), lines_max=2)
    line = "x" * 100_000  # a pipe holds 64 KiB, so the thread waits for a reader
    for _ in range(10):
        audit.emit(logging.LogRecord("oncelog.audit", logging.INFO, "", 0, line, None, None))
    assert audit.lost >= 7, "nobody waited for the disk"
    os.close(reader)
    audit.close()
    assert audit.lost == 10


def test_a_file_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        opened(tmp_path / "nowhere" / "audit.log")
