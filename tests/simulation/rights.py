"""The rights of users, their changes and the refusals are noted here, for the checkers.

A *holder* is a user with one of its passwords, such as "ann.2": with the next password it is
another one, and whoever goes on with the old one has lost every right. A holder writes and reads
as the processes "ann.2.1", "ann.2.2" and so on.

Rules
-----
* A change holds everywhere from ``force_by_s`` on: a second after it was acknowledged, if every
  broker knew it then. Brokers that did not are cut off, or not believed to live: each stops
  serving clients by itself, ``security_stale_max_ms`` after it has lost touch. Time in which a
  broker stands still does not count: it finds out when it goes on.
* A change that nobody has acknowledged may hold, or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

GRACE_S: Final = 1.0
"""A change holds for requests that wait so long after it was acknowledged."""

PASSWORD: Final = "PASSWORD"
"""The right to authenticate; the others are operations on the workload's topic."""


@dataclass(slots=True, eq=False)
class Change:
    """It is one right that was given or taken: a holder's to authenticate, or a user's."""

    who: str
    right: str
    granted: bool
    asked_s: float
    acked_s: float | None = None
    force_by_s: float | None = None

    def __str__(self) -> str:
        verb = "given to" if self.granted else "taken from"
        force = "in doubt" if self.force_by_s is None else f"in force by {self.force_by_s:.3f} s"
        return f"{self.right} was {verb} {self.who} at {self.asked_s:.3f} s, {force}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A holder was refused for want of a right, in what was asked for at ``began_s`` or later."""

    process: str
    right: str
    began_s: float
    ended_s: float
    error: str


@dataclass(slots=True)
class Rights:
    """They are all that a run has noted."""

    changes: list[Change] = field(default_factory=list)
    """They stand in the order in which they were asked for."""
    refusals: list[Refusal] = field(default_factory=list)
    patience_s: float = 0.0
    """An answer that is heard was asked for no longer ago."""
    fetch_patience_s: float = 0.0
    """The same of a fetch, which may wait."""
    _changes_of: dict[tuple[str, str], list[Change]] = field(default_factory=dict)

    def add(self, change: Change) -> None:
        """Note what is asked for now."""
        self.changes.append(change)
        self._changes_of.setdefault((change.who, change.right), []).append(change)

    def users(self) -> frozenset[str]:
        """Return everybody who ever had, or lacked, a right by a change."""
        return frozenset(user_of(change.who) for change in self.changes)

    def revocation(self, process: str, right: str, since_s: float, until_s: float) -> Change | None:
        """Return what took a right for all of a time, without doubt; None: nothing did."""
        found = [
            _certain(changes, granted=False, since_s=since_s, until_s=until_s)
            for changes in self._needed(process, right)
        ]
        return next((change for change in found if change is not None), None)

    def grant(self, process: str, right: str, since_s: float, until_s: float) -> Change | None:
        """Return the last grant, if the right was there for all of a time, without doubt."""
        found = [
            _certain(changes, granted=True, since_s=since_s, until_s=until_s)
            for changes in self._needed(process, right)
        ]
        return found[-1] if found and None not in found else None

    def _needed(self, process: str, right: str) -> Iterator[list[Change]]:
        """Yield the changes of each right that one needs: to authenticate, and the right itself."""
        holder = holder_of(process)
        for who, name in dict.fromkeys([(holder, PASSWORD), (_owner(holder, right), right)]):
            found = self._changes_of.get((who, name))
            if found:
                yield found


def holder_of(process: str) -> str:
    """Return the holder whose process this is: "ann.2" of "ann.2.7"."""
    return ".".join(process.split(".")[:2])


def user_of(process: str) -> str:
    """Return the user whose process, or holder, this is."""
    return process.partition(".")[0]


def _owner(holder: str, right: str) -> str:
    return holder if right == PASSWORD else user_of(holder)


def _certain(
    changes: list[Change], *, granted: bool, since_s: float, until_s: float
) -> Change | None:
    """Return the change that held for all of a time, with no other under way."""
    held: Change | None = None
    for change in changes:
        if change.asked_s > until_s:
            break
        if change.granted != granted:
            held = None
        elif change.force_by_s is not None and change.force_by_s < since_s:
            held = change
    return held
