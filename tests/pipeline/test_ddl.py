"""Schemas are text; a mistake in one is pointed at."""

from __future__ import annotations

import pytest

from pyspark_oncelog.ddl import check_ddl, check_json_ddl
from pyspark_oncelog.option_values import OptionError


@pytest.mark.parametrize(
    "text",
    [
        "a INT",
        " id BIGINT, name STRING ",
        "a: int, `odd name``s` decimal(10, 2) COMMENT 'x, y', c DECIMAL",
        "c STRUCT<x: INT, y ARRAY<MAP<STRING, STRUCT<>>>>, at TIMESTAMP",
        "array<int>",
        "MAP <STRING, INT>",
        "struct struct<map: int>",
        "a INT,\n b DATE",
    ],
)
def test_schemas(text: str) -> None:
    check_json_ddl("valueSchema", text)


def test_other_sources_have_other_types() -> None:
    text = (
        "a CHAR(3), b INTERVAL DAY TO SECOND COMMENT 'x', c INTERVAL, d VARIANT, e TIME(3) NOT NULL"
    )
    check_ddl("schema", text)


@pytest.mark.parametrize(
    ("text", "why", "place"),
    [
        ("a INTT, b STRING", "INTT is no type", "INTT"),
        ("a INT, b", "a type is expected here", ""),
        ("a INT b STRING", "this is not expected here", "b STRING"),
        ("a INT,", "the name of a field is expected", ""),
        ("", "the name of a field is expected", ""),
        ("a-b INT", "this cannot be in a schema", "-b"),
        ("a ARRAY INT", "< is expected here", "INT"),
        ("a ARRAY<INT", "> is expected here", ""),
        ("a INT>, x STRUCT<b INT", "this is not expected here", ">"),
        ("a MAP<STRING>", ", is expected here", ">"),
        ("a DECIMAL(5,x)", "a number is expected here", "x"),
        ("a INT NOT NULL", "NOT NULL cannot be promised", "NOT"),
        ("a INT NOT b", "NULL is expected behind NOT", "b"),
        ("a INT COMMENT b", "a comment is expected here", "b"),
        ("a INTERVAL", "INTERVAL is not read from JSON", "INTERVAL"),
        ("array<int>, b INT", "this is not expected here", ", b"),
        ("a INT,\nb INTT", "INTT is no type", "INTT"),
    ],
)
def test_a_mistake_is_pointed_at(text: str, why: str, place: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_json_ddl("valueSchema", text)
    told, line, mark = str(caught.value).split("\n")
    assert told.startswith(f"valueSchema: {why}")
    assert text.split("\n")[-1] == line[2:]
    at = len(mark) - 1
    assert line[at:].startswith(place)
    assert mark[at] == "^"
    assert place or at == len(line)
