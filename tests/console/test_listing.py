"""Every item of a list is on one page, and an address says only what differs from the usual."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_console.listing import ListedPart, address_with, head_of, part_of


@given(st.lists(st.integers()), st.integers(1, 10))
def test_pages_hold_every_item_once_and_in_order(items: list[int], size: int) -> None:
    pages = part_of(items, 1, size).pages
    parts = [part_of(items, number, size) for number in range(1, pages + 1)]
    assert [item for part in parts for item in part.items] == items
    for part in parts:
        assert len(part.items) <= size
        assert part.first == (part.number - 1) * size + 1


def test_beyond_the_last_page_is_the_last_and_an_empty_list_has_one() -> None:
    assert part_of([1, 2, 3], 99, 2) == part_of([1, 2, 3], 2, 2)
    empty: ListedPart[int] = part_of([], 5, 10)
    assert (empty.items, empty.number, empty.pages, empty.first) == ((), 1, 1, 1)


def test_an_address_leaves_out_what_says_nothing() -> None:
    fields = {"q": "a b", "sort": "", "page": "3"}
    assert address_with("/topics", fields, {}) == "/topics?q=a+b&page=3"
    assert address_with("/topics", fields, {"page": "", "all": 1}) == "/topics?q=a+b&all=1"
    assert address_with("/topics", {"q": ""}, {}) == "/topics"


def test_the_beginning_of_a_list() -> None:
    assert (head_of([1, 2, 3], 2).items, head_of([1, 2, 3], 2).more) == ((1, 2), 1)
    assert (head_of([1, 2], 2).items, head_of([1, 2], 2).more) == ((1, 2), 0)
