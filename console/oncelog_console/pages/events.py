"""Events of brokers are shown on lanes over time and as a table, with what was missed.

The rows are those of ``cluster events``, which the poller has asked for. An address says which of
them are meant, with times in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from oncelog_cli.documents.answer import Answer, Failure, Row
from oncelog_cli.documents.events import chosen_events
from oncelog_cli.offset_range import parse_time
from oncelog_console.event_lanes import (
    KINDS,
    Gap,
    forgotten_by,
    gaps_in,
    is_bad,
    kind_of,
    lanes_picture,
    letter_of,
    names_of,
    words_of,
)
from oncelog_console.listing import part_of
from oncelog_console.look import iso
from oncelog_console.page import BadRequestError, Page, PageRoute, Visit
from oncelog_console.svg import Picture

PAGE_ROWS = 200
DRAWN_MAX = 2_000
"""So many events are drawn, the newest."""
GAPS_MAX = 50
SPANS_MS = (("15 min", 900_000), ("1 h", 3_600_000), ("6 h", 21_600_000), ("1 d", 86_400_000))
"""Links lead to what happened in the last so long."""


@dataclass(frozen=True, slots=True)
class Filter:
    """These events are meant; what is empty or None means all."""

    kinds: tuple[str, ...] = ()
    topic: str = ""
    broker: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return the events that are meant."""
        return chosen_events(
            rows,
            brokers=() if self.broker is None else (self.broker,),
            names=names_of(self.kinds),
            topic=self.topic or None,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
        )

    def address(self, page: int = 1) -> str:
        """Return the address of the page that shows them."""
        said: dict[str, str] = {}
        if self.kinds:
            said["kind"] = ",".join(self.kinds)
        if self.topic:
            said["topic"] = self.topic
        if self.broker is not None:
            said["broker"] = str(self.broker)
        if self.since_ms is not None:
            said["since"] = iso(self.since_ms)
        if self.until_ms is not None:
            said["until"] = iso(self.until_ms)
        if page > 1:
            said["page"] = str(page)
        return f"/events?{urlencode(said, safe=',:')}" if said else "/events"

    def command(self) -> tuple[str, ...]:
        """Return the command line that prints them."""
        words = ["cluster", "events"]
        for name in names_of(self.kinds):
            words += ["--event", name]
        words += ["--topic", self.topic] if self.topic else []
        words += [] if self.broker is None else ["--broker", str(self.broker)]
        words += [] if self.since_ms is None else ["--since", iso(self.since_ms)]
        words += [] if self.until_ms is None else ["--until", iso(self.until_ms)]
        return tuple(words)


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event is a row of the table."""

    row: Mapping[str, Any]
    kind: str
    letter: str
    bad: bool
    words: str


@dataclass(frozen=True, slots=True)
class EventsView:
    """The view holds what the page shows."""

    chosen: Filter
    known: bool
    """Whether brokers have told anything yet."""
    rows: tuple[EventRow, ...]
    """Those of this page of the table, the newest first."""
    count: int
    page: int
    pages: int
    lanes: Picture | None
    """None: there is nothing to draw."""
    not_drawn: int
    gaps: tuple[Gap, ...]
    gap_count: int
    forgotten: Mapping[int, int]
    """So many older events a broker does not have any more, by broker."""
    spans: tuple[tuple[str, str], ...]
    """Words and addresses of the last so long."""
    kinds: tuple[tuple[str, str], ...]
    """Letter and name of each kind."""
    failures: tuple[Failure, ...]


def events_view(
    rows: Sequence[Row] | None,
    chosen: Filter,
    *,
    brokers: Sequence[int],
    now_ms: int,
    page: int = 1,
    failures: Sequence[Failure] = (),
) -> EventsView:
    """Return the view of all events that are known, of which some are meant.

    :param rows: those of ``cluster events``, in order of time; None: nobody has told any.
    :param brokers: those that are alive; each has a lane.
    """
    known = rows or ()
    found = chosen.rows(known)
    drawn = found[-DRAWN_MAX:]
    missed = [gap for gap in gaps_in(known) if _is_meant(gap, chosen)]
    part = part_of(found[::-1], page, PAGE_ROWS)
    return EventsView(
        chosen,
        rows is not None,
        tuple(
            EventRow(
                row,
                kind_of(row["name"]),
                letter_of(row["name"]),
                is_bad(row),
                words_of(row),
            )
            for row in part.items
        ),
        len(found),
        part.number,
        part.pages,
        _picture(drawn, missed, chosen, brokers, now_ms),
        len(found) - len(drawn),
        tuple(missed[-GAPS_MAX:]),
        len(missed),
        forgotten_by(known),
        (
            ("all", replace(chosen, since_ms=None, until_ms=None).address()),
            *(
                (words, replace(chosen, since_ms=now_ms - span_ms, until_ms=None).address())
                for words, span_ms in SPANS_MS
            ),
        ),
        tuple((letter, kind) for kind, (letter, _) in KINDS.items()),
        tuple(failures),
    )


def _picture(
    drawn: Sequence[Row],
    missed: Sequence[Gap],
    chosen: Filter,
    brokers: Sequence[int],
    now_ms: int,
) -> Picture | None:
    if not drawn:
        return None
    since_ms = chosen.since_ms
    return lanes_picture(
        drawn,
        missed,
        [broker for broker in brokers if chosen.broker in (None, broker)],
        since_ms=drawn[0]["timestamp_ms"] if since_ms is None else since_ms,
        until_ms=now_ms if chosen.until_ms is None else chosen.until_ms,
    )


def _is_meant(gap: Gap, chosen: Filter) -> bool:
    if chosen.kinds and "leader" not in chosen.kinds:
        return False
    if chosen.topic and gap.partition.rpartition("-")[0] != chosen.topic:
        return False
    after = chosen.since_ms is None or gap.before_ms >= chosen.since_ms
    return after and (chosen.until_ms is None or gap.after_ms < chosen.until_ms)


def filter_of(visit: Visit) -> Filter:
    """Return what an address asks for.

    :raises BadRequestError: it asks for a kind that there is not, or a time that is none.
    """
    named = [kind for text in visit.query.getlist("kind") for kind in text.split(",") if kind]
    kinds = tuple(dict.fromkeys(named))
    for kind in kinds:
        if kind not in KINDS:
            raise BadRequestError(f"kind={kind!r}: there are {', '.join(KINDS)}")
    broker = visit.number("broker", -1, most=2**31 - 1)
    return Filter(
        kinds,
        visit.query.get("topic", "").strip(),
        None if broker < 0 else broker,
        _time(visit, "since"),
        _time(visit, "until"),
    )


def _time(visit: Visit, name: str) -> int | None:
    text = visit.query.get(name, "").strip()
    if not text:
        return None
    found = parse_time(text, visit.now_ms)
    if found is None or found > 253_402_300_799_000:
        raise BadRequestError(f"{name}={text!r} is no time, such as 2026-11-21T12:00:00Z")
    return found


async def show(visit: Visit) -> Page:
    """Show what has happened, as far as brokers still know."""
    fact, chosen = visit.seen.events, filter_of(visit)
    rows = None if fact.value is None else fact.value.document["events"]
    cluster = visit.seen.cluster.value
    view = events_view(
        rows,
        chosen,
        brokers=[] if cluster is None else [each.broker_id for each in cluster.brokers],
        now_ms=visit.now_ms,
        page=visit.number("page", 1, least=1, most=1_000_000),
        failures=fact.missing,
    )
    answer = None if rows is None else Answer({"events": chosen.rows(rows)}, fact.missing)
    return Page("Events", "events.html", view, chosen.command(), answer, asked_ms=fact.asked_ms)


PAGES = (PageRoute("/events", show),)
