"""Records become JSON lines or formatted text; reading what was written is exact."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import Record
from oncelog_cli.record_text import (
    InputRecord,
    compile_format,
    input_line,
    json_line,
    meta_line,
    parse_json_line,
    value_line,
)

data = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(lambda text: text.encode())
headers = st.lists(st.tuples(st.text(max_size=8), data), max_size=4).map(tuple)


@given(
    st.builds(
        Record,
        st.text(min_size=1),
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        data,
        data,
        headers,
    )
)
def test_what_was_written_is_read_back(record: Record) -> None:
    line = json_line(record)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert parse_json_line(line) == InputRecord(
        record.value, record.key, record.headers, record.partition, record.timestamp
    )


counts = st.none() | st.integers(0, 2**31 - 1)


@given(st.builds(InputRecord, data, data, headers, counts, counts))
def test_what_is_to_be_sent_is_read_back(record: InputRecord) -> None:
    line = input_line(record)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert parse_json_line(line) == record


def test_a_line_to_send_says_only_what_is_there() -> None:
    assert input_line(InputRecord(None)) == b'{"value":null}\n'
    assert input_line(InputRecord(b"v", b"k")) == b'{"key":"k","value":"v"}\n'


def test_the_form_of_a_line() -> None:
    record = Record("t", 1, 7, 1000, b"\xff", None, (("h", b"x"), ("h", None)))
    assert json.loads(json_line(record)) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": 1000,
        "key": {"base64": "/w=="},
        "value": None,
        "headers": [{"key": "h", "value": "x"}, {"key": "h", "value": None}],
    }


def test_a_line_by_hand() -> None:
    assert parse_json_line(b'{"value": "v"}') == InputRecord(b"v")
    assert parse_json_line(b'{"value": null, "key": "k"}') == InputRecord(None, b"k")
    assert parse_json_line(b'{"value": "", "headers": {"a": "b"}}') == InputRecord(
        b"", headers=(("a", b"b"),)
    )


@pytest.mark.parametrize(
    ("line", "value", "key"),
    [
        (b'{"value": {"a": 1}}', b'{"a": 1}', None),
        (b' { "key" : [1,  2] , "value" : [ ] } ', b"[ ]", b"[1,  2]"),
        (
            '{"value": {"n": 1.50, "big": 1e400, "é": "\\u00e9}"}, "key": "k"}'.encode(),
            '{"n": 1.50, "big": 1e400, "é": "\\u00e9}"}'.encode(),
            b"k",
        ),
        (b'{"value": [0], "value": [1, {"a": 1, "a": 2}]}', b'[1, {"a": 1, "a": 2}]', None),
        (b'{"value": {"base64": "AA==", "a": 1}}', b'{"base64": "AA==", "a": 1}', None),
        (b'{"value": {}}', b"{}", None),
    ],
)
def test_nested_json_is_written_as_it_stands(line: bytes, value: bytes, key: bytes | None) -> None:
    assert parse_json_line(line) == InputRecord(value, key)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "object"),
        (b"{}", '"value"'),
        (b'{"value": 7}', "value must be text"),
        (b'{"value": "", "headers": {"a": {"b": 1}}}', "header 'a' must be text"),
        (b'{"value": {"base64": "?"}}', "base64"),
        (b'{"value": {"base64": 7}}', "value must be text"),
        (b'{"value": "\\ud800"}', "surrogate"),
        (b'{"value": "", "vlaue": ""}', "'vlaue'"),
        (b'{"value": "", "partition": -1}', "partition"),
        (b'{"value": "", "partition": true}', "partition"),
        (b'{"value": "", "timestamp": 1.5}', "timestamp"),
        (b'{"value": "", "headers": 7}', "headers"),
        (b'{"value": "", "headers": [{"value": "x"}]}', "headers"),
        (b'{"value": "", "headers": [{"key": 7}]}', "header"),
    ],
)
def test_what_is_no_record(line: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json_line(line)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_a_value_error(line: bytes) -> None:
    try:
        parse_json_line(line)
    except ValueError:
        pass


RECORD = Record("t", 1, 7, 1000, b"k", b"v", (("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%t %p %o %k %v %h %T%n", b"t 1 7 k v a=1,b= 1000\n"),
        ("%v", b"v"),
        ("100%% %v\\n", b"100% v\n"),
        ("%k\\t%v\\x00\\0\\\\", b"k\tv\0\0\\"),
        ("ä%v", "äv".encode()),
        ("%K %S %d", b"1 1 1970-01-01T00:00:01.000Z"),
        ("%k{hex} %v{base64} %v{x}", b"6b dg== v{x}"),
    ],
)
def test_format_strings(text: str, shown: bytes) -> None:
    assert compile_format(text)(RECORD) == shown


def test_nothing_is_shown_for_what_is_not_there() -> None:
    assert compile_format("[%k|%v|%h]")(Record("t", 0, 0, 0, None, None)) == b"[||]"
    assert value_line(Record("t", 0, 0, 0, None, None)) == b"\n"
    none = Record("t", 0, 0, 0, None, None)
    assert compile_format("%K %S [%k{hex}%v{base64}]")(none) == b"-1 -1 []"


def test_sizes_instead_of_contents() -> None:
    assert json.loads(meta_line(RECORD)) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": 1000,
        "key_bytes": 1,
        "value_bytes": 1,
        "header_count": 2,
    }


def test_only_contents_have_a_coding() -> None:
    with pytest.raises(ValueError, match="only %k and %v"):
        compile_format("%o{hex}")


@pytest.mark.parametrize("text", ["%x", "%", "\\q", "%v\\x1", "\\"])
def test_what_means_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="means nothing"):
        compile_format(text)
