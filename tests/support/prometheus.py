"""A real Prometheus answers queries and tells of alerts."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.tools import tool

__all__ = ["PrometheusServer", "programs"]

READY_S = 30.0
ANSWER_S = 10.0


def programs() -> Any:
    """Return where prometheus and promtool are; skip the test where they cannot be had, and fail it
    in CI."""
    module = tool("get_prometheus")
    try:
        return module.get()
    except module.NotAvailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Prometheus cannot be had here: {error}")


class PrometheusServer:
    """It is one process, on a free port, with its data below ``directory``."""

    def __init__(self, directory: Path, config: dict[str, Any], rules: dict[str, Any]) -> None:
        self._directory = directory
        self._config = config
        self._rules = rules
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    async def __aenter__(self) -> PrometheusServer:
        folder = self._directory
        folder.mkdir()
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps(self._config))
        (folder / "rules.json").write_text(json.dumps(self._rules))
        log = folder / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: ASYNC220  (it takes a millisecond)
                [
                    str(programs().server),
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    "--web.listen-address=127.0.0.1:0",
                    "--log.level=info",
                ],
                stdout=output,
                stderr=output,
            )
        try:
            await self.until(self._is_ready, READY_S, "Prometheus listens")
        except BaseException:
            await self.__aexit__()
            sys.stderr.write(log.read_text())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, 20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    async def _is_ready(self) -> bool:
        """It says nowhere which free port it took, but the system knows."""
        assert self._process is not None
        assert self._process.poll() is None, "Prometheus has ended"
        self._port = self._port or listening_port(self._process.pid)
        if not self._port:
            return False
        try:
            await asyncio.to_thread(self._get, "/-/ready")
        except OSError:
            return False
        return True

    def _get(self, path: str) -> bytes:
        url = f"http://127.0.0.1:{self._port}{path}"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as response:
            body: bytes = response.read()
            return body

    async def until(
        self, condition: Callable[[], Awaitable[object]], timeout_s: float, what: str
    ) -> None:
        """Wait for something that has to be asked."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not await condition():
            assert loop.time() < deadline, f"not within {timeout_s} s: {what}"
            await asyncio.sleep(0.1)

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the instant vector; fail the test when Prometheus cannot evaluate it."""
        path = "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            document = json.loads(await asyncio.to_thread(self._get, path))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        result: list[dict[str, Any]] = document["data"]["result"]
        return result

    async def firing(self) -> set[str]:
        """Return names of alerts that fire now."""
        document = json.loads(await asyncio.to_thread(self._get, "/api/v1/alerts"))
        return {
            alert["labels"]["alertname"]
            for alert in document["data"]["alerts"]
            if alert["state"] == "firing"
        }


def listening_port(pid: int) -> int:
    """Return the first TCP port on which a process listens, or 0 if on none."""
    own = set()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            own.add(os.readlink(f"{folder}/{name}"))
        except OSError:
            continue
    for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                return int(fields[1].rpartition(":")[2], 16)
    return 0
