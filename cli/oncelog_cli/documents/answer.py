"""A cluster's answer is a document, as ``--json`` prints it, with what failed beside it.

Rules: the functions of this package take an ``Admin``, print nothing and end nothing: a command, or
whatever else shows a cluster, does that with what they return. An item that failed is a
:class:`Failure`; it does not stop the others. What makes the whole impossible is raised. The fields
of a document are those that ``oncelog COMMAND --format help`` shows, without ``_command``,
``_version`` and ``errors``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from oncelog.admin.results import Found

Row = dict[str, Any]
"""A row is one item of a document: what JSON can hold, by the names of its fields."""
Document = dict[str, Any]


class MayFail(Protocol):
    """The SDK answers so about one item."""

    @property
    def error(self) -> BaseException | None:
        """Return why there is no answer, or None."""


A = TypeVar("A", bound=MayFail)
F = TypeVar("F", bound="Found[Any]")


@dataclass(frozen=True, slots=True)
class Failure:
    """One item failed; ``item`` is "" when it is none of those that were named."""

    item: str
    error: BaseException | str

    @property
    def message(self) -> str:
        """Return for people what went wrong."""
        return str(self.error) or type(self.error).__name__

    def entry(self) -> Row:
        """Return the failure as documents have it in ``errors``.

        Fields are ``item``, ``error`` (a name to decide by), ``message`` (for people), and
        ``definite`` (whether nothing can have happened) where that is known.
        """
        entry: Row = {"item": self.item, "error": "FAILED", "message": self.message}
        if not isinstance(self.error, str):
            name = getattr(self.error, "name", None)
            entry["error"] = name if isinstance(name, str) and name else type(self.error).__name__
        definite = getattr(self.error, "definite", None)
        return {**entry, "definite": definite} if isinstance(definite, bool) else entry


@dataclass(frozen=True, slots=True)
class Answer:
    """A document is what ``--json`` prints, and ``failures`` are what it has in ``errors``."""

    document: Document
    failures: Sequence[Failure] = ()
    missing: Sequence[str] = ()
    """These items were named and do not exist, and the asker had said that this is no failure."""
    notes: Sequence[str] = ()
    """These are remarks for people."""


class Failures(list[Failure]):
    """Failures are gathered here while a document is made."""

    def fail(self, item: str, error: BaseException | str) -> None:
        """Note that one item failed."""
        self.append(Failure(item, error))

    def sound(self, answers: Iterable[A], name: Callable[[A], str]) -> list[A]:
        """Return the answers that have no error; those that have one are failures.

        :param name: names the item that an answer is about.
        """
        sound = []
        for each in answers:
            if each.error is None:
                sound.append(each)
            else:
                self.fail(name(each), each.error)
        return sound

    def answered(self, found: F) -> F:
        """Return what was found; brokers that did not say what they have are failures."""
        for broker_id, error in found.unanswered.items():
            self.fail(f"broker {broker_id}", error)
        return found

    def outcome(self, row: Row, done: str, item: str, error: Any, *, quiet: str = "") -> Row:
        """Return a row with what became of its item.

        :param done: the field that says whether it was done.
        :param error: the SDK's error, which has a ``name``, or None.
        :param quiet: the name of an error that is no failure.
        """
        if error is None or error.name == quiet:
            return {**row, done: error is None}
        self.fail(item, error)
        return {**row, done: False, "error": error.name}


def fields_of(item: object, names: str) -> Row:
    """Return a row with the attributes of an object that are named, with spaces between them."""
    return {name: getattr(item, name) for name in names.split()}


def waiting(timeout_ms: int | None) -> dict[str, Any]:
    """Return the option of a call that says how long it waits; None: as long as it does anyway."""
    return {} if timeout_ms is None else {"timeout_ms": timeout_ms}
