"""A visitor chooses how pages look: time zone and theme. Both are in a cookie."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

COOKIE = "oncelog_look"
THEMES = ("auto", "light", "dark")
BROWSER = "browser"
"""The zone of whoever looks; a script of the page writes times anew, which are in UTC before."""


@dataclass(frozen=True, slots=True)
class Look:
    """A look is valid: whatever a cookie said, it names a zone and a theme that exist."""

    zone: str = "UTC"
    theme: str = "auto"

    @property
    def shown_zone(self) -> str:
        """Return the zone in which the server writes times."""
        return "UTC" if self.zone == BROWSER else self.zone

    def cookie(self) -> str:
        """Return the text that :func:`look_of` reads."""
        return f"{self.theme}.{self.zone}"

    def text(self, wall_ms: int) -> str:
        """Return a time, in ms since 1970, as pages show it; it may be beyond any calendar."""
        try:
            return f"{_moment(wall_ms).astimezone(zone_of(self.shown_zone)):%Y-%m-%d %H:%M:%S}"
        except OverflowError:
            return f"{wall_ms // 1000} s"


def look_of(cookie: str | None) -> Look:
    """Return what a cookie says; what it says wrongly is as if it said nothing."""
    theme, _, zone = (cookie or "").partition(".")
    return Look(
        zone if zone == BROWSER or is_zone(zone) else "UTC", theme if theme in THEMES else "auto"
    )


def is_zone(name: str) -> bool:
    """Return whether a time zone of this name is known (IANA)."""
    try:
        zone_of(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def zone_of(name: str) -> tzinfo:
    """Return a time zone.

    :raises ZoneInfoNotFoundError: there is none; ValueError: this cannot be a name.
    """
    if name == "UTC":
        return UTC
    if not name or len(name) > 64:
        raise ValueError("a time zone has a name of at most 64 characters")
    return ZoneInfo(name)


def iso(wall_ms: int) -> str:
    """Return a time in UTC, as ``<time datetime>`` has it; "": no calendar has it."""
    try:
        return f"{_moment(wall_ms):%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}Z"
    except OverflowError:
        return ""


def _moment(wall_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=wall_ms)
