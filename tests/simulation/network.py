"""Hosts have wires between them: what TCP does, and what it does on a bad day.

Rules:

- A stream (``stream.py``) keeps its order and its bytes. What varies is when they arrive, in how
  many pieces, how far the sender may run ahead, and how a connection ends.
- A wire is *held* in one direction or both: bytes wait, as TCP repeats them, and arrive after it is
  released. Connecting over a held wire waits.
- A process that is killed: its kernel ends its connections and refuses new ones. A host that loses
  power: silence; whoever sends to it hears a reset only when it is up again, and whoever connects
  is heard then, unless it takes longer than ``CONNECT_S``.
- A paused process: its kernel accepts connections and bytes until the window is full.

Faults are methods of ``Network``; chance comes from its own stream.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from oncelog_runtime.entropy import Entropy
from simulation.loop import Process, SimLoop
from simulation.stream import Connection, SimTransport

FIRST_PORT = 20_000
CONNECT_S = 127.0
"""After so long of silence a connection attempt fails, as by Linux's default."""


@dataclass(slots=True)
class Wire:
    """It is one direction between two hosts."""

    held: bool = False
    refused: bool = False
    """New connections are refused on the way, as by a firewall: the evidence is false."""
    latency_s: float = 0.0
    """Added to the network's own for every message."""
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """The calls that go on, in order, when the wire is released."""


@dataclass(slots=True, eq=False)
class Host:
    """It is a machine with an address. ``process`` is what runs on it now, if anything does."""

    name: str
    address: str
    up: bool = True
    process: Process | None = None
    servers: dict[int, SimServer] = field(default_factory=dict)
    orphans: dict[SimTransport, None] = field(default_factory=dict)
    """Ends of connections at peers whose other end died here with the power."""


