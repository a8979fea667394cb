"""It takes the pictures of docs/console.md: ``make screenshots``.

Every example of ``support.console_pages`` is shown by a real console of the seeded cluster, in
Chromium. A picture is as wide as its window, and as high as the page, up to a limit.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import sys
from pathlib import Path
from typing import Any

from support.browser import PHONE, WIDE, People, chromium
from support.console_pages import Example, pictures
from support.seeded_cluster import seeded_cluster
from support.served_console import served_console
from support.tools import tool

BYTES_MAX = 80_000
HEIGHT_MAX = {"": 620, "-dark": 620, "-phone": 844}
CONTENT_END = """() => Math.max(...[...document.querySelectorAll("main, main *")]
  .map((each) => each.getBoundingClientRect().bottom))"""
MARGIN = 24
QUALITY = 80


async def take(people: People, origin: str, example: Example, kind: str) -> bytes:
    """Take one picture and return it."""
    person = await people.come(
        origin,
        scheme="dark" if kind == "-dark" else "light",
        size=PHONE if kind == "-phone" else WIDE,
    )
    page = await example.open(person)
    size: Any = page.viewport_size
    await page.set_viewport_size({"width": size["width"], "height": 200})
    height = min(round(await page.evaluate(CONTENT_END)) + MARGIN, HEIGHT_MAX[kind])
    await page.set_viewport_size({"width": size["width"], "height": height})
    # As WebP, which Playwright itself does not offer: a PNG of the same is twice as large.
    session = await person.context.new_cdp_session(page)
    taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    return base64.b64decode(taken["data"])


async def take_all(only: str) -> tuple[dict[str, bytes], int]:
    """Take the pictures whose names contain a text; return them, and how many went wrong."""
    program = tool("get_chromium").get()
    taken: dict[str, bytes] = {}
    failed = 0
    async with (
        chromium(program) as browser,
        seeded_cluster() as seeded,
        served_console(seeded.bootstrap) as console,
    ):
        for name, (example, kind) in pictures().items():
            if only not in name:
                continue
            people = People(browser)
            picture = await take(people, console.origin, example, kind)
            taken[name] = picture
            size = len(picture)
            complaints = await people.leave()
            if size > BYTES_MAX:
                complaints.append(f"{size:,} bytes; at most {BYTES_MAX:,}")
            failed += bool(complaints)
            print(f"{name}: {size:,} bytes", *complaints)
    return taken, failed


def main() -> int:
    """Parse the arguments and take the pictures."""
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--only", default="", help="only pictures with this in their name")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    taken, failed = asyncio.run(take_all(options.only))
    for name, picture in taken.items():
        (options.folder / name).write_bytes(picture)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
