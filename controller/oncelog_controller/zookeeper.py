"""ZooKeeper is the metadata store: kazoo works behind the ``MetadataStore`` port.

The only file of the controller that knows of threads. Rules:

* kazoo gets **one** thread a session, its connection thread: completions and watches run there,
  inline, and do nothing but cross to the event loop with ``call_soon_threadsafe``. So everything
  reaches the loop in the order of the wire: a watch event before the reply of a later read, the
  replies before the news that the connection broke.
* Every call goes out by kazoo's asynchronous API from the loop, which never waits for kazoo's
  thread. A window bounds how many are on their way: kazoo wakes its thread by a byte for each,
  through a socket pair that drops those for which there is no room.
* *Disconnected*: calls under way fail at once with :class:`StoreDisconnectedError` (outcome
  unknown), new ones are refused, kazoo reconnects by itself. Watches are kept here and armed again
  by a read after the reconnect; what changed in between fires them (kazoo drops them).
* *Expired*: final for the session. kazoo would open a new one behind our back; ``OneSession``
  stops it, so that nothing is ever written in a session that the owner does not know of.
* A loop that has not turned for a session time-out is not pinged for any more (``dead_man``): the
  session expires, and another broker leads what this one led.
* The chroot is prefixed here, not by kazoo, and made when missing.
* Access lists are not part of the port: a session has one for all that it makes
  (``zookeeper_access``), and those of a tree that is there are changed by hand
  (``zookeeper_tree``).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.client import KazooState
from kazoo.protocol.states import KeeperState

from oncelog_controller.dead_man import DeadMan
from oncelog_controller.kazoo_session import (
    CLOSE_DEADLINE_S,
    NOT_THE_CAUSE,
    InlineHandler,
    OneSession,
    QuietLogger,
    node_stat,
    op_result,
    store_error,
)
from oncelog_controller.store import (
    ANY_VERSION,
    AccessDeniedError,
    Create,
    Delete,
    IdentityRejectedError,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Op,
    OpResult,
    SessionExpiredError,
    SessionListener,
    SessionState,
    SetData,
    StoreDisconnectedError,
    StoreError,
    Watch,
    WatchEvent,
    WatchKind,
    check_request_size,
)
from oncelog_controller.zookeeper_access import (
    AccessList,
    ZooKeeperAccess,
    lets_everybody_write,
)
from oncelog_runtime.clock import monotonic_s
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

IN_FLIGHT_MAX = 128
"""Calls on their way at once; below what fills the socket pair (about 270 single bytes)."""

RECONNECT_DELAY_MIN_S = 0.02
RECONNECT_DELAY_MAX_S = 0.5
"""The longest pause between attempts to reach a server again; short, since a session lasts only
seconds."""

_KINDS = {
    "CREATED": WatchKind.CREATED,
    "CHANGED": WatchKind.CHANGED,
    "DELETED": WatchKind.DELETED,
    "CHILD": WatchKind.CHILDREN,
}

Start = Callable[[OneSession], Any]
"""Sends a request by kazoo's asynchronous API and returns kazoo's result object."""
OnValue = Callable[[Any], None]


@dataclass(slots=True, eq=False)
class _Call:
    """It is one request, waiting for room or for its answer."""

    path: str
    start: Start
    done: Callable[[Any, StoreError | None], None]
    """It is called on the loop, once, with the value or the error."""
    abandoned: bool = False
    """Nobody waits any more: not worth sending, if it was not sent."""


@dataclass(slots=True, eq=False)
class _StandingWatch:
    """It is a watch that was armed and has not fired."""

    path: str
    children: bool
    callback: Watch
    seen: Any = None
    """kazoo's ZnodeStat at arming; None: the node was missing."""
    arming: int = 0
    """The number grows with each arming; an event of an earlier one is void."""
    stood: bool = False
    """Whether the read that armed it has been answered."""
    early: WatchKind | None = None
    """The kind that it fired for before the answer came, which was overtaken (see ``_send``)."""


