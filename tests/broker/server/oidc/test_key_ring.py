"""A ring keeps the keys that it has, and asks its source for others at a pace of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog_broker.server.oidc.key_ring import WAITING_MAX, KeyRing, NoSuchKeyError
from oncelog_broker.server.oidc.key_source import KeySource, KeyUrl
from oncelog_broker.server.oidc.signing_keys import KeySetError
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_runtime.threads import Threads
from support.certificates import Authority
from support.https_server import (
    Answer,
    HttpsServer,
    answer,
    redirect,
    silent,
    slow,
    status,
    too_large,
)
from support.tokens import Issuer
from support.waiting import eventually

LONG_S = 3600.0


class Source:
    """It has what the test says, and counts who asks."""

    name = "test"

    def __init__(self, issuer: Issuer, *, every_s: float = LONG_S, pause_s: float = LONG_S) -> None:
        self.issuer = issuer
        self.every_s, self.pause_s = every_s, pause_s
        self.document: bytes | None = None
        """Something else than what the issuer publishes."""
        self.reads = 0
        self.open = asyncio.Event()
        """The source answers only while this is set."""
        self.open.set()

    async def read(self) -> bytes:
        self.reads += 1
        await self.open.wait()
        if self.document == b"":
            raise OSError("gone")
        return self.document or self.issuer.document()

    def publish(self, document: bytes | None) -> None:
        """Have something else from now on; nothing at all for b"", the issuer's own for None."""
        self.document = document

    def pause(self, seconds: float) -> None:
        """Let so much time be between two looks from now on."""
        self.pause_s = seconds


@asynccontextmanager
async def running(source: KeySource) -> AsyncIterator[KeyRing]:
    """Run a ring."""
    threads = Threads(2, "test")
    ring = KeyRing(source, threads)
    task = asyncio.get_running_loop().create_task(ring.run())
    try:
        yield ring
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        threads.close()


async def is_known(ring: KeyRing, kid: str) -> bool:
    try:
        await ring.find(kid, "ES256")
    except NoSuchKeyError:
        return False
    return True


async def test_the_first_to_ask_waits_for_the_first_keys() -> None:
    source = Source(Issuer())
    async with running(source) as ring:
        assert await is_known(ring, "e")
        assert (source.reads, len(ring), ring.failures) == (1, 2, 0)


async def test_a_new_key_is_looked_for_once_it_is_due() -> None:
    source = Source(Issuer())
    async with running(source) as ring:
        assert await is_known(ring, "e")
        source.issuer.add("new")
        assert not await is_known(ring, "new")
        source.pause(0)
        assert await is_known(ring, "new")
        assert source.reads == 2


async def test_a_key_that_is_published_no_more_is_gone() -> None:
    source = Source(Issuer(), every_s=0.01, pause_s=0.01)
    async with running(source) as ring:
        assert await is_known(ring, "e")
        del source.issuer.keys["e"]
        await eventually(lambda: len(ring) == 1)
        assert not await is_known(ring, "e")


@pytest.mark.hostile(31)
async def test_a_flood_of_ids_gives_one_look() -> None:
    source = Source(Issuer())
    async with running(source) as ring:
        assert await is_known(ring, "e")
        assert not any([await is_known(ring, f"made-up-{n}") for n in range(1000)])
        assert source.reads == 1
        source.pause(0)  # as if half a minute had passed
        source.open.clear()
        flood = [asyncio.ensure_future(ring.find(f"x-{n}", "ES256")) for n in range(1000)]
        await eventually(lambda: source.reads == 2)
        source.pause(LONG_S)
        async with asyncio.timeout(1):
            assert await is_known(ring, "e")  # who has a key waits for nobody
        source.open.set()
        ends = await asyncio.gather(*flood, return_exceptions=True)
        assert source.reads == 2
        assert sum(isinstance(end, NoSuchKeyError) for end in ends) == WAITING_MAX
        assert sum(isinstance(end, BrokerNotAvailableError) for end in ends) == 1000 - WAITING_MAX


async def test_nobody_waits_for_ever() -> None:
    source = Source(Issuer())
    source.open.clear()
    async with running(source) as ring:
        assert not await is_known(ring, "e")
        source.open.set()
        await eventually(lambda: len(ring) == 2)


@pytest.mark.parametrize("document", [b"", b"<html>", json.dumps({"keys": []}).encode()])
async def test_what_is_of_no_use_changes_nothing(document: bytes) -> None:
    source = Source(Issuer(), every_s=0.01, pause_s=0.01)
    async with running(source) as ring:
        assert await is_known(ring, "e")
        source.publish(document)
        await eventually(lambda: ring.failures > 1)
        assert await is_known(ring, "e")
        source.publish(None)
        source.issuer.add("new")
        await eventually(lambda: len(ring) == 3)


async def test_the_first_look_at_a_file_says_what_is_wrong() -> None:
    source = Source(Issuer())
    threads = Threads(1, "test")
    ring = KeyRing(source, threads)
    source.publish(b"")
    with pytest.raises(OSError, match="gone"):
        await ring.load()
    source.publish(b"[]")
    with pytest.raises(KeySetError):
        await ring.load()
    source.publish(None)
    await ring.load()
    assert len(ring) == 2
    threads.close()


# ---- a server of keys that is no good


class Impatient(KeyUrl):
    """It asks its server more often than a broker would, and waits less long."""

    def __init__(self, url: str, authority: Authority, threads: Threads) -> None:
        super().__init__(url, authority.client, threads, timeout_s=1.0)
        self.every_s = self.pause_s = 0.02


BAD: dict[str, Answer] = {
    "a gigabyte": too_large(1 << 30),
    "a gigabyte that does not say so": too_large(None),
    "elsewhere": redirect("https://127.0.0.1/keys"),
    "a file": redirect("file:///etc/passwd"),
    "slow": slow(0.05, b"HTTP/1.1 200 OK\r\n\r\n{"),
    "silent": silent,
    "not found": status("404 Not Found"),
    "not keys": answer(b"<html>"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.hostile(32)
@pytest.mark.slow
async def test_old_keys_serve_while_a_server_is_no_good(bad: Answer) -> None:
    issuer, authority = Issuer(), Authority()
    threads = Threads(2, "test")
    async with HttpsServer(authority.server(), answer(issuer.document())) as server:
        async with running(Impatient(server.url(), authority, threads)) as ring:
            await eventually(lambda: len(ring) == 2)
            issuer.add("new")
            server.answers(bad)
            await eventually(lambda: ring.failures > 1)
            assert await is_known(ring, "e")
            server.answers(answer(issuer.document()))
            await eventually(lambda: len(ring) == 3)
        async with running(Impatient(server.url(), authority, threads)) as ring:
            server.answers(bad)
            assert not await is_known(ring, "e")
    threads.close()


@pytest.mark.hostile(32)
async def test_a_server_by_another_name_has_no_keys() -> None:
    issuer, authority, threads = Issuer(), Authority(), Threads(1, "test")
    context = authority.server("other.example")
    async with HttpsServer(context, answer(issuer.document())) as server:
        async with running(Impatient(server.url(), authority, threads)) as ring:
            await eventually(lambda: ring.failures > 0)
            assert not await is_known(ring, "e")
        assert server.requests == []
    threads.close()
