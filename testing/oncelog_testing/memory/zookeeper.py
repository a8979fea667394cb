"""ZooKeeper's server is in memory here: a tree of versioned nodes, sessions, watches.
A test can lay hands on them (``disconnect``, ``reconnect``, ``expire``, ``lose_reply``,
``lose_request``, ``stop``, ``start``, ``delay``). ``store.py`` is its client.

It lives on the running loop's time and draws no chance: the same calls give the same order of
events. What it models, checked by the contract suite that also runs over the real ZooKeeper:

* the server expires a session: after ``session_timeout`` without contact, never because the client
  says so; the client learns of it only when it has contact again;
* *disconnected* is not *expired*; a call that was under way when contact broke fails with
  ``StoreDisconnectedError``, whether it was applied or not;
* messages of one session are in order, in both directions; a watch event overtakes no reply;
* one zxid a write, one for a whole multi; ``czxid`` is unique to a creation; the parent's children
  version grows; ephemeral nodes go with their session, have no children, and their removal can lag.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from oncelog_controller.store import (
    ANY_VERSION,
    BadVersionError,
    CheckVersion,
    Create,
    Delete,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    NotEmptyError,
    Op,
    OpResult,
    StoreError,
    Watch,
    WatchEvent,
    WatchKind,
)

T = TypeVar("T")
Delay = Callable[[str, int], float]
"""``delay(kind, session_id)`` in seconds; kinds: request, reply, watch, ephemeral."""
Matching = Callable[[list[Op]], bool]

FIRST_SESSION_ID = 0x1000_0000_0001


@dataclass(slots=True)
class _Node:
    data: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    version: int = 0
    children_version: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> NodeStat:
        return NodeStat(
            version=self.version,
            czxid=self.czxid,
            mzxid=self.mzxid,
            ephemeral_owner=self.owner,
            children_version=self.children_version,
            children_count=len(self.children),
        )


class _Pipe:
    """It has the messages of one direction of one connection, in order, each after its delay."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()
        self._last_at = 0.0
        self.closed = False

    def push(self, delay_s: float, deliver: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._last_at = max(self._last_at, now + delay_s)
        self._queue.append(deliver)
        if self._last_at <= now:
            loop.call_soon(self._pop)
        else:
            loop.call_at(self._last_at, self._pop)

    def _pop(self) -> None:
        deliver = self._queue.popleft()
        if not self.closed:
            deliver()


class Client(Protocol):
    """It is the other end of a session's connection."""

    session: ZooKeeperSession | None

    def lost_contact(self, session: ZooKeeperSession) -> None: ...
    def regained_contact(self, session: ZooKeeperSession) -> None: ...
    def told_expired(self, session: ZooKeeperSession) -> None: ...


@dataclass(slots=True)
class ZooKeeperSession:
    """It is what the server keeps of a client; ``client`` is the other end of its connection."""

    session_id: int
    timeout_s: float
    client: Client
    connected: bool = True
    cut: bool = False
    """The test holds the session apart from the store until ``reconnect``."""
    expired: bool = False
    requests: _Pipe = field(default_factory=_Pipe)
    replies: _Pipe = field(default_factory=_Pipe)
    timer: asyncio.TimerHandle | None = None
    ephemerals: dict[str, None] = field(default_factory=dict)
    data_watches: dict[str, list[Watch]] = field(default_factory=dict)
    child_watches: dict[str, list[Watch]] = field(default_factory=dict)
    undelivered: list[tuple[Watch, WatchEvent]] = field(default_factory=list)
    """The watches that fired while there was no connection."""
    on_the_way: list[tuple[Watch, WatchEvent]] = field(default_factory=list)
    """Fired and sent: a connection that breaks loses it, and it is sent again over the next."""
    faults: deque[tuple[str, Matching]] = field(default_factory=deque)


class MemoryZooKeeper:
    """It is the server, and has what a test may do to it."""

    def __init__(self) -> None:
        self.zxid = 0
        self._up = asyncio.Event()
        self._up.set()
        self.delay: Delay = lambda kind, session_id: 0.0
        self.writes: list[tuple[int, list[Op]]] = []
        """(session id, operations) of every write that was applied, in order."""
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0)}
        self._sessions: dict[int, ZooKeeperSession] = {}
        self._ghosts: dict[int, ZooKeeperSession] = {}
        """Sessions that are over while their client does not know it yet."""
        self._next_session_id = FIRST_SESSION_ID

    # ------------------------------------------------------------------ what a test looks at

    def tree(self, under: str = "/") -> dict[str, bytes]:
        """Return every node below ``under`` with its data, sorted by path."""
        prefix = under.rstrip("/") + "/"
        return {
            path: node.data
            for path, node in sorted(self._nodes.items())
            if path.startswith(prefix) and path != "/"
        }

    def data(self, path: str) -> bytes | None:
        """Return the data of a node, or None when there is no such node."""
        node = self._nodes.get(path)
        return None if node is None else node.data

    def owner(self, path: str) -> int:
        """Return the session that an ephemeral node lives with; 0 for another node, or none."""
        node = self._nodes.get(path)
        return 0 if node is None else node.owner

    def sessions(self) -> list[int]:
        """Return the ids of the sessions that are not over, sorted."""
        return sorted(self._sessions)

    @property
    def running(self) -> bool:
        """Return whether the server is up."""
        return self._up.is_set()

    async def until_running(self) -> None:
        """Wait for :meth:`start` after :meth:`stop`."""
        await self._up.wait()

    # ------------------------------------------------------------------ what a test does to it

    def apply(self, *ops: Op) -> list[OpResult]:
        """Write as somebody else would, at once."""
        return self._transact(list(ops), None)

    def disconnect(self, session_id: int, *, for_s: float | None = None) -> None:
        """Break the connection and keep it broken, for ``for_s`` seconds or until
        :meth:`reconnect`. The server's clock for the session runs."""
        session = self._sessions[session_id]
        session.cut = True
        self._drop(session)
        if for_s is not None:
            asyncio.get_running_loop().call_later(for_s, self._reconnect, session)

    def reconnect(self, session_id: int) -> None:
        """Let the client of a session, expired or not, find the server again."""
        self._reconnect(self._sessions.get(session_id) or self._ghosts[session_id])

    def expire(self, session_id: int) -> None:
        """End a session as if its time had passed. A connected client learns of it at once, a
        disconnected one when it has contact again."""
        session = self._sessions[session_id]
        self._end_session(session)
        if session.connected:
            self._drop(session)
            asyncio.get_running_loop().call_soon(self._reconnect, session)

    def lose_reply(self, session_id: int, matching: Matching = lambda ops: True) -> None:
        """The next write that matches is applied; its reply is lost and the connection breaks.
        The client reconnects by itself."""
        self._sessions[session_id].faults.append(("reply", matching))

    def lose_request(self, session_id: int, matching: Matching = lambda ops: True) -> None:
        """Like :meth:`lose_reply`, but the write never reaches the server."""
        self._sessions[session_id].faults.append(("request", matching))

    def stop(self) -> None:
        """The whole server goes away; sessions do not age meanwhile."""
        self._up.clear()
        for session in list(self._sessions.values()):
            self._drop(session)
            self._stop_timer(session)

    def start(self) -> None:
        """The server is back: every session has its full time again, clients reconnect."""
        self._up.set()
        for session in [*self._sessions.values(), *self._ghosts.values()]:
            if session.cut:
                self._start_timer(session)
            else:
                self._reconnect(session)
                if not session.connected:  # its client is dead: nobody will come
                    self._start_timer(session)

    # ------------------------------------------------------------------ sessions

    def open_session(self, client: Client, timeout_s: float) -> ZooKeeperSession:
        session = ZooKeeperSession(self._next_session_id, timeout_s, client)
        self._next_session_id += 1
        self._sessions[session.session_id] = session
        self.zxid += 1
        return session

    def _drop(self, session: ZooKeeperSession) -> None:
        if not session.connected:
            return
        session.connected = False
        session.requests.closed = session.replies.closed = True
        on_the_way, session.on_the_way = session.on_the_way, []
        session.undelivered[:0] = on_the_way
        if not session.expired:
            self._start_timer(session)
        session.client.lost_contact(session)

    def _reconnect(self, session: ZooKeeperSession) -> None:
        session.cut = False
        if session.connected or not self.running or session.client.session is not session:
            return
        if session.expired:
            del self._ghosts[session.session_id]
            session.client.told_expired(session)
            return
        self._stop_timer(session)
        session.connected = True
        session.requests, session.replies = _Pipe(), _Pipe()
        session.client.regained_contact(session)
        undelivered, session.undelivered = session.undelivered, []
        for watch, event in undelivered:
            self._send_watch(session, watch, event)

    def _start_timer(self, session: ZooKeeperSession) -> None:
        self._stop_timer(session)
        if self.running and not session.expired:
            loop = asyncio.get_running_loop()
            session.timer = loop.call_later(session.timeout_s, self._end_session, session)

    def _stop_timer(self, session: ZooKeeperSession) -> None:
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None

    def _end_session(self, session: ZooKeeperSession) -> None:
        """Let a session expire: watches go at once, ephemeral nodes after the delay of that
        kind."""
        if session.expired:
            return
        self._stop_timer(session)
        session.expired = True
        self._sessions.pop(session.session_id, None)
        self._ghosts[session.session_id] = session
        session.data_watches.clear()
        session.child_watches.clear()
        session.undelivered.clear()
        delay_s = self.delay("ephemeral", session.session_id)
        if delay_s > 0:
            loop = asyncio.get_running_loop()
            loop.call_later(delay_s, self._remove_ephemerals, session)
        else:
            self._remove_ephemerals(session)

    def _remove_ephemerals(self, session: ZooKeeperSession) -> None:
        paths = [
            path
            for path in session.ephemerals
            if path in self._nodes and self._nodes[path].owner == session.session_id
        ]
        if paths:
            self._transact([Delete(path) for path in sorted(paths)], None)

    def close_session(self, session: ZooKeeperSession) -> None:
        """The client says goodbye; without contact the session must run out by itself."""
        if not session.connected:
            return
        session.connected = False
        session.requests.closed = session.replies.closed = True
        if not session.expired:
            self._end_session(session)
        self._ghosts.pop(session.session_id, None)

    def abandon(self, session: ZooKeeperSession) -> None:
        """The client's process died: silence from now on."""
        if session.connected:
            session.connected = False
            session.requests.closed = session.replies.closed = True
            self._start_timer(session)

    # ------------------------------------------------------------------ requests

    def submit(
        self,
        session: ZooKeeperSession,
        ops: list[Op] | None,
        run: Callable[[], T],
        reply: Callable[[T | None, StoreError | None], None],
    ) -> None:
        """Carry one request of a session to the server and its reply back. ``ops`` is what a
        write does, None for a read."""
        fault = ""
        if ops is not None and session.faults and session.faults[0][1](ops):
            fault = session.faults.popleft()[0]

        def arrive() -> None:
            if fault == "request":
                self._break(session)
                return
            result: T | None = None
            error: StoreError | None = None
            try:
                result = run()
            except StoreError as raised:
                error = raised
            if fault == "reply":
                self._break(session)
                return
            delay_s = self.delay("reply", session.session_id)
            session.replies.push(delay_s, lambda: reply(result, error))

        session.requests.push(self.delay("request", session.session_id), arrive)

    def _break(self, session: ZooKeeperSession) -> None:
        """Break a connection, which is made again by itself, like any TCP connection."""
        self._drop(session)
        asyncio.get_running_loop().call_soon(self._reconnect_unless_cut, session)

    def _reconnect_unless_cut(self, session: ZooKeeperSession) -> None:
        if not session.cut:
            self._reconnect(session)

    def read(
        self, session: ZooKeeperSession, path: str, watch: Watch | None
    ) -> tuple[bytes, NodeStat]:
        node = self._node(path)
        if watch is not None:
            session.data_watches.setdefault(path, []).append(watch)
        return node.data, node.stat()

    def stat(self, session: ZooKeeperSession, path: str, watch: Watch | None) -> NodeStat | None:
        if watch is not None:
            session.data_watches.setdefault(path, []).append(watch)
        node = self._nodes.get(path)
        return None if node is None else node.stat()

    def names(self, session: ZooKeeperSession, path: str, watch: Watch | None) -> list[str]:
        node = self._node(path)
        if watch is not None:
            session.child_watches.setdefault(path, []).append(watch)
        return sorted(node.children)

    def write(self, session: ZooKeeperSession, ops: list[Op], *, multi: bool) -> list[OpResult]:
        results = self._transact(ops, session, multi=multi)
        self.writes.append((session.session_id, ops))
        return results

    # ------------------------------------------------------------------ the tree

    def _node(self, path: str, op_index: int | None = None) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(path, op_index=op_index)
        return node

    def _transact(
        self, ops: list[Op], session: ZooKeeperSession | None, *, multi: bool = False
    ) -> list[OpResult]:
        """Apply all or none under one zxid, then fire the watches."""
        self.zxid += 1
        undo: list[Callable[[], None]] = []
        events: list[WatchEvent] = []
        results: list[OpResult] = []
        try:
            for index, op in enumerate(ops):
                results.append(self._apply(op, session, index if multi else None, undo, events))
        except StoreError:
            for step in reversed(undo):
                step()
            raise
        for event in events:
            self._fire(event)
        return results

    def _apply(
        self,
        op: Op,
        session: ZooKeeperSession | None,
        op_index: int | None,
        undo: list[Callable[[], None]],
        events: list[WatchEvent],
    ) -> OpResult:
        if isinstance(op, Create):
            return self._create(op, session, op_index, undo, events)
        node = self._node(op.path, op_index)
        if op.version not in (ANY_VERSION, node.version):
            raise BadVersionError(op.path, op_index=op_index)
        if isinstance(op, CheckVersion):
            return None
        if isinstance(op, Delete):
            self._delete(op.path, node, op_index, undo, events)
            return None
        before = (node.data, node.version, node.mzxid)

        def restore() -> None:
            node.data, node.version, node.mzxid = before

        undo.append(restore)
        node.data, node.version, node.mzxid = bytes(op.data), node.version + 1, self.zxid
        events.append(WatchEvent(WatchKind.CHANGED, op.path))
        return node.stat()

    def _create(
        self,
        op: Create,
        session: ZooKeeperSession | None,
        op_index: int | None,
        undo: list[Callable[[], None]],
        events: list[WatchEvent],
    ) -> NodeStat:
        parent_path, _, name = op.path.rpartition("/")
        parent_path = parent_path or "/"
        if op.path in self._nodes:
            raise NodeExistsError(op.path, op_index=op_index)
        parent = self._node_for_child(parent_path, op, op_index)
        owner = session.session_id if op.ephemeral and session is not None else 0
        node = _Node(bytes(op.data), self.zxid, self.zxid, owner)
        self._nodes[op.path] = node
        parent.children[name] = None
        parent.children_version += 1
        if owner and session is not None:
            session.ephemerals[op.path] = None

        def remove() -> None:
            del self._nodes[op.path]
            del parent.children[name]
            parent.children_version -= 1
            if session is not None:
                session.ephemerals.pop(op.path, None)

        undo.append(remove)
        events.append(WatchEvent(WatchKind.CREATED, op.path))
        events.append(WatchEvent(WatchKind.CHILDREN, parent_path))
        return node.stat()

    def _node_for_child(self, parent_path: str, op: Create, op_index: int | None) -> _Node:
        parent = self._nodes.get(parent_path)
        if parent is None:
            raise NoNodeError(op.path, op_index=op_index)
        if parent.owner:
            raise StoreError(f"{op.path}: ephemeral nodes have no children", op_index=op_index)
        return parent

    def _delete(
        self,
        path: str,
        node: _Node,
        op_index: int | None,
        undo: list[Callable[[], None]],
        events: list[WatchEvent],
    ) -> None:
        if node.children:
            raise NotEmptyError(path, op_index=op_index)
        parent_path, _, name = path.rpartition("/")
        parent_path = parent_path or "/"
        parent = self._nodes[parent_path]
        owner = self._sessions.get(node.owner)
        del self._nodes[path]
        del parent.children[name]
        parent.children_version += 1
        if owner is not None:
            owner.ephemerals.pop(path, None)

        def put_back() -> None:
            self._nodes[path] = node
            parent.children[name] = None
            parent.children_version -= 1
            if owner is not None:
                owner.ephemerals[path] = None

        undo.append(put_back)
        events.append(WatchEvent(WatchKind.DELETED, path))
        events.append(WatchEvent(WatchKind.CHILDREN, parent_path))

    def _fire(self, event: WatchEvent) -> None:
        for session in list(self._sessions.values()):
            watches: list[Watch] = []
            if event.kind is not WatchKind.CHILDREN:
                watches += session.data_watches.pop(event.path, [])
            if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED):
                watches += session.child_watches.pop(event.path, [])
            for watch in watches:
                if session.connected:
                    self._send_watch(session, watch, event)
                else:
                    session.undelivered.append((watch, event))

    def _send_watch(self, session: ZooKeeperSession, watch: Watch, event: WatchEvent) -> None:
        sent = (watch, event)
        session.on_the_way.append(sent)

        def deliver() -> None:
            session.on_the_way.remove(sent)
            watch(event)

        session.replies.push(self.delay("watch", session.session_id), deliver)
