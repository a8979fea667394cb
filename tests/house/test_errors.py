"""Error codes are a table: unique, described, one class each."""

from __future__ import annotations

from oncelog_protocol import errors


def test_codes_and_names_are_unique() -> None:
    rows = [
        item
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, errors.ApiError) and "code" in vars(item)
    ]
    codes = [row.code for row in rows]
    assert len(codes) > 20
    assert len(set(codes)) == len(codes)
    assert len({row.__name__ for row in rows}) == len(rows)


def test_every_error_says_when_it_is_returned() -> None:
    silent = [
        item.__name__
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, BaseException) and not item.__doc__
    ]
    assert not silent
