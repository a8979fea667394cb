"""The loop has virtual time, ends a run, has what asyncio needs, and nothing of the machine."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from oncelog_runtime.entropy import SeededEntropy
from simulation.loop import SimLoop, SimulationError, until
from simulation.play import play

# ---- time


def test_time_is_virtual_and_moves_straight_to_the_next_timer() -> None:
    async def main(loop: SimLoop) -> list[float]:
        times = [loop.time()]
        for delay in (0.0, 0.25, 86_400.0):
            await asyncio.sleep(delay)
            times.append(loop.time())
        return times

    assert play(main) == [0.0, 0.0, 0.25, 86_400.25]


def test_work_takes_no_time() -> None:
    async def main(loop: SimLoop) -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return loop.time()

    assert play(main) == 0.0


@pytest.mark.parametrize("rate", [0.95, 1.0, 1.05])
@pytest.mark.parametrize("offset_s", [0.0, 1000.0, 123_456_789.123])
def test_timers_are_never_early_by_the_clock_that_set_them(rate: float, offset_s: float) -> None:
    async def main(loop: SimLoop) -> None:
        process = loop.process("p", rate=rate, offset_s=offset_s)
        chance = SeededEntropy(7)
        late: list[float] = []

        def fired(when: float) -> None:
            late.append(loop.time() - when)

        async def work() -> None:
            for _ in range(300):
                await asyncio.sleep(chance.random() * 0.01)
                when = loop.time() + chance.random() ** 8
                loop.call_at(when, fired, when)

        await process.call(work())
        await asyncio.sleep(2)
        assert len(late) == 300
        assert min(late) >= 0.0
        assert max(late) < 1e-6

    play(main)


def test_clocks_have_rates_and_offsets() -> None:
    async def main(loop: SimLoop) -> None:
        fast = loop.process("fast", rate=1.25, offset_s=100.0)

        async def sleep() -> tuple[float, float]:
            before = loop.time()
            await asyncio.sleep(5.0)
            return before, loop.time()

        assert await fast.call(sleep()) == (100.0, 105.0)
        assert loop.time() == loop.now_s == 4.0

    play(main)


def test_a_timer_of_the_past_fires_now() -> None:
    async def main(loop: SimLoop) -> None:
        await asyncio.sleep(1.0)
        fired = loop.create_future()
        loop.call_at(0.5, fired.set_result, None)
        await fired
        assert loop.time() == 1.0

    play(main)


def test_timers_that_are_due_together_run_before_what_they_begin() -> None:
    async def main(loop: SimLoop) -> list[str]:
        heard: list[str] = []

        def first() -> None:
            heard.append("first")
            loop.call_soon(heard.append, "begun by the first")

        loop.call_later(1.0, first)
        loop.call_later(1.0, heard.append, "second")
        await asyncio.sleep(2.0)
        return heard

    assert play(main) == ["first", "second", "begun by the first"]


def test_cancelled_timers_do_not_fire() -> None:
    async def main(loop: SimLoop) -> None:
        fired: list[int] = []
        timers = [loop.call_later(1.0 + n / 1e6, fired.append, n) for n in range(5000)]
        for number, timer in enumerate(timers):
            if number % 1000:
                timer.cancel()
                timer.cancel()
        assert len(loop._timers) < 3000, "the cancelled are swept away"
        await asyncio.sleep(2.0)
        assert fired == [0, 1000, 2000, 3000, 4000]
        assert loop.time() == 2.0

    play(main)


# ---- the end


def test_a_live_lock_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.loop.STEPS_WITHOUT_TIME_MAX", 1000)

    async def main(loop: SimLoop) -> None:
        await asyncio.sleep(1.5)
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match=r"live lock at 1\.5"):
        play(main)


def test_a_dead_end_is_found() -> None:
    async def main(loop: SimLoop) -> None:
        paused = loop.process("p")
        paused.pause()
        paused.post(print)
        await asyncio.sleep(2.5)
        await loop.create_future()

    with pytest.raises(SimulationError, match=r"nothing is left to happen at 2\.5"):
        play(main)


def test_failures_nobody_heard_are_kept() -> None:
    loop = SimLoop(1)

    def fail() -> None:
        raise KeyError("callback")

    async def failing() -> None:
        raise KeyError("task")

    async def main() -> str:
        loop.call_soon(fail)
        task = loop.create_task(failing())
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)
        return "went on"

    assert loop.run(main()) == "went on"
    assert [str(each["exception"]) for each in loop.unhandled] == ["'callback'", "'task'"]


def test_a_loop_is_used_once_and_alone() -> None:
    loop = SimLoop(1)

    async def nothing() -> int:
        return 1

    async def nested() -> None:
        SimLoop(2).run(nothing())

    assert loop.run(nothing()) == 1
    with pytest.raises(RuntimeError, match="over"):
        loop.run(nothing())
    with pytest.raises(RuntimeError, match="another loop"):
        SimLoop(3).run(nested())
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


async def numbers(heard: list[str]) -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        await asyncio.sleep(0.1)
        heard.append("generator closed")


def test_nothing_of_a_run_is_heard_after_it(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    async def unstarted() -> None:
        heard.append("never")

    async def stubborn(loop: SimLoop) -> None:
        try:
            await loop.create_future()
        finally:
            await asyncio.sleep(5)  # cannot be closed

    async def half_read() -> None:
        async for _ in numbers(heard):
            await asyncio.sleep(1e9)

    async def main(loop: SimLoop) -> None:
        for alive in (True, False):
            process = loop.process("p")
            process.spawn(stubborn(loop))
            process.spawn(half_read())
            failed: asyncio.Future[None] = process.run(loop.create_future)
            process.run(loop.run_in_executor, None, print)
            loop.call_later(0.5, failed.cancel)
            await asyncio.sleep(1.0)
            if not alive:
                process.spawn(unstarted())
                process.kill()

    with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        assert gc.isenabled()
        play(main)
        assert gc.isenabled()
        gc.collect()
    assert [str(each.message) for each in warned] == []
    assert caplog.records == []
    assert heard == []


def test_generators_are_closed_by_their_process() -> None:
    async def main(loop: SimLoop) -> None:
        heard: list[str] = []
        process = loop.process("p")

        async def read_one() -> None:
            async for _ in numbers(heard):
                break

        await process.call(read_one())
        await asyncio.sleep(1)
        assert heard == ["generator closed"]

    play(main)


def test_the_collector_rests_during_a_run() -> None:
    async def main(loop: SimLoop) -> bool:
        return gc.isenabled()

    assert not play(main)
    gc.disable()
    try:
        play(main)
        assert not gc.isenabled()
    finally:
        gc.enable()


# ---- the trace


def traced(seed: int) -> tuple[str, list[str]]:
    lines: list[str] = []
    loop = SimLoop(seed)
    loop.keep_trace = True
    loop.trace_sink = lines.append

    async def main() -> None:
        for name in "abc":
            process = loop.process(name)
            for _ in range(5):
                process.post(loop.trace, name)
        await asyncio.sleep(0.5)
        loop.trace("end")

    loop.run(main())
    kept = loop.trace_hash()
    loop.trace("after the end")
    assert loop.trace_hash() == kept
    assert loop.recent(1) == lines[-1]
    assert loop.recent() == "".join(lines)
    return kept, lines


def test_the_trace_is_the_run() -> None:
    hash, lines = traced(1)
    assert traced(1) == (hash, lines)
    assert traced(2)[0] != hash
    assert len(lines) == 16
    assert lines[-1].startswith("0.500000 ")
    assert lines[-1].endswith(" end\n")


# ---- asyncio on it


def test_what_asyncio_builds_on_a_loop_works() -> None:
    async def main(loop: SimLoop) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.sleep(1)
        assert loop.time() == 0.5
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.5)
        assert loop.time() == 1.0
        assert await asyncio.gather(*(asyncio.sleep(n, n) for n in (2, 1))) == [2, 1]
        inner = asyncio.ensure_future(asyncio.sleep(1, "inner"))
        outer = asyncio.shield(inner)
        outer.cancel()
        assert await inner == "inner"
        event, lock, queue = asyncio.Event(), asyncio.Lock(), asyncio.Queue[int](1)
        loop.call_later(1, event.set)
        await event.wait()
        async with lock:
            waiting = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0.1)
            assert not waiting.done()
        assert await waiting
        putting = asyncio.create_task(_put(queue, 3))
        assert [await queue.get() for _ in range(3)] == [0, 1, 2]
        await putting
        done, pending = await asyncio.wait([asyncio.create_task(asyncio.sleep(1))], timeout=0.5)
        assert (len(done), len(pending)) == (0, 1)
        with pytest.raises(ExceptionGroup) as group:
            await _group()
        assert [type(error) for error in group.value.exceptions] == [KeyError]
        with pytest.raises(TimeoutError, match="never"):
            await until(lambda: False, timeout_s=1, what="never")

    play(main)


async def _put(queue: asyncio.Queue[int], count: int) -> None:
    for number in range(count):
        await queue.put(number)


async def _group() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.sleep(1e9))
        tasks.create_task(_fail(0.1))


async def _fail(after_s: float) -> None:
    await asyncio.sleep(after_s)
    raise KeyError


UNSUPPORTED: dict[str, Callable[[SimLoop], object]] = {
    "add_reader": lambda loop: loop.add_reader(0, print),
    "remove_reader": lambda loop: loop.remove_reader(0),
    "add_writer": lambda loop: loop.add_writer(0, print),
    "remove_writer": lambda loop: loop.remove_writer(0),
    "add_signal_handler": lambda loop: loop.add_signal_handler(2, print),
    "remove_signal_handler": lambda loop: loop.remove_signal_handler(2),
    "sock_recv": lambda loop: loop.sock_recv(None, 1),  # type: ignore[arg-type]
    "sock_connect": lambda loop: loop.sock_connect(None, ""),  # type: ignore[arg-type]
    "getaddrinfo": lambda loop: loop.getaddrinfo("localhost", 80),
    "getnameinfo": lambda loop: loop.getnameinfo(("127.0.0.1", 80)),
    "datagrams": lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol),
    "unix_connection": lambda loop: loop.create_unix_connection(asyncio.Protocol, "/tmp/x"),
    "unix_server": lambda loop: loop.create_unix_server(asyncio.Protocol, "/tmp/x"),
    "subprocess": lambda _: asyncio.create_subprocess_exec("true"),
    "shell": lambda _: asyncio.create_subprocess_shell("true"),
    "pipe": lambda loop: loop.connect_read_pipe(asyncio.Protocol, None),
    "start_tls": lambda loop: loop.start_tls(None, None, None),  # type: ignore[arg-type]
    "tls_client": lambda loop: loop.create_connection(asyncio.Protocol, "h", 1, ssl=True),
    "tls_server": lambda loop: loop.create_server(asyncio.Protocol, "h", 1, ssl=True),
    "any_address": lambda loop: loop.create_server(asyncio.Protocol, None, 1),
    "many_addresses": lambda loop: loop.create_server(asyncio.Protocol, ["a", "b"], 1),
    "open_socket": lambda loop: loop.create_connection(asyncio.Protocol, sock=None),
    "default_executor": lambda loop: loop.set_default_executor(None),  # type: ignore[arg-type]
    "run_until_complete": lambda loop: loop.run_until_complete(loop.create_future()),
    "run_forever": lambda loop: loop.run_forever(),
    "stop": lambda loop: loop.stop(),
    "close": lambda loop: loop.close(),
    "debug": lambda loop: loop.set_debug(True),
    "task_factory": lambda loop: loop.set_task_factory(None),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_raises(name: str) -> None:
    async def main(loop: SimLoop) -> None:
        result = UNSUPPORTED[name](loop)
        assert isinstance(result, Awaitable)
        await result

    with pytest.raises(NotImplementedError):
        play(main)
