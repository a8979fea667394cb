"""The faces of a cluster for tests: ``Cluster`` blocks, ``AsyncCluster`` is awaited.

    with Cluster() as cluster:
        cluster.create_topic("orders")
        with blocking.Producer(cluster.bootstrap) as producer:
            producer.send("orders", b"one")

Rules: a cluster has a thread and an event loop of its own, so that neither a test that blocks nor
one that computes keeps it from answering. Both faces may be used on one cluster: ``cluster.aio`` is
the other one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from oncelog_testing.core import ClusterCore
from oncelog_testing.faces import Face, blocking
from oncelog_testing.faults import FaultPlan
from oncelog_testing.fleet import TIMEOUT_S
from oncelog_testing.thread import ClusterClosedError, ClusterThread, loop_runs_here

__all__ = ["AsyncCluster", "Cluster"]

P = ParamSpec("P")
T = TypeVar("T")

PAUSE_S = 0.005
"""The pause between two looks at a condition."""


class Cluster(Face):
    """It has brokers 1 to ``brokers`` and a controller, in this process, over loopback sockets.

    :param directory: keep the brokers' data here, on the real disk; by default it is in memory, and
        disks can fill up, fail, and lose their power.
    :param seed: of everything that the brokers draw by chance.
    :param secure: clients authenticate by SCRAM, as users whose rights are ACLs; a client that may
        do everything takes ``security=cluster.security``. Nothing is encrypted.
    :param settings: of every broker, as in its configuration file (``topic_defaults={...}``,
        ``min_insync_replicas=2``); see ``oncelog_testing.core.SETTINGS`` for what is preset.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        directory: Path | str | None = None,
        seed: int | str = 1,
        secure: bool = False,
        **settings: Any,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster has at least one")
        super().__init__()
        self._count = brokers
        self._directory = None if directory is None else Path(directory).absolute()
        self._seed = seed
        self._secure = secure
        self._settings = settings
        self._aio = AsyncCluster._of(self)

    # -- life --------------------------------------------------------------------------------

    def start(self) -> Cluster:
        """Start it; returns when every broker serves clients. ``with`` does it.

        :raises ValidationError: a setting does not hold. :raises ConfigError: see ``Broker``.
        """
        thread, core = self._open()
        try:
            thread.call(core, "start")
        except BaseException:
            self._shut()
            raise
        return self

    def close(self) -> None:
        """Stop it at once. Closing twice does nothing."""
        if self._thread is None or self._core is None:
            return
        try:
            self._thread.submit(self._core.close()).result()
        finally:
            self._shut()

    def _open(self) -> tuple[ClusterThread, Coroutine[Any, Any, None]]:
        if self._thread is not None:
            raise ClusterClosedError("a cluster is started once")
        thread = ClusterThread("oncelog-cluster", inline_jobs=self._directory is None)
        self._thread = thread
        self._aio.attach_thread(thread)

        def on_loop(work: Callable[[], None]) -> None:
            if not thread.loop.is_closed():
                thread.loop.call_soon_threadsafe(work)

        async def begin() -> None:
            self._core = core = ClusterCore(
                thread.loop,
                brokers=self._count,
                directory=self._directory,
                seed=self._seed,
                plan=FaultPlan(on_loop),
                settings=self._settings,
                secure=self._secure,
            )
            self._aio.attach(core)
            try:
                await core.start()
            except BaseException:
                await core.close()
                raise

        return thread, begin()

    def _shut(self) -> None:
        thread, self._core = self._thread, None
        self._aio.attach(None)
        if thread is not None:
            thread.stop()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def aio(self) -> AsyncCluster:
        """Return the same cluster for coroutines: ``await cluster.aio.wait_for_group("g")``."""
        return self._aio

    # -- what waits: see ``ClusterCore`` ------------------------------------------------------

    start_broker = blocking(ClusterCore.start_broker)
    stop_broker = blocking(ClusterCore.stop_broker)
    kill = blocking(ClusterCore.kill)
    restart = blocking(ClusterCore.restart)
    expire_session = blocking(ClusterCore.expire_session)
    advance = blocking(ClusterCore.advance)
    create_topic = blocking(ClusterCore.create_topic)
    delete_topic = blocking(ClusterCore.delete_topic)
    produce = blocking(ClusterCore.produce)
    records = blocking(ClusterCore.records)
    wait_for_records = blocking(ClusterCore.wait_for_records)
    leader = blocking(ClusterCore.leader)
    isr = blocking(ClusterCore.isr)
    move_leader = blocking(ClusterCore.move_leader)
    wait_for_leader = blocking(ClusterCore.wait_for_leader)
    wait_until_caught_up = blocking(ClusterCore.wait_until_caught_up)
    create_user = blocking(ClusterCore.create_user)
    group = blocking(ClusterCore.group)
    wait_for_group = blocking(ClusterCore.wait_for_group)
    wait_for_hits = blocking(ClusterCore.wait_for_hits)
    heal = blocking(ClusterCore.heal)
    reset = blocking(ClusterCore.reset)

    def eventually(
        self, condition: Callable[[], object], *, timeout_s: float = TIMEOUT_S, what: str = ""
    ) -> None:
        """Wait until a condition of the test's own holds; it is looked at in this thread.

        :raises TimeoutError: it did not in time.
        """
        if loop_runs_here():
            raise RuntimeError("an event loop runs in this thread: await cluster.aio.eventually()")
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() >= deadline:
                raise _never(self, condition, what, timeout_s)
            time.sleep(PAUSE_S)


