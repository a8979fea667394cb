"""A misspelt name is answered with the known name that is most like it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that is most like ``name``, or None if none has such a likeness, from 0
    to 1 (:func:`difflib.get_close_matches`)."""
    # Only an error needs the module: a broker without one saves its 0.1 MB.
    from difflib import get_close_matches

    close = get_close_matches(name, [*known], n=1, cutoff=likeness)
    return close[0] if close else None
