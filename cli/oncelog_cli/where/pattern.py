"""A regular expression of a filter is compiled here, within bounds. Pure.

Bytes are matched, text as UTF-8: ``.`` is a byte. How long a search takes is not bounded: where
that may hurt somebody else it must run in a process that can be ended.
"""

from __future__ import annotations

import re
import warnings

PATTERN_LENGTH_MAX = 1000
"""Characters. A longer expression is a list of things, which ``in`` and ``or`` say better."""


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Return the regular expression.

    :raises ValueError: it is none, or it is too long; the text says why.
    """
    if len(text) > PATTERN_LENGTH_MAX:
        raise ValueError(f"a regular expression has at most {PATTERN_LENGTH_MAX} characters")
    try:
        with warnings.catch_warnings():
            # What may mean something else in a later Python still means something in this one.
            warnings.simplefilter("ignore")
            return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    except (OverflowError, RecursionError, UnicodeEncodeError, ValueError) as error:
        raise ValueError(f"no regular expression: {error}") from None
