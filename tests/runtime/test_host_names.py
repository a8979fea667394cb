"""A name server that does not answer must keep nobody from hosts that are known."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.identity import Identity
from oncelog_runtime.dialer import PlainDialer
from oncelog_runtime.host_names import KNOWN_MAX, HostNames
from support.server import ServerUnderTest

NO_SUCH_NAME = socket.gaierror(socket.EAI_NONAME, "no such name")
NOT_NOW = socket.gaierror(socket.EAI_AGAIN, "temporary failure")


class NameServer:
    """It answers as told, or not at all."""

    def __init__(self, **names: Sequence[str] | OSError) -> None:
        self.names = names
        self.asked: list[str] = []
        self.silent = False

    async def lookup(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if self.silent:
            await asyncio.Event().wait()
        answer = self.names[host]
        if isinstance(answer, OSError):
            raise answer
        return answer


async def test_an_address_is_not_asked_for() -> None:
    server = NameServer()
    names = HostNames(server.lookup)
    assert await names.addresses("10.0.0.1") == ("10.0.0.1",)
    assert await names.addresses("::1") == ("::1",)
    assert server.asked == []


async def test_a_known_name_serves_while_the_name_server_is_silent() -> None:
    server = NameServer(b1=["10.0.0.1", "10.0.0.2"])
    names = HostNames(server.lookup, patience_s=0.001)
    assert await names.addresses("b1") == ("10.0.0.1", "10.0.0.2")
    server.silent = True
    for _ in range(5):
        assert await names.addresses("b1") == ("10.0.0.1", "10.0.0.2")
    assert server.asked == ["b1", "b1"], "one question waits, however many want its answer"


async def test_all_who_want_an_unknown_name_wait_for_one_answer() -> None:
    server = NameServer(b1=["10.0.0.1"])
    names = HostNames(server.lookup)
    found = await asyncio.gather(*(names.addresses("b1") for _ in range(10)))
    assert found == [("10.0.0.1",)] * 10
    assert server.asked == ["b1"]


async def test_who_gives_up_takes_no_answer_from_the_others() -> None:
    server = NameServer(b1=["10.0.0.1"])
    names = HostNames(server.lookup)
    first, second = (asyncio.create_task(names.addresses("b1")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ("10.0.0.1",)


async def test_nobody_complains_of_an_answer_that_nobody_waits_for() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    asked, answer = asyncio.Event(), asyncio.Event()

    async def lookup(host: str) -> Sequence[str]:
        asked.set()
        await answer.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "temporary failure")

    names = HostNames(lookup)
    waiting = asyncio.create_task(names.addresses("b1"))
    await asked.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    del waiting  # its traceback knows the question
    answer.set()
    while names._asking:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_a_host_that_moved_is_found_where_it_is() -> None:
    server = NameServer(b1=["10.0.0.1"])
    names = HostNames(server.lookup)
    await names.addresses("b1")
    server.names["b1"] = ["10.0.0.9"]
    assert await names.addresses("b1") == ("10.0.0.9",)


async def test_a_name_that_is_gone_is_forgotten() -> None:
    server = NameServer(b1=["10.0.0.1"])
    names = HostNames(server.lookup)
    await names.addresses("b1")
    server.names["b1"] = NO_SUCH_NAME
    with pytest.raises(socket.gaierror, match="no such name"):
        await names.addresses("b1")
    server.names["b1"] = NOT_NOW
    with pytest.raises(socket.gaierror, match="temporary"):
        await names.addresses("b1")


async def test_a_name_server_that_cannot_answer_now_says_nothing() -> None:
    server = NameServer(b1=["10.0.0.1"])
    names = HostNames(server.lookup)
    await names.addresses("b1")
    server.names["b1"] = NOT_NOW
    assert await names.addresses("b1") == ("10.0.0.1",)


async def test_no_more_names_are_known_than_its_limit() -> None:
    server = NameServer(first=["10.0.0.1"])
    names = HostNames(server.lookup, patience_s=0.001)
    await names.addresses("first")
    for number in range(KNOWN_MAX):
        server.names[f"h{number}"] = ["10.0.0.2"]
        await names.addresses(f"h{number}")
    server.names["first"] = NOT_NOW
    with pytest.raises(socket.gaierror):
        await names.addresses("first")


async def test_a_dialer_connects_to_what_its_names_say() -> None:
    async with ServerUnderTest(identity=Identity("c", 2)) as under_test:
        host, port = under_test.address
        server = NameServer(broker=["127.255.255.254", host])
        dialer = PlainDialer(HostNames(server.lookup, patience_s=0.001))
        await open_and_close(dialer, port)
        server.silent = True
        await open_and_close(dialer, port)


async def open_and_close(dialer: PlainDialer, port: int) -> None:
    machine = ClientConnection("test", meant=Identity("c", 2))
    channel = await dialer.open("broker", port, machine, connect_timeout_s=5)
    channel.close()


async def test_a_name_that_is_refused_at_each_address_is_refused() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        server = NameServer(broker=["127.0.0.1", "127.0.0.2"])
        dialer = PlainDialer(HostNames(server.lookup))
        with pytest.raises(ConnectionRefusedError):
            await dialer.open("broker", port, ClientConnection("test"), connect_timeout_s=5)


async def test_the_system_is_asked_for_names() -> None:
    assert "127.0.0.1" in await HostNames().addresses("localhost")
