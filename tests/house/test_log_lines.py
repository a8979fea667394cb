"""Log lines of brokers and controllers are declared, and written as they are declared."""

from __future__ import annotations

import re
from collections import Counter

from support.house import ROOT, generator

LOG_DOCS = generator("log_docs")
DECLARED = LOG_DOCS.declared()
USES = LOG_DOCS.uses()


def test_rooms_write_only_what_they_declare() -> None:
    undeclared = [use.where for use in USES if use.event not in DECLARED.get(use.room, {})]
    assert not undeclared, (
        "declare the line in the room's logged.py (see oncelog_runtime.logs), "
        "and write logger.info(logged.NAME, value, ...)"
    )


def test_everything_declared_is_written() -> None:
    written = {(use.room, use.event) for use in USES}
    written.add(("oncelog_broker.logged", "LINES_SUPPRESSED"))
    idle = [(room, name) for room, events in DECLARED.items() for name in events]
    assert not [each for each in idle if each not in written]


def test_each_line_gives_every_field() -> None:
    short = [use.where for use in USES if use.values != len(DECLARED[use.room][use.event].fields)]
    assert not short


def test_texts_have_a_place_for_each_field() -> None:
    for events in DECLARED.values():
        for event in events.values():
            places = LOG_DOCS.PLACE.findall(str(event))
            assert len(places) == len(event.fields), event.name
            assert len(set(event.fields)) == len(event.fields), event.name
            if event.fields:
                assert str(event).count("%") == len(places), event.name


def test_names_are_stable_and_unique() -> None:
    names = [event.name for events in DECLARED.values() for event in events.values()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    for events in DECLARED.values():
        for constant, event in events.items():
            assert event.name == constant.lower()
            assert re.fullmatch(r"[a-z][a-z0-9_]+", event.name)


def test_fields_do_not_hide_what_every_line_has() -> None:
    taken = {"event", "message", "level", "logger", "timestamp", "broker", "exception", "name"}
    for events in DECLARED.values():
        for event in events.values():
            assert not taken & set(event.fields), event.name


def test_levels_are_known_where_they_can_be() -> None:
    assert len(USES) > 200
    assert sum(not use.levels for use in USES) <= 4, "write the levels into the call"


def test_nobody_below_the_process_configures_logging() -> None:
    for room in ("broker", "controller", "client", "runtime"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.name in ("logging.py", "log_levels.py"):
                continue
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"basicConfig|\.addHandler\(|\.setLevel\(", text), path
