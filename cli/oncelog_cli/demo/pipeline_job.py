"""The pipeline demo sends flights, kills a driver and a broker under Spark, and reads the totals.

Rules: flights are sent in the order of their time before the pipeline starts, so that what is
late is decided by the data and not by this machine. The driver is killed after a third of the
rows, the broker that leads partition 0 after two thirds; both start again. When the consumer group
that shows the pipeline's progress has no lag any more, one record in each partition, of a day far
ahead, closes all windows. The totals are read from the beginning, committed ones only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from oncelog import Admin, Consumer, NewTopic, Producer
from oncelog_cli.demo.delays import (
    CLOSING_TIME,
    Judge,
    PipelineVerdict,
    ground_truth,
    in_time_order,
    rows_of_file,
)
from oncelog_cli.demo.driver import PROGRESS, Driver, PipelineError, run_command
from oncelog_cli.demo.flights import read_flights
from oncelog_cli.demo.view import DemoView
from oncelog_cli.local.cluster import LocalCluster

JOB_FILE = Path(__file__).with_name("delays.toml")
FLIGHTS = "flights"
TOTALS = "delays"
GROUP = "delays"
"""The consumer group that shows the job's progress has the job's name."""
PARTITIONS = 4
TOTALS_PARTITIONS = 2
SEND_RECORDS = 20_000
BATCH_ROWS = 25_000
"""``maxOffsetsPerTrigger`` in the job's file."""
BATCHES_MIN = 12
"""With fewer flights the micro-batches are smaller, so that there is still a middle."""
LOOK_S = 0.25
QUIET_S = 60.0
"""Totals that have not come by then, after the last one, are missing."""
STORY_DEADLINE_S = 900.0


