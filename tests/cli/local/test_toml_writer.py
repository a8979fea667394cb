"""Settings as TOML: what is written, the standard library reads back."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from oncelog_cli.local.toml_writer import Value, to_toml

SCALARS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SETTINGS = st.dictionaries(
    KEYS,
    st.one_of(
        SCALARS,
        st.lists(SCALARS, max_size=3),
        st.dictionaries(KEYS, SCALARS, max_size=3),
        st.lists(st.dictionaries(KEYS, SCALARS, max_size=3), min_size=1, max_size=3),
    ),
    max_size=5,
)


@given(SETTINGS)
def test_round_trip(settings: dict[str, Value]) -> None:
    assert tomllib.loads(to_toml(settings)) == settings


def test_what_a_broker_file_looks_like() -> None:
    text = to_toml(
        {
            "listeners": [{"name": "internal", "port": 1}, {"name": "external", "port": 2}],
            "broker_id": 1,
            "topic_defaults": {"retention_ms": 5},
            "log_dirs": ["/a b", "/c"],
            "auto_create_topics_enable": False,
        }
    )
    assert text == (
        "broker_id = 1\n"
        'log_dirs = ["/a b", "/c"]\n'
        "auto_create_topics_enable = false\n"
        "\n"
        "[[listeners]]\n"
        'name = "internal"\n'
        "port = 1\n"
        "\n"
        "[[listeners]]\n"
        'name = "external"\n'
        "port = 2\n"
        "\n"
        "[topic_defaults]\n"
        "retention_ms = 5\n"
    )
