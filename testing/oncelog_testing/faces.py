"""Both faces of a cluster share this: some things are told at once, the rest is waited for.

Faults, addresses and the clock are told at once, on either face and from any thread: a test that
awaits may use ``with cluster.fail_next(...)`` as well as one that blocks.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypedDict, TypeVar, Unpack

from oncelog import Security
from oncelog_testing.answers import ErrorLike, api_key, error_class
from oncelog_testing.clock import ClusterClock
from oncelog_testing.core import ClusterCore
from oncelog_testing.faults import Fault, FaultAction, FaultPlan, Match
from oncelog_testing.machines import Machine
from oncelog_testing.memory.files import MemoryFiles
from oncelog_testing.thread import ClusterClosedError, ClusterThread

__all__ = ["Face", "Scoped", "blocking"]

P = ParamSpec("P")
T = TypeVar("T")

DiskOperation = Literal["append", "sync", "read", "open"]


class Which(TypedDict, total=False):
    """It says which requests a fault is for; all must hold."""

    broker: int
    """The request is sent to this broker."""
    topic: str
    """The request is about this topic, among others perhaps."""
    group: str
    transactional_id: str
    client_id: str
    between_brokers: bool
    """Those of brokers and controllers count too."""


class Scoped:
    """It is something that holds until ``undo`` or the end of its ``with`` block; it is undone
    once."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo: Callable[[], object] | None = undo

    def undo(self) -> None:
        """Put it right again."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Scoped:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


class Face:
    """A face is a cluster as a test sees it."""

    __test__ = False  # not for pytest to collect

    def __init__(self) -> None:
        self._thread: ClusterThread | None = None
        self._core: ClusterCore | None = None

    def attach_thread(self, thread: ClusterThread) -> None:
        """Say in which thread the cluster's loop runs."""
        self._thread = thread

    def attach(self, core: ClusterCore | None) -> None:
        """Say which cluster this is the face of; None when it is closed."""
        self._core = core

    @property
    def core(self) -> ClusterCore:
        """Return what lives on the cluster's loop. :raises ClusterClosedError: it is not open."""
        if self._core is None:
            raise ClusterClosedError(
                "the cluster is not open: use it in a with block, or call start()"
            )
        return self._core

    @property
    def bootstrap(self) -> str:
        """Return what clients take as ``bootstrap_servers``: addresses of the brokers that run."""
        return self.core.bootstrap

    @property
    def security(self) -> Security | None:
        """Return what a client that may do everything takes as ``security``; None: the cluster was
        not made with ``secure=True``, and everybody may."""
        return self.core.security

    @property
    def brokers(self) -> list[int]:
        """Return the ids of the brokers that run."""
        return [broker.broker_id for broker in self.core.running()]

    @property
    def controller(self) -> int:
        """Return the id of the broker that is controller. :raises NotRunningError: nobody is, just
        now."""
        return self.core.controller.broker_id

    @property
    def clock(self) -> ClusterClock:
        """Return the cluster's wall clock, for clients whose records should bear its time."""
        return self.core.clock

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return the faults in force."""
        return self.core.plan.faults

    @property
    def dirty(self) -> bool:
        """Return whether something has happened to the cluster that ``heal`` does not undo: brokers
        were stopped or killed, or have failed; time was moved on. A fixture that shares clusters
        gives the next test another one."""
        core = self._core
        return core is not None and (core.dirty or len(core.running()) < len(core.machines))

    def now(self, work: Callable[[], T]) -> T:
        """Do ``work`` on the cluster's loop and wait: it never waits for anybody itself."""
        thread = self._thread
        if thread is None:
            raise ClusterClosedError("the cluster is not open")
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        thread.loop.call_soon_threadsafe(run)
        return done.result()

    # -- faults of requests ------------------------------------------------------------------

    def fail_next(
        self, api: str, error: ErrorLike, count: int | None = 1, **which: Unpack[Which]
    ) -> Fault:
        """Answer the next ``count`` requests (None: all) of an API with an error, and do nothing.

        :param api: "produce", "fetch", "metadata", "offset_commit", "join_group", ...
        :param error: of the protocol, by class, name ("NOT_LEADER_OR_FOLLOWER") or code.
        :param which: requests are told apart by it, see ``Which``.
        :raises ValueError: there is no such API, error or broker.
        """
        return self._fault(FaultAction.FAIL, api, count, which, error=error_class(error))

    def delay(
        self, api: str, seconds: float, count: int | None = None, **which: Unpack[Which]
    ) -> Fault:
        """Let answers to an API leave so many seconds of the cluster's time late; the requests are
        carried out at once. See :meth:`fail_next`."""
        return self._fault(FaultAction.DELAY, api, count, which, seconds=seconds)

    def drop_request(self, api: str, count: int | None = 1, **which: Unpack[Which]) -> Fault:
        """Cut the connection when such a request comes; it is not carried out. The client cannot
        know that. See :meth:`fail_next`."""
        return self._fault(FaultAction.DROP_REQUEST, api, count, which)

    def drop_reply(self, api: str, count: int | None = 1, **which: Unpack[Which]) -> Fault:
        """Carry such a request out, and cut the connection instead of answering. The client cannot
        know that. See :meth:`fail_next`."""
        return self._fault(FaultAction.DROP_REPLY, api, count, which)

    def hold(self, api: str, **which: Unpack[Which]) -> Fault:
        """Keep such requests, unanswered and not carried out, until the fault is removed; then they
        are served in their order. See :meth:`fail_next`."""
        return self._fault(FaultAction.HOLD, api, None, which)

    def _fault(
        self, act: FaultAction, api: str, count: int | None, which: Which, **more: Any
    ) -> Fault:
        wrong = sorted(set(which) - set(Which.__annotations__))
        if wrong:
            known = sorted(Which.__annotations__)
            raise TypeError(f"requests are not told apart by {wrong}; by {known}")
        match = Match(api=api_key(api), **which)
        if match.broker is not None:
            self.core.machine(match.broker)
        return Fault(self._plan, match, act, count=count, **more)

    @property
    def _plan(self) -> FaultPlan:
        return self.core.plan

    # -- faults of brokers, disks and the store -----------------------------------------------

    def pause(self, broker: int) -> Scoped:
        """Let a broker fall silent, as one that is stopped by a debugger: connections stay, nothing
        is answered, nothing that it sends arrives, and its session runs out (``advance`` past the
        time-out). It goes on where it was when the pause ends.

        :raises NotRunningError: it is down.
        """
        session_id = self.core.machine(broker).session_id
        silence = [
            Fault(self._plan, Match(broker=broker, everything=True), FaultAction.HOLD),
            Fault(
                self._plan, Match(senders=frozenset({broker}), everything=True), FaultAction.HOLD
            ),
        ]
        core = self.core
        core.mark_dirty()
        self.now(lambda: core.cut_off([session_id]))

        def go_on() -> None:
            self.now(lambda: core.reconnect([session_id]))
            for fault in silence:
                fault.remove()

        return Scoped(go_on)

    def partition(self, group: Iterable[int], *, metadata_store: bool = False) -> Scoped:
        """Let nothing pass between these brokers and the others, while clients reach all of them.
        With ``metadata_store`` the named ones lose that too, and in time their sessions.

        :raises ValueError, NotRunningError: there is no such broker, or it is down.
        """
        inside = frozenset(group)
        sessions = [self.core.machine(broker).session_id for broker in sorted(inside)]
        outside = frozenset(self.core.machines) - inside
        walls = [
            Fault(
                self._plan,
                Match(broker=broker, senders=senders, everything=True),
                FaultAction.HOLD,
            )
            for here, senders in ((inside, outside), (outside, inside))
            for broker in sorted(here)
        ]
        core = self.core
        core.mark_dirty()
        if metadata_store:
            self.now(lambda: core.cut_off(sessions))

        def heal() -> None:
            if metadata_store:
                self.now(lambda: core.reconnect(sessions))
            for wall in walls:
                wall.remove()

        return Scoped(heal)

    def without_metadata_store(self) -> Scoped:
        """Stop the metadata store (ZooKeeper's place): brokers go on, nothing is elected, created
        or changed. Sessions do not age meanwhile."""
        self.now(self.core.zookeeper.stop)
        return Scoped(lambda: self.now(self.core.zookeeper.start))

    def disk_full(self, broker: int, free_bytes: int = 0) -> Scoped:
        """Let a broker's disk have only so much room left: writes are refused (STORAGE_ERROR, which
        producers try again) until there is room again.

        :raises ValueError: no such broker, or its disk is a real one.
        """
        files = self._disk(broker)
        self.now(lambda: files.set_free_bytes(free_bytes))
        return Scoped(lambda: self.now(lambda: self.core.heal_disk(files)))

    def disk_fails(
        self,
        broker: int,
        operation: DiskOperation = "sync",
        *,
        count: int | None = 1,
        error: int = errno.EIO,
        path: str = "/",
    ) -> Scoped:
        """Let the next ``count`` operations (None: all) under a path of a broker's disk fail. What
        the broker does about it outlives the fault: after a failed sync or append its log directory
        is offline, and a broker without any log directory stops (``restart`` brings it back).

        :raises ValueError: no such broker, or its disk is a real one.
        """
        files = self._disk(broker)
        self.now(lambda: files.fail(operation, path, error=error, times=count))
        self.core.mark_dirty()
        return Scoped(lambda: self.now(lambda: self.core.heal_disk(files)))

    def slow_disk(self, broker: int, seconds: float) -> Scoped:
        """Let every sync of a broker's disk take so many seconds of the cluster's time.

        :raises ValueError: no such broker, or its disk is a real one.
        """
        files = self._disk(broker)
        self.now(lambda: files.stall("/", seconds))
        return Scoped(lambda: self.now(lambda: self.core.heal_disk(files)))

    def _disk(self, broker: int) -> MemoryFiles:
        machine: Machine = self.core.machine(broker)
        if machine.memory is None:
            raise ValueError("faults of disks need disks in memory: leave out directory=")
        return machine.memory


def blocking(
    method: Callable[Concatenate[ClusterCore, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return a method that calls a coroutine method of the core, and waits for it."""

    @wraps(method)
    def call(self: Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        core, thread = self.core, self._thread
        assert thread is not None
        return thread.call(method(core, *args, **kwargs), method.__name__)

    return call
