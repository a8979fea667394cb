"""Every page of the console has its address in these tables."""

from __future__ import annotations

from oncelog_console.page import ChangeRoute, PageRoute, PlainRoute, StreamRoute
from oncelog_console.pages import (
    brokers,
    changes,
    events,
    find,
    group,
    groups,
    log,
    overview,
    producers,
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
STREAMS: tuple[StreamRoute, ...] = ()
PLAIN: tuple[PlainRoute, ...] = ()
CHANGES: tuple[ChangeRoute, ...] = (*changes.CHANGES,)
