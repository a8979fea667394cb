"""Processes are known by identity when they are started, watched and ended; others are left
alone."""

from __future__ import annotations

import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog_cli.local.process import (
    STABLE_PORTS,
    LocalClusterError,
    ManagedProcess,
    ProcessIdentity,
    free_port,
    port_is_free,
    start_mark,
    start_process,
)

pytestmark = pytest.mark.integration

Start = Callable[..., ManagedProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a piece of Python; whatever still runs at the end is killed."""
    started: list[ManagedProcess] = []

    def run(code: str, **options: object) -> ManagedProcess:
        process = start_process(
            [sys.executable, "-c", code],
            log_path=tmp_path / "logs" / "out.log",
            **options,  # type: ignore[arg-type]
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()


def wait_for(condition: Callable[[], object], deadline_s: float = 10.0) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


SLEEP = "import time; print('up', flush=True); time.sleep(100)"


def test_output_goes_to_the_log_and_the_exit_code_is_known(start: Start) -> None:
    process = start("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert process.wait(10.0)
    assert not process.is_alive()
    assert process.exit_code == 7
    assert sorted(process.log_tail().split()) == ["err", "out"]
    assert not process.signal(signal.SIGTERM)


def test_logs_are_appended_and_the_tail_is_short(start: Start) -> None:
    start("print('first')").wait(10.0)
    second = start("[print(i) for i in range(100)]")
    second.wait(10.0)
    assert second.log_path.read_text().startswith("first")
    assert second.log_tail(2).splitlines() == ["98", "99"]


def test_the_environment_is_what_was_given(start: Start) -> None:
    process = start("import os; print(os.environ.get('MARK'))", environment={"MARK": "here"})
    process.wait(10.0)
    assert process.log_tail() == "here"


def test_a_started_process_leads_a_session_of_its_own(start: Start) -> None:
    process = start(SLEEP)
    assert os.getsid(process.pid) == process.pid


def test_stop_is_clean_when_the_process_ends_by_itself(start: Start) -> None:
    process = start(SLEEP)
    assert process.is_alive()
    assert process.stop(10.0)
    assert process.exit_code == -signal.SIGTERM


def test_stop_kills_who_does_not_listen(start: Start) -> None:
    process = start(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('deaf', flush=True); time.sleep(100)"
    )
    wait_for(lambda: process.log_tail() == "deaf")
    assert not process.stop(0.2)
    assert process.exit_code == -signal.SIGKILL


def test_pause_and_resume(start: Start) -> None:
    process = start(SLEEP)
    process.pause()
    assert process.is_paused()
    assert process.is_alive()
    process.resume()
    wait_for(lambda: not process.is_paused())
    process.pause()
    assert process.stop(10.0)  # a paused process is woken to hear


def test_another_process_with_the_same_pid_is_left_alone(start: Start) -> None:
    process = start(SLEEP)
    stale = ManagedProcess(ProcessIdentity(process.pid, "another start"), process.log_path)
    assert start_mark(process.pid) == process.identity.started
    assert not stale.signal(signal.SIGKILL)
    stale.kill()
    assert process.is_alive()


def test_a_process_read_back_from_a_file(start: Start) -> None:
    """A later command knows it by pid and start mark, whoever its parent is."""
    parent = start(
        "import subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)']); "
        "print(child.pid, flush=True)"
    )
    assert parent.wait(10.0)
    pid = int(parent.log_tail())
    mark = start_mark(pid)
    assert mark is not None
    orphan = ManagedProcess(ProcessIdentity(pid, mark), parent.log_path)
    assert orphan.is_alive()
    orphan.kill()
    assert not orphan.is_alive()
    assert orphan.exit_code is None  # only its parent is told


def test_a_stale_identity_does_not_take_the_exit_code(start: Start) -> None:
    process = start("import sys; sys.exit(5)")
    stale = ManagedProcess(ProcessIdentity(process.pid, "another start"), process.log_path)
    wait_for(lambda: start_mark(process.pid) is None)
    assert not stale.is_alive()
    assert not process.is_alive()
    assert (stale.exit_code, process.exit_code) == (None, 5)


EXIT_THREAD = {"x86_64": 60, "aarch64": 93}
"""Numbers of the system call that ends one thread, not the process."""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in EXIT_THREAD, reason="a Linux matter"
)
def test_ended_means_that_every_thread_has_let_go_of_its_ports(start: Start) -> None:
    """The first thread can be a zombie while others still hold what a restart needs."""
    port = free_port()
    process = start(
        "import ctypes, socket, threading, time\n"
        f"server = socket.create_server(('127.0.0.1', {port}))\n"
        "threading.Thread(target=time.sleep, args=(1.0,)).start()\n"
        f"ctypes.CDLL(None).syscall({EXIT_THREAD[platform.machine()]}, 0)\n"
    )
    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2][1] == "Z")
    assert not port_is_free(port)
    assert process.is_alive()
    # So do those who did not start it see it.
    assert start_mark(process.pid) == process.identity.started
    assert process.wait(10.0)
    assert port_is_free(port)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LocalClusterError, match="no-such-program"):
        start_process([str(tmp_path / "no-such-program")], log_path=tmp_path / "log")


def test_no_log_has_no_tail(tmp_path: Path) -> None:
    gone = ManagedProcess(ProcessIdentity(2**22 - 1, "never"), tmp_path / "missing.log")
    assert gone.log_tail() == ""
    assert not gone.is_alive()
    assert gone.wait(0)


def test_free_ports_are_free_and_stay_clear_of_outgoing_connections() -> None:
    port = free_port()
    assert port in STABLE_PORTS
    assert port_is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not port_is_free(port)
    assert port_is_free(port)
