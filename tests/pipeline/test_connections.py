"""A process has one loop and keeps connections on it; a fork leaves some of that."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from oncelog.errors import DeadlineExceededError, NoBrokersAvailableError
from pipeline.spark_task import sink_options
from pyspark_oncelog import connections


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@pytest.mark.usefixtures("fresh_connections")
def test_a_call_runs_on_the_one_loop() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert connections.call(double, 21) == 42
    assert connections.call(loop) is connections.call(loop)
    assert connections.submit(double(4)).result(10) == 8


@pytest.mark.usefixtures("fresh_connections")
def test_a_call_has_a_deadline_and_names_what_it_waited_for() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlineExceededError, match=r"forever: no answer within 0\.01 s"):
        connections.call(forever, timeout_s=0.01)


@pytest.mark.usefixtures("fresh_connections")
def test_what_is_kept_is_made_once() -> None:
    made: list[int] = []

    async def make() -> int:
        await asyncio.sleep(0)
        made.append(len(made))
        return made[-1]

    async def both() -> list[int]:
        return list(await asyncio.gather(connections.keep("k", make), connections.keep("k", make)))

    assert connections.call(both) == [0, 0]
    assert connections.forget("k") == 0
    assert connections.forget("k") is None
    assert connections.call(connections.keep, "k", make) == 1


@pytest.mark.usefixtures("fresh_connections")
def test_what_could_not_be_made_is_tried_again() -> None:
    tries: list[int] = []

    async def make() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not now")
        return "made"

    with pytest.raises(OSError, match="not now"):
        connections.call(connections.keep, "k", make)
    assert connections.call(connections.keep, "k", make) == "made"


@pytest.mark.usefixtures("fresh_connections")
def test_nobody_at_the_address() -> None:
    with pytest.raises(NoBrokersAvailableError):
        connections.call(connections.started_admin, sink_options("127.0.0.1:1"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_its_own() -> None:
    """Whatever Spark's daemon had done before it forks its workers must not hold them up."""
    import subprocess

    program = (
        "import os\n"
        "from pyspark_oncelog import connections\n"
        "async def pid(): return os.getpid()\n"
        "assert connections.call(pid) == os.getpid()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0 if connections.call(pid, timeout_s=20) == os.getpid() else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)


@pytest.mark.usefixtures("fresh_connections")
def test_what_is_said_once() -> None:
    here = connections.here()
    assert [here.once(text) for text in ("a", "b", "a")] == [True, True, False]
    told = [here.once(f"path {number}") for number in range(2 * connections.SAID_MAX)]
    assert sum(told) == connections.SAID_MAX - 2
