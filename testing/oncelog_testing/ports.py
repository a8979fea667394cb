"""The ports of a broker stay its own while it is down.

A broker that starts again wants the ports that it had. While nobody listens there, the system may
give such a port to an outgoing connection of any process; then the broker could not start.

Rules: Linux gives a port to nobody else while a socket is bound to it, and a listener may be bound
beside that socket as long as both have SO_REUSEADDR and only one listens (socket(7)). So a socket
that never listens holds the port from the first start of the broker on. A port that is held refuses
connections like any other. Other systems refuse the second bind: there nothing is held.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Mapping

__all__ = ["Ports"]


class Ports:
    """They have names: those of a broker's listeners, or of brokers that have one listener."""

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}
        self._holders: list[socket.socket] = []

    def of(self, name: str, host: str) -> int:
        """Return a port, the same each time, or 0 while there is none and none can be held."""
        port = self._ports.get(name, 0)
        if port == 0 and sys.platform == "linux":
            # Whoever binds at an address that is not this machine's says so better than we can.
            with contextlib.suppress(OSError):
                port = self._ports[name] = self._hold(host)
        return port

    def _hold(self, host: str) -> int:
        holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._holders.append(holder)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 0))
        return int(holder.getsockname()[1])

    def note(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Note who listens where, so that each comes back there."""
        self._ports.update({name: port for name, (_, port) in addresses.items()})

    def release(self) -> None:
        """Let go of every port: nobody will start again."""
        for holder in self._holders:
            holder.close()
        self._holders.clear()
