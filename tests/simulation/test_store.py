"""The metadata store is between two processes, of which one cannot run for a while.

That it is a ``MetadataStore`` is shown by ``tests/ports/test_metadata_store.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from oncelog_controller.store import SessionState, StoreDisconnectedError, WatchEvent, WatchKind
from oncelog_testing.memory.zookeeper import MemoryZooKeeper
from simulation.loop import Process, SimLoop
from simulation.play import play
from simulation.store import SimMetadataStore

SESSION_S = 2.0


class Stage:
    """It has a server on "zk", a store on "client" whose clock runs fast, another on "other"."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.zk = loop.process("zk")
        self.server = self.zk.run(MemoryZooKeeper)
        self.server.delay = lambda kind, session_id: 0.0 if kind == "ephemeral" else 0.001
        self.client = loop.process("client", rate=1.05, offset_s=1e6)
        self.store = self.new_store(self.client)
        self.other = self.new_store(loop.process("other"))

    def new_store(self, process: Process) -> SimMetadataStore:
        """Return a store, not started."""
        return SimMetadataStore(
            self.server,
            process=process,
            server_process=self.zk,
            session_timeout_ms=int(SESSION_S * 1000),
        )


def on_stage(scene: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: SimLoop) -> None:
        stage = Stage(loop)
        await stage.client.call(stage.store.start())
        await stage.other.start()
        await scene(stage)

    play(main)


def test_everything_is_heard_by_the_process_that_asked() -> None:
    async def scene(stage: Stage) -> None:
        heard: list[tuple[str, str]] = []

        def hear(what: str) -> None:
            heard.append((what, stage.loop.current.name))

        def watch(event: WatchEvent) -> None:
            hear(event.kind.name)

        stage.store.on_session.append(lambda state: hear(state.name))

        async def ask() -> None:
            await stage.store.create("/a", b"", ephemeral=True)
            hear("created")
            await stage.store.get("/a", watch)
            await stage.store.exists("/b", watch)
            await stage.store.children("/", watch)

        await stage.client.call(ask())
        await stage.other.set("/a", b"1")
        await stage.other.create("/b", b"")
        await asyncio.sleep(0.1)
        session = stage.store.session_id
        assert session is not None
        stage.zk.run(stage.server.expire, session)
        await asyncio.sleep(0.1)
        assert heard == [
            (what, "client")
            for what in ("created", "CHANGED", "CREATED", "CHILDREN", "DISCONNECTED", "EXPIRED")
        ]

    on_stage(scene)


def test_a_paused_client_hears_everything_later_in_order() -> None:
    async def scene(stage: Stage) -> None:
        heard: list[str] = []

        async def ask() -> None:
            await stage.store.create("/a", b"0")
            await stage.store.get("/a", lambda event: heard.append(event.kind.name))
            heard.append("asked")
            await stage.store.set("/a", b"1")
            heard.append("answered")

        stage.client.spawn(ask())
        while "asked" not in heard:
            await asyncio.sleep(0.0001)
        stage.client.pause()
        await asyncio.sleep(1)
        assert stage.server.data("/a") == b"1", "the request had left"
        assert heard == ["asked"]
        stage.client.resume()
        await asyncio.sleep(0.1)
        assert heard == ["asked", "CHANGED", "answered"]

    on_stage(scene)


def test_the_server_expires_a_client_that_cannot_run() -> None:
    async def scene(stage: Stage) -> None:
        states: list[SessionState] = []
        stage.store.on_session.append(states.append)
        await stage.client.call(stage.store.create("/a", b"", ephemeral=True))
        session = stage.store.session_id
        assert session is not None
        stage.client.pause()
        stage.zk.run(stage.server.disconnect, session)
        await asyncio.sleep(SESSION_S - 0.01)  # by the server's clock, not by the client's
        assert await stage.other.exists("/a") is not None
        await asyncio.sleep(0.02)
        assert await stage.other.exists("/a") is None
        assert stage.store.state is SessionState.CONNECTED, "it cannot know"
        assert states == []
        stage.zk.run(stage.server.reconnect, session)
        await asyncio.sleep(1)
        assert states == []
        stage.client.resume()
        await asyncio.sleep(0.1)
        assert states == [SessionState.DISCONNECTED, SessionState.EXPIRED]
        await stage.client.call(stage.store.restart_session())
        assert stage.store.session_id != session

    on_stage(scene)


def test_a_client_that_dies_leaves_a_session_that_runs_out() -> None:
    async def scene(stage: Stage) -> None:
        heard: list[WatchEvent | SessionState] = []
        stage.store.on_session.append(heard.append)
        await stage.client.call(stage.store.create("/a", b"", ephemeral=True))
        await stage.client.call(stage.store.get("/a", heard.append))
        gone: list[WatchEvent] = []
        await stage.other.exists("/a", gone.append)
        stage.client.kill()
        stage.store.crash()
        await asyncio.sleep(SESSION_S - 0.01)
        assert gone == []
        await asyncio.sleep(0.02)
        assert gone == [WatchEvent(WatchKind.DELETED, "/a")]
        assert stage.server.sessions() == [stage.other.session_id]
        assert heard == []

    on_stage(scene)


def test_calls_that_cross_a_loss_of_contact_fail_in_the_clients_time() -> None:
    async def scene(stage: Stage) -> None:
        session = stage.store.session_id
        assert session is not None
        call = asyncio.ensure_future(stage.client.call(stage.store.create("/a", b"")))
        await asyncio.sleep(0)
        stage.client.pause()
        stage.zk.run(stage.server.disconnect, session)
        await asyncio.sleep(1)
        assert not call.done()
        stage.client.resume()
        with pytest.raises(StoreDisconnectedError) as lost:
            await call
        assert lost.value.maybe_applied

    on_stage(scene)


def test_a_new_session_waits_for_the_server() -> None:
    async def scene(stage: Stage) -> None:
        session = stage.store.session_id
        assert session is not None
        stage.zk.run(stage.server.expire, session)
        await asyncio.sleep(0.1)
        stage.zk.run(stage.server.stop)
        assert stage.store.state is SessionState.EXPIRED
        restarting = asyncio.ensure_future(stage.client.call(stage.store.restart_session()))
        await asyncio.sleep(100)
        assert not restarting.done()
        stage.zk.run(stage.server.start)
        await restarting
        assert stage.store.session_id != session
        stranger = stage.new_store(stage.loop.process("stranger"))
        stage.zk.run(stage.server.stop)
        with pytest.raises(StoreDisconnectedError):
            await stranger.start()

    on_stage(scene)
