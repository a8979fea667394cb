"""The console of a local cluster is a process beside its brokers, for a browser on this machine.

::

    <directory>/console.log    what the process writes
    <directory>/token          who opens a console of a secured cluster must know it; nobody else
                               may read the file

It may change the cluster, which is one's own. Its port is chosen once and kept. Without security it
shall know nothing of the user's profiles: they are for other clusters. Calls block.
"""

from __future__ import annotations

import http.client
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from oncelog_cli.local.process import (
    LocalClusterError,
    ManagedProcess,
    ProcessOwner,
    free_port,
    port_is_free,
    start_process,
)
from oncelog_cli.local.secured import write_private
from oncelog_cli.runner import own_environment

HOST = "127.0.0.1"
PORT = 9645
"""The console takes this port unless somebody else has it."""
CONSOLE_OPTIONS = "ONCELOG_CONSOLE_OPTIONS"
"""Options of its clients are in this variable, one a line, as ``-X`` takes them."""
READY_DEADLINE_S = 30.0
STOP_DEADLINE_S = 10.0
PROBE_S = 1.0
TOKEN_BYTES = 24


def console_command(arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a console."""
    return [sys.executable, "-m", "oncelog_console", *arguments]


class LocalConsole(ProcessOwner):
    """It is one process, or none.

    :param directory: its files are in it; made when missing.
    :param port: the one that it had before; 0 chooses one at the next start.
    """

    def __init__(self, directory: Path, port: int = 0) -> None:
        super().__init__()
        self.directory = directory
        self.port = port

    def adopt(self, port: int, process: ManagedProcess | None) -> None:
        """Take over what the state file says."""
        self.port = port
        self.process = process

    @property
    def pid(self) -> int | None:
        """Return the process id of the last start, or None."""
        return None if self.process is None else self.process.pid

    @property
    def log_path(self) -> Path:
        """Return the path of the file that gets its output."""
        return self.directory / "console.log"

    @property
    def token_path(self) -> Path:
        """Return the path of the file with the token of a secured cluster's console."""
        return self.directory / "token"

    @property
    def address(self) -> str:
        """Return its ``host:port``."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """Return what a browser opens."""
        return f"http://{self.address}/"

    @property
    def state(self) -> str:
        """Return "running", "paused" or "stopped"."""
        if self.process is None or not self.is_alive():
            return "stopped"
        return "paused" if self.process.is_paused() else "running"

    def launch(self, bootstrap: str, profile: str | None, *, open_browser: bool = False) -> None:
        """Start the process without waiting for it.

        :param bootstrap: the brokers' addresses, for a cluster without security.
        :param profile: the admin's, for a secured one: then a token is needed to look.
        :param open_browser: the process opens a browser, which is signed in.
        :raises LocalClusterError: it runs already, or cannot be executed.
        """
        if self.is_alive():
            raise LocalClusterError("the console runs already")
        self._choose_port()
        arguments = ["--host", HOST, "--port", str(self.port), "--allow-changes"]
        arguments += ["--open"] * open_browser
        environment = {
            name: value
            for name, value in own_environment().items()
            if not name.startswith("ONCELOG_")
        }
        if profile is not None:
            self._make_token()
            arguments += ["--profile", profile, "--token-file", str(self.token_path)]
        else:
            arguments += ["--bootstrap", bootstrap]
            environment["XDG_CONFIG_HOME"] = str(self.directory / "no-profiles")
        self.process = start_process(
            console_command(arguments), log_path=self.log_path, environment=environment
        )

    def _choose_port(self) -> None:
        wanted = self.port or PORT
        self.port = wanted if port_is_free(wanted, HOST) else free_port(HOST)

    def _make_token(self) -> None:
        if not self.token_path.exists():
            write_private(self.token_path, secrets.token_urlsafe(TOKEN_BYTES))

    def wait_ready(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait until it answers.

        :raises LocalClusterError: it ended or took too long; with the tail of its log.
        """
        deadline = time.monotonic() + deadline_s
        while not self._answers():
            if not self.is_alive():
                self._fail("has ended")
            if time.monotonic() >= deadline:
                self._fail(f"did not answer within {deadline_s:g} s")
            time.sleep(0.05)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PROBE_S)
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _fail(self, what: str) -> None:
        tail = "" if self.process is None else self.process.log_tail()
        raise LocalClusterError(f"the console {what}; the end of {self.log_path}:\n{tail}")

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> bool:
        """Stop it; True when it ended by itself before the deadline."""
        return super().stop(deadline_s)
