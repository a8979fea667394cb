"""The lines of the audit go to a file of their own from here: ``audit_log_file``.

Rules
-----
* The file is written by a thread, so that no disk holds up a broker.
* A file that was moved away or removed is made anew: whoever rotates it needs to tell nobody.
* At most ``LINES_MAX`` lines wait for the disk. A line that finds no room, or that the disk does
  not take, is lost: it is counted (``oncelog_audit_lines_lost_total``), and the broker's log has
  one error at the first of them. The broker goes on. Once lines are written again, the file has a
  line with how many are missing.
* A line is in the file as a whole or not at all, but for a crash of the machine. Nothing is synced.
"""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor, wait

from oncelog_runtime.logs import LogEvent
from oncelog_runtime.structured_logging import get_logger

__all__ = ["LINES_MAX", "AuditFile"]

logger = get_logger(__name__)

LINES_MAX = 10_000
"""So many lines wait for the disk at most, some 5 MB."""

CLOSE_S = 2.0
"""Closing waits so long for the lines that wait."""

MODE = 0o640
"""The owner writes the file, and the group reads it."""


class AuditFile(logging.Handler):
    """It takes records in any thread, and has them written in one of its own."""

    def __init__(self, path: str, formatter: logging.Formatter, lines_max: int = LINES_MAX) -> None:
        """Open the file.

        :raises OSError: it cannot be opened now. Later failures only lose lines.
        """
        super().__init__()
        self.setFormatter(formatter)
        self.path = path
        self._lines_max = lines_max
        self._file = _MovableFile(path)
        self._writer = ThreadPoolExecutor(1, "audit file")
        # Each count has one writer: ``emit``, which logging calls under a lock, or the thread.
        self._taken = 0
        self._crowded_out = 0
        self._tried = 0
        self._refused = 0
        self._told = 0
        self._failing = False
        self._ended = False

    @property
    def lost(self) -> int:
        """Return how many lines could not be written."""
        return self._crowded_out + self._refused

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written soon."""
        if self._ended or self._taken - self._tried >= self._lines_max:
            self._crowded_out += 1
            self._complain(f"{self._lines_max} lines wait for the disk")
            return
        self._taken += 1
        self._writer.submit(self._write, self.format(record))

    def close(self) -> None:
        """Write what waits, for ``CLOSE_S`` at most, and close the file. A second call does
        nothing."""
        if self._ended:
            return
        self._ended = True
        closed = self._writer.submit(self._file.close)
        self._writer.shutdown(wait=False)
        wait([closed], CLOSE_S)
        super().close()

    def _write(self, line: str) -> None:
        """Write one line, in the thread of this file."""
        self._tried += 1
        try:
            self._tell_lost()
            self._file.append(line)
        except OSError as error:
            self._refused += 1
            self._complain(f"{type(error).__name__}: {error}")

    def _tell_lost(self) -> None:
        lost = self.lost
        if lost == self._told:
            return
        event = LogEvent("audit_lines_lost", lost=lost - self._told)
        record = logging.LogRecord("oncelog.audit", logging.ERROR, __file__, 0, event, None, None)
        self._file.append(self.format(record))
        self._told = lost
        self._failing = False

    def _complain(self, reason: str) -> None:
        """Say in the broker's log that lines are lost, once until there is room again."""
        if not self._failing:
            self._failing = True
            logger.error("audit_not_written", path=self.path, reason=reason)


class _MovableFile:
    """It is a file that grows by lines, and that others may move away between them."""

    def __init__(self, path: str) -> None:
        """:raises OSError: it cannot be opened."""
        self._path = path
        self._fd: int | None = None
        self._open()

    def append(self, line: str) -> None:
        """Write a line at the end of the file that has the path now.

        :raises OSError: nothing was written.
        """
        fd = self._fd if self._fd is not None and self._is_there(self._fd) else self._open()
        data = f"{line}\n".encode()
        written = os.write(fd, data)
        if written != len(data):
            # The disk was full in the middle.
            os.ftruncate(fd, os.fstat(fd).st_size - written)
            raise OSError("the disk is full")

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _is_there(self, fd: int) -> bool:
        """Return whether the path still leads to the file."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(fd))

    def _open(self) -> int:
        self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, MODE)
        return self._fd
