"""This measures the console's server: how soon it answers, what pages and searches take, what it
costs while nobody does anything.

The console is a process of its own; the brokers are in this one, in memory, since only the console
is measured. Pages are set beside one without data, which the same server makes: a busy machine
slows both alike.
"""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from oncelog import Admin, NewTopic, Producer
from oncelog_bench.idle import idle
from oncelog_bench.report import Report, quantile

NO_DATA = "console: a page without data, p95"
ANSWER_S = 60.0
TOPIC = "searched"
VALUE_BYTES = 100
PART = 50_000
NEEDLE_EVERY = 10_000
"""One record of so many fits the selective expressions: fewer than a search shows at most."""
ROWS_MAX = 500
TYPES_S = 2.0
"""Somebody who has opened the page of messages types an expression for so long at least."""
UNSEEN_S = 100.0
"""When nobody has looked for so long, the console has asked for the last time what it had planned
while somebody did: from then on it asks more seldom."""

SEARCHES = {
    "text": 'value contains "needle"',
    "a regular expression": r"value matches 'nee[a-f]le'",
    "a field of JSON, few fit the text": 'value.status == "needle"',
    "a field of JSON of every record": "value.id < 0",
}


@dataclass(frozen=True, slots=True)
class ConsoleScale:
    """So much work is done."""

    topics: int
    partitions: int
    """Each topic has so many."""
    loads: int
    records: int
    watched_s: float
    unseen_s: float
    """CPU while nobody looks is measured over so many seconds; 0: it is not."""
    repeats: int


FULL = ConsoleScale(2_000, 5, 60, 1_000_000, 30.0, 90.0, 3)
QUICK = ConsoleScale(100, 2, 15, 50_000, 5.0, 0.0, 1)


class Visitor:
    """It asks one console, over one connection, as a browser does."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=ANSWER_S)
        self._cookie = ""

    def get(self, path: str, accept: str = "text/html") -> tuple[int, str, str]:
        """Return status, body and where it sends the visitor."""
        headers = {"accept": accept, "cookie": self._cookie}
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read().decode()
        cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        self._cookie = cookie or self._cookie
        return answer.status, body, answer.headers.get("location", "")

    def stream(self, path: str) -> tuple[float | None, float]:
        """Return the seconds until a stream brought a row, None without one, and until its end.

        :raises RuntimeError: it is refused, or tells that something failed.
        """
        began = time.perf_counter()
        headers = {"accept": "text/event-stream", "cookie": self._cookie}
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        first_s = None
        for line in answer:
            if first_s is None and ROW in line:
                first_s = time.perf_counter() - began
            if answer.status != http.client.OK or FAILED in line:
                raise RuntimeError(f"{path}: {answer.status}: {line[:300]!r}")
        return first_s, time.perf_counter() - began

    def milliseconds(self, path: str) -> float:
        """Return how long a page takes, which has to be there."""
        began = time.perf_counter()
        status, body, _ = self.get(path)
        took = (time.perf_counter() - began) * 1000
        if status >= 400 and path != NOTHING:
            raise RuntimeError(f"{path}: {status}: {body[:200]}")
        return took

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


ROW = b'"rows": [{'
FAILED = b'"state": "failed"'
NOTHING = "/there-is-no-such-page"


@contextmanager
def console(bootstrap: str) -> Iterator[tuple[subprocess.Popen[str], Visitor, float]]:
    """Start a console; yield its process, a visitor, and the seconds until it answered."""
    command = [sys.executable, "-m", "oncelog_console", "--port=0", f"--bootstrap={bootstrap}"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        visitor = Visitor(urlsplit(line.removeprefix("console listening on ").strip()).netloc)
        visitor.get("/livez")
        try:
            yield process, visitor, time.perf_counter() - began
        finally:
            visitor.close()
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def run(report: Report, scale: ConsoleScale) -> None:
    """Measure everything into the report."""
    # Brokers in this process: see the suite, which loads this module for every group.
    from oncelog.testing import Cluster

    with Cluster(1, offsets_topic_num_partitions=1) as cluster:
        started = []
        for _ in range(scale.repeats):
            with console(cluster.bootstrap) as (_, _, seconds):
                started.append(seconds)
        report.add("console: from its start to the first answer", started, "s")
        asyncio.run(_fill(cluster.bootstrap, scale))
        with console(cluster.bootstrap) as (process, visitor, _):
            _wait_until_known(visitor, scale.topics)
            _pages(report, visitor, scale)
            _searches(report, visitor, scale)
            _idle(report, process.pid, scale)


def _idle(report: Report, pid: int, scale: ConsoleScale) -> None:
    """Measure what the console costs that somebody has just looked at, and then nobody."""
    count = scale.topics * scale.partitions
    cpu, memory = idle([pid], seconds=scale.watched_s)
    report.add(f"console: CPU at {count:,} partitions, watched", cpu, "% of a core")
    report.add(f"console: memory at {count:,} partitions", memory, "MB")
    if scale.unseen_s:
        time.sleep(max(0.0, UNSEEN_S - scale.watched_s))
        cpu, _ = idle([pid], seconds=scale.unseen_s)
        report.add(f"console: CPU at {count:,} partitions, nobody looks", cpu, "% of a core")


async def _fill(bootstrap: str, scale: ConsoleScale) -> None:
    async with Admin(bootstrap) as admin:
        names = [f"topic-{number:05}" for number in range(scale.topics)]
        await admin.create_topics([NewTopic(name, scale.partitions, 1) for name in names],
                                  timeout_ms=300_000)  # fmt: skip
        await admin.create_topics([NewTopic(TOPIC, 1, 1)])
    padding = "x" * (VALUE_BYTES - 40)
    async with Producer(bootstrap, acks=1) as producer:
        for first in range(0, scale.records, PART):
            values = [
                b'{"id":%d,"status":"%s","text":"%s"}'
                % (each, b"needle" if each % NEEDLE_EVERY == 0 else b"new", padding.encode())
                for each in range(first, min(first + PART, scale.records))
            ]
            await producer.enqueue_many(TOPIC, values=values)
        await producer.flush()


def _wait_until_known(visitor: Visitor, topics: int) -> None:
    """Wait until the console has looked at all topics once."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        _, body, _ = visitor.get("/topics")
        if f"of {topics + 1:,}" in body:
            return
        if time.monotonic() > deadline:
            raise RuntimeError("the console does not show all topics")
        time.sleep(0.2)


