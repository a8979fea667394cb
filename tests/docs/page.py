"""One page is run from top to bottom: its bash, its Python, its files, beside a cluster."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs.blocks import FILES, Block
from docs.host import PythonSession
from docs.transcripts import Names, commands_of, difference
from support.house import ROOT

__all__ = ["BlockFailed", "Page"]

READERS: dict[str, Callable[[str], object]] = {"toml": tomllib.loads, "json": json.loads}
"""Each language's reader says whether a file is well-formed."""

BLOCK_TIMEOUT_S = 60.0
"""Far more than any block takes, so that one that hangs is named."""


LOOK_AGAIN_S = 0.25
"""How often what a block is to be interrupted for is looked for: a look may be a command."""


SETTLED_WITHIN_S = 10.0
"""How long a command may show something else, where the page says that it settles."""


class BlockFailed(AssertionError):
    """A block did not do what the page says; the text begins with page and line."""


class Page:
    """It runs the blocks of one page in a folder of its own.

    :param shims: the folder with ``oncelog`` and ``python`` of the host.
    :param bootstrap: the cluster of the page; nothing when the page starts its own.
    """

    def __init__(self, folder: Path, shims: Path, bootstrap: str) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        self.names = Names()
        self._scratch = folder / "scratch"
        self._scratch.mkdir()
        self._shims = shims
        self._environment = self._make_environment(folder, bootstrap)
        if bootstrap:
            self.names.learn("127.0.0.1:9092", bootstrap)
        self._bash = _Bash(self.folder, self._environment)
        self._python: PythonSession | None = None
        self._printed: list[str] | None = None
        """What the last block printed, for the ``text`` block that may follow."""
        self._last_varies: list[str] = []
        self._going_on: tuple[Block, Path] | None = None
        self._blocks_run = 0
        self._last_look = ""
        """What the last look at the condition of a block that does not end has shown."""

    def _make_environment(self, folder: Path, bootstrap: str) -> dict[str, str]:
        home = folder / "home" / "you"
        home.mkdir(parents=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ONCELOG_", "MAKE"))}
        return {
            **kept,
            "HOME": str(home),
            "SHELL": "/bin/bash",  # of this page; a machine for tests need not name one
            "PATH": os.pathsep.join(
                [str(self._shims), str(ROOT / ".venv" / "bin"), kept.get("PATH", "/usr/bin:/bin")]
            ),
            "PYTHONPATH": "",
            "REPOSITORY": str(ROOT),
            "COLUMNS": "200",
            "TERM": "dumb",
            **({"ONCELOG_BOOTSTRAP": bootstrap} if bootstrap else {}),
        }

    def end(self) -> None:
        """Stop what goes on; it must have gone well."""
        if self._going_on is not None and self._python is not None:
            (block, output), self._going_on = self._going_on, None
            self._python.interrupt()
            self._finish_python(block, self._python, output)

    def close(self) -> None:
        """End what the page has started, by force."""
        if self._python is not None:
            self._python.close()
        self._bash.close()

    def command(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside the page, in its folder and environment, in a bash of its own."""
        return subprocess.run(
            ["bash", "-c", self.names.replace(command)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BLOCK_TIMEOUT_S,
        )

    @property
    def _output(self) -> Path:
        """Return where the block that runs now prints to."""
        return self._scratch / f"output-{self._blocks_run}"

    # ------------------------------------------------------------------------------ blocks

    def run(self, block: Block) -> None:
        """Run one block.

        :raises BlockFailed: it did not end as it should, or printed something else than is shown.
        """
        if block.get("not run") or block.get("elsewhere"):
            self._printed = None
            return
        if block.get("stops") or block.language == "python":
            self.end()
        self._blocks_run += 1
        if block.language == "text":
            self._compare(block)
            return
        self.around(block, "given")
        if block.language in FILES:
            self.save(block)
        elif block.language == "python":
            self._run_python(block)
        else:
            self._run_shell(block)
        self.around(block, "then")

    def around(self, block: Block, when: str) -> None:
        """Run the commands before (``given``) or after (``then``) a block."""
        lines = block.get(when)
        if lines:
            done = self.command(f"set -e\n{lines}")
            if done.returncode:
                told = f"{done.stdout}{done.stderr}"
                raise BlockFailed(f"{block.where}: {when}: {lines}\n{told}")

    def _compare(self, block: Block) -> None:
        if self._printed is None:
            raise BlockFailed(f"{block.where}: no block before this one has printed anything")
        varies = [*block.get("varies").splitlines(), *self._last_varies]
        wrong = difference(
            block.text.splitlines(),
            self._printed,
            self.names,
            varies,
            any_order=bool(block.get("any order")),
        )
        if wrong:
            whole = "\n".join(self._printed)
            raise BlockFailed(f"{block.where}: {wrong}\n--- all that was printed:\n{whole}")
        self._printed = None

    def save(self, block: Block) -> None:
        """Write the block to the file that it names. One that names none must be well-formed."""
        text = self.names.replace(block.text)
        name = block.get("file")
        if name:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        read = READERS.get(block.language)
        if read is not None:
            try:
                read(text)
            except ValueError as error:
                raise BlockFailed(f"{block.where}: {error}") from None

    # ------------------------------------------------------------------------------ shell

    def _run_shell(self, block: Block) -> None:
        enter, leave = "", ""
        if block.get("in") == "repository" or block.get("rehearsed"):
            enter, leave = f"pushd {ROOT} >/dev/null\n", "popd >/dev/null\n"
        if block.get("rehearsed"):
            enter, leave = f"{enter}export MAKEFLAGS=n\n", f"{leave}unset MAKEFLAGS\n"
        if block.language == "sh":
            commands: list[tuple[str, list[str]]] = [(block.text, [])]
        else:
            commands = list(commands_of(block.text))
        self._printed = []
        for number, (command, shown) in enumerate(commands, 1):
            last = number == len(commands)
            deadline = time.monotonic() + (SETTLED_WITHIN_S if block.get("settles") else 0)
            while True:
                printed, wrong = self._run_command(
                    block, f"{enter}{self.names.replace(command)}\n", leave, shown, last=last
                )
                if not wrong:
                    break
                if time.monotonic() >= deadline:
                    raise BlockFailed(f"{block.where}: {command}\n{wrong}")
            self._printed += printed
        self._last_varies = block.get("varies").splitlines()

    def _run_command(
        self, block: Block, command: str, leave: str, shown: list[str], *, last: bool
    ) -> tuple[list[str], str]:
        """Return what a command printed, and what of that is not as shown."""
        until = self._until(block) if last else None
        code, printed = self._bash.run(command, leave, self._output, until)
        everything = said(self._output)
        all_of_it = f"--- all that was printed:\n{everything}"
        wanted = int(block.get("exit") or 0) if last else 0
        wrong = ""
        if code != wanted and not until:
            wrong = f"exit code {code}, not {wanted}"
        elif shown:
            wrong = self._difference(block, shown, printed)
            if wrong and everything != printed:
                wrong = self._difference(block, shown, everything)
        return printed.splitlines(), wrong and f"{wrong}\n{all_of_it}"

    def _difference(self, block: Block, shown: list[str], printed: str) -> str:
        return difference(
            shown,
            printed.splitlines(),
            self.names,
            block.get("varies").splitlines(),
            any_order=bool(block.get("any order")),
        )

    def _until(self, block: Block) -> Callable[[], bool] | None:
        """Return when to interrupt the block, or None if it ends by itself."""
        printed = block.get("until printed")
        command = block.get("until") or block.get("goes on")
        if printed:
            text = self.names.replace(printed)
            output = self._output
            return lambda: output.exists() and text in output.read_text(errors="replace")
        if command:
            return lambda: self._holds(command)
        return None

    def _holds(self, command: str) -> bool:
        done = self.command(command)
        self._last_look = f"{command}\n{done.stdout}{done.stderr}"
        return done.returncode == 0

    # ------------------------------------------------------------------------------ Python

    def _run_python(self, block: Block) -> None:
        name = block.get("file")
        if name:
            self.save(block)
        if self._python is None:
            self._python = PythonSession(self._shims, self.folder, self._environment)
        program = "asyncio.run(" in block.text
        parts: list[dict[str, Any]] = []
        for source, line, is_program in (
            (block.get("before"), block.line, False),
            (block.text, block.line, program),
            (block.get("after"), block.line, False),
        ):
            if source:
                parts.append(
                    {
                        "source": self.names.replace(source),
                        "line": line,
                        "page": block.page,
                        "program": is_program,
                    }
                )
        output = self._output
        output.write_text("")
        self._python.begin(parts, output)
        self._await_python(block, self._python, output)
        if self._going_on is None:
            self._finish_python(block, self._python, output)

    def _finish_python(self, block: Block, python: PythonSession, output: Path) -> None:
        failure = python.answer()
        printed = output.read_text()
        if failure:
            raise BlockFailed(f"{block.where}: failed\n{said(output)}\n{failure}")
        self._printed = printed.splitlines()
        self._last_varies = block.get("varies").splitlines()

    def _await_python(self, block: Block, python: PythonSession, output: Path) -> None:
        until = self._until(block)
        deadline = time.monotonic() + BLOCK_TIMEOUT_S
        while not select.select([python.answers], [], [], LOOK_AGAIN_S)[0]:
            if until is not None and until():
                if block.get("goes on"):
                    self._going_on = block, output
                    return
                python.interrupt()
                until = None
            if time.monotonic() > deadline:
                raise BlockFailed(
                    f"{block.where}: not over after {BLOCK_TIMEOUT_S:.0f} s"
                    f"\n{said(output)}\n--- {self._last_look}"
                )


def errors_of(output: Path) -> Path:
    """Return where stderr goes beside ``output``, which a page may leave out."""
    return output.with_name(f"{output.name}.err")


def said(output: Path) -> str:
    """Return all that was printed, to stdout and then to stderr."""
    files = [path for path in (output, errors_of(output)) if path.exists()]
    return "".join(path.read_text(errors="replace") for path in files)


class _Bash:
    """The page's shell is one process, so that ``cd``, variables and jobs last."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            # Whoever runs the tests in the background has them ignore Ctrl+C; pages do not.
            ["env", "--default-signal=INT", "bash", "--norc", "--noprofile"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        # Ctrl+C is for the command that runs, not for the shell.
        self._write("trap : INT\n")

    def run(
        self, command: str, leave: str, output: Path, until: Callable[[], bool] | None
    ) -> tuple[int, str]:
        """Return the exit code of the first command that fails, or 0, and what stdout was given."""
        script, errors = output.with_name("script.sh"), errors_of(output)
        script.write_text(command)
        output.write_text("")
        self._write(
            "FAILED=0; trap 'FAILED=$?' ERR\n"
            f"source {script} </dev/null >{output} 2>{errors}\n"
            f"trap - ERR\n{leave}"
            'echo "$FAILED"\n'
        )
        assert self._process.stdout is not None
        deadline = time.monotonic() + BLOCK_TIMEOUT_S
        while not select.select([self._process.stdout], [], [], LOOK_AGAIN_S)[0]:
            if until is not None and until():
                os.killpg(self._process.pid, signal.SIGINT)
                until = None
            if time.monotonic() > deadline:
                raise BlockFailed(
                    f"not over after {BLOCK_TIMEOUT_S:.0f} s: {command}\n{said(output)}"
                )
        line = self._process.stdout.readline()
        if not line:
            raise BlockFailed(f"the shell has ended: {command}\n{said(output)}")
        return int(line), output.read_text(errors="replace")

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def close(self) -> None:
        """End the shell and what it has left running in the background."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