class Network:
    """It has all hosts and everything between them."""

    def __init__(self, loop: SimLoop, entropy: Entropy) -> None:
        self.loop = loop
        self.entropy = entropy
        self.hosts: dict[str, Host] = {}
        """By name."""
        self.latency_s = 0.0002
        self.jitter_s = 0.0005
        self.split = 0.05
        """How often a message arrives in two pieces."""
        self.connections: dict[int, Connection] = {}
        self.taps: list[Callable[[SimTransport, bytes], None]] = []
        """Told of all that is sent, by whom, in the order of each stream."""
        self.astray: dict[str, str] = {}
        """Hosts whose address leads new connections to another host, by name."""
        self._by_address: dict[str, Host] = {}
        self._wires: dict[tuple[str, str], Wire] = {}
        self._connection_count = 0
        self._next_port = FIRST_PORT
        loop.network = self

    # -- hosts -------------------------------------------------------------------------------

    def add_host(self, name: str) -> Host:
        """Add a machine with an address of its own."""
        host = Host(name, f"10.0.0.{len(self.hosts) + 1}")
        self.hosts[name] = host
        self._by_address[host.address] = host
        return host

    def start(self, name: str, *, rate: float = 1.0, offset_s: float = 0.0) -> Process:
        """Begin a new process on a host; the one before must be dead."""
        host = self.hosts[name]
        assert host.process is None or not host.process.alive, f"{name} runs already"
        host.process = self.loop.process(name, rate=rate, offset_s=offset_s)
        host.servers.clear()
        host.up = True
        orphans, host.orphans = host.orphans, {}
        for transport in orphans:
            self.carry(host.name, transport.host, transport.hear_reset)
        return host.process

    def kill(self, name: str, *, power: bool = False) -> None:
        """End what runs on a host; with ``power`` the whole machine goes, and stays silent."""
        host = self.hosts[name]
        host.servers.clear()
        host.up = not power
        if host.process is not None:
            host.process.kill(reset=not power)

    def wire(self, source: str, target: str) -> Wire:
        """Return the wire in that direction."""
        key = (source, target)
        wire = self._wires.get(key)
        if wire is None:
            wire = self._wires[key] = Wire()
        return wire

    # -- faults ------------------------------------------------------------------------------

    def hold(self, source: str, target: str) -> None:
        """Let nothing through in this direction until ``release``."""
        self.wire(source, target).held = True

    def release(self, source: str, target: str) -> None:
        """Let it through again, what waited first."""
        wire = self.wire(source, target)
        wire.held = False
        waiting, wire.waiting = wire.waiting, []
        for go_on in waiting:
            go_on()

    def part(self, left: Iterable[str], right: Iterable[str]) -> None:
        """Hold every wire between two groups, both ways."""
        rights = list(right)
        for a in left:
            for b in rights:
                if a != b:
                    self.hold(a, b)
                    self.hold(b, a)

    def heal(self, *, reset_chance: float = 0.5) -> None:
        """Release every wire; connections over those that were held may be reset first."""
        held = sorted(key for key, wire in self._wires.items() if wire.held)
        for connection in list(self.connections.values()):
            pair = (connection.ends[0].host, connection.ends[1].host)
            cut = pair in held or (pair[1], pair[0]) in held
            if cut and self.entropy.random() < reset_chance:
                connection.reset()
        for source, target in held:
            self.release(source, target)
        for wire in self._wires.values():
            wire.latency_s = 0.0
            wire.refused = False
        self.astray.clear()

    def reset(self, left: str, right: str, *, one_sided: bool = False) -> int:
        """Break every connection between two hosts, in the middle of whatever is under way.
        ``one_sided``: only one end hears of it now; the other when it next sends. Returns how many.
        """
        count = 0
        for connection in list(self.connections.values()):
            if {connection.ends[0].host, connection.ends[1].host} == {left, right}:
                connection.reset(one_sided=one_sided)
                count += 1
        return count

    # -- what the loop asks for --------------------------------------------------------------

    def listen(
        self,
        process: Process,
        factory: Callable[[], asyncio.BaseProtocol],
        address: str,
        port: int,
    ) -> SimServer:
        """Bind. :raises OSError: not an address of this host, or in use."""
        host = self._by_address.get(address)
        if host is None or host.process is not process:
            raise OSError(errno.EADDRNOTAVAIL, "cannot assign requested address", address)
        if port == 0:
            port, self._next_port = self._next_port, self._next_port + 1
        if port in host.servers:
            raise OSError(errno.EADDRINUSE, "address already in use", f"{address}:{port}")
        server = host.servers[port] = SimServer(host, process, factory, port)
        return server

    async def connect(
        self,
        process: Process,
        factory: Callable[[], asyncio.BaseProtocol],
        address: str,
        port: int,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open one connection. Waits while wires are held.

        :raises OSError: refused, silent for ``CONNECT_S``, or no such host.
        """
        target = self._by_address.get(address)
        if target is None:
            raise OSError(errno.EHOSTUNREACH, "no route to host", address)
        target = self.hosts[self.astray.get(target.name, target.name)]
        result: asyncio.Future[SimTransport | None] = self.loop.create_future()
        source = process.name

        def answer(transport: SimTransport | None) -> None:
            if not result.done():
                result.set_result(transport)
            elif transport is not None:  # the caller gave up meanwhile
                transport.give_up()

        def arrive(waited_s: float) -> None:
            if result.done() or not process.alive:
                return
            if not target.up:  # the greeting is repeated, at growing intervals
                if waited_s < CONNECT_S:
                    self.loop.at(self.loop.now_s + waited_s + 1, arrive, 2 * waited_s + 1)
                else:
                    result.set_exception(TimeoutError(errno.ETIMEDOUT, "connection timed out"))
                return
            server = target.servers.get(port)
            refused = self.wire(source, target.name).refused
            if refused or server is None or not server.serving or not server.process.alive:
                self.carry(target.name, source, answer, None)
                return
            connection = Connection(self, process, server.process, port)
            connection.ends[1].accept(server.factory)
            self.carry(target.name, source, answer, connection.ends[0])

        self.carry(source, target.name, arrive, 0.0)
        try:
            transport = await result
        except asyncio.CancelledError:
            if result.done() and not result.cancelled() and (made := result.result()) is not None:
                made.give_up()
            raise
        if transport is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{address}:{port} refuses")
        protocol = factory()
        transport.begin(protocol)
        return transport, protocol

    def carry(self, source: str, target: str, deliver: Callable[..., None], *args: Any) -> None:
        """Let a message travel that belongs to no stream: a greeting, a refusal, a reset."""
        wire = self.wire(source, target)
        if wire.held:
            wire.waiting.append(lambda: self.carry(source, target, deliver, *args))
            return
        self.loop.at(self.loop.now_s + self.delay_s(wire), deliver, *args)

    def delay_s(self, wire: Wire) -> float:
        """Return how long the next message over a wire takes."""
        return self.latency_s + wire.latency_s + self.jitter_s * self.entropy.random()

    def next_connection(self) -> int:
        """Return a number for a new connection."""
        self._connection_count += 1
        return self._connection_count


class SimServer(asyncio.AbstractServer):
    """It is a listening socket; the part of ``asyncio.Server`` that is needed."""

    def __init__(
        self,
        host: Host,
        process: Process,
        factory: Callable[[], asyncio.BaseProtocol],
        port: int,
    ) -> None:
        self.host = host
        self.process = process
        self.factory = factory
        self.port = port
        self.serving = False

    @property
    def sockets(self) -> list[SimServer]:
        """Return something that has ``getsockname``."""
        return [self]

    def getsockname(self) -> tuple[str, int]:
        """Return address and port."""
        return self.host.address, self.port

    async def start_serving(self) -> None:
        """Accept from now on."""
        self.serving = True

    def is_serving(self) -> bool:
        """Return whether it accepts."""
        return self.serving

    def close(self) -> None:
        """Give the address back; connections stay."""
        self.serving = False
        if self.host.servers.get(self.port) is self:
            del self.host.servers[self.port]

    async def wait_closed(self) -> None:
        pass

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the simulation."""
        return self.process.loop

    async def serve_forever(self) -> None:
        """Refuse: it is not simulated."""
        raise NotImplementedError
