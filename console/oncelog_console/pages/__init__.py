"""Every page of the console has its address in these tables."""

from __future__ import annotations

from oncelog_console.page import ChangeRoute, FormRoute, PageRoute, PlainRoute, StreamRoute
from oncelog_console.pages import (
    brokers,
    changes,
    events,
    find,
    group,
    groups,
    log,
    messages,
    overview,
    producers,
    record,
    settings,
    topic,
    topics,
    transaction,
    transactions,
)

PAGES: tuple[PageRoute, ...] = (
    *overview.PAGES,
    *topics.PAGES,
    *topic.PAGES,
    *messages.PAGES,
    *record.PAGES,
    *groups.PAGES,
    *group.PAGES,
    *transactions.PAGES,
    *transaction.PAGES,
    *producers.PAGES,
    *log.PAGES,
    *events.PAGES,
    *brokers.PAGES,
    *changes.PAGES,
    *find.PAGES,
    *settings.PAGES,
)
STREAMS: tuple[StreamRoute, ...] = messages.STREAMS
PLAIN: tuple[PlainRoute, ...] = messages.PLAIN
PARTS: tuple[PageRoute, ...] = messages.PARTS
"""These answer with parts of pages, for htmx."""
FORMS: tuple[FormRoute, ...] = messages.FORMS
CHANGES: tuple[ChangeRoute, ...] = (*changes.CHANGES,)