class PipelineJob:
    """A job is one run over one cluster; ``home`` is where the job's file and checkpoint go."""

    def __init__(self, path: Path, home: Path, *, limit: int) -> None:
        self._path = path
        self._home = home
        self._limit = limit
        self._flights = 0
        self._rows = 0
        self._batches = 0
        self._late_rows = 0
        self._drivers_killed = 0
        self._brokers_killed = 0
        self._driver: Driver | None = None
        self._listening: asyncio.Task[None] | None = None

    async def run(self, cluster: LocalCluster, view: DemoView) -> PipelineVerdict:
        """Run the whole story, and return the verdict.

        :raises PipelineError: the pipeline failed, or nothing happened for too long.
        """
        loop = asyncio.get_running_loop()
        rows = rows_of_file(self._path, limit=self._limit)
        judge = Judge(await asyncio.to_thread(ground_truth, rows))
        try:
            async with asyncio.timeout(STORY_DEADLINE_S), Admin(cluster.bootstrap) as admin:
                await self._create_topics(admin)
                await self._send_flights(cluster.bootstrap, view)
                began = loop.time()
                await self._work(cluster, admin, view)
                await self._close_windows(cluster.bootstrap, view)
                lag = await self._read_totals(cluster.bootstrap, admin, judge, view)
                seconds = loop.time() - began
        except TimeoutError:
            raise PipelineError(f"not done after {STORY_DEADLINE_S:g} s") from None
        finally:
            await self._end_driver()
        return judge.verdict(
            flights=self._flights,
            late_rows=self._late_rows,
            batches=self._batches,
            drivers_killed=self._drivers_killed,
            brokers_killed=self._brokers_killed,
            lag=lag,
            seconds=seconds,
        )

    # ---- input

    async def _create_topics(self, admin: Admin) -> None:
        settings = {"min_insync_replicas": "2"}
        topics = [
            NewTopic(FLIGHTS, PARTITIONS, 3, settings),
            NewTopic(TOTALS, TOTALS_PARTITIONS, 3, settings),
        ]
        (await admin.create_topics(topics)).raise_for_errors()

    async def _send_flights(self, bootstrap: str, view: DemoView) -> None:
        flights = read_flights(self._path, limit=self._limit)
        records = await asyncio.to_thread(lambda: in_time_order(f.value for f in flights))
        self._flights = len(records)
        async with Producer(bootstrap) as producer:
            for start in range(0, len(records), SEND_RECORDS):
                part = records[start : start + SEND_RECORDS]
                keys, values = [key for key, _ in part], [value for _, value in part]
                await producer.send_many(FLIGHTS, values, keys=keys)
        view.say(f"Sent {self._flights:,} flights in the order of their time.")

    async def _close_windows(self, bootstrap: str, view: DemoView) -> None:
        closing = json.dumps({"time_hour": CLOSING_TIME}).encode()
        async with Producer(bootstrap) as producer:
            for partition in range(PARTITIONS):
                await producer.send(FLIGHTS, closing, partition=partition)
        view.say("A record of a day far ahead closes every window.")

    # ---- work

    async def _work(self, cluster: LocalCluster, admin: Admin, view: DemoView) -> None:
        view.say("Starting the pipeline: oncelog pipeline run delays.toml ...")
        await self._start_driver(cluster.bootstrap, view)
        await self._until(self._reached(1 / 3))
        await self._kill_driver(view)
        await self._start_driver(cluster.bootstrap, view)
        await self._until(self._reached(2 / 3))
        leader = await self._kill_broker(cluster, admin, view)
        await self._until(self._reached(3 / 4))
        view.say(f"Starting broker {leader} again ...")
        await asyncio.to_thread(cluster.start_broker, leader)
        await self._until(lambda: self._has_caught_up(admin))
        view.say(f"Its consumer group has no lag: oncelog groups describe {GROUP}")

    def _reached(self, part: float) -> Callable[[], Awaitable[bool]]:
        async def reached() -> bool:
            return self._rows >= self._flights * part

        return reached

    async def _start_driver(self, bootstrap: str, view: DemoView) -> None:
        job = self._home / JOB_FILE.name
        if not job.exists():
            rows = min(BATCH_ROWS, max(1, self._flights // BATCHES_MIN))
            text = JOB_FILE.read_text(encoding="utf-8")
            text = text.replace(f"{BATCH_ROWS:_}", str(rows))
            job.write_text(text, encoding="utf-8")
        self._driver = Driver(run_command(job, bootstrap), self._home / "pipeline.log")
        await self._driver.start()
        self._listening = asyncio.create_task(self._listen(self._driver, view))

    async def _listen(self, driver: Driver, view: DemoView) -> None:
        async for event in driver.events():
            if event.get("event") != PROGRESS:
                continue
            self._batches += 1
            self._rows += event["rows"]
            self._late_rows += event["late_rows"]
            view.say(
                f"  batch {event['batch']}: {event['rows']:,} flights in "
                f"{event['duration_ms']:,} ms, state of {event['state_rows'] or 0:,} windows"
            )

    async def _kill_driver(self, view: DemoView) -> None:
        assert self._driver is not None
        await self._driver.kill()
        await self._stop_listening()
        self._drivers_killed += 1
        view.say("kill -9 of the Spark driver. Starting it again, from its checkpoint ...")

    async def _kill_broker(self, cluster: LocalCluster, admin: Admin, view: DemoView) -> int:
        leader = (await admin.describe_topics([FLIGHTS]))[0].partitions[0].leader
        cluster.broker(leader).kill()
        self._brokers_killed += 1
        view.say(f"kill -9 of broker {leader}, leader of {FLIGHTS}-0.")
        return leader

    async def _heal(self, admin: Admin, view: DemoView) -> None:
        async def healed() -> bool:
            topics = await admin.describe_topics([FLIGHTS, TOTALS])
            return all(len(p.isr) == len(p.replicas) for t in topics for p in t.partitions)

        await self._until(healed)
        view.say("Every partition has three in-sync replicas.")

    # ---- waiting

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for it; the story's deadline is around.

        :raises PipelineError: the pipeline ended meanwhile.
        """
        while not await condition():
            assert self._driver is not None
            assert self._listening is not None
            if self._listening.done():
                self._listening.result()
                raise PipelineError(f"it ended; its log says\n{self._driver.log_tail()}")
            await asyncio.sleep(LOOK_S)

    async def _lag(self, admin: Admin) -> int | None:
        return (await admin.describe_groups([GROUP]))[0].lag

    async def _has_caught_up(self, admin: Admin) -> bool:
        return await self._lag(admin) == 0

    # ---- the end

    async def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _end_driver(self) -> None:
        await self._stop_listening()
        if self._driver is not None and self._driver.running:
            await self._driver.stop()

    async def _read_totals(
        self, bootstrap: str, admin: Admin, judge: Judge, view: DemoView
    ) -> int | None:
        """Read what is committed from the beginning until all windows are there, end the pipeline,
        and read on to the end: nothing more may come. Returns the group's lag."""
        async with Consumer(
            TOTALS, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            quiet_since = asyncio.get_running_loop().time()

            async def complete() -> bool:
                nonlocal quiet_since
                now = asyncio.get_running_loop().time()
                if await self._take(consumer, judge):
                    quiet_since = now
                return judge.windows == len(judge.truth) or now - quiet_since > QUIET_S

            await self._until(complete)
            await self._until(lambda: self._has_caught_up(admin))
            lag = await self._lag(admin)
            view.say(f"{judge.windows:,} windows are there. Stopping the pipeline ...")
            await self._heal(admin, view)
            await self._end_driver()
            while await self._take(consumer, judge) or any((await consumer.lag()).values()):
                pass
        return lag

    async def _take(self, consumer: Consumer, judge: Judge) -> int:
        taken = await consumer.getmany(timeout_ms=int(LOOK_S * 1000))
        for records in taken.values():
            for record in records:
                judge.on_read(record.value or b"{}")
        return sum(map(len, taken.values()))
