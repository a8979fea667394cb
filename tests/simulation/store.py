"""The metadata store of a simulated process: the client runs as that process, the server on a host
of its own.

The server's side (``MemoryZooKeeper``) must go on while its client is paused or dead, and what it
tells the client must wait in the client's queue. So calls cross over by ``Process.run``, and come
back by ``Process.post``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, TypeVar

from oncelog_controller.dead_man import DeadMan
from oncelog_controller.store import NodeStat, Op, StoreError, Watch, WatchEvent
from oncelog_testing.memory.store import MemoryMetadataStore
from oncelog_testing.memory.zookeeper import Client, MemoryZooKeeper, ZooKeeperSession
from simulation.loop import Process

T = TypeVar("T")


class _Across:
    """It is the server, as it is called from another process."""

    def __init__(self, server: MemoryZooKeeper, process: Process) -> None:
        self._server = server
        self._process = process

    @property
    def running(self) -> bool:
        return self._server.running

    async def until_running(self) -> None:
        await self._server.until_running()

    def open_session(self, client: Client, timeout_s: float) -> ZooKeeperSession:
        return self._process.run(self._server.open_session, client, timeout_s)

    def close_session(self, session: ZooKeeperSession) -> None:
        self._process.run(self._server.close_session, session)

    def abandon(self, session: ZooKeeperSession) -> None:
        self._process.run(self._server.abandon, session)

    def submit(
        self,
        session: ZooKeeperSession,
        ops: list[Op] | None,
        run: Callable[[], T],
        reply: Callable[[T | None, StoreError | None], None],
    ) -> None:
        self._process.run(self._server.submit, session, ops, run, reply)

    def __getattr__(self, name: str) -> Any:
        # ``read``, ``stat``, ``names`` and ``write`` run at the server already: see ``submit``.
        return getattr(self._server, name)


class SimMetadataStore(MemoryMetadataStore):
    """It is the client, as a part of ``process``."""

    def __init__(
        self,
        server: MemoryZooKeeper,
        *,
        process: Process,
        server_process: Process,
        session_timeout_ms: int,
        expire_hung_loops: bool = True,
    ) -> None:
        """Take ``expire_hung_loops``: a rule of the real client, which an ablation turns off."""
        super().__init__(
            _Across(server, server_process),  # type: ignore[arg-type]
            session_timeout_ms=session_timeout_ms,
        )
        self._process = process
        self._server = server
        self._server_process = server_process
        self._timeout_s = session_timeout_ms / 1000
        self._dead_man = DeadMan(
            process.post,
            patience_s=self._timeout_s if expire_hung_loops else math.inf,
            now_s=lambda: process.loop.now_s,
        )

    async def start(self) -> None:
        await super().start()
        assert self.session is not None
        self._server_process.spawn(self._ping(self.session), "pings")

    async def _ping(self, session: ZooKeeperSession) -> None:
        """Do as the thread of the real client, which goes on while the loop hangs: as the server's
        process, since a session whose client does not say otherwise lives."""
        silent = False
        while self.session is session and self._process.alive:
            await asyncio.sleep(self._timeout_s / 3)
            turns = self._dead_man.turns()
            if not turns and session.connected:
                silent = True
                self._server.disconnect(session.session_id)
            elif turns and silent:
                silent = False
                self._server.reconnect(session.session_id)
            elif turns and session.expired:
                return

    def lost_contact(self, session: ZooKeeperSession) -> None:
        self._process.post(super().lost_contact, session)

    def regained_contact(self, session: ZooKeeperSession) -> None:
        self._process.post(super().regained_contact, session)

    def told_expired(self, session: ZooKeeperSession) -> None:
        self._process.post(super().told_expired, session)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, NodeStat]:
        return await super().get(path, self._posted(watch))

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        return await super().exists(path, self._posted(watch))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await super().children(path, self._posted(watch))

    def _posted(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        process = self._process

        def post(event: WatchEvent) -> None:
            process.post(watch, event)

        return post
