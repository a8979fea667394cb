"""A command line picks names by patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oncelog_cli.exits import CommandError, UsageError


def matching(names: Iterable[str], patterns: Iterable[str], *, regex: bool) -> list[str]:
    """Return the names that any pattern matches whole, in order.

    Without ``regex`` the patterns are returned as they are, known or not.

    :raises UsageError: a pattern is not a regular expression.
    """
    if not regex:
        return list(dict.fromkeys(patterns))
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
    return [name for name in names if any(item.fullmatch(name) for item in compiled)]


def among(names: Sequence[str], patterns: Sequence[str] | None, *, regex: bool) -> list[str]:
    """Return those of the existing names that are meant; without patterns return all.

    A list shows what is there: a name that does not exist, or is of another kind, is not in it.

    :raises UsageError: a pattern is not a regular expression.
    """
    wanted = matching(names, patterns, regex=regex) if patterns else names
    return [name for name in names if name in wanted]


def some_found(what: str, found: list[str], patterns: Iterable[str]) -> list[str]:
    """Return the names that were found.

    :raises CommandError: there is none of what the patterns mean.
    """
    if not found:
        raise CommandError(f"no {what} matches {' or '.join(patterns)}")
    return found
