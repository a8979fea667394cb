"""It holds what a page shows of a command's output against what was printed.

Compared line by line, whatever the spaces between columns; ``...`` alone in a line stands for any
number of lines. What differs in every run (addresses, ids, times) is compared by its kind, and
remembered: where a page shows ``kill -9 12536``, the process that is meant is the one whose number
stood in that place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["Names", "commands_of", "difference"]

KINDS = (
    ("uuid", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("instant", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?"),
    ("milliseconds", r"(?<!\d)1\d{12}(?!\d)"),
    ("address", r"127\.0\.0\.1:\d+"),
)
NAMED = ("uuid", "address", "varies")
"""Kinds whose values later blocks of the page may name again."""


class Names:
    """A name stands on the page; this run has its own value for it."""

    def __init__(self) -> None:
        self._actual: dict[str, str] = {}

    def learn(self, shown: str, actual: str) -> None:
        """From now on ``shown`` means ``actual``."""
        self._actual[shown] = actual

    def replace(self, text: str) -> str:
        """The text with what is meant, in one pass: no replacement is replaced again."""
        if not self._actual:
            return text
        longest_first = sorted(self._actual, key=len, reverse=True)
        anyone = "|".join(map(re.escape, longest_first))
        return re.sub(rf"(?<![\w.:])(?:{anyone})(?!\w)", lambda m: self._actual[m[0]], text)


def commands_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return the commands of a console block, each with the lines shown below it.

    A command goes on in the next line after a backslash, while a quote is open, and to the end of
    a here-document.

    :raises ValueError: output before the first command.
    """
    command: list[str] = []
    shown: list[str] = []
    for line in text.splitlines():
        if command and not shown and _goes_on(command):
            command.append(line.removeprefix("> "))
        elif line.startswith("$ "):
            if command:
                yield "\n".join(command), _trimmed(shown)
            command, shown = [line[2:]], []
        elif command:
            shown.append(line)
        else:
            raise ValueError(f"output before the first command: {line!r}")
    if command:
        yield "\n".join(command), _trimmed(shown)


def _goes_on(command: Sequence[str]) -> bool:
    if command[-1].endswith("\\"):
        return True
    here = re.search(r"<<-?\s*'?(\w+)'?", command[0])
    if here:
        return here[1] not in (line.strip() for line in command[1:])
    bare = re.sub(r"\\.", "", "\n".join(command))
    bare = re.sub(r"(^|\s)#.*", "", re.sub(r"\"[^\"]*\"|'[^']*'", "", bare))
    return bare.count("'") % 2 == 1 or bare.count('"') % 2 == 1


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def difference(
    shown: Sequence[str],
    printed: Sequence[str],
    names: Names,
    varies: Sequence[str] = (),
    *,
    any_order: bool = False,
) -> str:
    """Tell the first line that differs, or nothing when all is as shown.

    :param names: learns what the kinds that can be named stood for.
    :param varies: regular expressions, without groups, of what differs in each run.
    """
    kinds = [*(("varies", each) for each in varies if each), *KINDS]
    wanted = [line for line in map(_squeezed, shown) if line]
    actual = [line for line in map(_squeezed, printed) if line]
    if any_order:
        wanted.sort(key=lambda line: _plain(line, kinds))
        actual.sort(key=lambda line: _plain(line, kinds))
    pairs = _aligned(wanted, actual, kinds)
    if isinstance(pairs, str):
        return pairs
    for left, right in pairs:
        for (kind, before), (_, now) in zip(
            _varying(left, kinds), _varying(right, kinds), strict=True
        ):
            if kind in NAMED:
                names.learn(before, now)
    return ""


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _varying(line: str, kinds: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    found = []
    for match in re.finditer("|".join(f"({pattern})" for _, pattern in kinds), line):
        index = next(i for i, group in enumerate(match.groups()) if group is not None)
        found.append((kinds[index][0], match[0]))
    return found


def _plain(line: str, kinds: Sequence[tuple[str, str]]) -> str:
    pattern = "|".join(f"({each})" for _, each in kinds)

    def name(match: re.Match[str]) -> str:
        return f"<{next(kinds[i][0] for i, g in enumerate(match.groups()) if g is not None)}>"

    return re.sub(pattern, name, line)


def _aligned(
    wanted: list[str], actual: list[str], kinds: Sequence[tuple[str, str]]
) -> list[tuple[str, str]] | str:
    """Return the lines that belong together, or what differs.

    Where a line of the page fits several that were printed, dots stand for as few lines as they
    can, and for more where the rest fits only so.
    """
    shown, printed = ([_plain(line, kinds) for line in lines] for lines in (wanted, actual))
    pairs: list[tuple[str, str]] = []
    want = have = 0
    dots: tuple[int, int, int] | None = None
    failed, failure = -1, ""
    while want < len(wanted) or have < len(actual):
        if want < len(wanted) and wanted[want] == "...":
            want += 1
            dots = want, have, len(pairs)
        elif dots is not None and dots[0] == len(wanted):
            break
        elif want < len(wanted) and have < len(actual) and shown[want] == printed[have]:
            pairs.append((wanted[want], actual[have]))
            want += 1
            have += 1
        else:
            if want > failed:
                failed, failure = want, _told(wanted, actual, want, have, dots is not None)
            if dots is None or have == len(actual):
                return failure
            want, have, count = dots[0], dots[1] + 1, dots[2]
            dots = want, have, count
            del pairs[count:]
    return pairs


def _told(wanted: list[str], actual: list[str], want: int, have: int, after_dots: bool) -> str:
    if want == len(wanted):
        return f"printed, but not shown: {actual[have]}"
    if have < len(actual) and not after_dots:
        return f"shown:   {wanted[want]}\nprinted: {actual[have]}"
    return f"shown, but not printed: {wanted[want]}\nafter line {have} of what was printed"
