"""These tests check the grammar of ``--grep``."""

from __future__ import annotations

import pytest

from oncelog import Record
from oncelog_cli.record_filter import parse_filters

ORDER = Record(
    *("t", 0, 5, 1000, b"user-42", "refund für alle".encode()),
    (("trace", b"00-abc"), ("empty", None)),
)
GONE = Record("t", 0, 6, 1000, b"user-7", None)
PLAIN = Record("t", 0, 7, 1000, None, b"value:1\xff")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["refund"], [ORDER]),
        (["value:refund$"], []),
        (["für"], [ORDER]),
        (["key:^user-"], [ORDER, GONE]),
        (["key:42", "refund"], [ORDER]),
        (["key:42", "null"], []),
        (["null"], [GONE]),
        (["!null"], [ORDER, PLAIN]),
        (["header:trace"], [ORDER]),
        (["header:trace=^00-"], [ORDER]),
        (["header:trace=^01-"], []),
        (["header:empty=."], []),
        (["header:empty"], [ORDER]),
        (["!header:trace"], [GONE, PLAIN]),
        (["value:value:1"], [PLAIN]),
        (["other:thing"], []),
        (["value:\\xff"], [PLAIN]),
    ],
)
def test_what_is_found(filters: list[str], found: list[Record]) -> None:
    matches = parse_filters(filters)
    assert matches is not None
    assert [record for record in (ORDER, GONE, PLAIN) if matches(record)] == found


def test_no_filter() -> None:
    assert parse_filters([]) is None


@pytest.mark.parametrize("text", ["", "!", "value:", "key:", "header:", "header:=x", "(", "key:["])
def test_what_is_no_filter(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_filters([text])
