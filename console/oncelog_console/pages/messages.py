"""Records of a topic are shown: of a range, as an expression finds them, or as they come.

Rules: an address says which records, at any time; one that does not is sent on to one that does.
Without an expression the console reads them itself; with one, a program of its own does, whose
progress the page shows, by a script or when it is loaded again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Any

from oncelog import TopicPartition
from oncelog.errors import OncelogError
from oncelog_cli.exits import CommandError
from oncelog_cli.where.parser import parse_where
from oncelog_cli.where.words import WhereError
from oncelog_console.look import BROWSER, Look, iso
from oncelog_console.message_range import (
    ISOLATIONS,
    NEWEST,
    Places,
    RangeError,
    WantedRecords,
    point_text,
    wanted_of,
)
from oncelog_console.page import (
    BadRequestError,
    Form,
    FormRoute,
    NotFoundError,
    Page,
    PageRoute,
    PlainRoute,
    Redirect,
    StreamRoute,
    Visit,
    server_sent,
    wants_json,
)
from oncelog_console.reading import ReadProgress, Row
from oncelog_console.rendering import segment
from oncelog_console.search import LINES_RECORDS_MAX, SearchFailedError
from oncelog_console.tail import Tick
from oncelog_console.workers import TooManyWorkersError

FIRST_LOOK_S = 1.0
"""A page waits so long for the end of a search before it shows what there is."""


@dataclass(frozen=True, slots=True)
class Typed:
    """The form is filled in with these fields."""

    partitions: str
    start: str
    end: str
    where: str
    rows: str
    isolation: str


@dataclass(frozen=True, slots=True)
class Mistake:
    """A field of the form cannot be understood."""

    text: str
    position: int | None = None
    """It is there in the expression; None: it is elsewhere."""


@dataclass(frozen=True, slots=True)
class MessagesView:
    """The view holds what the page shows."""

    topic: str
    typed: Typed
    mistake: Mistake | None = None
    rows: tuple[Row, ...] = ()
    progress: ReadProgress | None = None
    """None: nothing was read."""
    per_second: float | None = None
    state: str = ""
    """``running``, ``end``, ``rows``, ``stopped``, ``failed``; or ``follow``."""
    failure: str = ""
    notes: tuple[str, ...] = ()
    query: str = ""
    """The absolute address has it."""
    link: str = ""
    """The whole address, for others."""
    newest_first: bool = False
    beside: str = ""
    """Query of what lies next to the rows; "": it is not known, or there is nothing."""
    later: int = 0
    """So many offsets were written behind the range since it was chosen."""
    now: str = ""
    """Query of the same up to now; "": nothing came since."""
    more: str = ""
    """Query of the same with more rows; "": there are none."""
    follows: bool = False
    isolations: tuple[str, ...] = ISOLATIONS

    @property
    def base(self) -> str:
        """Return the address of the topic."""
        return f"/topics/{segment(self.topic)}"


def typed_of(query: Mapping[str, str]) -> Typed:
    """Return the form of an address."""
    return Typed(
        query.get("p") or "all",
        query.get("from") or point_text(NEWEST),
        query.get("to") or "end",
        query.get("where", ""),
        query.get("n") or "50",
        query.get("isolation") or "committed",
    )


def notes_of(
    wanted: WantedRecords, known: Collection[int], per_partition: int | None
) -> tuple[str, ...]:
    """Return what is to be said about rows that are not all there are.

    :param known: the partitions of the topic.
    """
    notes = []
    if isinstance(wanted.end, Places):
        missing = set(known) - {number for number, _ in wanted.end.offsets}
        missing &= set(wanted.partitions or known)
        if missing:
            listed = ", ".join(map(str, sorted(missing)))
            notes.append(
                f"without partitions {listed}: they are new, or had no leader that could tell"
                " their end"
            )
    if per_partition is not None and per_partition < wanted.rows:
        notes.append(f"at most {per_partition} records of each partition are shown")
    return tuple(notes)


# ------------------------------------------------------------------------------ the page


async def show(visit: Visit) -> Page | Redirect:
    """Answer the page of records."""
    topic = visit.named("topic")
    visit.console.searches.prepare()
    known = await _partitions(visit, topic)
    typed = typed_of(visit.query)
    try:
        wanted = wanted_of(topic, visit.query, visit.now_ms)
        if wanted.where:
            parse_where(wanted.where, visit.now_ms)
    except RangeError as error:
        return _mistaken(topic, typed, Mistake(str(error)))
    except WhereError as error:
        return _mistaken(topic, typed, Mistake(error.reason, error.position))
    _check_partitions(wanted, known)
    if visit.query.get("follow") == "1":
        return _followed(visit, wanted, typed)
    absolute = wanted
    if _is_relative(visit.query, wanted, visit.now_ms):
        ends = await _ends(visit, wanted, known) if wanted.end is None else {}
        absolute = wanted.absolute(visit.now_ms, ends)
    if absolute != wanted or _is_rewritten(visit.query, wanted):
        return Redirect(f"/topics/{segment(topic)}/messages?{absolute.query()}")
    if wants_json(visit.request):
        # The command prints no document, but lines.
        return Redirect(f"/topics/{segment(topic)}/messages.jsonl?{wanted.query()}")
    view = MessagesView(
        topic,
        typed,
        query=wanted.query(),
        link=str(visit.request.url),
        newest_first=wanted.newest_first,
    )
    shown = _searched if wanted.where else _browsed
    view, later = await asyncio.gather(
        shown(visit, wanted, view, known), _later(visit, wanted, known)
    )
    if later:
        view = replace(view, later=later, now=replace(wanted, end=None).query())
    return _page(visit, wanted, view)


def _page(visit: Visit, wanted: WantedRecords, view: MessagesView) -> Page:
    return Page(
        f"Messages of {wanted.topic}",
        "messages.html",
        view,
        command=wanted.command(),
        asked_ms=visit.now_ms,
    )


def _mistaken(topic: str, typed: Typed, mistake: Mistake) -> Page:
    view = MessagesView(topic, typed, mistake)
    return Page(f"Messages of {topic}", "messages.html", view, status=HTTPStatus.BAD_REQUEST)


def _followed(visit: Visit, wanted: WantedRecords, typed: Typed) -> Page:
    view = MessagesView(
        wanted.topic,
        typed,
        state="follow",
        query=replace(wanted, start=NEWEST, end=None).query(),
        link=str(visit.request.url),
        newest_first=True,
        follows=True,
    )
    words = ["consume", wanted.topic]
    for number in wanted.partitions:
        words += ["--partition", str(number)]
    if wanted.where:
        words += ["--where", wanted.where]
    if wanted.isolation == "all":
        words += ["--isolation-level", "read_uncommitted"]
    command = (*words, *(["--decode"] if wanted.decodes else []), "--json")
    return Page(f"Messages of {wanted.topic}", "messages.html", view, command=command)


def _is_relative(query: Mapping[str, str], wanted: WantedRecords, now_ms: int) -> bool:
    return wanted.end is None or wanted.absolute(now_ms, {}) != wanted


def _is_rewritten(query: Mapping[str, str], wanted: WantedRecords) -> bool:
    """Return whether an address says a time as a duration, or leaves something out."""
    end = "end" if wanted.end is None else point_text(wanted.end)
    return (query.get("from"), query.get("to")) != (point_text(wanted.start), end)


async def _partitions(visit: Visit, topic: str) -> range:
    """Return the partitions of a topic.

    :raises OncelogError: there is no such topic, or this visitor may not see it.
    """
    (described,) = await visit.admin.describe_topics([topic])
    if described.error is not None:
        raise described.error
    return range(len(described.partitions))


def _check_partitions(wanted: WantedRecords, known: Collection[int]) -> None:
    for number in wanted.partitions:
        if number not in known:
            raise NotFoundError(
                f"topic {wanted.topic!r} has {len(known)} partitions, there is no {number}"
            )


async def _ends(visit: Visit, wanted: WantedRecords, known: Sequence[int]) -> dict[int, int]:
    """Return where each wanted partition ends now; those that do not tell are left out.

    :raises OncelogError: none of them tells.
    """
    asked = [TopicPartition(wanted.topic, each) for each in wanted.partitions or known]
    found = list(await visit.admin.list_offsets(asked, isolation_level=wanted.level))
    ends = {each.partition.partition: each.offset for each in found if each.error is None}
    if not ends:
        raise next(each.error for each in found if each.error is not None)
    return {number: offset for number, offset in ends.items() if offset is not None}


async def _later(visit: Visit, wanted: WantedRecords, known: Sequence[int]) -> int:
    """Return how many offsets are behind a range by now, as far as leaders tell."""
    if not isinstance(wanted.end, Places):
        return 0
    try:
        return wanted.behind(await _ends(visit, wanted, known))
    except OncelogError:
        return 0


async def _browsed(
    visit: Visit, wanted: WantedRecords, view: MessagesView, known: Collection[int]
) -> MessagesView:
    count = len(wanted.partitions or known)
    found = await visit.console.browsing.browse(visit.session.clients, wanted, count)
    notes = notes_of(wanted, known, found.per_partition)
    if not found.is_whole:
        notes += ("not every partition has answered in time",)
    beside = wanted.beside([(row.partition, row.offset, row.timestamp) for row in found.rows])
    return replace(
        view,
        rows=found.rows,
        notes=notes,
        state="end",
        beside="" if beside is None else beside.query(),
    )


async def _searched(
    visit: Visit, wanted: WantedRecords, view: MessagesView, known: Collection[int]
) -> MessagesView:
    session = visit.session
    try:
        search = visit.console.searches.begin(session.session_id, session.clients, wanted)
    except TooManyWorkersError as error:
        return replace(view, state="failed", failure=str(error))
    await search.until_done(FIRST_LOOK_S)
    more = wanted.with_more() if search.done == "rows" else None
    return replace(
        view,
        rows=tuple(search.rows),
        progress=search.progress,
        per_second=search.per_second,
        state=search.done or "running",
        failure=search.failure,
        notes=notes_of(wanted, known, None),
        more="" if more is None else more.query(),
    )


# ------------------------------------------------------------------------------ streams


async def found(visit: Visit) -> AsyncIterator[str]:
    """Send what a search finds, behind the first ``known`` rows, and how far it is."""
    known = visit.number("known", 0)
    try:
        wanted = wanted_of(visit.named("topic"), visit.query, visit.now_ms)
        session, searches = visit.session, visit.console.searches
        if known and searches.find(session.session_id, wanted) is None:
            # Another search may find the same in another order: its first rows may be others.
            failure = "This search is forgotten; load the page to search again."
            yield server_sent("over", json.dumps({"state": "stopped", "failure": failure}))
            return
        search = searches.begin(session.session_id, session.clients, wanted)
    except (RangeError, TooManyWorkersError) as error:
        yield server_sent("over", json.dumps({"state": "failed", "failure": str(error)}))
        return
    async with aclosing(search.follow(known)) as news:
        async for each in news:
            rows = [row_document(row, visit.look) for row in each.rows]
            progress = progress_text(each.progress, each.per_second, visit.look)
            yield server_sent("found", json.dumps({"rows": rows, "progress": progress}))
            if each.done:
                over = {"state": each.done, "failure": each.failure}
                yield server_sent("over", json.dumps(over))


async def live(visit: Visit) -> AsyncIterator[str]:
    """Send what comes from now on, a sample where it is too much."""
    try:
        wanted = wanted_of(visit.named("topic"), visit.query, visit.now_ms)
        if wanted.where:
            wanted = wanted.absolute(visit.now_ms, {})
        tail = visit.console.tails.follow(visit.session.clients, wanted)
        async with aclosing(tail):
            async for tick in tail:
                yield server_sent("tick", json.dumps(tick_document(tick, visit.look)))
    except (
        RangeError,
        WhereError,
        TooManyWorkersError,
        SearchFailedError,
        OncelogError,
        CommandError,
    ) as error:
        yield server_sent("over", json.dumps({"state": "failed", "failure": str(error)}))


def tick_document(tick: Tick, look: Look) -> dict[str, Any]:
    """Return a tick as the page's script takes it."""
    rows = [row_document(row, look) for row in tick.rows]
    return {"rows": rows, "found": tick.found, "arrived": tick.arrived, "unread": tick.unread}