class ZooKeeperStore:
    """It is the metadata store over a ZooKeeper ensemble; see the port for each call.

    :param hosts: ``host:port,host:port``, without chroot.
    :param chroot: a path, "" or "/" for none; made when missing.
    :param session_timeout_ms: asked of the server, which may bound it.
    :param connect_timeout_ms: how long ``start`` tries.
    :param access: how servers are reached, as whom, and for whom nodes are made.
    """

    def __init__(
        self,
        hosts: str,
        *,
        chroot: str = "",
        session_timeout_ms: int = 6000,
        connect_timeout_ms: int = 15000,
        access: ZooKeeperAccess | None = None,
    ) -> None:
        self.state = SessionState.DISCONNECTED
        self.session_id: int | None = None
        self.on_session: list[SessionListener] = []
        self._hosts = hosts
        self.chroot = "/" + chroot.strip("/") if chroot.strip("/") else ""
        """All paths are below it; "": there is none."""
        self._access = access or ZooKeeperAccess()
        self._session_timeout_s = session_timeout_ms / 1000
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._client: OneSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Future[None] | None = None
        self._link_up = False
        self._rejected = False
        """Whether the session ended since ZooKeeper rejects the identity."""
        self._pending: dict[_Call, None] = {}
        self._in_flight = 0
        self._waiting: deque[_Call] = deque()
        self._watches: dict[_StandingWatch, None] = {}

    @classmethod
    def from_connect_string(cls, connect: str, **options: Any) -> ZooKeeperStore:
        """Make a store from ``host:port,host:port/chroot`` as ``zookeeper_connect`` spells it."""
        hosts, _, chroot = connect.partition("/")
        return cls(hosts, chroot=chroot, **options)

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """See the port."""
        await self._open()
        if self._access.creator_only:
            await self._warn_of_open_root()

    async def restart_session(self) -> None:
        """See the port."""
        if self.state is not SessionState.EXPIRED:
            raise StoreError("restart_session: the session is not expired")
        while True:
            try:
                await self._open()
            except (StoreDisconnectedError, SessionExpiredError, IdentityRejectedError) as error:
                if isinstance(error, IdentityRejectedError):
                    await asyncio.sleep(RECONNECT_DELAY_MAX_S)  # another server may take it
                if self.state is not SessionState.EXPIRED:
                    raise  # closed meanwhile
                continue
            return

    async def close(self) -> None:
        """See the port. Afterwards calls are refused as disconnected; listeners are not told."""
        self.state = SessionState.DISCONNECTED
        self.session_id = None
        self._watches.clear()
        client = self._detach(StoreDisconnectedError)
        if client is not None:
            await self._end(client)

    async def _open(self) -> None:
        """Open a session and announce it.

        :raises StoreDisconnectedError: no server answered in time.
        :raises AccessDeniedError: the identity is rejected, or the chroot is not for it.
        """
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._link_up = self._rejected = False
        opening: asyncio.Future[None] = loop.create_future()
        self._opening = opening
        dead_man = DeadMan(
            partial(_post, loop), patience_s=self._session_timeout_s, now_s=monotonic_s
        )
        quiet = QuietLogger(logging.getLogger(__name__))
        client = OneSession(
            may_ping=dead_man.turns,
            hosts=self._hosts,
            timeout=self._session_timeout_s,
            handler=InlineHandler(self._access.tls),
            connection_retry={
                "max_tries": -1,
                "delay": RECONNECT_DELAY_MIN_S,
                "max_delay": RECONNECT_DELAY_MAX_S,
            },
            logger=quiet,
            **self._access.options(),
        )
        self._client = client
        client.add_listener(partial(self._state_changed, client))
        client.start_async()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await opening
                await self._make_chroot()
        except BaseException as error:
            because = f" ({quiet.trouble})" if quiet.trouble else ""
            if self._client is client:
                self._detach(StoreDisconnectedError)
                await self._end(client)
            if isinstance(error, TimeoutError):
                raise StoreDisconnectedError(
                    f"no ZooKeeper answered at {self._hosts} within {self._connect_timeout_s:g} s"
                    f"{because}"
                ) from None
            if self._rejected and isinstance(error, StoreError):
                raise IdentityRejectedError(self._hosts) from error
            raise
        self._opening = None
        self._change(SessionState.CONNECTED)

    async def _make_chroot(self) -> None:
        """Make the chroot; return when it exists and the link is up.

        An identity is rejected after the session has begun. So something is asked for at any rate.
        """
        parts = self.chroot.split("/")
        paths = ["/".join(parts[:depth]) for depth in range(2, len(parts) + 1)] or ["/"]
        while True:
            try:
                for path in paths:
                    await self._make_parent(path)
                if self._link_up:
                    return
            except StoreDisconnectedError:
                if self._client is None:
                    raise  # closed meanwhile
            await asyncio.sleep(RECONNECT_DELAY_MIN_S)

    async def _make_parent(self, path: str) -> None:
        """Make a node of the chroot, unless it is there.

        :raises AccessDeniedError: the last of them is not for this session. Those above it may be
            somebody else's.
        """
        try:
            if await self._request(path, lambda client: client.exists_async(path)) is None:
                await self._request(path, _create_empty(path))
        except NodeExistsError:
            pass
        except AccessDeniedError:
            if path == self.chroot:
                raise

    async def _warn_of_open_root(self) -> None:
        try:
            acl = await self.access_list("/")
        except StoreError as error:
            logger.debug("zookeeper_root_not_read", error=error)
            return
        if lets_everybody_write(acl):
            logger.warning("zookeeper_root_open", path=self._full("/"))

    def _detach(self, error: type[StoreError]) -> OneSession | None:
        """Forget the client: whatever it still reports is void, whoever waits is told."""
        client, self._client = self._client, None
        self._link_up = False
        self._fail_pending(error)
        if self._opening is not None and not self._opening.done():
            self._opening.set_exception(error())
            self._opening.exception()  # seen: nobody may be awaiting it any more
        return client

    async def _end(self, client: OneSession) -> None:
        """Let a thread say goodbye, and wait for it, but not for ever."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def end() -> None:
            client.end()
            _post(loop, done.set)

        # A daemon, not the executor: a silent server must not hold up the end of the process.
        threading.Thread(target=end, name="zookeeper-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await done.wait()
        except TimeoutError:
            logger.warning("zookeeper_close_late")

    # ------------------------------------------------------------------ session events

    def _state_changed(self, client: OneSession, state: str) -> None:
        """Take the news in kazoo's thread, and post it to the loop."""
        if state == KazooState.LOST:
            client.stop_reconnecting()
        assert self._loop is not None
        session_id = client.client_id[0] if state == KazooState.CONNECTED else None
        rejected = client.client_state == KeeperState.AUTH_FAILED
        _post(self._loop, self._on_state, client, state, session_id, rejected)

    def _on_state(
        self, client: OneSession, state: str, session_id: int | None, rejected: bool
    ) -> None:
        """Take the news on the loop, for the current client only."""
        if client is not self._client:
            return
        if state == KazooState.CONNECTED:
            self._on_connected(client, session_id)
        elif state == KazooState.SUSPENDED:
            self._link_up = False
            self._fail_pending(StoreDisconnectedError)
            if self._opening is None:
                logger.info("zookeeper_disconnected", session=hex(self.session_id or 0))
                self._change(SessionState.DISCONNECTED)
        else:
            if rejected:
                logger.error("zookeeper_identity_rejected", address=self._hosts)
            self._rejected = rejected
            self._detach(SessionExpiredError)
            self._watches.clear()
            # The thread ends by itself; its sockets are freed aside.
            threading.Thread(target=client.end, name="zookeeper-close", daemon=True).start()
            if self._opening is None:
                if not rejected:
                    logger.warning("zookeeper_session_expired", session=hex(self.session_id or 0))
                self._change(SessionState.EXPIRED)

    def _on_connected(self, client: OneSession, session_id: int | None) -> None:
        self._link_up = True
        self.session_id = session_id
        if self._opening is not None:
            if not self._opening.done():
                self._opening.set_result(None)
            return
        logger.info("zookeeper_connected", session=hex(self.session_id or 0))
        # First in line, so that what was missed fires before any later read is answered.
        for watch in list(self._watches):
            self._rearm(watch)
        self._change(SessionState.CONNECTED)

    def _change(self, state: SessionState) -> None:
        if state is self.state:
            return
        self.state = state
        for listener in list(self.on_session):
            listener(state)

    # ------------------------------------------------------------------ calls

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, make_parents: bool = False
    ) -> NodeStat:
        """See the port."""
        check_request_size([Create(path, data, ephemeral)])
        full = self._full(path)
        _, stat = await self._call(
            path,
            lambda client: client.create_async(
                full, data, ephemeral=ephemeral, makepath=make_parents, include_data=True
            ),
        )
        return node_stat(stat)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, NodeStat]:
        """See the port."""
        data, stat = await self._watched(path, watch, "get_async")
        return data or b"", node_stat(stat)

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """See the port."""
        stat = await self._watched(path, watch, "exists_async")
        return None if stat is None else node_stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See the port."""
        names, _ = await self._watched(path, watch, "get_children_async")
        return sorted(names)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat:
        """See the port."""
        check_request_size([SetData(path, data, version)])
        full = self._full(path)
        return node_stat(await self._call(path, lambda c: c.set_async(full, data, version)))

    async def delete(
        self, path: str, version: int = ANY_VERSION, *, recursive: bool = False
    ) -> None:
        """See the port. ``recursive`` is not atomic: each node goes by itself, leaves first."""
        full = self._full(path)
        while True:
            try:
                await self._call(path, lambda client: client.delete_async(full, version))
            except NotEmptyError:
                if not recursive:
                    raise
                for name in await self.children(path):
                    try:
                        await self.delete(f"{path.rstrip('/')}/{name}", recursive=True)
                    except NoNodeError:
                        pass  # somebody else removed it meanwhile
                continue
            return

    async def access_list(self, path: str) -> AccessList:
        """Return who may do what to a node. :raises NoNodeError, AccessDeniedError:"""
        full = self._full(path)
        acl, _ = await self._call(path, lambda client: client.get_acls_async(full))
        return list(acl)

    async def set_access_list(self, path: str, acl: AccessList) -> None:
        """Say who may do what to a node. :raises NoNodeError, AccessDeniedError:"""
        full = self._full(path)
        await self._call(path, lambda client: client.set_acls_async(full, acl))

    async def multi(self, ops: list[Op]) -> list[OpResult]:
        """See the port."""
        if not ops:
            return []
        check_request_size(ops)
        results = await self._call(ops[0].path, partial(self._commit, ops))
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, NOT_THE_CAUSE):
                raise store_error(result, ops[index].path, op_index=index)
        return [op_result(op, result) for op, result in zip(ops, results, strict=True)]

    def _commit(self, ops: list[Op], client: OneSession) -> Any:
        transaction = client.transaction()
        for op in ops:
            full = self._full(op.path)
            if isinstance(op, Create):
                transaction.create(full, op.data, ephemeral=op.ephemeral)
            elif isinstance(op, SetData):
                transaction.set_data(full, op.data, op.version)
            elif isinstance(op, Delete):
                transaction.delete(full, op.version)
            else:
                transaction.check(full, op.version)
        return transaction.commit_async()

    def _full(self, path: str) -> str:
        if not path.startswith("/"):
            raise StoreError(f"{path!r}: a path starts with '/'")
        if path == "/":
            return self.chroot or "/"
        return self.chroot + path

    async def _call(self, path: str, start: Start, on_value: OnValue | None = None) -> Any:
        """Refuse when there is no session to call in; else send and wait."""
        if self.state is SessionState.EXPIRED:
            raise SessionExpiredError(path)
        if self.state is SessionState.DISCONNECTED:
            raise StoreDisconnectedError(path)
        return await self._request(path, start, on_value)

    async def _request(self, path: str, start: Start, on_value: OnValue | None = None) -> Any:
        """Send a request; ``on_value`` sees the value at once, before anything that comes after
        it."""
        if self._client is None:
            raise StoreDisconnectedError(path)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(value: Any, error: StoreError | None) -> None:
            if future.done():
                return  # the caller was cancelled
            if error is not None:
                future.set_exception(error)
                return
            if on_value is not None:
                on_value(value)
            future.set_result(value)

        call = _Call(path, start, done)
        self._enqueue(call)
        try:
            return await future
        except asyncio.CancelledError:
            call.abandoned = True
            raise

    def _enqueue(self, call: _Call) -> None:
        self._pending[call] = None
        if self._waiting or self._in_flight >= IN_FLIGHT_MAX:
            self._waiting.append(call)
        else:
            self._send(call)

    def _send(self, call: _Call) -> None:
        assert self._client is not None
        assert self._loop is not None
        loop = self._loop
        self._in_flight += 1
        # The answer can be there before the link, which then reports it from here, while kazoo's
        # thread goes on: what it reports next, such as a watch that fired, can come before it.
        call.start(self._client).rawlink(lambda result: _post(loop, self._settle, call, result))

    def _settle(self, call: _Call, result: Any) -> None:
        """A call is answered. kazoo may report one twice, or after the connection broke."""
        if call not in self._pending:
            return
        del self._pending[call]
        self._in_flight -= 1
        while self._waiting and self._in_flight < IN_FLIGHT_MAX:
            following = self._waiting.popleft()
            if following.abandoned:
                del self._pending[following]
            else:
                self._send(following)
        if result.successful():
            call.done(result.value, None)
        else:
            call.done(None, store_error(result.exception, call.path))

    def _fail_pending(self, error: type[StoreError]) -> None:
        pending, self._pending = self._pending, {}
        self._waiting.clear()
        self._in_flight = 0
        for call in pending:
            call.done(None, error(call.path))

    # ------------------------------------------------------------------ watches

    async def _watched(self, path: str, callback: Watch | None, method: str) -> Any:
        """Read by kazoo's ``method``, and set a watch with it that stands until it fires."""
        full = self._full(path)
        children = method == "get_children_async"
        options: dict[str, Any] = {"include_data": True} if children else {}
        if callback is None:
            return await self._call(path, lambda client: getattr(client, method)(full, **options))
        watch = _StandingWatch(path, children, callback)
        options["watch"] = self._watcher(watch)

        def stand(value: Any) -> None:
            watch.seen = value if method == "exists_async" else value[1]
            watch.stood = True
            self._watches[watch] = None
            if watch.early is not None:
                asyncio.get_running_loop().call_soon(self._fire, watch, watch.early)

        return await self._call(
            path, lambda client: getattr(client, method)(full, **options), stand
        )

    def _watcher(self, watch: _StandingWatch) -> Callable[[Any], None]:
        """Return what kazoo calls, in its thread, when the watch fires."""
        assert self._loop is not None
        loop, arming = self._loop, watch.arming
        return lambda event: _post(loop, self._on_watch, watch, arming, event)

    def _on_watch(self, watch: _StandingWatch, arming: int, event: Any) -> None:
        kind = _KINDS.get(event.type)
        if kind is None or arming != watch.arming:
            return  # kazoo's notice that it dropped the watch: it is armed again on reconnect
        if not watch.stood:
            watch.early = kind
            return
        self._fire(watch, kind)

    def _fire(self, watch: _StandingWatch, kind: WatchKind) -> None:
        if watch in self._watches:
            del self._watches[watch]
            watch.callback(WatchEvent(kind, watch.path))

    def _rearm(self, watch: _StandingWatch) -> None:
        """Read again with a new watch; compare with what was seen when it was armed."""
        watch.arming += 1
        full, watcher = self._full(watch.path), self._watcher(watch)

        def start(client: OneSession) -> Any:
            if watch.children:
                return client.get_children_async(full, watch=watcher, include_data=True)
            return client.exists_async(full, watch=watcher)

        self._enqueue(_Call(watch.path, start, partial(self._rearmed, watch, watch.arming)))

    def _rearmed(
        self, watch: _StandingWatch, arming: int, value: Any, error: StoreError | None
    ) -> None:
        if arming != watch.arming:
            return
        if isinstance(error, NoNodeError):
            self._fire(watch, WatchKind.DELETED)
        elif error is None:
            kind = _missed(watch.seen, value[1] if watch.children else value, watch.children)
            if kind is not None:
                self._fire(watch, kind)
        elif not isinstance(error, StoreDisconnectedError | SessionExpiredError):
            logger.error("zookeeper_watch_failed", path=watch.path, error=error)


def _missed(before: Any, now: Any, children: bool) -> WatchKind | None:
    """Return what happened to a node between two stats; None when nothing did that the watch looks
    at."""
    if now is None:
        return None if before is None else WatchKind.DELETED
    if before is None:
        return WatchKind.CREATED
    if children:
        changed = (before.czxid, before.pzxid, before.cversion) != (
            now.czxid,
            now.pzxid,
            now.cversion,
        )
        return WatchKind.CHILDREN if changed else None
    changed = (before.czxid, before.mzxid) != (now.czxid, now.mzxid)
    return WatchKind.CHANGED if changed else None


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any) -> None:
    """Call from any thread into the loop; nothing happens when the loop is closed already."""
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        pass


def _create_empty(path: str) -> Start:
    return lambda client: client.create_async(path, b"")
