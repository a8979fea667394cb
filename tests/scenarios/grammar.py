"""The grammar of commands: each says in one line what it takes, and that line is its parser.

::

    @command("wait isr PARTITION is IDS [within=TIME]")
    async def wait_isr(world, partition, ids, within): ...

- a word in small letters stands for itself, ``a|b`` for one of several (handed to the function);
- a word in capitals is a value of that kind (``KINDS``); with ``...`` behind it, one or more;
- ``name=KIND`` is an option; ``[name=KIND]`` and ``[name=a|b]`` may be left out, the function is
  then handed None;
- ``NAME=VALUE...`` takes any number of settings, as a dictionary;
- ``REST`` takes what is left of the line as it stands.

Several commands may begin with the same words; the first whose words fit is meant.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from oncelog_protocol.types import TopicPartition

Handler = Callable[..., Awaitable[str | None]]
"""Takes the world and the values; what it returns is printed, None is nothing to say."""

COMMANDS: list[Usage] = []
"""All commands, in the order in which they were declared."""


class CommandError(Exception):
    """It says what is wrong with a command, and what would be right."""


@dataclass(frozen=True, slots=True)
class Usage:
    """It says how one command is written, and what it does."""

    text: str
    handler: Handler

    @property
    def parts(self) -> list[str]:
        """Return its words."""
        return self.text.split()

    @property
    def verbs(self) -> list[str]:
        """Return the words that it begins with."""
        found: list[str] = []
        for part in self.parts:
            if not _is_literal(part):
                break
            found.append(part)
        return found


def command(usage: str) -> Callable[[Handler], Handler]:
    """Declare a command."""

    def register(handler: Handler) -> Handler:
        COMMANDS.append(Usage(usage, handler))
        return handler

    return register


@dataclass(frozen=True, slots=True)
class Call:
    """It is a command ready to run."""

    handler: Handler
    values: list[Any]
    options: dict[str, Any]


def parse_call(text: str) -> Call:
    """Find the command that a line means, and its values.

    :raises CommandError: there is none, or a value is not what it takes.
    """
    words = text.split()
    fitting = [usage for usage in COMMANDS if words[: len(usage.verbs)] == usage.verbs]
    if not fitting:
        alike = [usage.text for usage in COMMANDS if usage.verbs[0] == words[0]]
        if alike:
            raise CommandError("usage: " + "\n   or: ".join(alike))
        known = ", ".join(dict.fromkeys(usage.verbs[0] for usage in COMMANDS))
        raise CommandError(f"unknown command {words[0]!r}; known are {known}")
    usage = max(fitting, key=lambda each: len(each.verbs))
    try:
        return _Reader(usage, words).read()
    except CommandError as error:
        raise CommandError(f"{error}\nusage: {usage.text}") from None


class _Reader:
    """It matches the words of a line with those of a usage."""

    def __init__(self, usage: Usage, words: list[str]) -> None:
        self.usage = usage
        self.places = [part for part in usage.parts if not _is_option(part)]
        options = [part for part in usage.parts if _is_option(part)]
        self.kinds = dict(part.strip("[]").split("=", 1) for part in options)
        self.needed = [part.partition("=")[0] for part in options if not part.startswith("[")]
        self.any_setting = "NAME=VALUE..." in self.places
        self.words = words
        self.rest: list[str] = []
        if self.places[-1] == "REST":
            fixed = len(self.places) - 1
            self.words, self.rest = words[:fixed], [" ".join(words[fixed:])]

    def read(self) -> Call:
        values: list[Any] = []
        options: dict[str, Any] = dict.fromkeys(self.kinds)
        settings: dict[str, str] = {}
        words: list[str] = []
        for word in self.words:
            name, equals, text = word.partition("=")
            if equals and name in self.kinds:
                options[name] = _value(name, self.kinds[name], text)
            elif equals and self.any_setting:
                settings[name] = text
            elif equals and re.fullmatch(r"[a-z_-]+", name):
                raise CommandError(f"there is no option {name!r}")
            else:
                words.append(word)
        for place in self.places:
            if place == "REST":
                values += self.rest
            elif place == "NAME=VALUE...":
                values.append(settings)
            elif place.endswith("..."):
                if not words:
                    raise CommandError(f"{place} is missing")
                values.append([_value(place[:-3], place[:-3], word) for word in words])
                words = []
            elif not words:
                raise CommandError(f"{place} is missing")
            elif _is_literal(place):
                if words[0] != place:
                    raise CommandError(f"{words[0]!r} instead of {place!r}")
                words.pop(0)
            else:
                values.append(_value(place, place, words.pop(0)))
        if words:
            raise CommandError(f"{words[0]!r} is too much")
        for name in self.needed:
            if options[name] is None:
                raise CommandError(f"{name}= is missing")
        return Call(self.usage.handler, values, options)


def _is_option(part: str) -> bool:
    return "=" in part and part != "NAME=VALUE..."


def _is_literal(part: str) -> bool:
    return part.islower() and "|" not in part and not _is_option(part)


def _value(name: str, kind: str, text: str) -> Any:
    if "|" in kind or kind.islower():
        if text not in kind.split("|"):
            raise CommandError(f"{name}: {text!r} is none of {', '.join(kind.split('|'))}")
        return text
    return KINDS[kind](text)


def _broker(text: str) -> int:
    if not re.fullmatch(r"[1-9]", text):
        raise CommandError(f"{text!r} is not a broker: they are numbered from 1")
    return int(text)


def _brokers(text: str) -> list[int]:
    return [_broker(each) for each in text.split(",")]


def _ids(text: str) -> list[int]:
    return [] if text == "nobody" else _brokers(text)


def _partition(text: str) -> TopicPartition:
    match = re.fullmatch(r"([a-z_]+)-(\d+)", text)
    if match is None:
        raise CommandError(f"{text!r} is not a partition such as t-0")
    return TopicPartition(match[1], int(match[2]))


def _number(text: str) -> int:
    if not text.isdecimal():
        raise CommandError(f"{text!r} is not a number")
    return int(text)


def _time(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", text)
    if match is None:
        raise CommandError(f"{text!r} is not a time such as 5s or 300ms")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


def _word(text: str) -> str:
    return text


def _batch_identity(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)/(\d+)", text)
    if match is None:
        raise CommandError(f"{text!r} is not ID/EPOCH/SEQUENCE, as in 7/0/3")
    return int(match[1]), int(match[2]), int(match[3])


KINDS: dict[str, Callable[[str], Any]] = {
    "IDENTITY": _batch_identity,
    "BROKER": _broker,
    "BROKERS": _brokers,
    "IDS": _ids,
    "PARTITION": _partition,
    "OFFSET": _number,
    "COUNT": _number,
    "TIME": _time,
    "WORD": _word,
    "TOPIC": _word,
    "VALUE": _word,
    "NAME": _word,
    "PATH": _word,
}
"""IDS are like BROKERS, and may be "nobody"."""
