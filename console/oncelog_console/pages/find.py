"""The search box leads to what has a name: topics, groups, ids of transactions, one record."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oncelog_console.page import Page, PageRoute, Redirect, Visit
from oncelog_console.rendering import segment
from oncelog_console.snapshot import Snapshot

SHOWN = 50
RECORD = re.compile(r"(.+)-(\d{1,10})@([\d,]{1,26})")


@dataclass(frozen=True, slots=True)
class Hit:
    """Something of this kind has a name that fits, and this page."""

    kind: str
    name: str
    path: str


def hits_of(seen: Snapshot, text: str) -> list[Hit]:
    """Return what is known by a name with this text in it; whole names come first."""
    if not text:
        return []
    groups = [row["group"] for row in seen.group_rows]
    ids = [row["transactional_id"] for row in seen.transaction_rows]
    found = [
        *(Hit("topic", each.topic, f"/topics/{segment(each.topic)}") for each in seen.topic_list),
        *(Hit("group", name, f"/groups/{segment(name)}") for name in groups),
        *(Hit("transactional id", name, f"/transactions/{segment(name)}") for name in ids),
    ]
    fitting = [hit for hit in found if text in hit.name]
    return sorted(fitting, key=lambda hit: (hit.name != text, hit.kind, hit.name))


def record_path(text: str) -> str | None:
    """Return the page of a record that is named ``topic-partition@offset``, or None."""
    named = RECORD.fullmatch(text)
    if named is None:
        return None
    topic, partition, offset = named.groups()
    return f"/topics/{segment(topic)}/{partition}/{offset.replace(',', '')}"


async def show(visit: Visit) -> Page | Redirect:
    """Go to what has exactly this name, or show what has it as a part."""
    text = visit.query.get("q", "").strip()
    path = record_path(text)
    if path is not None:
        return Redirect(path)
    if text.isdigit():
        return Redirect(f"/producers?producer_id={text}")
    hits = hits_of(visit.seen, text)
    if len([hit for hit in hits if hit.name == text]) == 1 or len(hits) == 1:
        return Redirect(hits[0].path)
    view = {"text": text, "hits": hits[:SHOWN], "count": len(hits)}
    return Page("Search", "find.html", view)


PAGES = (PageRoute("/find", show),)
