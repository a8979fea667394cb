"""Processes take turns, are killed and paused, and have jobs of the executor."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from simulation.loop import Process, ProcessKilledError, SimLoop
from simulation.play import play

# ---- order


def numbered(loop: SimLoop, heard: list[str], process: Process, count: int) -> None:
    for number in range(count):
        process.post(heard.append, f"{process.name}{number}")


def mingled(seed: int) -> list[str]:
    async def main(loop: SimLoop) -> list[str]:
        heard: list[str] = []
        for name in "abc":
            numbered(loop, heard, loop.process(name), 20)
        await asyncio.sleep(1)
        return heard

    return play(main, seed)


def test_within_a_process_first_in_first_out() -> None:
    for seed in range(5):
        heard = mingled(seed)
        assert len(heard) == 60
        for name in "abc":
            own = [text for text in heard if text[0] == name]
            assert own == [f"{name}{number}" for number in range(20)]


def test_between_processes_the_order_is_drawn() -> None:
    orders = ["".join(text[0] for text in mingled(seed)) for seed in range(20)]
    assert len(set(orders)) == 20
    assert all(order != "".join(sorted(order)) for order in orders)
    assert orders == ["".join(text[0] for text in mingled(seed)) for seed in range(20)]


def test_timers_of_two_processes_at_one_moment_run_in_a_drawn_order() -> None:
    def order(seed: int) -> str:
        async def main(loop: SimLoop) -> str:
            heard: list[str] = []
            for name in "ab":
                process = loop.process(name)
                process.run(loop.call_later, 1.0, heard.append, name)
            await asyncio.sleep(2)
            return "".join(heard)

        return play(main, seed)

    assert {order(seed) for seed in range(20)} == {"ab", "ba"}


def test_a_callback_belongs_to_the_process_that_waits_for_it() -> None:
    async def main(loop: SimLoop) -> None:
        here, there = loop.process("here"), loop.process("there")
        news: asyncio.Future[str] = loop.create_future()
        heard: list[tuple[str, str]] = []

        async def wait() -> None:
            heard.append((await news, loop.current.name))
            child = asyncio.create_task(asyncio.sleep(0.1))
            child.add_done_callback(lambda _: heard.append(("child", loop.current.name)))
            await child
            heard.append(("slept", loop.current.name))

        waiting = here.spawn(wait())
        await asyncio.sleep(1)
        there.run(news.set_result, "news")
        await waiting
        assert heard == [("news", "here"), ("child", "here"), ("slept", "here")]
        assert loop.current is loop.root

    play(main)


# ---- kill


class Life:
    """It is a process full of things that would like to go on."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.process = loop.process("p")
        self.heard: list[str] = []
        self.tasks = [self.process.spawn(work) for work in (self._sleeping(), self._busy())]
        self.process.run(loop.call_later, 1.5, self.heard.append, "timer")

    async def _sleeping(self) -> None:
        try:
            await asyncio.sleep(1.5)
            self.heard.append("woke")
        except BaseException:
            self.heard.append("except")
        finally:
            self.heard.append("finally")

    async def _busy(self) -> None:
        try:
            while True:
                self.heard.append("busy")
                await asyncio.sleep(0.4)
        finally:
            self.heard.append("finally")


def test_a_killed_process_does_nothing_any_more() -> None:
    async def main(loop: SimLoop) -> None:
        life = Life(loop)
        await asyncio.sleep(1.0)
        life.process.kill()
        life.process.kill()
        heard = list(life.heard)
        assert heard == ["busy"] * 3
        life.process.post(life.heard.append, "posted to the dead")
        life.process.run(loop.call_later, 0.1, life.heard.append, "timer of the dead")
        life.tasks[0].cancel()
        await asyncio.sleep(10.0)
        assert life.heard == heard
        assert not any(task.done() for task in life.tasks)

    play(main)


def test_a_killed_process_loses_what_was_ready() -> None:
    async def main(loop: SimLoop) -> None:
        heard: list[str] = []
        process = loop.process("p")
        numbered(loop, heard, process, 3)
        process.kill()
        await asyncio.sleep(1)
        assert heard == []

    play(main)


def test_who_waits_for_a_killed_process_hears_of_it() -> None:
    async def main(loop: SimLoop) -> None:
        process = loop.process("p")
        told: list[str] = []
        process.on_kill.append(lambda: told.append(loop.current.name))
        call = loop.create_task(process.call(asyncio.sleep(10, "slept")))
        await asyncio.sleep(1)
        process.kill()
        with pytest.raises(ProcessKilledError, match="p"):
            await call
        assert told == [""]
        with pytest.raises(ProcessKilledError):
            await process.call(asyncio.sleep(0))

    play(main)


