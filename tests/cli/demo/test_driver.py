"""A pipeline runs as a child process; the child here is a few lines of Python."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from oncelog_cli.demo.driver import Driver, run_command
from oncelog_cli.local.process import start_mark

CHILD = """
import json, signal, subprocess, sys
jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
def stop(number, frame):
    jvm.kill()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("something went wrong", file=sys.stderr, flush=True)
print("a library that prints", flush=True)
print(json.dumps({"event": "started", "jvm_pid": jvm.pid}), flush=True)
print(json.dumps({"event": "progress", "batch": 0}), flush=True)
jvm.wait()
"""


def driver(tmp_path: Path, child: str = CHILD) -> Driver:
    return Driver([sys.executable, "-c", child], tmp_path / "pipeline.log")


async def until_progress(running: Driver) -> int:
    """Return the pid of the child's child."""
    pid = 0
    async for event in running.events():
        pid = event.get("jvm_pid", pid)
        if event["event"] == "progress":
            return int(pid)
    raise AssertionError(running.log_tail())


async def test_kill_takes_both(tmp_path: Path) -> None:
    running = driver(tmp_path)
    await running.start()
    pid = await until_progress(running)
    await running.kill()
    assert not running.running
    # Nobody waits for an orphan but the system: it is gone, or a zombie.
    deadline = time.monotonic() + 10
    while start_mark(pid) is not None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_stop_is_clean(tmp_path: Path) -> None:
    running = driver(tmp_path)
    await running.start()
    await until_progress(running)
    assert await running.stop() == 0
    assert not running.running
    assert "something went wrong" in running.log_tail()


async def test_events_end_with_the_process(tmp_path: Path) -> None:
    running = driver(tmp_path, "print('[1]'); print('{\"event\": \"failed\"}')")
    await running.start()
    assert [event async for event in running.events()] == [{"event": "failed"}]
    assert await running.stop() == 0


def test_the_command(tmp_path: Path) -> None:
    command = run_command(tmp_path / "job.toml", "here:1")
    assert command[:3] == [sys.executable, "-m", "oncelog_cli"]
    assert command[3:] == [
        "pipeline",
        "run",
        str(tmp_path / "job.toml"),
        "--json",
        "--bootstrap",
        "here:1",
    ]