def _pages(report: Report, visitor: Visitor, scale: ConsoleScale) -> None:
    pages = {
        NO_DATA: NOTHING,
        "console: the overview, p95": "/",
        f"console: 100 of {scale.topics:,} topics, p95": "/topics",
        "console: topics filtered by a text, p95": "/topics?q=00042",
        f"console: all {scale.topics:,} topics on one page, p95": "/topics?all=1",
        "console: a topic, p95": "/topics/topic-00001",
        "console: brokers, p95": "/brokers",
        "console: groups, p95": "/groups",
        "console: settings, p95": "/settings",
    }
    taken: dict[str, list[float]] = {name: [] for name in pages}
    for load in range(scale.loads + 1):
        for name, path in pages.items():  # in turns: a noisy minute hits all
            took = visitor.milliseconds(path)
            if load:  # the first one compiles its template
                taken[name].append(took)
    for name, values in taken.items():
        against = None if name == NO_DATA else NO_DATA
        report.add(name, [quantile(values, 0.95)], "ms", against=against)


def _searches(report: Report, visitor: Visitor, scale: ConsoleScale) -> None:
    # Each search asks for another number of rows: the console remembers what it has found.
    wanted = iter(range(ROWS_MAX, 0, -1))
    text = next(iter(SEARCHES.values()))
    cold = [_searched(visitor, scale, text, next(wanted))[0] for _ in range(scale.repeats)]
    report.add("console: first hit of a link, no program ready", _hits(cold), "s")
    for name, expression in SEARCHES.items():
        runs = []
        for _ in range(scale.repeats):
            visitor.milliseconds(f"/topics/{TOPIC}/messages?from=newest:1&to=end")
            time.sleep(TYPES_S)
            runs.append(_searched(visitor, scale, expression, next(wanted)))
        rates = [scale.records / seconds for _, seconds in runs]
        report.add(f"console: search for {name}, 100 B", rates, "records/s")
        if hits := _hits([first_s for first_s, _ in runs]):
            report.add(f"console: first hit of a search for {name}", hits, "s")


def _hits(seconds: Iterable[float | None]) -> list[float]:
    return [each for each in seconds if each is not None]


def _searched(
    visitor: Visitor, scale: ConsoleScale, expression: str, rows: int
) -> tuple[float | None, float]:
    """Return after how many seconds one search through the whole topic showed a record, and ended;
    the start of its program counts where none was ready."""
    where = quote(expression, safe="")
    query = f"p=all&from=beginning&to=offset:{scale.records}&n={rows}&where={where}"
    return visitor.stream(f"/topics/{TOPIC}/messages/found?{query}&known=0")