def test_calls_return_raise_and_are_cancelled() -> None:
    async def main(loop: SimLoop) -> None:
        process = loop.process("p")
        cancelled: list[str] = []

        async def answer() -> str:
            await asyncio.sleep(0.1)
            return loop.current.name

        async def fail() -> None:
            raise KeyError("no")

        async def forever() -> None:
            try:
                await asyncio.sleep(1e9)
            except asyncio.CancelledError:
                cancelled.append(loop.current.name)
                raise

        assert await process.call(answer()) == "p"
        with pytest.raises(KeyError):
            await process.call(fail())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await process.call(forever())
        await asyncio.sleep(0.1)
        assert cancelled == ["p"]
        assert process.on_kill == []

    play(main)


def test_a_new_process_knows_nothing_of_the_one_before() -> None:
    async def main(loop: SimLoop) -> None:
        first = Life(loop)
        await asyncio.sleep(0.5)
        first.process.kill()
        second = Life(loop)
        await asyncio.sleep(1.4)
        assert first.heard == ["busy"] * 2
        assert second.heard == ["busy"] * 4

    play(main)


# ---- pause


def test_a_paused_process_runs_on_where_it_stopped() -> None:
    async def main(loop: SimLoop) -> None:
        life = Life(loop)
        await asyncio.sleep(1.0)
        life.process.pause()
        life.process.post(life.heard.append, "posted")
        await asyncio.sleep(10.0)
        assert life.heard == ["busy"] * 3
        assert life.process.alive
        life.process.resume()
        life.process.resume()
        await asyncio.sleep(0.1)
        # In the order in which they became ready; the tasks go on a step later.
        assert life.heard[3:] == ["posted", "timer", "busy", "woke", "finally"]

    play(main)


def test_a_process_paused_with_work_to_do_does_it_later() -> None:
    async def main(loop: SimLoop) -> None:
        heard: list[str] = []
        process = loop.process("p")
        numbered(loop, heard, process, 3)
        process.pause()
        await asyncio.sleep(1)
        assert heard == []
        process.resume()
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert heard == ["p0", "p1", "p2"]

    play(main)


def test_a_paused_process_can_be_killed() -> None:
    async def main(loop: SimLoop) -> None:
        life = Life(loop)
        await asyncio.sleep(1.0)
        life.process.pause()
        await asyncio.sleep(1.0)
        life.process.kill()
        life.process.resume()
        await asyncio.sleep(1.0)
        assert life.heard == ["busy"] * 3

    play(main)


# ---- the executor


def test_jobs_run_at_a_drawn_moment_of_their_duration() -> None:
    async def main(loop: SimLoop) -> tuple[float, float]:
        process = loop.process("p")
        process.job_delay = lambda job: 2.0

        async def work() -> float:
            return await loop.run_in_executor(None, loop.time)

        return await process.call(work()), loop.time()

    runs = [play(main, seed) for seed in range(10)]
    assert all(0.0 <= ran < 2.0 for ran, _ in runs)
    assert [ended for _, ended in runs] == pytest.approx([2.0] * 10)
    assert len({ran for ran, _ in runs}) == 10


def test_jobs_get_arguments_and_raise() -> None:
    async def main(loop: SimLoop) -> None:
        assert await loop.run_in_executor(None, divmod, 7, 2) == (3, 1)
        assert await asyncio.to_thread(int, "11", base=2) == 3
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 7, 0)
        with ThreadPoolExecutor(1) as pool, pytest.raises(NotImplementedError):
            loop.run_in_executor(pool, print)

    play(main)


def test_nobody_needs_to_wait_for_a_job() -> None:
    async def main(loop: SimLoop) -> None:
        done: list[int] = []
        future = loop.run_in_executor(None, done.append, 1)
        future.cancel()
        await asyncio.sleep(1)
        assert done == [1]

    play(main)


def test_a_kill_loses_a_job_or_only_its_answer() -> None:
    def killed(seed: int) -> tuple[bool, bool]:
        async def main(loop: SimLoop) -> tuple[bool, bool]:
            process = loop.process("p")
            process.job_delay = lambda job: 2.0
            done: list[str] = []

            async def work() -> None:
                await loop.run_in_executor(None, done.append, "job")
                done.append("answer")

            process.spawn(work())
            await asyncio.sleep(1.0)
            process.kill()
            before = list(done)
            await asyncio.sleep(5.0)
            assert done == before
            return "job" in done, "answer" in done

        return play(main, seed)

    assert {killed(seed) for seed in range(10)} == {(True, False), (False, False)}
