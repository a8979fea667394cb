"""Rules of a room are compared here with those that tests leave out."""

from __future__ import annotations

from collections.abc import Iterable


def decisions(kind: type) -> set[str]:
    """Return the names of the rules: the public methods of a class."""
    return {name for name, member in vars(kind).items() if name[0] != "_" and callable(member)}


def left_out(unsafe: Iterable[object]) -> set[str]:
    """Return the names of the rules that some of them decide otherwise."""
    return set().union(*(decisions(type(each)) for each in unsafe))
