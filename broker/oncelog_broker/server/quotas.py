"""A budget limits what one connection may hold, and another what all of them may hold together.

They are :class:`ConnectionLimits` (plain numbers) and :class:`BytePool`, the broker-wide account of
bytes that belong to requests not yet complete and to responses not yet taken by their peer.

Rules of the pool
-----------------
* It counts bytes that are there, not bytes that a length field claims.
* Over the limit, members that ask are told to stop reading and wait in line. They go on, oldest
  first, when there is room again.
* Nobody reads more at once than there is room for, however much has arrived: many may read before
  the first is told to wait. ``READ_BYTES_MIN`` may be read always.
* A Fetch takes a quarter of the room at most (``room_for_answer``), and is not begun while there is
  none. So a few peers that take nothing of what they asked for leave room for the others.
* One waiting member at a time goes on even without room, so that half frames can be completed and
  freed. So the count is bounded by the limit, one frame, and a little for each connection.
* Responses leave by themselves, so while the pool is full it asks its members every 20 ms what they
  still hold.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from oncelog_broker.server.newcomers import NewcomerLimits

REFRESH_S = 0.02
"""A full pool counts again this often."""

SMALL_BYTES = 64 * 1024
"""A connection may hold so much without being counted: most requests never touch the pool."""

ANSWER_SHARE = 4
"""One answer takes this part of the room at most."""

READ_BYTES_MIN = 4 * 1024
"""So much may be read when there is no room: a transport is never given an empty buffer."""


@dataclass(slots=True, kw_only=True)
class ConnectionLimits:
    """These are the bounds of one listener and of each of its connections. Those that may change
    while the broker runs change in place."""

    connections_max: int
    connections_per_ip_max: int
    newcomers: NewcomerLimits
    handshake_s: float
    """A connection has so long from accept until its peer is known."""
    frame_s: float
    """A frame may take so long from its first byte to its last, not counting the time we did not
    read."""
    idle_s: float
    """A connection may be so long without a byte received and without a request in flight; 0 for no
    bound."""
    in_flight_max: int
    unsent_bytes_max: int
    """Above so many unsent bytes of one connection's responses nothing more is read from it."""
    stall_s: float
    """A peer may take nothing of what is there for it for so long."""
    sweep_s: float = 0.5
    """Deadlines are looked at this often."""
    log_interval_s: float = 10.0
    """One line a peer host is logged in this time about broken input."""


class PoolMember(Protocol):
    """The pool sees a connection by this."""

    def held_bytes(self) -> int:
        """Return the bytes of unfinished requests and unsent responses right now."""
        ...

    def resume_from_pool(self) -> None:
        """Go on reading, as there is room again."""
        ...


class BytePool:
    """It counts the bytes held by all connections of a broker, bounded by ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.exhausted_count = 0
        """The pool became full so often."""
        self._held: dict[PoolMember, int] = {}
        self._waiting: dict[PoolMember, None] = {}
        self._runner: PoolMember | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def exhausted(self) -> bool:
        """Return whether members that ask must wait."""
        return self.used >= self.bytes_max

    @property
    def waiting_count(self) -> int:
        """Return how many members are in line."""
        return len(self._waiting)

    def update(self, member: PoolMember, held: int) -> None:
        """Note that ``member`` now holds ``held`` bytes; little counts as nothing."""
        before = self._held.get(member, 0)
        now = held if held > SMALL_BYTES else 0
        if now == before:
            return
        self.used += now - before
        if now:
            self._held[member] = now
        else:
            self._held.pop(member, None)
            if self._runner is member:
                self._runner = None
        if self.exhausted:
            self._arm()

    def room_for(self, member: PoolMember) -> int:
        """Return how many bytes ``member`` may read at once."""
        if member is self._runner:
            return self.bytes_max
        return max(self.bytes_max - self.used, READ_BYTES_MIN)

    def room_for_answer(self, member: PoolMember) -> int:
        """Return how many bytes of records ``member`` may be answered with now; 0: none, look
        again."""
        room = max(self.bytes_max - self.used, 0)
        if member is self._runner:
            return max(room, SMALL_BYTES)
        return min(room, max(room // ANSWER_SHARE, SMALL_BYTES))

    def must_wait(self, member: PoolMember) -> bool:
        """Return whether ``member`` has to stop reading; if so it stands in line from now on."""
        if not self.exhausted or member is self._runner:
            return False
        self._waiting.setdefault(member)
        self._arm()
        return True

    def drop(self, member: PoolMember) -> None:
        """Forget ``member``, which is gone."""
        self._waiting.pop(member, None)
        self.used -= self._held.pop(member, 0)
        if self._runner is member:
            self._runner = None

    def resize(self, bytes_max: int) -> None:
        """Bound the account anew. Who waits in line goes on with the next count, if there is room;
        who holds more than before keeps it."""
        self.bytes_max = bytes_max

    def close(self) -> None:
        """Stop the timer; for the end of the broker."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is None:
            self.exhausted_count += 1
            self._timer = asyncio.get_running_loop().call_later(REFRESH_S, self._refresh)

    def _refresh(self) -> None:
        self._timer = None
        for member in list(self._held):
            self.update(member, member.held_bytes())
        if self._runner is not None and self._runner not in self._held:
            # It holds nothing that its turn could free: the next one. (A member that never held
            # much is not seen by ``update``, and would keep the turn for ever.)
            self._runner = None
        while self._waiting and not self.exhausted:
            self._release()
        if self._waiting and self._runner is None:
            self._runner = next(iter(self._waiting))
            self._release()
        if (self._waiting or self.exhausted) and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(REFRESH_S, self._refresh)

    def _release(self) -> None:
        member = next(iter(self._waiting))
        del self._waiting[member]
        member.resume_from_pool()
