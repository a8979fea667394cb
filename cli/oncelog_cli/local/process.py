"""Processes are started, watched, signalled and ended here.

Rules:

* A process is known by its pid *and* the moment it started, so that a pid that the system has
  given to somebody else is never signalled. Nothing here ever signals by name or by group.
* A started process has a session of its own: Ctrl+C in the shell does not reach it, and it
  outlives the command that started it. Its output goes to a file, appended.
* Calls block (they poll): from a coroutine use ``asyncio.to_thread``.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_INTERVAL_S = 0.01
"""How often a wait looks again; starting and ending takes tens of milliseconds or more."""

STABLE_PORTS = range(20_000, 32_768)
"""Registered ports below those that systems commonly give to outgoing connections."""

_HAS_PROC = Path("/proc/self/stat").exists()

LOG_TAIL_LINES = 25
"""Lines of a failed process's log that an error shows."""


class LocalClusterError(Exception):
    """Something on this machine stands in the way; the text says what, and the remedy."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process is known by its pid and a mark of when it started, unique on this machine."""

    pid: int
    started: str


@dataclass(slots=True)
class ManagedProcess:
    """A process was started here, or by an earlier command and read back from a file."""

    identity: ProcessIdentity
    log_path: Path
    exit_code: int | None = None
    """The exit code is known once the process ended, if it was a child of this one; negative: a
    signal."""

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.identity.pid

    def is_alive(self) -> bool:
        """Return whether the very process that was started still runs (a zombie does not)."""
        if self.exit_code is not None:
            return False
        if start_mark(self.pid, even_zombie=True) != self.identity.started:
            return False
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            # Not our child: an earlier command started it.
            return start_mark(self.pid) == self.identity.started
        if pid == 0:
            return True
        self.exit_code = os.waitstatus_to_exitcode(status)
        return False

    def is_paused(self) -> bool:
        """Return whether the process was stopped by a signal (SIGSTOP)."""
        return self.is_alive() and _state_letter(self.pid) == "T"

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False when the process is gone already."""
        try:
            # With a descriptor the pid cannot change hands between the check and the signal.
            descriptor = os.pidfd_open(self.pid) if sys.platform == "linux" else -1
        except OSError:
            return False
        try:
            if not self.is_alive():
                return False
            if descriptor >= 0:
                signal.pidfd_send_signal(descriptor, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return True

    def wait(self, deadline_s: float) -> bool:
        """Wait for the end of the process; False when it still runs after ``deadline_s``."""
        deadline = time.monotonic() + deadline_s
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_INTERVAL_S)
        return True

    def stop(self, deadline_s: float = 30.0) -> bool:
        """Send SIGTERM, then SIGKILL after ``deadline_s``. Return True when it ended by itself."""
        self.terminate()
        if self.wait(deadline_s):
            return True
        self.kill()
        return False

    def terminate(self) -> None:
        """Ask to end, without waiting. A paused process is resumed, or it could not hear."""
        if self.signal(signal.SIGTERM):
            self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone."""
        self.signal(signal.SIGKILL)
        self.wait(10.0)

    def pause(self) -> None:
        """Send SIGSTOP, and wait until the process stands still."""
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + 5.0
        while self.is_alive() and not self.is_paused() and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)

    def resume(self) -> None:
        """Let the process go on (SIGCONT) after :meth:`pause`."""
        self.signal(signal.SIGCONT)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the last lines that the process wrote."""
        try:
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


class ProcessOwner:
    """A server is one process on this machine, or none."""

    def __init__(self) -> None:
        self.process: ManagedProcess | None = None

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self.process is not None and self.process.is_alive()

    def stop(self, deadline_s: float) -> bool:
        """Stop it cleanly; True when it ended by itself before the deadline."""
        return self.process is None or self.process.stop(deadline_s)

    def kill(self) -> None:
        """Send SIGKILL, which is like a crash of the process."""
        if self.process is not None:
            self.process.kill()

    def pause(self) -> None:
        """SIGSTOP: silent, connections stay open."""
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        """Let the process go on (SIGCONT) after :meth:`pause`."""
        if self.process is not None:
            self.process.resume()


def start_process(
    arguments: Sequence[str], *, log_path: Path, environment: Mapping[str, str] | None = None
) -> ManagedProcess:
    """Start a program in a session of its own, output appended to ``log_path``.

    :raises LocalClusterError: it cannot be executed.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        pid = os.posix_spawn(
            arguments[0],
            list(arguments),
            dict(os.environ if environment is None else environment),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            # A shell may have left signals ignored or blocked (nohup, a mask of a test runner).
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
        )
    except OSError as error:
        raise LocalClusterError(f"cannot start {arguments[0]}: {error.strerror}") from error
    finally:
        os.close(output)
    # A child that has ended already is still there to be asked: nobody has collected it.
    mark = start_mark(pid, even_zombie=True) or "gone"
    return ManagedProcess(ProcessIdentity(pid, mark), log_path)


def start_mark(pid: int, *, even_zombie: bool = False) -> str | None:
    """Return a text that differs for every process that ever has this pid, or None without one.

    A zombie counts as gone, unless ``even_zombie``, and unless threads of it are still at work: the
    first thread can be a zombie while others have yet to let go of files and ports.
    """
    if not _HAS_PROC:
        return _start_mark_by_ps(pid, even_zombie)
    fields = _stat_fields(pid)
    if fields is None:
        return None
    if fields[0] in "ZXx" and int(fields[17]) <= 1 and not even_zombie:  # field 20: threads
        return None
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = "unknown"
    return f"{boot}/{fields[19]}"  # field 22 of proc(5): start time in ticks since boot


def _stat_fields(pid: int) -> list[str] | None:
    """Return /proc/PID/stat from the third field on.

    The second field may hold spaces and parentheses.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _state_letter(pid: int) -> str:
    if _HAS_PROC:
        fields = _stat_fields(pid)
        return fields[0] if fields else ""
    return _ps(pid, "state=")[:1]


def _start_mark_by_ps(pid: int, even_zombie: bool) -> str | None:
    if not even_zombie and _ps(pid, "state=").startswith("Z"):
        return None
    return _ps(pid, "lstart=") or None


def _ps(pid: int, column: str) -> str:
    done = subprocess.run(
        ["/bin/ps", "-o", column, "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on, and that no outgoing connection will get.

    A server that restarts must find it free again. Somebody else may still take it first.

    :raises LocalClusterError: none was found.
    """
    first, last = STABLE_PORTS.start, min(STABLE_PORTS.stop, _first_ephemeral_port()) - 1
    chance = random.SystemRandom()
    for _ in range(500):
        port = chance.randint(first, last)
        if port_is_free(port, host):
            return port
    raise LocalClusterError(f"no free port between {first} and {last} on {host}")


def _first_ephemeral_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    except OSError:
        return STABLE_PORTS.stop
    return max(int(text.split()[0]), STABLE_PORTS.start + 1000)


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a server could listen on ``host:port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
