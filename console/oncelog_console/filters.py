"""A filter for names is a part of them, or a regular expression between slashes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oncelog_console.page import BadRequestError

PATTERN_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class NameFilter:
    """It lets some names through; the empty one lets all through."""

    text: str = ""
    """As it was typed."""
    pattern: re.Pattern[str] | None = None
    """It is found in the names that pass; None: all do."""

    def fits(self, name: str) -> bool:
        """Return whether a name passes."""
        return self.pattern is None or self.pattern.search(name) is not None

    @property
    def is_set(self) -> bool:
        """Return whether it keeps anything back."""
        return self.pattern is not None

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the expressions by which a command names the same: they match whole names."""
        if self.pattern is None:
            return ()
        inner = self.pattern.pattern
        return (f".*(?:{inner}).*" if is_regex(self.text) else f".*{inner}.*",)


ALL_NAMES = NameFilter()


def is_regex(text: str) -> bool:
    """Return whether a filter is a regular expression between slashes."""
    return len(text) > 2 and text.startswith("/") and text.endswith("/")


def name_filter(text: str) -> NameFilter:
    """Return the filter that somebody typed.

    :raises BadRequestError: it is too long, or no regular expression.
    """
    text = text.strip()
    if len(text) > PATTERN_CHARS_MAX:
        raise BadRequestError(f"a filter has at most {PATTERN_CHARS_MAX} characters")
    if not text:
        return ALL_NAMES
    try:
        return NameFilter(text, re.compile(text[1:-1] if is_regex(text) else re.escape(text)))
    except re.error as error:
        raise BadRequestError(f"{text} is no regular expression: {error}") from None