def row_document(row: Row, look: Look) -> dict[str, Any]:
    """Return a row as the page's script takes it: with its time as the visitor wants it."""
    ms = f".{row.timestamp % 1000:03d}"
    return {
        **asdict(row),
        "iso": iso(row.timestamp),
        "time": look.text(row.timestamp),
        "ms": ms,
        "zone": BROWSER if look.zone == BROWSER else look.zone,
    }


def progress_text(progress: ReadProgress, per_second: float, look: Look) -> str:
    """Return how far a search is, in words."""
    share = 100 * progress.scanned // progress.total if progress.total else 100
    text = f"scanned {progress.scanned:,} of {progress.total:,} ({share} %)"
    if per_second:
        text += f", {per_second:,.0f} a second"
    text += f", {progress.found:,} found"
    if progress.last_ms is not None:
        text += f", last at {look.text(progress.last_ms)}"
    return text


# ------------------------------------------------------------------------------ forms, files


async def stop(visit: Visit, form: Form) -> Redirect:
    """End a search; the page then shows what it has found."""
    topic = visit.named("topic")
    try:
        wanted = wanted_of(topic, form, visit.now_ms)
    except RangeError as error:
        raise BadRequestError(str(error)) from None
    searches = visit.console.searches
    if form.get("again"):
        searches.forget(visit.session.session_id, wanted)
    else:
        await searches.stop(visit.session.session_id, wanted)
    return Redirect(f"/topics/{segment(topic)}/messages?{wanted.query()}")


