"""Tests of the console ask its application here, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote, urlencode

from oncelog import Security
from oncelog_console.app import ConsoleApp
from oncelog_console.clients import ClusterClients
from oncelog_console.console import Console
from oncelog_console.settings import ConsoleSettings
from oncelog_console.snapshot import Snapshot
from oncelog_runtime.clock import SystemWallClock, WallClock
from oncelog_runtime.entropy import SeededEntropy
from support.waiting import eventually

__all__ = ["Answered", "Browser", "as_json", "console_of"]

PORT = 9645
ORIGIN = f"http://localhost:{PORT}"


@dataclass(frozen=True)
class Answered:
    """It is an answer of the application."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def location(self) -> str:
        return self.headers["location"]


class Browser:
    """It keeps cookies, and sends what browsers send. ``console`` is what it asks."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.app = ConsoleApp(console, lambda: PORT)
        self.cookies: dict[str, str] = {}

    def another(self) -> Browser:
        """Return another browser at the same console."""
        other = Browser(self.console)
        other.app = self.app
        return other

    async def get(self, path: str, **headers: str) -> Answered:
        """Ask for a page; ``accept="application/json"`` asks for its document."""
        return await self.request("GET", path, {"accept": "text/html", **headers})

    async def document(self, path: str) -> Any:
        """Return the document of a page, which there has to be."""
        answered = await self.get(path, accept="application/json")
        assert answered.status == 200, answered.text
        return answered.document

    async def post(self, path: str, form: Any = (), **headers: str) -> Answered:
        """Send a form, as a page of the console does."""
        sent = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": ORIGIN,
            "sec-fetch-site": "same-origin",
            **headers,
        }
        return await self.request("POST", path, sent, urlencode(form, doseq=True).encode())

    async def follow(self, answered: Answered) -> Answered:
        """Go where an answer sends the browser."""
        assert answered.status == 303, answered.text
        return await self.get(answered.location)

    async def request(
        self, method: str, address: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answered:
        """Send one request, with the cookies that were set before."""
        scope = self._scope(method, address, headers)
        messages: list[Any] = []
        requests = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if not requests:
                await asyncio.Event().wait()  # the browser stays until it has everything
            return requests.pop()

        async def send(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        start = messages[0]
        got = {name.decode(): value.decode() for name, value in start["headers"]}
        for name, value in start["headers"]:
            if name == b"set-cookie":
                cookie, _, kept = value.decode().partition(";")[0].partition("=")
                self.cookies[cookie] = kept
        content = b"".join(message.get("body", b"") for message in messages[1:])
        return Answered(start["status"], got, content, dict(self.cookies))

    async def events(self, address: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield the events of a stream, their data as JSON; leaving the loop goes away."""
        if not self.cookies:
            await self.get("/")
        scope = self._scope("GET", address, {"accept": "text/event-stream"})
        parts: asyncio.Queue[bytes] = asyncio.Queue()
        left = asyncio.Event()
        requests = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if requests:
                return requests.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                parts.put_nowait(message.get("body", b""))

        serving = asyncio.create_task(self.app(scope, receive, send))
        serving.add_done_callback(lambda _: parts.put_nowait(b""))
        try:
            text = b""
            while part := await parts.get():
                text += part
                while b"\n\n" in text:
                    event, _, text = text.partition(b"\n\n")
                    lines = dict(each.split(b": ", 1) for each in event.splitlines())
                    if b"event" in lines:
                        yield lines[b"event"].decode(), json.loads(lines[b"data"])
        finally:
            left.set()
            await serving

    def _scope(self, method: str, address: str, headers: Mapping[str, str]) -> dict[str, Any]:
        path, _, query = address.partition("?")
        sent = {"host": f"localhost:{PORT}", **headers}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", PORT),
        }

    async def until(self, shows: Callable[[Snapshot], object], timeout_s: float = 20.0) -> None:
        """Wait until the console knows something."""
        poller = self.console.poller
        assert await poller.until(lambda seen: bool(shows(seen)), timeout_s), poller.seen

    async def until_page(self, path: str, *texts: str, timeout_s: float = 20.0) -> str:
        """Ask for a page until all of these texts stand in it; return the page."""
        page = ""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    page = (await self.get(path)).text
                    if all(text in page for text in texts):
                        return page
                    await asyncio.sleep(0.02)
        except TimeoutError:
            missing = [text for text in texts if text not in page]
            raise AssertionError(f"{missing} never stood in {path}: {page}") from None


def as_json(value: Any) -> Any:
    """Return what a document says, as whoever reads it as JSON has it."""
    return json.loads(json.dumps(value, default=str))


@asynccontextmanager
async def console_of(
    servers: str,
    *,
    changes: bool = False,
    security: Security | None = None,
    clock: WallClock | None = None,
    settings: ConsoleSettings | None = None,
) -> AsyncIterator[Browser]:
    """Start a console of the cluster at these addresses, which has looked at all of it once.

    :param changes: whether it may change the cluster.
    """
    chosen = replace(settings or ConsoleSettings(), port=PORT, allow_changes=changes)
    clients = ClusterClients(servers, security)
    console = Console(clients, chosen, clock or SystemWallClock(), SeededEntropy(1))
    async with console:
        seen = console.poller

        def known() -> bool:
            facts = seen.seen
            return None not in (
                facts.cluster.asked_ms,
                facts.topics.asked_ms,
                facts.log_dirs.asked_ms,
                facts.min_isr.asked_ms,
                facts.groups.asked_ms,
                facts.transactions.asked_ms,
            )

        await eventually(known)
        yield Browser(console)
