"""Requests come again, late, over another connection, as a network and retries may do it.

Rules: what transactional clients and brokers ask of brokers is kept as it went out, byte for byte;
a *ghost*, a process of its own, sends it again, to the same broker or to another, after the
greeting of the connection it was first sent on. Nobody reads the answers. Looking changes nothing:
no chance is drawn for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple

import msgpack

from oncelog_protocol.frame import PREFIX, SIZE
from oncelog_protocol.messages.base import ApiKey
from simulation.cluster import SimCluster
from simulation.older_clients import OLDER
from simulation.stream import SimTransport

KEPT_MAX = 400
OF_CLIENTS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.INIT_PID,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.JOIN_TXN,
        ApiKey.END_SHARED_TXN,
    }
)
OF_BROKERS = frozenset({ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS})
NOT_OF_OLDER = frozenset({ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT})
"""Clients from before KIP-890 are not guarded against a late copy of these: nothing in it says
which transaction is meant."""
CLIENTS = ("client-teller", "client-copier", "client-owner", "client-writer", "client-hijacker")


class Kept(NamedTuple):
    """It is one request, as it was sent."""

    api_key: ApiKey
    target: str
    """The host, and its port."""
    port: int
    greeting: bytes
    frame: bytes
    at_s: float


class LateRequests:
    """It keeps requests of a cluster, and has them come again."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.kept: deque[Kept] = deque(maxlen=KEPT_MAX)
        self.sent = 0
        """Requests that came again."""
        self._streams: dict[int, bytearray] = {}
        self._greetings: dict[int, bytes] = {}
        self._ghosts = 0
        cluster.network.taps.append(self._hear)

    def _hear(self, transport: SimTransport, data: bytes) -> None:
        of_client = transport.host.startswith(CLIENTS)
        if transport.side != 0 or not (of_client or transport.host.startswith("broker-")):
            return
        number = transport.connection.number
        stream = self._streams.setdefault(number, bytearray())
        stream += data
        while len(stream) >= PREFIX.size:
            size, head_bytes = PREFIX.unpack_from(stream)
            end = SIZE.size + size
            if len(stream) < end:
                return
            frame = bytes(stream[:end])
            del stream[:end]
            greeting = self._greetings.setdefault(number, frame)
            self._keep(transport, of_client, greeting, frame, head_bytes)

    def _keep(
        self, transport: SimTransport, of_client: bool, greeting: bytes, frame: bytes, head: int
    ) -> None:
        fields: Any = msgpack.unpackb(frame[PREFIX.size : PREFIX.size + head])
        api_key = fields[0]
        if transport.host.startswith(OLDER) and api_key in NOT_OF_OLDER:
            return
        if api_key in (OF_CLIENTS if of_client else OF_BROKERS):
            _, port = transport.connection.addresses[1]
            now_s = self.cluster.loop.now_s
            self.kept.append(
                Kept(ApiKey(api_key), transport.other.host, port, greeting, frame, now_s)
            )

    async def again(self, kept: Kept, target: str) -> None:
        """Send one again, to a broker's host. Errors are part of it."""
        network = self.cluster.network
        self._ghosts += 1
        process = self.cluster.client_process(f"ghost-{self._ghosts % 8}-{self._ghosts}")
        try:
            address = network.hosts[target].address
            self.cluster.loop.trace(f"again {kept.api_key.name} to {target}")
            await process.call(_send(address, kept), "ghost")
            self.sent += 1
        except (OSError, TimeoutError):
            pass
        finally:
            process.kill()


async def _send(address: str, kept: Kept) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(5.0):
        transport, protocol = await loop.create_connection(_Deaf, address, kept.port)
        transport.write(kept.greeting)
        await protocol.heard.wait()
        if transport.is_closing():
            return
        transport.write(kept.frame)
        await asyncio.sleep(1.0)
        transport.close()


class _Deaf(asyncio.BufferedProtocol):
    """Reads and forgets."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        """Something was answered, or nothing will be any more."""
        self._buffer = bytearray(65536)

    def get_buffer(self, sizehint: int) -> bytearray:
        """See asyncio."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio."""
        self.heard.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self.heard.set()
