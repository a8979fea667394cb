"""A long list is shown a part at a time, at addresses that say what is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedPart(Generic[T]):
    """One page shows these items of a list."""

    items: tuple[T, ...]
    number: int
    """Number of the page, from 1; it exists, whatever was asked for."""
    pages: int
    """There is at least one, which may be empty."""
    first: int
    """Number of the first item in the whole list, from 1."""


def part_of(items: Sequence[T], number: int, size: int) -> ListedPart[T]:
    """Return one page of a list; beyond the last page it is the last one.

    :param number: the page that is asked for, from 1.
    :param size: so many items a page has.
    """
    pages = max(1, -(-len(items) // size))
    number = min(number, pages)
    first = (number - 1) * size
    return ListedPart(tuple(items[first : first + size]), number, pages, first + 1)


@dataclass(frozen=True, slots=True)
class ListHead(Generic[T]):
    """It is the beginning of a list; so many ``more`` items are left out."""

    items: tuple[T, ...]
    more: int


def head_of(items: Sequence[T], size: int) -> ListHead[T]:
    """Return the first items of a list, at most ``size``."""
    return ListHead(tuple(items[:size]), max(len(items) - size, 0))


def address_with(path: str, fields: Mapping[str, str], changed: Mapping[str, object]) -> str:
    """Return an address with fields, some of them changed; those that say nothing are left out."""
    merged = {**fields, **{name: str(value) for name, value in changed.items()}}
    said = {name: value for name, value in merged.items() if value}
    return path + (f"?{urlencode(said)}" if said else "")