def _awaited(
    method: Callable[Concatenate[ClusterCore, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that awaits a coroutine method of the core on the caller's loop."""

    @wraps(method)
    async def call(self: Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        core, thread = self.core, self._thread
        assert thread is not None
        return await asyncio.wrap_future(thread.submit(method(core, *args, **kwargs)))

    return call


class AsyncCluster(Face):
    """It is ``Cluster`` for coroutines: ``async with AsyncCluster(brokers=3) as cluster``. The
    caller's loop goes on while the cluster is waited for. Parameters are those of ``Cluster``."""

    def __init__(self, brokers: int = 1, **options: Any) -> None:
        super().__init__()
        self._blocking = Cluster(brokers, **options)
        self._blocking._aio = self

    @classmethod
    def _of(cls, face: Cluster) -> AsyncCluster:
        self = cls.__new__(cls)
        Face.__init__(self)
        self._blocking = face
        return self

    async def start(self) -> AsyncCluster:
        """See ``Cluster.start``."""
        thread, core = self._blocking._open()
        try:
            await asyncio.wrap_future(thread.submit(core))
        except BaseException:
            await self._shut()
            raise
        return self

    async def close(self) -> None:
        """See ``Cluster.close``."""
        if self._thread is None or self._core is None:
            return
        try:
            await asyncio.wrap_future(self._thread.submit(self._core.close()))
        finally:
            await self._shut()

    async def _shut(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._blocking._shut)

    async def __aenter__(self) -> AsyncCluster:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    start_broker = _awaited(ClusterCore.start_broker)
    stop_broker = _awaited(ClusterCore.stop_broker)
    kill = _awaited(ClusterCore.kill)
    restart = _awaited(ClusterCore.restart)
    expire_session = _awaited(ClusterCore.expire_session)
    advance = _awaited(ClusterCore.advance)
    create_topic = _awaited(ClusterCore.create_topic)
    delete_topic = _awaited(ClusterCore.delete_topic)
    produce = _awaited(ClusterCore.produce)
    records = _awaited(ClusterCore.records)
    wait_for_records = _awaited(ClusterCore.wait_for_records)
    leader = _awaited(ClusterCore.leader)
    isr = _awaited(ClusterCore.isr)
    move_leader = _awaited(ClusterCore.move_leader)
    wait_for_leader = _awaited(ClusterCore.wait_for_leader)
    wait_until_caught_up = _awaited(ClusterCore.wait_until_caught_up)
    create_user = _awaited(ClusterCore.create_user)
    group = _awaited(ClusterCore.group)
    wait_for_group = _awaited(ClusterCore.wait_for_group)
    wait_for_hits = _awaited(ClusterCore.wait_for_hits)
    heal = _awaited(ClusterCore.heal)
    reset = _awaited(ClusterCore.reset)

    async def eventually(
        self,
        condition: Callable[[], object | Awaitable[object]],
        *,
        timeout_s: float = TIMEOUT_S,
        what: str = "",
    ) -> None:
        """Wait until a condition of the test's own holds: a function, or one that is awaited; it is
        looked at on the caller's loop.

        :raises TimeoutError: it did not in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            holds = condition()
            if asyncio.iscoroutine(holds):
                holds = await holds
            if holds:
                return
            if time.monotonic() >= deadline:
                raise _never(self, condition, what, timeout_s)
            await asyncio.sleep(PAUSE_S)


def _never(face: Face, condition: Callable[[], object], what: str, timeout_s: float) -> Exception:
    name = what or getattr(condition, "__name__", "the condition")
    return TimeoutError(f"{name} did not hold within {timeout_s:g} s. {face.core.stands()}")
