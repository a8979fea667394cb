"""It judges the console as a whole, and ends with one line of JSON: ``make console-check``.

All tests with a browser run; then every page is opened a few times, and searched for what somebody
could not use; a search is timed by the console's own words. Times are of this machine, and are told
and not judged.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from oncelog import Producer
from support.browser import People, Person, chromium, inaccessible
from support.console_pages import EXAMPLES
from support.house import ROOT
from support.seeded_cluster import Seeded, seeded_cluster
from support.served_console import served_console
from support.tools import tool

LOADS = 5
SEARCHED = 200_000
PART = 20_000
SEARCH_MS = 60_000
FIRST_PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  const found = list.getEntriesByName("first-contentful-paint")[0];
  if (found) done(found.startTime);
}).observe({ type: "paint", buffered: true }))"""


def run_tests(jobs: str) -> dict[str, int]:
    """Run the tests with a browser; return how many there are, and how many did not pass."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "loadfile"]
        subprocess.run(
            [*command, "tests/console/browser", f"--junitxml={report}"],
            cwd=ROOT,
            env={**os.environ, "ONCELOG_REQUIRE_BROWSER": "1"},
            stdout=sys.stderr,
            check=False,
        )
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        totals = [
            {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
            for suite in suites
        ]
    tests = sum(total["tests"] for total in totals)
    bad = sum(total["failures"] + total["errors"] + total["skipped"] for total in totals)
    return {"browser_tests": tests, "failed": bad}


async def look() -> dict[str, Any]:
    """Open every page; return first paints, and what axe finds."""
    program = tool("get_chromium").get()
    paints: dict[str, float] = {}
    violations = 0
    async with (
        chromium(program) as browser,
        seeded_cluster() as seeded,
        served_console(seeded.bootstrap) as console,
    ):
        people = People(browser)
        person = await people.come(console.origin)
        for example in EXAMPLES:
            taken = []
            for _ in range(LOADS):
                page = await example.open(person)
                taken.append(float(await page.evaluate(FIRST_PAINT)))
                await page.close()
            paints[example.name] = round(statistics.median(taken), 1)
            page = await example.open(person)
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                found = await inaccessible(page, colours_alone=scheme == "dark")
                violations += len(found)
                for each in found:
                    print(f"{example.name}, {scheme}: {each}", file=sys.stderr)
            await page.close()
        rate = await search_rate(seeded, person)
        for complaint in await people.leave():
            print(complaint, file=sys.stderr)
            violations += 1
    return {"axe_violations": violations, "first_paint_ms": paints, "search_records_per_s": rate}


async def search_rate(seeded: Seeded, person: Person) -> int:
    """Return the records a second of a search for a text, its process' start included."""
    await seeded.cluster.create_topic("searched", partitions=1)
    values = [
        b'{"id": %d, "status": "new", "text": "%080d"}' % (each, each) for each in range(PART)
    ]
    async with Producer(seeded.bootstrap, acks=1) as producer:
        for _ in range(SEARCHED // PART):
            await producer.enqueue_many("searched", values)
        await producer.flush()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    page = await person.open(
        "/topics/searched/messages?from=beginning&where=value+contains+%22needle%22"
    )
    over = page.locator("#over").get_by_text("The whole range was searched")
    await over.wait_for(timeout=SEARCH_MS)
    return round(SEARCHED / (loop.time() - began_s))


def main() -> int:
    """Do all of it; return the exit code."""
    tests = run_tests(os.environ.get("CHECK_JOBS", "2"))
    seen = asyncio.run(look())
    ok = not tests["failed"] and tests["browser_tests"] > 0 and not seen["axe_violations"]
    print(json.dumps({"pages": len(EXAMPLES), **tests, **seen, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
