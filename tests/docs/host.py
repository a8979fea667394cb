"""A process has imported the SDK and the command once, and forks for each use of them.

Pages run some two hundred commands and programs. Started one by one each pays a third of a second
of CPU for its imports; a fork pays a few milliseconds. The ``oncelog`` and ``python`` that pages
find on their path are ``SHIM``: it hands its arguments, folder, environment and streams over.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["PythonSession", "host", "main"]

SHIM = r"""#!{python} -IS
import os, signal, socket, struct, sys
name = os.path.basename(sys.argv[0])
if name.startswith("python") and not (len(sys.argv) > 1 and sys.argv[1].endswith(".py")):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import json
host = socket.socket(socket.AF_UNIX)
host.connect({address!r})
asked = json.dumps(
    dict(kind=name, arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
).encode()
socket.send_fds(host, [struct.pack("!I", len(asked))], [0, 1, 2])
host.sendall(asked)
answers = host.makefile()
worker = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(worker, number))
sys.exit(int(answers.readline()))
"""

PRELOADED = ("oncelog", "oncelog.blocking", "oncelog.stores", "oncelog_cli.main")


@contextlib.contextmanager
def host(folder: Path) -> Iterator[Path]:
    """Run a host; yield the folder of shims that goes in front of ``PATH``."""
    address = folder / "host"
    shims = folder / "bin"
    shims.mkdir()
    for name in ("oncelog", "python", "python3"):
        shim = shims / name
        shim.write_text(SHIM.format(python=sys.executable, address=str(address)))
        shim.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "docs.host", str(address)]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield shims
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def main(address: str) -> None:
    """Serve for ever."""
    preload()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    print("ready", flush=True)
    while True:
        peer, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            keep(peer)
        peer.close()


def preload() -> None:
    """Import what pages use; nothing may be started, as threads do not survive a fork."""
    for name in PRELOADED:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            getattr(module, public)
    commands = importlib.import_module("oncelog_cli.commands")
    for found in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
        importlib.import_module(found.name)


def keep(peer: socket.socket) -> None:
    size, streams, _, _ = socket.recv_fds(peer, 4, 3)
    wanted = int.from_bytes(size, "big")
    text = b""
    while len(text) < wanted:
        text += peer.recv(wanted - len(text))
    asked = json.loads(text)
    worker = os.fork()
    if worker == 0:
        peer.close()
        os._exit(work(asked, streams))
    for stream in streams:
        os.close(stream)
    peer.sendall(b"%d\n" % worker)
    _, status = os.waitpid(worker, 0)
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):  # whoever asked may be gone
        peer.sendall(b"%d\n" % (code if code >= 0 else 128 - code))
    os._exit(0)


def work(asked: dict[str, Any], streams: list[int]) -> int:
    """Become, in the worker, the process that was asked for, and return its exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
    code = 1
    try:
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.path.insert(0, asked["folder"])
        code = CALLS[asked["kind"]](asked["arguments"])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return code


def oncelog(arguments: list[str]) -> int:
    """Run ``oncelog ARGUMENTS``."""
    from oncelog_cli.main import main as command

    sys.argv = ["oncelog", *arguments]
    command()
    return 0


def python(arguments: list[str]) -> int:
    """Run ``python FILE.py ARGUMENTS``."""
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


def session(arguments: list[str]) -> int:
    """Run the Python blocks of one page: a JSON line comes for each, and one answers."""
    answers = os.dup(1)
    page: dict[str, Any] = {"__name__": "__main__"}
    for line in sys.stdin:
        asked = json.loads(line)
        for number, path in ((1, asked["output"]), (2, asked["output"] + ".err")):
            stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(stream, number)
            os.close(stream)
        failure = ""
        try:
            execute(asked["parts"], page)
        except BaseException:
            failure = traceback.format_exc()
        sys.stdout.flush()
        os.write(answers, json.dumps({"failure": failure}).encode() + b"\n")
    return 0


CALLS = {"oncelog": oncelog, "python": python, "python3": python, "session": session}


