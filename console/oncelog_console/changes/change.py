"""A change is looked at first, with its consequences counted, and then carried out as it was seen.

Rules: looking changes nothing. What it needs to hold until the change is carried out are *facts*;
when one of them is another one then, the plan is void. Internal topics are only looked at. Changes
call the functions that the commands call, and so do what the command line beside them does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog import Admin, Record, TopicPartition
from oncelog_cli.documents.answer import Answer, Failure, Row
from oncelog_cli.documents.names import INTERNAL_PREFIX
from oncelog_console.browsing import Browsing
from oncelog_console.clients import ClusterClients
from oncelog_console.commands import CommandLine
from oncelog_console.rendering import segment
from oncelog_console.single_records import WITHIN_S, first_records
from oncelog_console.snapshot import Snapshot

Facts = Mapping[str, Any]
"""This was seen, by names for people; values are numbers, texts, None or tuples of them."""


class RefusedError(Exception):
    """A change is not possible as things are; the text says why, and what to do."""


class FormError(Exception):
    """A form says something that cannot be; the text names the field."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A change is looked at and carried out with these, as the user of a session."""

    admin: Admin
    clients: ClusterClients
    seen: Callable[[], Snapshot]
    """It returns what is known of the cluster now."""
    now_ms: int
    browsing: Browsing
    """It reads what lies at an offset."""
    samples: bool = True
    """Whether records are read to be shown. It is not so when a plan is checked once more."""

    async def records_at(
        self, at: Mapping[TopicPartition, int], *, within_s: float = WITHIN_S
    ) -> dict[TopicPartition, Record]:
        """Return the first committed record at or after an offset of each partition, to be shown;
        those that are not found in time are missing."""
        if not self.samples:
            return {}
        return await first_records(self.clients, at, within_s=within_s)


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of a table has a heading and the key of a row."""

    heading: str
    key: str
    kind: str = "text"
    """How it is shown: "text", "number", "difference", "bytes", "time" (ms since 1970) or
    "code"."""


@dataclass(frozen=True, slots=True)
class Table:
    """A plan or an outcome shows rows."""

    title: str
    columns: Sequence[ShownColumn]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Preview:
    """A look at a change saw this, at one moment."""

    answer: Answer
    """The command prints this when it only checks: with ``--dry-run``, or without ``--execute``."""
    facts: Facts
    sentences: Sequence[str] = ()
    """They say for people what will happen, with figures."""
    tables: Sequence[Table] = ()
    warnings: Sequence[str] = ()
    work: Any = None
    """The change needs this, to carry out exactly what was seen."""


class ClusterChange(ABC):
    """A form has asked for one change."""

    kind = ""
    """The change's name, as in ``/changes/KIND``."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """Return what is changed; two changes of one subject are not under way at once."""

    @property
    def typed(self) -> str:
        """Return the name that must be typed to confirm; "" needs no more than a button."""
        return ""

    @property
    @abstractmethod
    def page(self) -> str:
        """Return the path of the page that shows the subject."""

    @abstractmethod
    def command(self, seen: Preview) -> CommandLine:
        """Return the command line that does the same."""

    def told(self, seen: Preview) -> str:
        """Return the command line as the log has it."""
        return self.command(seen).text()

    @abstractmethod
    async def look(self, desk: Desk) -> Preview:
        """Return what would happen, and change nothing.

        :raises RefusedError: it is not possible. :raises OncelogError: the cluster did not answer.
        """

    @abstractmethod
    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        """Do it as it was seen, and return what the command prints.

        :raises OncelogError: it could not be done.
        """

    @abstractmethod
    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        """Return whether the cluster shows already what was changed."""


class TopicChange(ClusterChange):
    """It changes one topic."""

    topic: str

    @property
    def subject(self) -> str:
        return f"topic {self.topic}"

    @property
    def page(self) -> str:
        return f"/topics/{segment(self.topic)}"


@dataclass(frozen=True, slots=True)
class FormField:
    """A form has this field."""

    name: str
    label: str
    kind: str = "text"
    """It is "text", "area" (several lines) or "choice"."""
    help: str = ""
    choices: Sequence[tuple[str, str]] = ()
    """A choice has these: the value of each, and what people read."""
    default: str = ""
    required: bool = False


Values = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """A kind of change has a form, and makes a change of what the form says."""

    name: str
    title: str
    says: str
    """One sentence for people: what the change does."""
    fields: Sequence[FormField]
    parse: Callable[[Values, int], ClusterChange] = field(repr=False)
    """Takes the form's values, all fields of it, and the wall clock in ms; raises FormError."""
    button: str = "Plan it"


# ------------------------------------------------------------------------------ of forms


def number_of(values: Values, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
    """Return a whole number of a form; None when the field is empty.

    :raises FormError: it is none, or too small or large.
    """
    text = values[name].strip().replace(",", "")
    if not text:
        return None
    try:
        value = int(text) if len(text) <= 20 else most + 1
    except ValueError:
        raise FormError(f"{name}: {values[name]!r} is no number") from None
    if not least <= value <= most:
        raise FormError(f"{name}: {text} is not between {least} and {most}")
    return value


def needed_number(values: Values, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return a whole number of a form.

    :raises FormError: it is none, or not there.
    """
    value = number_of(values, name, least=least, most=most)
    if value is None:
        raise FormError(f"{name}: a number is needed")
    return value


def needed_name(values: Values, name: str) -> str:
    """Return a name of a form, as it is.

    :raises FormError: it is not there.
    """
    if not values[name]:
        raise FormError(f"{name}: a name is needed")
    return values[name]


def own_topic(values: Values, name: str = "topic") -> str:
    """Return the name of a topic that may be changed.

    :raises FormError: it is internal, or not there.
    """
    topic = needed_name(values, name)
    if topic.startswith(INTERNAL_PREFIX):
        raise FormError(f"{topic} belongs to the cluster itself: this console only shows it")
    return topic


# ------------------------------------------------------------------------------ of answers


def all_sound(answer: Answer) -> Answer:
    """Return an answer without failures.

    :raises RefusedError: it has some; the text is theirs.
    """
    if answer.failures:
        raise RefusedError(failures_text(answer.failures))
    return answer


def failures_text(failures: Iterable[Failure]) -> str:
    """Return in words what failed."""
    return "; ".join(
        each.message
        if not each.item or each.item in each.message
        else f"{each.item}: {each.message}"
        for each in failures
    )
