"""The client of ZooKeeper in memory: ``MemoryMetadataStore`` fulfils the ``MetadataStore`` port.

The server, with all that a test may do to a session, is ``MemoryZooKeeper`` of
``zookeeper.py``. Both pass the contract suite of the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from oncelog_controller.store import (
    ANY_VERSION,
    Create,
    Delete,
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
    check_request_size,
)
from oncelog_testing.memory.zookeeper import MemoryZooKeeper, ZooKeeperSession

__all__ = ["MemoryMetadataStore", "MemoryZooKeeper"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _ArmedWatch:
    """A watch is armed by the answer it came with: when that is lost, so is the watch."""

    watch: Watch
    armed: bool = False

    @classmethod
    def of(cls, watch: Watch | None) -> _ArmedWatch | None:
        return None if watch is None else cls(watch)

    def __call__(self, event: WatchEvent) -> None:
        if self.armed:
            self.watch(event)


class MemoryMetadataStore:
    """It is one client; it fulfils ``MetadataStore``."""

    def __init__(self, zookeeper: MemoryZooKeeper, *, session_timeout_ms: int = 6000) -> None:
        self.state = SessionState.DISCONNECTED
        self.session_id: int | None = None
        """Kept after expiry, None before start and after close."""
        self.on_session: list[SessionListener] = []
        self.session: ZooKeeperSession | None = None
        self._zookeeper = zookeeper
        self._session_timeout_s = session_timeout_ms / 1000
        self._pending: dict[asyncio.Future[object], str] = {}
        self._closed = False

    async def start(self) -> None:
        """See the port."""
        if not self._zookeeper.running:
            raise StoreDisconnectedError
        self._closed = False
        self.session = self._zookeeper.open_session(self, self._session_timeout_s)
        self.session_id = self.session.session_id
        self._change(SessionState.CONNECTED)

    async def close(self) -> None:
        """See the port."""
        if self._closed:
            return  # or it has crashed, and what it had runs out by itself
        session, self.session = self.session, None
        self.session_id = None
        self._closed = True
        self.state = SessionState.DISCONNECTED
        self._fail_pending()
        if session is not None:
            self._zookeeper.close_session(session)

    async def restart_session(self) -> None:
        """See the port."""
        if self.state is not SessionState.EXPIRED:
            raise StoreError("restart_session: the session is not expired")
        await self._zookeeper.until_running()
        await self.start()

    def crash(self) -> None:
        """Die without a word: nothing is called back any more, the session runs out."""
        session, self.session = self.session, None
        self._closed = True
        self._pending.clear()
        self.on_session.clear()
        if session is not None:
            self._zookeeper.abandon(session)

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, make_parents: bool = False
    ) -> NodeStat:
        """See the port."""
        while True:
            try:
                result = (await self._write([Create(path, data, ephemeral)]))[0]
            except NoNodeError:
                parent = path.rpartition("/")[0]
                if not make_parents or not parent:
                    raise
                try:
                    await self.create(parent, b"", make_parents=True)
                except NodeExistsError:
                    pass  # somebody else made it meanwhile
                continue
            assert result is not None
            return result

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, NodeStat]:
        """See the port."""
        armed = _ArmedWatch.of(watch)
        return await self._call(
            path, None, lambda session: self._zookeeper.read(session, path, armed), armed
        )

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """See the port."""
        armed = _ArmedWatch.of(watch)
        return await self._call(
            path, None, lambda session: self._zookeeper.stat(session, path, armed), armed
        )

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See the port."""
        armed = _ArmedWatch.of(watch)
        return await self._call(
            path, None, lambda session: self._zookeeper.names(session, path, armed), armed
        )

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStat:
        """See the port."""
        result = (await self._write([SetData(path, data, version)]))[0]
        assert result is not None
        return result

    async def delete(
        self, path: str, version: int = ANY_VERSION, *, recursive: bool = False
    ) -> None:
        """See the port."""
        while True:
            try:
                await self._write([Delete(path, version)])
            except NotEmptyError:
                if not recursive:
                    raise
                for name in await self.children(path):
                    try:
                        await self.delete(f"{path}/{name}", recursive=True)
                    except NoNodeError:
                        pass  # somebody else removed it meanwhile
                continue
            return

    async def multi(self, ops: list[Op]) -> list[OpResult]:
        """See the port."""
        return await self._write(list(ops), multi=True)

    # ------------------------------------------------------------------ the wire

    async def _write(self, ops: list[Op], *, multi: bool = False) -> list[OpResult]:
        check_request_size(ops)
        path = ops[0].path if ops else ""
        return await self._call(
            path, ops, lambda session: self._zookeeper.write(session, ops, multi=multi)
        )

    async def _call(
        self,
        path: str,
        ops: list[Op] | None,
        run: Callable[[ZooKeeperSession], T],
        watch: _ArmedWatch | None = None,
    ) -> T:
        session = self.session
        if self.state is SessionState.EXPIRED:
            raise SessionExpiredError(path)
        if session is None or self.state is SessionState.DISCONNECTED:
            raise StoreDisconnectedError(path)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        pending: asyncio.Future[object] = future  # type: ignore[assignment]
        self._pending[pending] = path

        def reply(result: T | None, error: StoreError | None) -> None:
            self._pending.pop(pending, None)
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                if watch is not None:
                    watch.armed = True
                future.set_result(result)  # type: ignore[arg-type]

        self._zookeeper.submit(session, ops, lambda: run(session), reply)
        try:
            return await future
        finally:
            self._pending.pop(pending, None)

    def lost_contact(self, session: ZooKeeperSession) -> None:
        """The server's side of the connection is gone."""
        if session is not self.session or self._closed:
            return
        self._fail_pending()
        self._change(SessionState.DISCONNECTED)

    def regained_contact(self, session: ZooKeeperSession) -> None:
        """The same session goes on."""
        if session is self.session and not self._closed:
            self._change(SessionState.CONNECTED)

    def told_expired(self, session: ZooKeeperSession) -> None:
        """Contact again, and the server does not know the session any more."""
        if session is self.session and not self._closed:
            self._change(SessionState.EXPIRED)

    def _fail_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for future, path in pending.items():
            if not future.done():
                future.set_exception(StoreDisconnectedError(path))

    def _change(self, state: SessionState) -> None:
        if state is self.state:
            return
        self.state = state
        for listener in list(self.on_session):
            listener(state)
