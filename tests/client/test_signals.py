"""Signals close a consumer in a process of its own, or are refused."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition, blocking
from oncelog.errors import ClientError
from oncelog.signals import StopSignals
from support.cluster import Cluster
from support.fake_cluster import FakeCluster
from support.waiting import eventually, in_thread

SETTINGS: dict[str, Any] = {
    "offsets_topic_num_partitions": 1,
    "group_initial_rebalance_delay_ms": 0,
}

RUN = """
import asyncio, sys
from oncelog import Consumer

async def main():
    async def handle(record):
        print(record.offset, flush=True)
        await asyncio.sleep(0.002)

    async with Consumer(
        "t", bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.run(handle, concurrency=8, order="key", stop_on_signals=True)

asyncio.run(main())
"""

LOOP = """
import asyncio, sys
from oncelog import Consumer

async def main():
    async with Consumer(
        "t", bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        consumer.stop_on_signals()
        async for record in consumer:
            print(record.offset, flush=True)

asyncio.run(main())
"""

BLOCKING_RUN = """
import sys
from oncelog.blocking import Consumer

with Consumer(
    "t", bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest"
) as consumer:
    consumer.run(
        lambda record: print(record.offset, flush=True), order="key", stop_on_signals=True
    )
"""

BLOCKING_LOOP = """
import sys
from oncelog.blocking import Consumer

with Consumer(
    "t", bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest"
) as consumer:
    consumer.stop_on_signals()
    for record in consumer:
        print(record.offset, flush=True)
"""

PROGRAMS = {"run": RUN, "loop": LOOP, "blocking run": BLOCKING_RUN, "blocking loop": BLOCKING_LOOP}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_signal_ends_the_program_with_everything_in_order(
    tmp_path: Path, name: str, number: signal.Signals
) -> None:
    """It exits with 0, what was done is committed, and the member has left its group."""
    async with (
        Cluster(tmp_path, brokers=1, **SETTINGS) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        await admin.create_topics([NewTopic("t", 1, 1)])
        async with Producer(cluster.bootstrap) as producer:
            keys = [b"%d" % (n % 7) for n in range(3000)]
            await producer.send_many("t", [b"v"] * 3000, keys=keys)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAMS[name], cluster.bootstrap, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            seen = [int(await process.stdout.readline()) for _ in range(50)]
            process.send_signal(number)
            seen += [int(line) async for line in process.stdout]
            assert await process.wait() == 0
        assert sorted(seen) == list(range(len(seen))), "each once, and no gap"
        committed = await admin.list_group_offsets("g")
        group = (await admin.describe_groups(["g"]))[0]
        assert group.members == ()
        done = committed[TopicPartition("t", 0)]
        assert done is not None
        offset = done.offset
        # A loop's record in hand counts as not done.
        assert offset == len(seen) if "run" in name else len(seen) - 1 <= offset <= len(seen)


async def test_only_the_main_thread_may_ask_for_signals() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            with blocking.Consumer("t", bootstrap_servers=cluster.bootstrap) as consumer:
                with pytest.raises(ClientError, match="main thread"):
                    consumer.stop_on_signals()
                with pytest.raises(ClientError, match="main thread"):
                    consumer.run(print, stop_on_signals=True)

        await in_thread(work)


async def test_the_first_signal_gives_them_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with Consumer("t", bootstrap_servers=cluster.bootstrap) as consumer:
            consumer.stop_on_signals()
            consumer.stop_on_signals()
            os.kill(os.getpid(), signal.SIGTERM)
            assert [record async for record in consumer] == []
            assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
        async with Consumer("t", bootstrap_servers=cluster.bootstrap) as consumer:
            consumer.stop_on_signals()
            assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] != before
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


async def test_without_a_loop_the_handler_is_the_main_thread_s() -> None:
    came: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    held = StopSignals(lambda: came.append(1))
    os.kill(os.getpid(), signal.SIGTERM)
    await eventually(lambda: came == [1])
    assert signal.getsignal(signal.SIGTERM) is before
    held.release()
