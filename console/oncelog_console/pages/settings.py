"""The settings say how pages look for this browser, and what the console asks, and when."""

from __future__ import annotations

from dataclasses import dataclass, fields
from zoneinfo import available_timezones

from oncelog_console.look import BROWSER, COOKIE, THEMES, Look, is_zone
from oncelog_console.page import BadRequestError, Page, PageRoute, Redirect, Visit
from oncelog_console.snapshot import Fact, Snapshot


@dataclass(frozen=True, slots=True)
class AskedFact:
    """The poller asks this question."""

    name: str
    asked_ms: int | None
    took_ms: float
    error: str


def asked_facts(seen: Snapshot) -> list[AskedFact]:
    """Return what was asked, when, and how long each answer took."""
    found = [(each.name, getattr(seen, each.name)) for each in fields(seen)]
    return [
        AskedFact(name, fact.asked_ms, fact.took_s * 1000, fact.error)
        for name, fact in found
        if isinstance(fact, Fact)
    ]


async def show(visit: Visit) -> Page | Redirect:
    """Show the settings; with ``zone`` or ``theme`` in the address take them, for this browser."""
    zone, theme = visit.query.get("zone"), visit.query.get("theme")
    if zone is not None or theme is not None:
        chosen = Look(zone or visit.look.zone, theme or visit.look.theme)
        if chosen.zone != BROWSER and not is_zone(chosen.zone):
            raise BadRequestError(f"there is no time zone {chosen.zone!r}")
        if chosen.theme not in THEMES:
            raise BadRequestError(f"theme={chosen.theme!r}: there are {', '.join(THEMES)}")
        return Redirect("/settings", {COOKIE: chosen.cookie()})
    cluster = visit.seen.cluster.value
    view = {
        "facts": asked_facts(visit.seen),
        "zones": ("UTC", BROWSER, *sorted(available_timezones() - {"UTC"})),
        "themes": THEMES,
        "cluster_id": "" if cluster is None else cluster.cluster_id,
        "who": visit.session.name,
        "signed_in": not visit.console.sessions.open,
    }
    return Page("Settings", "settings.html", view)


PAGES = (PageRoute("/settings", show),)
