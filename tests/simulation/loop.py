"""An asyncio event loop in which time is virtual, chance is seeded and nothing is outside.

Rules:

- *Time* moves only when nothing is ready, straight to the next timer. ``loop.time()`` is the clock
  of the process that asks: each may run fast or slow (``Process.rate``).
- *Processes.* Every callback belongs to the process in whose context it was scheduled. Within one
  process callbacks run in the order of asyncio, first in, first out; which process runs next is
  drawn. A paused process keeps its callbacks; a killed one loses them all at once: nothing of it
  runs any more, no ``finally``, no ``except``.
- *Chance*: ``schedule`` draws who runs next and when jobs of the executor run; the network draws
  from a stream of its own. The same seed gives the same run, step by step.
- ``run_in_executor`` runs the function inline, at a drawn moment of a drawn duration. A kill in
  between loses either the whole job or only its answer.
- Whatever is not supported raises NotImplementedError: nothing may reach the real machine.

``trace`` is a SHA-256 over what happened and when: two runs are the same exactly if it is.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import heapq
import logging
import math
import sys
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.lanes import Lane

if TYPE_CHECKING:
    from simulation.network import Network
    from simulation.stream import SimTransport

    # To the checker the abstract loop is abstract; as it runs, its methods raise.
    Unsupported = asyncio.BaseEventLoop
else:
    Unsupported = asyncio.AbstractEventLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
logger = logging.getLogger(__name__)

STEPS_WITHOUT_TIME_MAX = 500_000
"""More callbacks than this at one moment of virtual time are a live lock."""

LONG_RUN_STEPS = 10_000
TRACE_LINES_KEPT = 400


class SimulationError(Exception):
    """The simulated world cannot go on: a live lock, or nothing left to happen."""


class ProcessKilledError(SimulationError):
    """The process that was to answer is dead."""


class Process:
    """It is one life of a process on a simulated host. Made by ``SimLoop.process``.

    ``rate`` and ``offset_s`` give its monotonic clock: ``virtual time * rate + offset_s``.
    """

    def __init__(self, loop: SimLoop, name: str, *, rate: float = 1.0, offset_s: float = 0.0):
        self.loop = loop
        self.name = name
        self.rate = rate
        self.offset_s = offset_s
        self.alive = True
        self.paused = False
        self.queue: deque[asyncio.Handle] = deque()
        self.transports: dict[SimTransport, None] = {}
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)
        self.job_delay: Callable[[Callable[..., object]], float] = self._quick
        """How long a job of the executor takes, in seconds."""
        self.lane_delay: Callable[[str], float] = lambda name: 0.0
        """How much longer a job of the lane of that name takes, in seconds."""
        self.on_kill: list[Callable[[], None]] = []
        """Called by ``kill``, in the context of whoever kills."""

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    def _quick(self, function: Callable[..., object]) -> float:
        return 0.00005 + 0.0005 * self.loop.schedule.random()

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback as this process, after what it has waiting."""
        self.loop.call_soon(callback, *args, context=self.context)

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function as this process, now."""
        return self.loop.run_as(self, function, *args)

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> asyncio.Task[T]:
        """Start a task of this process."""
        return self.run(lambda: self.loop.create_task(coroutine, name=name or self.name))

    async def call(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> T:
        """Start a task of this process and wait for it, as another process.

        :raises ProcessKilledError: the process is killed before the task ends.
        """
        if not self.alive:
            coroutine.close()
            raise ProcessKilledError(self.name)
        answer: asyncio.Future[T] = self.loop.create_future()
        task = self.spawn(coroutine, name)

        def ended(task: asyncio.Task[T]) -> None:
            if answer.done():
                return
            if task.cancelled():
                answer.cancel()
            elif (error := task.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(task.result())

        def killed() -> None:
            if not answer.done():
                answer.set_exception(ProcessKilledError(self.name))

        task.add_done_callback(ended)
        self.on_kill.append(killed)
        try:
            return await answer
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            if self.alive:
                self.on_kill.remove(killed)

    def pause(self) -> None:
        """Stop it as SIGSTOP does: nothing of it runs; its timers fall due and its sockets fill."""
        self.paused = True

    def resume(self) -> None:
        """Let it go on, as SIGCONT does."""
        if self.paused:
            self.paused = False
            self.loop.requeue(self)

    def kill(self, *, reset: bool = True) -> None:
        """End it. ``reset``: its kernel lives and tells its peers; else they hear nothing."""
        if not self.alive:
            return
        self.alive = False
        self.loop.bury(self)
        transports, self.transports = self.transports, {}
        for transport in transports:
            transport.process_died(reset=reset)
        listeners, self.on_kill = self.on_kill, []
        for listener in listeners:
            listener()


CURRENT: ContextVar[Process] = ContextVar("process")


@contextmanager
def silence() -> Iterator[None]:
    """Nothing is said of what is let go: coroutines that were never awaited never will be, and
    clients that were killed were not closed."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = hook
        logging.disable(level)


