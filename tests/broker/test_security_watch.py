"""A broker that may have missed a revocation refuses clients after a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog_broker.security_watch import SecurityWatch
from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_protocol.acl_state import AclState
from support.waiting import eventually


class World:
    """The store has a version or is silent, and the controller is there or not."""

    def __init__(self, *, stale_max_ms: int = 20) -> None:
        self.stored: int | None = 3
        self.in_touch = True
        self.refuses = False
        self.looks = 0
        self.acls = AclAuthorizer()
        self.acls.replace(AclState(3))
        self.watch = SecurityWatch(
            self,
            lambda: self.acls.version,
            stale_max_ms=stale_max_ms,
            in_touch=self.answers,
            refuse=self.refuse,
        )

    async def version(self) -> int | None:
        self.looks += 1
        return self.stored

    async def answers(self) -> bool:
        return self.in_touch

    def refuse(self, refuses: bool) -> None:
        assert refuses != self.refuses, "told once"
        self.refuses = refuses

    async def looked(self, times: int = 12) -> None:
        """Return after so many more looks, which are more than the bound is long."""
        wanted = self.looks + times
        await eventually(lambda: self.looks >= wanted)


@asynccontextmanager
async def watched(world: World) -> AsyncIterator[World]:
    running = asyncio.create_task(world.watch.run())
    try:
        yield world
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_version_that_does_not_come_ends_the_service_of_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watched(World()) as world:
        await world.looked()
        assert not world.refuses
        world.stored = 4
        await eventually(lambda: world.refuses)
        assert "the store has a newer version" in caplog.text
        world.acls.change(3, 4, {})
        await eventually(lambda: not world.refuses)


@pytest.mark.hostile(54)
async def test_who_has_lost_the_store_and_the_controller_refuses_clients() -> None:
    async with watched(World()) as world:
        world.stored = None
        await world.looked()
        assert not world.refuses, "the controller would tell"
        world.stored, world.in_touch = 3, False
        await world.looked()
        assert not world.refuses, "the store would tell"
        world.stored = None
        await eventually(lambda: world.refuses)
        world.in_touch = True
        await eventually(lambda: not world.refuses)


async def test_what_the_store_has_said_is_not_forgotten_while_it_is_away() -> None:
    async with watched(World()) as world:
        world.stored = 4
        await world.looked(1)
        world.stored = None
        await eventually(lambda: world.refuses)


async def test_nobody_is_refused_before_the_time_is_over() -> None:
    world = World(stale_max_ms=60_000)
    world.stored, world.in_touch = None, False
    for _ in range(3):
        await world.watch.look()
    assert not world.refuses
