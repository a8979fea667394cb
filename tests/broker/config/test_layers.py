"""Layers: parts of settings over each other, and where each came from."""

from __future__ import annotations

import pytest

from oncelog_broker.config.layers import DEFAULT, Layers, NoSuchPartError, Origin, is_map

ONE = Origin("file", "f")
TWO = Origin("environment", "ONCELOG_X")


def test_origins_have_names() -> None:
    assert (str(DEFAULT), str(ONE)) == ("default", "file f")


def test_the_nearest_origin_counts() -> None:
    layers = Layers()
    layers.put("listeners", [{"name": "a", "port": 1}], ONE)
    layers.put_text(["listeners", "a", "port"], "2", TWO)
    assert layers.values == {"listeners": [{"name": "a", "port": "2"}]}
    assert layers.origin(("listeners", 0, "port")) == TWO
    assert layers.origin(("listeners", 0, "host")) == ONE
    assert layers.set_by(("listeners", 0, "port")) == TWO
    assert layers.set_by(("listeners", 0, "name")) == ONE
    assert layers.set_by(("listeners", 0, "host")) == DEFAULT
    assert layers.origin(("rack",)) == DEFAULT
    assert layers.origins_within("listeners") == [ONE, TWO]


def test_a_whole_value_forgets_its_parts() -> None:
    layers = Layers()
    layers.put("topic_defaults", {"flush": "commit"}, ONE)
    layers.put_text(["topic_defaults"], '{"retention_ms": 1}', TWO)
    assert layers.values == {"topic_defaults": {"retention_ms": 1}}
    assert layers.origins_within("topic_defaults") == [TWO]


def test_names_of_map_entries_may_hold_dots() -> None:
    layers = Layers()
    layers.put_text(["log_levels", "oncelog_broker", "log"], "debug", ONE)
    assert layers.values == {"log_levels": {"oncelog_broker.log": "debug"}}
    assert is_map("log_levels")
    assert not is_map("listeners")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (["rack", "x"], "1"),
        (["listeners", "a"], "1"),
        (["listeners", "a", "b", "c"], "1"),
        (["listeners"], "{"),
        (["listeners"], '{"a": 1}'),
        (["topic_defaults"], "a=1"),
        (["log_dirs"], "[x"),
    ],
)
def test_paths_that_lead_nowhere(path: list[str], text: str) -> None:
    with pytest.raises(NoSuchPartError):
        Layers().put_text(path, text, ONE)


def test_a_list_that_is_none_cannot_be_added_to() -> None:
    layers = Layers()
    layers.put("listeners", 3, ONE)
    with pytest.raises(NoSuchPartError):
        layers.put_text(["listeners", "a", "port"], "1", TWO)


def test_what_is_no_map_cannot_be_added_to() -> None:
    layers = Layers()
    layers.put("topic_defaults", 3, ONE)
    with pytest.raises(NoSuchPartError, match="no table"):
        layers.put_text(["topic_defaults", "flush"], "commit", TWO)