def execute(parts: list[dict[str, Any]], page: dict[str, Any]) -> None:
    """Run what comes before a block, the block, and what comes after it.

    Fragments that await run in one loop. A whole program runs by itself, in a fresh namespace, and
    leaves its names to the page; it has to end well on Ctrl+C, without a traceback.
    """
    codes = [(part, compiled(part)) for part in parts]
    program = any(part["program"] for part in parts)
    if program or not any(is_coroutine(code) for _, code in codes):
        for part, code in codes:
            namespace = {"__name__": "__main__"} if part["program"] else page
            try:
                if is_coroutine(code):
                    asyncio.run(awaited(code, namespace))
                else:
                    eval(code, namespace)
            except KeyboardInterrupt:
                if part["program"]:
                    raise
            finally:
                page.update(namespace)
    else:
        asyncio.run(together([code for _, code in codes], page))


def compiled(part: dict[str, Any]) -> types.CodeType:
    """Return code that may await, with the page's name and lines in its traceback."""
    text = "\n" * part["line"] + part["source"]
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: types.CodeType = compile(text, part["page"], "exec", flags=flags, dont_inherit=True)
    return code


def is_coroutine(code: types.CodeType) -> bool:
    """Return whether the code awaits something itself."""
    return bool(code.co_flags & inspect.CO_COROUTINE)


async def awaited(code: types.CodeType, namespace: dict[str, Any]) -> None:
    """Run one piece of code that awaits."""
    await eval(code, namespace)


async def together(codes: list[types.CodeType], page: dict[str, Any]) -> None:
    """Run several pieces in one loop. Ctrl+C ends the one that runs, and the next ones come."""
    loop = asyncio.get_running_loop()
    try:
        for code in codes:
            if not is_coroutine(code):
                eval(code, page)
                continue
            task = loop.create_task(awaited(code, page))
            loop.add_signal_handler(signal.SIGINT, task.cancel)
            try:
                await task
            except asyncio.CancelledError:
                pass  # interrupted, as who runs the block asked for
            finally:
                loop.remove_signal_handler(signal.SIGINT)
    finally:
        await close_all(page)


async def close_all(page: dict[str, Any]) -> None:
    """Close clients that a fragment has left open: they belong to the loop that ends now."""
    from oncelog import Admin, Consumer, Producer

    for name, value in list(page.items()):
        if isinstance(value, Admin | Consumer | Producer):
            await value.close()
            del page[name]


class PythonSession:
    """It is the other end of ``session``, where a page's Python blocks run."""

    def __init__(self, shims: Path, folder: Path, environment: dict[str, str]) -> None:
        self._answers, writing = os.pipe()
        reading, self._asks = os.pipe()
        asked = {
            "kind": "session",
            "arguments": [],
            "folder": str(folder),
            "environment": environment,
        }
        text = json.dumps(asked).encode()
        self._host = socket.socket(socket.AF_UNIX)
        self._host.connect(str(shims.parent / "host"))
        socket.send_fds(self._host, [len(text).to_bytes(4, "big")], [reading, writing, writing])
        self._host.sendall(text)
        os.close(reading)
        os.close(writing)
        with self._host.makefile() as told:
            self.pid = int(told.readline())

    def begin(self, parts: list[dict[str, Any]], output: Path) -> None:
        """Start a block; what it prints goes to the file ``output``."""
        text = json.dumps({"parts": parts, "output": str(output)})
        os.write(self._asks, text.encode() + b"\n")

    @property
    def answers(self) -> int:
        """Return the descriptor on which the answer comes."""
        return self._answers

    def answer(self) -> str:
        """Return the traceback of the block that has ended, or nothing."""
        text = b""
        while not text.endswith(b"\n"):
            piece = os.read(self._answers, 65_536)
            if not piece:
                return "the page's Python process has ended"
            text += piece
        failure: str = json.loads(text)["failure"]
        return failure

    def interrupt(self) -> None:
        """Send Ctrl+C."""
        os.kill(self.pid, signal.SIGINT)

    def close(self) -> None:
        """End it, by force: what it should have closed it has, or the block has failed."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._asks)
        os.close(self._answers)
        self._host.close()


if __name__ == "__main__":
    main(sys.argv[1])
