"""Tests have a browser: Debian's Chromium, driven by Playwright, with people who sit at it.

Whatever a person's windows ask for, complain about or fail at is watched. ``people`` checks it
when the test ends, so that every test with a browser proves that nothing was fetched from
elsewhere, that no script failed, and that the policy of contents was kept.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    WebError,
    async_playwright,
    expect,
)

__all__ = ["People", "Person", "chromium", "inaccessible"]

FLAGS = (
    "--no-sandbox",  # root has none, and the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Chromium itself finds nobody either, whatever it would like to ask.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
DEADLINE_MS = 15_000
"""What a test waits for comes within this time."""
WIDE = (1200, 900)
PHONE = (390, 844)
LOCAL_SCHEMES = ("data", "blob", "about")

COMPLAIN = """
document.addEventListener("securitypolicyviolation", (event) => console.error(
  `policy of contents: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""

AXE_OPTIONS = {
    "resultTypes": ["violations"],
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"],
    },
}
"""The rules of WCAG 2.2 at the levels A and AA."""

Scheme = Literal["light", "dark"]


@asynccontextmanager
async def chromium(program: Path) -> AsyncIterator[Browser]:
    """Start a browser with a new directory for what it remembers, and end it."""
    expect.set_options(timeout=DEADLINE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


class Person:
    """A person has a browser of their own: cookies, zone and taste are nobody else's.

    :param origin: the only place from which this person's windows may fetch anything.
    """

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.context = context
        self.origin = origin
        self.complaints: list[str] = []
        self._expected: list[str] = []
        context.on("request", self._requested)
        context.on("console", self._said)
        context.on("weberror", self._failed)

    def expect(self, pattern: str) -> None:
        """Say that a complaint that matches a regular expression is no failure of this test."""
        self._expected.append(pattern)

    @property
    def unexpected(self) -> list[str]:
        """Return the complaints that nobody expected."""
        return [
            each
            for each in self.complaints
            if not any(re.search(pattern, each) for pattern in self._expected)
        ]

    async def close_windows(self) -> None:
        """Close all windows, and stay."""
        for page in self.context.pages:
            await page.close()

    async def open(self, path: str) -> Page:
        """Open a window at a path of the origin."""
        page = await self.context.new_page()
        await page.goto(self.origin + path)
        return page

    def _requested(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL_SCHEMES and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.complaints.append(f"request to elsewhere: {request.method} {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            where = message.location.get("url", "")
            self.complaints.append(f"console {message.type}: {message.text} ({where})")

    def _failed(self, error: WebError) -> None:
        self.complaints.append(f"page error: {error.error}")


class People:
    """They come to a browser, and what they complained about is known at the end."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._came: list[Person] = []

    async def come(
        self,
        origin: str,
        *,
        scheme: Scheme = "light",
        script: bool = True,
        zone: str = "Etc/UTC",
        size: tuple[int, int] = WIDE,
    ) -> Person:
        """Return a new person.

        :param script: whether their browser runs scripts.
        :param zone: the time zone of their machine.
        :param size: the window's width and height.
        """
        context = await self._browser.new_context(
            color_scheme=scheme,
            java_script_enabled=script,
            locale="en-GB",
            reduced_motion="reduce",
            service_workers="block",
            timezone_id=zone,
            viewport={"width": size[0], "height": size[1]},
        )
        context.set_default_timeout(DEADLINE_MS)
        await context.add_init_script(COMPLAIN)
        person = Person(context, origin)
        self._came.append(person)
        return person

    async def leave(self) -> list[str]:
        """Close every window; return what was complained about, and not expected."""
        complaints = [each for person in self._came for each in person.unexpected]
        for person in self._came:
            await person.context.close()
        return complaints


AXE_OF_COLOURS = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}
"""These rules of them look at colours; what the others look at is the same in each scheme."""


async def inaccessible(page: Page, *, colours_alone: bool = False) -> list[str]:
    """Return what axe finds on a page against WCAG 2.2 AA, a line for each element.

    :param colours_alone: the page was looked at before, and has other colours now.
    """
    options = AXE_OF_COLOURS if colours_alone else AXE_OPTIONS
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE_SCRIPT)
    found = await page.evaluate("options => axe.run(options).then(all => all.violations)", options)
    return [
        f"{violation['id']}: {' '.join(map(str, node['target']))}: {violation['help']}"
        for violation in found
        for node in violation["nodes"]
    ]
