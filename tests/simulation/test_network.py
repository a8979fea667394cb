"""The network: each fault is proven by what it does to those who talk.

What TCP promises on a good day is in ``tests/ports/test_streams.py``.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from oncelog_runtime.entropy import SeededEntropy
from simulation.loop import SimLoop
from simulation.network import CONNECT_S, Network
from simulation.play import play
from simulation.stream import WINDOW_BYTES
from support.stream_harness import End

PORT = 1000
DATA = bytes(range(256)) * 1024
LONG_S = 1000.0


class Stage:
    """It has hosts "a", "b" and "c"; "a" and "b" listen."""

    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.loop = loop
        self.network = Network(loop, SeededEntropy(seed).fork("network"))
        self.accepted: dict[str, list[End]] = {"a": [], "b": []}
        for name in ("a", "b", "c"):
            self.network.add_host(name)
            self.network.start(name)

    async def listen(self, name: str, **options: Any) -> None:
        """Take connections there."""

        def accept() -> End:
            self.accepted[name].append(End(**options))
            return self.accepted[name][-1]

        host = self.network.hosts[name]
        assert host.process is not None
        await host.process.call(self.loop.create_server(accept, host.address, PORT))

    async def connect(self, source: str, target: str, **options: Any) -> End:
        """Open a connection; return the end of who asked for it."""
        end = End(**options)
        process = self.network.hosts[source].process
        assert process is not None
        address = self.network.hosts[target].address
        await process.call(self.loop.create_connection(lambda: end, address, PORT))
        return end

    async def pair(self, source: str = "a", target: str = "b") -> tuple[End, End]:
        """Open a connection; return both ends."""
        count = len(self.accepted[target])
        end = await self.connect(source, target)
        await asyncio.sleep(0.1)
        return end, self.accepted[target][count]


Scene = Callable[[Stage], Coroutine[Any, Any, Any]]


def on_stage(scene: Scene, seed: int = 1, **options: Any) -> Any:
    """Play a scene; return its result."""

    async def main(loop: SimLoop) -> Any:
        stage = Stage(loop, seed)
        for name in ("a", "b"):
            await stage.listen(name, **options)
        return await scene(stage)

    return play(main, seed)


def ending(end: End) -> str:
    """Return how an end heard of the end: "open", "eof" or "reset"."""
    if not end.lost:
        return "open"
    if end.error is None:
        return "eof"
    assert isinstance(end.error, ConnectionResetError)
    assert end.error.errno == errno.ECONNRESET
    return "reset"


# ---- wires


def test_a_held_wire_holds_one_way() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        stage.network.hold("a", "b")
        for number in range(100):
            left.transport.write(b"%d," % number)
        right.transport.write(b"the other way")
        await asyncio.sleep(LONG_S)
        assert right.received == b""
        assert left.received == b"the other way"
        stage.network.release("a", "b")
        await asyncio.sleep(0.1)
        assert right.received == b"".join(b"%d," % number for number in range(100))

    on_stage(scene)


def test_a_held_wire_holds_the_end_of_the_stream_too() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        stage.network.hold("a", "b")
        left.transport.write(b"last words")
        left.transport.close()
        await asyncio.sleep(LONG_S)
        assert (ending(left), ending(right)) == ("eof", "open")
        stage.network.release("a", "b")
        await asyncio.sleep(0.1)
        assert right.received == b"last words"
        assert ending(right) == "eof"

    on_stage(scene)


def test_the_window_stays_full_while_the_way_back_is_held() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        stage.network.hold("b", "a")
        left.transport.write(DATA)
        await asyncio.sleep(LONG_S)
        assert len(right.received) == WINDOW_BYTES < len(DATA)
        assert left.transport.get_write_buffer_size() == len(DATA) - WINDOW_BYTES
        stage.network.release("b", "a")
        await asyncio.sleep(1)
        assert right.received == DATA
        assert left.heard == ["made", "pause", "resume"]

    on_stage(scene)


def test_parting_groups() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair("a", "b")
        third, other = await stage.pair("c", "b")
        stage.network.part(["a", "c"], ["a", "b"])
        for end in (left, right, third, other):
            end.transport.write(b"?")
        await asyncio.sleep(LONG_S)
        assert [bytes(end.received) for end in (left, right, third, other)] == [b""] * 4
        stage.network.heal(reset_chance=0.0)
        await asyncio.sleep(0.1)
        assert [bytes(end.received) for end in (left, right, third, other)] == [b"?"] * 4

    on_stage(scene)


def test_only_the_parted_are_parted() -> None:
    async def scene(stage: Stage) -> None:
        stage.network.part(["a"], ["c"])
        left, right = await stage.pair("a", "b")
        third, _ = await stage.pair("c", "b")
        left.transport.write(b"x")
        third.transport.write(b"x")
        await asyncio.sleep(0.1)
        assert right.received == b"x"
        assert stage.accepted["b"][1].received == b"x"

    on_stage(scene)


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_connecting_waits_for_a_held_wire(way: tuple[str, str]) -> None:
    async def scene(stage: Stage) -> None:
        stage.network.hold(*way)
        connecting = asyncio.ensure_future(stage.connect("a", "b"))
        await asyncio.sleep(LONG_S)
        assert not connecting.done()
        stage.network.release(*way)
        end = await connecting
        end.transport.write(b"hello")
        await asyncio.sleep(0.1)
        assert stage.accepted["b"][0].received == b"hello"

    on_stage(scene)


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_who_gives_up_connecting_leaves_nothing(way: tuple[str, str]) -> None:
    async def scene(stage: Stage) -> None:
        stage.network.hold(*way)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await stage.connect("a", "b")
        stage.network.release(*way)
        await asyncio.sleep(0.1)
        assert all(end.lost for end in stage.accepted["b"])
        assert stage.network.connections == {}

    on_stage(scene)


def test_a_process_that_dies_connecting_leaves_nothing() -> None:
    async def scene(stage: Stage) -> None:
        for held in (("a", "b"), ("b", "a")):
            stage.network.hold(*held)
            connecting = asyncio.ensure_future(stage.connect("a", "b"))
            await asyncio.sleep(1)
            stage.network.kill("a")
            stage.network.heal()
            await asyncio.sleep(1)
            assert connecting.exception() is not None
            assert all(end.lost for end in stage.accepted["b"])
            assert stage.network.connections == {}
            stage.network.start("a")

    on_stage(scene)


def test_latency_of_one_wire() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        stage.network.wire("a", "b").latency_s = 2.0
        left.transport.write(b"slow")
        right.transport.write(b"fast")
        await asyncio.sleep(1.9)
        assert left.received == b"fast"
        assert right.received == b""
        stage.network.wire("a", "b").latency_s = 0.0
        left.transport.write(b", and not overtaken")
        await asyncio.sleep(0.05)
        assert right.received == b""
        await asyncio.sleep(0.2)
        assert right.received == b"slow, and not overtaken"

    on_stage(scene)


def test_messages_arrive_in_pieces() -> None:
    async def scene(stage: Stage) -> None:
        reads: list[int] = []
        stage.network.split = 1.0
        stage.network.jitter_s = 1.0
        await stage.connect("a", "b")
        await asyncio.sleep(2)
        right = stage.accepted["b"][0]
        right._on_read = lambda end: reads.append(len(end.received))
        stage.network.connections[1].ends[0].write(b"0123456789")
        await asyncio.sleep(5)
        assert len(reads) == 2
        assert right.received == b"0123456789"

    on_stage(scene)


def test_refused_wires() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        stage.network.wire("a", "b").refused = True
        with pytest.raises(ConnectionRefusedError) as refused:
            await stage.connect("a", "b")
        assert refused.value.errno == errno.ECONNREFUSED
        await stage.connect("c", "b")
        await stage.connect("b", "a")
        left.transport.write(b"still here")
        await asyncio.sleep(0.1)
        assert right.received == b"still here"
        stage.network.heal()
        await stage.connect("a", "b")

    on_stage(scene)


def test_addresses() -> None:
    async def scene(stage: Stage) -> None:
        loop, hosts = stage.loop, stage.network.hosts
        process = hosts["c"].process
        assert process is not None
        with pytest.raises(OSError) as wrong:
            await process.call(loop.create_server(End, hosts["a"].address, 0))
        assert wrong.value.errno == errno.EADDRNOTAVAIL
        with pytest.raises(OSError) as nowhere:
            await process.call(loop.create_connection(End, "10.9.9.9", PORT))
        assert nowhere.value.errno == errno.EHOSTUNREACH
        servers = [
            await process.call(loop.create_server(End, hosts["c"].address, 0)) for _ in range(2)
        ]
        assert len({server.sockets[0].getsockname() for server in servers}) == 2
        with pytest.raises(NotImplementedError):
            await process.call(loop.create_connection(asyncio.Protocol, hosts["a"].address, PORT))

    on_stage(scene)


# ---- resets


def test_a_reset_is_heard_at_both_ends() -> None:
    async def scene(stage: Stage) -> None:
        ends = [*await stage.pair(), *await stage.pair("b", "a")]
        others = await stage.pair("c", "b")
        assert stage.network.reset("a", "b") == 2
        await asyncio.sleep(0.1)
        assert [ending(end) for end in ends] == ["reset"] * 4
        assert [ending(end) for end in others] == ["open"] * 2
        assert stage.network.reset("a", "b") == 0
        assert len(stage.network.connections) == 1

    on_stage(scene)


def test_a_reset_in_the_middle_of_a_frame_delivers_a_first_part() -> None:
    async def cut(stage: Stage) -> int:
        left, right = await stage.pair()
        for at in range(0, 10_000, 1000):
            left.transport.write(DATA[at : at + 1000])
        stage.network.reset("a", "b")
        await asyncio.sleep(LONG_S)
        assert right.received == DATA[: len(right.received)]
        assert ending(right) == ending(left) == "reset"
        return len(right.received)

    sizes = [on_stage(cut, seed) for seed in range(30)]
    assert 0 < min(sizes) < 1000, "a part of a frame"
    assert 9000 < max(sizes) < 10_000
    assert len(set(sizes)) > 25


def test_a_reset_lets_nothing_through_a_held_wire() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        stage.network.hold("a", "b")
        left.transport.write(DATA)
        await asyncio.sleep(1)
        stage.network.reset("a", "b")
        await asyncio.sleep(1)
        stage.network.release("a", "b")
        await asyncio.sleep(1)
        assert right.received == b""
        assert ending(right) == "reset"

    on_stage(scene)


def test_a_one_sided_reset_leaves_the_other_end_in_the_dark_until_it_writes() -> None:
    async def scene(stage: Stage) -> str:
        ends = await stage.pair()
        stage.network.reset("a", "b", one_sided=True)
        await asyncio.sleep(LONG_S)
        told = [end for end in ends if end.lost]
        dark = [end for end in ends if not end.lost]
        assert len(told) == len(dark) == 1
        assert ending(told[0]) == "reset"
        dark[0].transport.write(b"anybody?")
        assert ending(dark[0]) == "open"
        await asyncio.sleep(0.1)
        assert ending(dark[0]) == "reset"
        assert stage.network.connections == {}
        return "client" if told[0] is ends[0] else "server"

    assert {on_stage(scene, seed) for seed in range(10)} == {"client", "server"}


def test_healing_resets_some_of_the_connections_that_were_cut() -> None:
    async def scene(stage: Stage, chance: float) -> list[str]:
        left, right = await stage.pair("a", "b")
        third, other = await stage.pair("c", "b")
        stage.network.hold("b", "a")
        stage.network.wire("a", "c").latency_s = 9.0
        left.transport.write(b"x")
        await asyncio.sleep(10)
        stage.network.heal(reset_chance=chance)
        assert stage.network.wire("a", "c").latency_s == 0.0
        right.transport.write(b"y")
        await asyncio.sleep(1)
        assert ending(third) == ending(other) == "open"
        return [ending(left), ending(right)]

    assert on_stage(lambda stage: scene(stage, 1.0)) == ["reset", "reset"]
    assert on_stage(lambda stage: scene(stage, 0.0)) == ["open", "open"]
    both = {tuple(on_stage(lambda stage: scene(stage, 0.5), seed)) for seed in range(10)}
    assert both == {("reset", "reset"), ("open", "open")}


# ---- hosts that die


def test_a_killed_process_ends_its_connections_and_refuses_new_ones() -> None:
    async def scene(stage: Stage) -> str:
        left, right = await stage.pair()
        _, other = await stage.pair("b", "a")
        right.transport.write(DATA)
        stage.network.kill("b")
        with pytest.raises(ConnectionRefusedError):
            await stage.connect("a", "b")
        await asyncio.sleep(1)
        assert left.received == DATA[: len(left.received)]
        assert ending(other) != "open"
        assert not right.lost
        stage.network.start("b")
        with pytest.raises(ConnectionRefusedError):
            await stage.connect("a", "b")
        await stage.listen("b")
        await stage.pair()
        return ending(left)

    endings = [on_stage(scene, seed) for seed in range(10)]
    assert {*endings} == {"eof", "reset"}


def test_a_process_killed_with_bytes_unread_resets() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        right.transport.pause_reading()
        left.transport.write(b"unread")
        await asyncio.sleep(1)
        stage.network.kill("b")
        await asyncio.sleep(1)
        assert ending(left) == "reset"

    for seed in range(5):
        on_stage(scene, seed)


def test_what_a_killed_process_had_written_arrives_at_most() -> None:
    async def scene(stage: Stage) -> int:
        left, right = await stage.pair()
        right.transport.write(DATA[:1000])
        stage.network.kill("b")
        await asyncio.sleep(1)
        assert left.received == DATA[: len(left.received)]
        return len(left.received)

    sizes = {on_stage(scene, seed) for seed in range(20)}
    assert max(sizes) == 1000
    assert len(sizes) > 2


def test_a_host_without_power_is_silent_and_resets_when_it_is_back() -> None:
    async def scene(stage: Stage) -> None:
        left, _ = await stage.pair()
        idle, _ = await stage.pair()
        stage.network.kill("b", power=True)
        left.transport.write(b"anybody?")
        await asyncio.sleep(LONG_S)
        left.transport.write(b"hello?")
        await asyncio.sleep(LONG_S)
        assert ending(left) == ending(idle) == "open"
        stage.network.start("b")
        await asyncio.sleep(0.1)
        assert ending(left) == "reset"
        assert ending(idle) == "open"
        idle.transport.write(b"and you?")
        await asyncio.sleep(0.1)
        assert ending(idle) == "reset"
        assert stage.network.connections == {}

    on_stage(scene)


def test_what_left_before_the_power_failed_arrives() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        right.transport.write(DATA)
        stage.network.kill("b", power=True)
        await asyncio.sleep(LONG_S)
        assert left.received == DATA[:WINDOW_BYTES]
        assert ending(left) == "open"

    on_stage(scene)


def test_connecting_to_a_host_without_power() -> None:
    async def scene(stage: Stage) -> None:
        stage.network.kill("b", power=True)
        began = stage.loop.time()
        with pytest.raises(TimeoutError) as silence:
            await stage.connect("a", "b")
        assert silence.value.errno == errno.ETIMEDOUT
        assert stage.loop.time() - began == pytest.approx(CONNECT_S, abs=1)
        connecting = asyncio.ensure_future(stage.connect("a", "b"))
        await asyncio.sleep(5)
        stage.network.start("b")
        await stage.listen("b")
        end = await connecting
        end.transport.write(b"hello")
        await asyncio.sleep(1)
        assert stage.accepted["b"][-1].received == b"hello"

    on_stage(scene)


# ---- hosts that pause


def test_the_kernel_of_a_paused_process_accepts() -> None:
    async def scene(stage: Stage) -> None:
        host = stage.network.hosts["b"]
        assert host.process is not None
        host.process.pause()
        left = await stage.connect("a", "b")
        left.transport.write(DATA)
        await asyncio.sleep(LONG_S)
        assert stage.accepted["b"] == []
        assert left.transport.get_write_buffer_size() == len(DATA) - WINDOW_BYTES
        assert left.heard == ["made", "pause"]
        host.process.resume()
        await asyncio.sleep(1)
        assert stage.accepted["b"][0].received == DATA
        assert left.heard == ["made", "pause", "resume"]

    on_stage(scene)


def test_a_paused_process_hears_of_a_reset_after_what_came_before() -> None:
    async def scene(stage: Stage) -> None:
        left, right = await stage.pair()
        host = stage.network.hosts["b"]
        assert host.process is not None
        host.process.pause()
        left.transport.write(b"before")
        await asyncio.sleep(1)
        stage.network.reset("a", "b")
        await asyncio.sleep(LONG_S)
        assert ending(left) == "reset"
        assert right.heard == ["made"]
        assert right.received == b""
        host.process.resume()
        await asyncio.sleep(0.1)
        assert right.received == b"before"
        assert ending(right) == "reset"

    on_stage(scene)


def test_a_connection_may_be_over_before_a_paused_process_sees_it() -> None:
    async def scene(stage: Stage) -> None:
        host = stage.network.hosts["b"]
        assert host.process is not None
        host.process.pause()
        for word in (b"closed", b"aborted"):
            left = await stage.connect("a", "b")
            left.transport.write(word)
            await asyncio.sleep(1)
            if word == b"closed":
                left.transport.close()
            else:
                stage.network.reset("a", "b")
            await asyncio.sleep(1)
        host.process.resume()
        await asyncio.sleep(1)
        assert [bytes(end.received) for end in stage.accepted["b"]] == [b"closed", b"aborted"]
        assert [ending(end) for end in stage.accepted["b"]] == ["eof", "reset"]
        assert stage.network.connections == {}

    on_stage(scene)


# ---- replay


def test_a_run_is_its_seed() -> None:
    async def scene(stage: Stage) -> str:
        left, right = await stage.pair()
        for _ in range(20):
            left.transport.write(DATA[:5000])
            right.transport.write(DATA[:100])
            await asyncio.sleep(0.001)
        stage.network.reset("a", "b")
        await asyncio.sleep(1)
        return stage.loop.trace_hash()

    hashes = [on_stage(scene, seed) for seed in range(5)]
    assert len(set(hashes)) == 5
    assert hashes == [on_stage(scene, seed) for seed in range(5)]
