"""A wall clock is believed only after a check against the monotonic clock and against peers.

Pure. What deletes by age asks ``expiry_ms``, what refuses records from the future ``latest_ms``,
everything else ``now_ms``. Rules:

* the checked time follows the wall clock in small steps, however many, and takes no large one: a
  *leap* is counted and told, and the time goes on by the monotonic clock from where it was;
* peers decide, a majority of them and this clock: when the middle of what they say agrees with the
  wall clock, a leap was right (a machine that slept, a clock that was set), and it is taken. When
  it does not, the checked time is that of the peers, also right after the start;
* where two halves disagree nobody knows. The earlier opinion is what may expire, the later one what
  may be accepted. So it is until a majority was heard at all: nothing expires before;
* who is alone has nobody to ask. A leap that stays for ``ALONE_S`` is then believed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncelog_runtime.clock import NOT_YET_MS, WallClock

__all__ = ["AGREE_MS", "ALONE_S", "LEAP_MS", "CheckedClock"]

LEAP_MS = 10_000
"""A smaller step is a correction, such as NTP makes."""

AGREE_MS = 600_000
"""Clocks that differ by no more agree: what peers say may be some minutes old."""

ALONE_S = 3600.0
"""How long a lone broker waits until it believes a leap."""


class CheckedClock:
    """It fulfils ``CautiousClock``. Times are milliseconds since 1970.

    :param wall: the machine's.
    :param monotonic_s: seconds of a clock that does not leap, such as the running loop's.
    :param on_leap: told of each leap, with how far the wall clock is ahead of the checked time.
    """

    __slots__ = (
        "_ahead",
        "_confirmed",
        "_doubted",
        "_doubted_at_s",
        "_earlier",
        "_later",
        "_monotonic_s",
        "_on_leap",
        "_undecided",
        "_wall",
        "leaps",
    )

    def __init__(
        self,
        wall: WallClock,
        monotonic_s: Callable[[], float],
        *,
        on_leap: Callable[[int], None] | None = None,
    ) -> None:
        self._wall = wall
        self._monotonic_s = monotonic_s
        self._on_leap = on_leap
        self.leaps = 0
        """Leaps of the wall clock since the start, and the one before it if peers told of it."""
        self._ahead = wall.now_ms() - monotonic_s() * 1000
        """The checked time is the monotonic clock and this."""
        self._confirmed = False
        """Whether a majority was heard since the start."""
        self._earlier: float | None = None
        self._later: float | None = None
        """As ``_ahead``: what two halves that disagree say; None while a majority agrees."""
        self._doubted: float | None = None
        """As ``_ahead``: of a wall clock that is not believed."""
        self._doubted_at_s = 0.0
        self._undecided = False
        """Whether the wall clock may be right nevertheless."""

    # ---- asking

    def now_ms(self) -> int:
        """Return the checked time. It may go backwards, when peers know better."""
        wall_ms = self._wall.now_ms()
        monotonic_ms = self._monotonic_s() * 1000
        ahead = wall_ms - monotonic_ms
        if -LEAP_MS < ahead - self._ahead < LEAP_MS:
            self._ahead = ahead
            self._doubted = None
            return wall_ms
        self._doubt(ahead)
        return int(monotonic_ms + self._ahead)

    def expiry_ms(self) -> int:
        """Return the time that it surely is: what is too old by it may be deleted. It is 0 before a
        majority was heard, so that nothing is deleted."""
        now_ms = self.now_ms()
        if not self._confirmed:
            return 0
        if self._earlier is None:
            return now_ms
        return min(now_ms, int(self._monotonic_s() * 1000 + self._earlier))

    def latest_ms(self) -> int:
        """Return the time that it may be already: what lies far beyond it comes from the future."""
        latest_ms = self.now_ms()
        if not self._undecided and self._later is None:
            return latest_ms
        for ahead in (self._doubted if self._undecided else None, self._later):
            if ahead is not None:
                latest_ms = max(latest_ms, int(self._monotonic_s() * 1000 + ahead))
        return latest_ms

    def stamp_of(self, latest_ms: int) -> int:
        """See the port. A machine may start with a clock of long ago, and what was noted by that
        would be too old as soon as a majority was heard."""
        return latest_ms if self._confirmed else NOT_YET_MS

    @property
    def error_ms(self) -> int:
        """Return how far the wall clock is ahead of the checked time; 0 when it is believed."""
        self.now_ms()
        return 0 if self._doubted is None else int(self._doubted - self._ahead)

    @property
    def is_settled(self) -> bool:
        """Return whether there is nothing to ask the peers for in a hurry."""
        self.now_ms()
        return self._confirmed and self._doubted is None

    def _doubt(self, ahead: float) -> None:
        if self._doubted is not None and abs(ahead - self._doubted) < LEAP_MS:
            return
        self._doubted, self._doubted_at_s = ahead, self._monotonic_s()
        self._undecided = True
        self.leaps += 1
        if self._on_leap is not None:
            self._on_leap(int(ahead - self._ahead))

    # ---- peers

    def heard(self, peers_ms: Sequence[int], expected: int) -> None:
        """Take the opinions of peers, read just now.

        :param expected: how many clocks there should be, this one included: of all brokers that the
            cluster is made of, whether they are up or not.
        """
        self.now_ms()
        monotonic_ms = self._monotonic_s() * 1000
        own = self._wall.now_ms() - monotonic_ms
        opinions = sorted([own, *(peer_ms - monotonic_ms for peer_ms in peers_ms)])
        if 2 * len(opinions) <= expected:
            return
        self._confirmed = True
        if not peers_ms and expected <= 1:
            self._heard_nobody(own)
            return
        earlier, later = opinions[(len(opinions) - 1) // 2], opinions[len(opinions) // 2]
        if later - earlier > AGREE_MS:
            self._earlier, self._later = earlier, later
            return
        self._earlier = self._later = None
        if abs(own - earlier) <= AGREE_MS:
            self._believe(own)
            return
        if abs(self._ahead - earlier) > AGREE_MS:
            self._ahead = earlier
        self._doubt(own)
        self._undecided = False

    def _heard_nobody(self, own: float) -> None:
        self._earlier = self._later = None
        if self._doubted is not None and self._monotonic_s() - self._doubted_at_s >= ALONE_S:
            self._believe(own)

    def _believe(self, own: float) -> None:
        self._ahead = own
        self._doubted = None