async def download(visit: Visit) -> tuple[str, str, AsyncIterator[bytes]]:
    """Send what a page shows as the JSON lines of its command, and with ``all=1`` more of it."""
    topic = visit.named("topic")
    try:
        wanted = wanted_of(topic, visit.query, visit.now_ms)
        if wanted.where:
            parse_where(wanted.where, visit.now_ms)
        everything = visit.query.get("all") == "1" or wanted.newest_first
        most = LINES_RECORDS_MAX if everything else wanted.rows
        lines = visit.console.searches.lines(visit.session.clients, wanted, most)
        first = await anext(lines, b"")
    except (RangeError, WhereError, TooManyWorkersError) as error:
        raise BadRequestError(str(error)) from None

    async def parts() -> AsyncIterator[bytes]:
        async with aclosing(lines):
            yield first
            async for part in lines:
                yield part

    return f"{topic}.jsonl", "application/jsonl", parts()


async def check(visit: Visit) -> Page:
    """Say whether an expression is one, while it is being typed."""
    visit.console.searches.prepare()
    text = visit.query.get("where", "")
    mistake = None
    try:
        if text.strip():
            parse_where(text, visit.now_ms)
    except WhereError as error:
        mistake = Mistake(error.reason, error.position)
    return Page("Expression", "_where.html", {"mistake": mistake, "text": text})


PAGES = (PageRoute("/topics/{topic}/messages", show),)
PARTS = (PageRoute("/where", check),)
STREAMS = (
    StreamRoute("/topics/{topic}/messages/found", found),
    StreamRoute("/topics/{topic}/messages/live", live),
)
FORMS = (FormRoute("/topics/{topic}/messages/stop", stop),)
PLAIN = (PlainRoute("/topics/{topic}/messages.jsonl", download),)
