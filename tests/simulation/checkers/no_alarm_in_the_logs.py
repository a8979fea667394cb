"""[A19]: a program under test does not log errors or exceptions that nobody handled.

Rules: ERROR and CRITICAL are alarms: something is wrong that the program cannot mend; so is a
warning with an exception. What the faults of a run explain is named in the run's rules, one
regular expression each, searched in the text and in the exception.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass

from simulation.checkers.violation import Rules, Violation


@dataclass(frozen=True, slots=True)
class LogLine:
    """It is one record of a log."""

    host: str
    level: int
    """As in :mod:`logging`."""
    text: str
    exception: str = ""
    """The exception that came with it, if any did."""
    time_s: float = 0.0

    @classmethod
    def from_record(cls, host: str, record: logging.LogRecord, time_s: float = 0.0) -> LogLine:
        """Make it from what a logging handler is given."""
        error = record.exc_info[1] if record.exc_info else None
        shown = "" if error is None else f"{type(error).__name__}: {error}"
        return cls(host, record.levelno, record.getMessage(), shown, time_s)


def check(logs: Iterable[LogLine], rules: Rules) -> list[Violation]:
    """Find alarms that the rules do not allow."""
    allowed = [re.compile(pattern) for pattern in rules.allowed_log_lines]
    found: list[Violation] = []
    for line in logs:
        least = logging.WARNING if line.exception else logging.ERROR
        if line.level < least:
            continue
        whole = f"{line.text}\n{line.exception}"
        if any(pattern.search(whole) for pattern in allowed):
            continue
        level = logging.getLevelName(line.level)
        text = f"{line.host} at {line.time_s:.3f} s: {level} {line.text} {line.exception}".rstrip()
        found.append(Violation("A19", "no_alarm_in_the_logs", text))
    return found
