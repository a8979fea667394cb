"""Log lines of brokers and controllers have stable names, the same fields, and a meaning."""

from __future__ import annotations

import re

from support.house import ROOT, generator

LOG_DOCS = generator("log_docs")
USES = LOG_DOCS.uses()
SENTENCES = LOG_DOCS.sentences()
TAKEN = {"event", "message", "level", "logger", "timestamp", "broker", "exception", "method_name"}
"""Names that every line has, or that structlog's own methods are called with."""


def test_calls_name_their_events() -> None:
    unnamed = [use.where for use in USES if not re.fullmatch(r"[a-z][a-z0-9_]+", use.event)]
    assert not unnamed, 'write logger.info("name_of_the_event", field=value, ...)'
    assert len(USES) > 200


def test_each_event_has_a_sentence_and_none_too_many() -> None:
    named = {use.event for use in USES}
    assert sorted(named - set(SENTENCES)) == [], "say in docs/log_events.toml what they mean"
    assert sorted(set(SENTENCES) - named) == [], "docs/log_events.toml: nobody writes them"
    assert list(SENTENCES) == sorted(SENTENCES)
    assert [name for name, text in SENTENCES.items() if not re.fullmatch(r"[A-Z].*\.", text)] == []


def test_an_event_has_the_same_fields_and_room_everywhere() -> None:
    shapes: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for use in USES:
        shapes.setdefault(use.event, set()).add((use.room, use.fields))
    assert [event for event, shape in shapes.items() if len(shape) > 1] == []


def test_fields_do_not_hide_what_every_line_has() -> None:
    bad = [use.where for use in USES if TAKEN & set(use.fields) or "" in use.fields]
    assert not bad


def test_levels_are_known_where_they_can_be() -> None:
    assert sum(not use.levels for use in USES) <= 5, "write the levels into the call"


def test_nobody_below_the_process_configures_logging() -> None:
    for room in ("broker", "controller", "client", "runtime"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.name in ("logging.py", "log_levels.py"):
                continue
            text = path.read_text(encoding="utf-8")
            found = re.search(r"basicConfig|\.addHandler\(|\.setLevel\(|structlog\.configure", text)
            assert not found, path