class SimLoop(Unsupported):
    """See the module. ``run(main)`` runs one simulation; a loop is used once."""

    network: Network

    def __init__(self, seed: int | str) -> None:
        entropy = SeededEntropy(seed)
        self.schedule = entropy.fork("schedule")
        self.now_s = 0.0
        """Virtual time since the start, in seconds."""
        self.steps = 0
        self.keep_trace = False
        self.trace_lines: deque[str] = deque(maxlen=TRACE_LINES_KEPT)
        self.trace_sink: Callable[[str], object] | None = None
        self.unhandled: list[dict[str, Any]] = []
        """What ``call_exception_handler`` was told: each is a bug."""
        self._hash = hashlib.sha256()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Process]] = []
        self._timer_count = 0
        self._timers_cancelled = 0
        self._runnable: list[Process] = []
        self._graves: list[object] = []
        self._running = False
        self._closed = False
        self._steps_now = 0
        self.root = Process(self, "")
        """The simulator itself: workload's main, faults, the wires between hosts."""
        self._current = self.root

    # -- processes ---------------------------------------------------------------------------

    def process(self, name: str, *, rate: float = 1.0, offset_s: float = 0.0) -> Process:
        """Begin a process."""
        return Process(self, name, rate=rate, offset_s=offset_s)

    @property
    def current(self) -> Process:
        """Return whose callback runs now."""
        return self._current

    def run_as(self, process: Process, function: Callable[..., T], *args: Any) -> T:
        """Run a function now, as if a callback of ``process`` did it."""
        before, self._current = self._current, process
        try:
            # A copy: a context cannot be entered twice, and this may nest.
            return process.context.copy().run(function, *args)
        finally:
            self._current = before

    def requeue(self, process: Process) -> None:
        """A process may run again."""
        if process.queue and process not in self._runnable:
            self._runnable.append(process)

    def bury(self, process: Process) -> None:
        """Keep what a dead process leaves, so that no finaliser of it runs before the end."""
        self._graves.append(list(process.queue))
        self._graves.append(list(asyncio.all_tasks(self)))
        process.queue.clear()
        if process in self._runnable:
            self._runnable.remove(process)

    # -- the trace ---------------------------------------------------------------------------

    def trace(self, event: str) -> None:
        """Add to the hash, and to the lines kept, that something happened now."""
        if self._closed:
            return  # what a ``finally`` says when all is over, in no order
        line = f"{self.now_s:.6f} {self.steps} {event}\n"
        self._hash.update(line.encode())
        if self.keep_trace:
            self.trace_lines.append(line)
            if self.trace_sink is not None:
                self.trace_sink(line)

    def trace_hash(self) -> str:
        """Return the SHA-256 of the run so far, hexadecimal."""
        return self._hash.hexdigest()

    # -- running -----------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the simulator's main coroutine to its end; what still runs then is killed."""
        if self._closed or asyncio._get_running_loop() is not None:
            main.close()
            raise RuntimeError("a simulation is over" if self._closed else "another loop runs")
        gc_was_on = gc.isenabled()
        gc.disable()  # a collection in the middle would run finalisers at a moment of its own
        try:
            with self._on_stage():
                task = self.run_as(self.root, lambda: self.create_task(main, name="main"))
                while not task.done():
                    self._step()
                return task.result()
        finally:
            self._clear()
            if gc_was_on:
                gc.enable()

    @contextmanager
    def _on_stage(self) -> Iterator[None]:
        """Be the running loop meanwhile."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=lambda _: None, finalizer=self._end_generator)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _step(self) -> None:
        """Run one callback, or move time to the next timer."""
        runnable = self._runnable
        if not runnable:
            self._advance()
            return
        count = len(runnable)
        index = int(self.schedule.random() * count) if count > 1 else 0
        process = runnable[index]
        queue = process.queue
        if process.paused or not queue:
            runnable[index] = runnable[-1]
            runnable.pop()
            return
        handle = queue.popleft()
        if not queue:
            runnable[index] = runnable[-1]
            runnable.pop()
        if handle._cancelled:
            return
        self.steps += 1
        self._steps_now += 1
        self._current = process
        try:
            handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
        except (SystemExit, KeyboardInterrupt, SimulationError):
            raise
        except BaseException as error:
            self.call_exception_handler(
                {"message": f"a callback of {process} failed: {handle!r}", "exception": error}
            )
        self._current = self.root
        if self._steps_now > STEPS_WITHOUT_TIME_MAX:
            raise SimulationError(f"live lock at {self.now_s:.6f} s, at last {handle!r}")

    def _advance(self) -> None:
        """Move time to the next timer that can run; all that are due then become ready."""
        timers = self._timers
        while timers:
            when, _, handle, process = heapq.heappop(timers)
            handle._scheduled = False  # type: ignore[attr-defined]
            if handle._cancelled:
                self._timers_cancelled -= 1
                continue
            if not process.alive:
                self._graves.append(handle)
                continue
            if when > self.now_s:
                self.now_s = when
                self._steps_now = 0
            self._enqueue(process, handle)
            if self._runnable and not (timers and timers[0][0] <= self.now_s):
                return
        if self._runnable:
            return
        raise SimulationError(f"nothing is left to happen at {self.now_s:.6f} s")

    def _enqueue(self, process: Process, handle: asyncio.Handle) -> None:
        queue = process.queue
        queue.append(handle)
        if len(queue) == 1 and not process.paused:
            self._runnable.append(process)

    def _clear(self) -> None:
        """Let everything go, silently: ``finally`` blocks find a loop that does nothing more."""
        self._closed = True
        with silence():
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()
            self._graves.clear()
            self._timers.clear()
            self._runnable.clear()
            self.root.queue.clear()
            # What this run leaves is young. What earlier ones left is worth a search after
            # long runs only: it takes some ten milliseconds.
            gc.collect(2 if self.steps > LONG_RUN_STEPS else 0)

    def _end_generator(self, generator: Any) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    # -- asyncio.AbstractEventLoop -----------------------------------------------------------

    def time(self) -> float:
        process = self._current
        return self.now_s * process.rate + process.offset_s

    def at(self, due_s: float, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback as the simulator itself at a moment of virtual time."""
        context = self.root.context
        handle = asyncio.TimerHandle(due_s, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (due_s, self._timer_count, handle, self.root))
        handle._scheduled = True  # type: ignore[attr-defined]

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        process = self._current if context is None else context.get(CURRENT, self._current)
        handle = asyncio.Handle(callback, args, self, context)
        if process.alive and not self._closed:
            queue = process.queue
            queue.append(handle)
            if len(queue) == 1 and not process.paused:
                self._runnable.append(process)
        elif not self._closed:
            self._graves.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        process = self._current if context is None else context.get(CURRENT, self._current)
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not process.alive or self._closed:
            return handle
        current = self._current
        due_s = max((when - current.offset_s) / current.rate, self.now_s)
        while due_s * current.rate + current.offset_s < when:
            due_s = math.nextafter(due_s, math.inf)  # a timer never fires before its time
        self._timer_count += 1
        heapq.heappush(self._timers, (due_s, self._timer_count, handle, process))
        handle._scheduled = True  # type: ignore[attr-defined]
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if not handle._scheduled:  # type: ignore[attr-defined]
            return
        self._timers_cancelled += 1
        if self._timers_cancelled > 1000 and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [t for t in self._timers if not t[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run ``func`` inline at a drawn moment of the job's duration."""
        if not (executor is None or isinstance(executor, Lane)):
            raise NotImplementedError("only the default executor and lanes are simulated")
        future: asyncio.Future[T] = self.create_future()
        duration_s = self._current.job_delay(func)
        if executor is not None:
            duration_s += self._current.lane_delay(executor.name)
        at_s = duration_s * self.schedule.random()

        def work() -> None:
            try:
                result, error = func(*args), None
            except (SimulationError, SystemExit, KeyboardInterrupt):
                raise
            except BaseException as raised:
                result, error = None, raised
            self.call_later(duration_s - at_s, _settle, future, result, error)

        self.call_later(at_s, work)
        return future

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if options or host is None or port is None:
            raise NotImplementedError(f"create_connection with {sorted(options)}")
        return await self.network.connect(self._current, protocol_factory, host, port)

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        *,
        backlog: int = 100,
        reuse_address: bool | None = None,
        start_serving: bool = True,
        **options: Any,
    ) -> Any:
        if options or not isinstance(host, str) or port is None:
            raise NotImplementedError(f"create_server with {host!r} and {sorted(options)}")
        server = self.network.listen(self._current, protocol_factory, host, port)
        if start_serving:
            await server.start_serving()
        return server

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._closed:
            return
        self.unhandled.append(context)
        logger.error("unhandled: %s: %r", context.get("message"), context.get("exception"))

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    async def shutdown_asyncgens(self) -> None:
        return

    # -- for those who wait ------------------------------------------------------------------

    def recent(self, count: int = 40) -> str:
        """Return the last lines of the trace, when they are kept."""
        return "".join(islice(self.trace_lines, max(0, len(self.trace_lines) - count), None))


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


async def until(
    condition: Callable[[], bool], *, timeout_s: float, what: str, every_s: float = 0.05
) -> None:
    """Wait in virtual time until ``condition()`` holds.

    :raises TimeoutError: it did not within ``timeout_s``.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not condition():
        if loop.time() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        await asyncio.sleep(every_s)


async def first(*awaitables: Awaitable[Any], timeout_s: float) -> None:
    """Wait for the first to end, or for the time to pass."""
    futures = [asyncio.ensure_future(each) for each in awaitables]
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
