"""It takes the pictures of docs/console.md: ``make screenshots``.

Every example of ``support.console_pages`` is shown by a real console of the seeded cluster, in
Chromium. A picture is as wide as its window, and as high as the page, up to a limit.
"""

from __future__ import annotations

import argparse
import asyncio
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


async def take(people: People, origin: str, example: Example, kind: str, file: Path) -> int:
    """Take one picture; return its bytes."""
    person = await people.come(
        origin,
        scheme="dark" if kind == "-dark" else "light",
        size=PHONE if kind == "-phone" else WIDE,
    )
    page = await person.open(example.path)
    await page.locator(example.shown).first.wait_for()
    size: Any = page.viewport_size
    await page.set_viewport_size({"width": size["width"], "height": 200})
    height = min(round(await page.evaluate(CONTENT_END)) + MARGIN, HEIGHT_MAX[kind])
    await page.set_viewport_size({"width": size["width"], "height": height})
    taken = await page.screenshot(path=file, animations="disabled", caret="hide")
    return len(taken)


async def take_all(folder: Path, only: str) -> int:
    """Take the pictures whose names contain a text; return the exit code."""
    program = tool("get_chromium").get()
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
            size = await take(people, console.origin, example, kind, folder / name)
            complaints = await people.leave()
            if size > BYTES_MAX:
                complaints.append(f"{size:,} bytes; at most {BYTES_MAX:,}")
            failed += bool(complaints)
            print(f"{name}: {size:,} bytes", *complaints)
    return 1 if failed else 0


def main() -> int:
    """Parse the arguments and take the pictures."""
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--only", default="", help="only pictures with this in their name")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(take_all(options.folder, options.only))


if __name__ == "__main__":
    sys.exit(main())
