"""These errors tell a user which setting does not hold, why, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class ConfigError(Exception):
    """The broker cannot run with these settings. The message names key, place and remedy.

    ``source`` is the file, the variable or the argument; ``others`` are further mistakes.
    """

    def __init__(
        self,
        key: str,
        problem: str,
        remedy: str,
        source: str = "",
        others: Sequence[ConfigError] = (),
    ) -> None:
        self.key = key
        self.problem = problem
        self.remedy = remedy
        self.source = source
        self.others = tuple(others)
        where = f"{source}: " if source else ""
        named = f"{key}: " if key else ""
        self.message = f"{where}{named}{problem}. {remedy}"
        """This message tells of this mistake alone, not of the others."""
        more = f" (and {len(self.others)} more mistakes)" if self.others else ""
        super().__init__(self.message + more)

    @property
    def all(self) -> tuple[ConfigError, ...]:
        """Return every mistake, this one first."""
        return (self, *self.others)

    @classmethod
    def of_all(cls, mistakes: Sequence[ConfigError]) -> ConfigError:
        """Return one error that names them all; there is at least one."""
        first = mistakes[0]
        return cls(first.key, first.problem, first.remedy, first.source, mistakes[1:])


class InconsistentError(ValueError):
    """The settings are each possible, but not together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{each.key}: {each.text}" for each in problems))
        self.problems = tuple(problems)


class Problem:
    """A problem names one thing that does not hold for the settings as a whole."""

    def __init__(self, key: str, text: str, remedy: str, involved: Sequence[str] = ()) -> None:
        """``involved`` are the settings that the problem follows from, besides ``key``."""
        self.key = key
        self.text = text
        self.remedy = remedy
        self.involved = (key.partition(".")[0], *involved)
