"""Bytes are shown to people: in forms that they have, never more than is bearable, never hiding."""

from __future__ import annotations

import json

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_console.decoding import (
    HEX_BYTES_MAX,
    SHOWN_BYTES_MAX,
    forms_of,
    indented,
    preview,
    table_kind,
    visible,
)


def names(data: bytes) -> list[str]:
    return [form.name for form in forms_of(data)]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b'{"a": 1}', ["JSON", "text", "hex"]),
        (b' ["a"]', ["JSON", "text", "hex"]),
        (b"17", ["text", "hex"]),
        (b"plain", ["text", "hex"]),
        (b"{broken", ["text", "hex"]),
        (b"\xff\x00", ["hex"]),
        (b"", ["text", "hex"]),
        (msgpack.packb({"a": [1, b"\x01"], 2: None}), ["msgpack", "hex"]),
        (msgpack.packb(5), ["text", "hex"]),
        (b"\x92\x01", ["hex"]),
    ],
)
def test_forms(data: bytes, wanted: list[str]) -> None:
    assert names(data) == wanted


def test_json_keeps_how_numbers_and_texts_are_written() -> None:
    data = b'{"n":1.10,"big":123456789012345678901234567890,"t":"\\u00e9 {","e":[],"o":{"x":[1]}}'
    assert forms_of(data)[0].text.splitlines() == [
        "{",
        '  "n": 1.10,',
        '  "big": 123456789012345678901234567890,',
        '  "t": "\\u00e9 {",',
        '  "e": [],',
        '  "o": {',
        '    "x": [',
        "      1",
        "    ]",
        "  }",
        "}",
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_indented_json_is_the_same_json(document: object) -> None:
    text = json.dumps(document, ensure_ascii=False)
    assert json.loads("".join(indented(text))) == document


def test_msgpack_is_written_as_json() -> None:
    packed = msgpack.packb({"a": [1, b"\x01\xff"], 2: msgpack.Timestamp(1, 0)})
    text = forms_of(packed)[0].text
    assert json.loads(text) == {"a": [1, "0x01ff"], "2": 1.0}


def test_no_value_is_too_much() -> None:
    deep = b"[" * 500 + b",".join([b"1"] * 20_000) + b"]" * 500
    bombs = [
        deep,
        b"[" * 100_000,
        b"x" * (3 * SHOWN_BYTES_MAX),
        b"\xdd\x7f\xff\xff\xff",
        b"\x91" * 100_000,
        b"[" + b'"a",' * (SHOWN_BYTES_MAX // 4) + b"1]",
    ]
    for data in bombs:
        for form in forms_of(data):
            assert len(form.text) <= 5 * SHOWN_BYTES_MAX
    long = forms_of(b"x" * (SHOWN_BYTES_MAX + 7))
    assert [(form.name, form.left_out) for form in long] == [
        ("text", 7),
        ("hex", SHOWN_BYTES_MAX + 7 - HEX_BYTES_MAX),
    ]
    cut_in_a_sign = b"x" * (SHOWN_BYTES_MAX - 1) + "é".encode()
    assert forms_of(cut_in_a_sign)[0].left_out == 2


def test_nothing_hides_or_turns_round_what_is_beside_it() -> None:
    assert visible("a\u202eb\x00\ud800\n\t\u200bé👩\u200d🚀") == (
        "a\\u202eb\\x00\\ud800\n\t\\u200bé👩\u200d🚀"
    )


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (None, None),
        (b"", ""),
        (b"a\r\nb\tc", "a⏎b c"),
        (b"x" * 30, "x" * 10 + "…"),
        ("é".encode() * 10, "é" * 10),
        (b"\xff\x01", "0xff01"),
        (b"\xff" * 30, "0xffffff…"),
        (b"<script>alert(1)</script>", "<script>al…"),
    ],
)
def test_one_line(data: bytes | None, wanted: str | None) -> None:
    assert preview(data, 10) == wanted


@given(st.binary(max_size=2000))
def test_any_bytes_have_forms_and_one_line(data: bytes) -> None:
    assert names(data)[-1] == "hex"
    line = preview(data)
    assert line is not None
    assert "\n" not in line


def test_tables_are_recognised_by_how_they_begin() -> None:
    assert table_kind(b"PAR1....PAR1") == "parquet"
    assert table_kind(b"ARROW1\0\0....") == "arrow"
    assert table_kind(b"\xff\xff\xff\xff\x10\0\0\0\0") == "arrow stream"
    assert table_kind(b"PAR1") is None
    assert table_kind(b"{}") is None
