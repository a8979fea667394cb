"""A page is what one address shows; pages say here how they are asked, and how they answer.

Rules: a page's address is its whole state. A page names the command that shows the same, and
``Accept: application/json`` gets the document of that command. A view is made by a pure function
from documents, so that what a page shows is what ``--json`` prints.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import ImmutableMultiDict, QueryParams
from starlette.requests import Request

from oncelog import Admin
from oncelog_cli.documents.answer import Answer, Document
from oncelog_cli.documents.names import INTERNAL_PREFIX
from oncelog_console.actions import Author
from oncelog_console.changes.change import Desk
from oncelog_console.changes.kinds import KINDS
from oncelog_console.commands import Command, CommandLine
from oncelog_console.console import Console
from oncelog_console.look import Look
from oncelog_console.rights import Rights
from oncelog_console.sessions import Session
from oncelog_console.snapshot import Snapshot, seen_by

ANSWER_MS = 3_000
"""A page waits so long for brokers; who has not answered by then is named on it."""
Form = ImmutableMultiDict[str, str]
"""It is what a form sent; a name may stand in it several times."""


@dataclass(frozen=True, slots=True)
class Page:
    """One address shows this."""

    title: str
    template: str
    """A file of ``templates``."""
    view: object
    """Templates see it as ``view``."""
    command: Command | CommandLine = ()
    """It shows or changes the same; () where no command does."""
    answer: Answer | Document | None = None
    """The document that the command prints with ``--json``; None: there is none for this page."""
    asked_ms: int | None = None
    """Wall clock of the oldest figure that is shown."""
    status: HTTPStatus = HTTPStatus.OK

    @property
    def words(self) -> Command:
        """Return the words of the command."""
        return self.command.words if isinstance(self.command, CommandLine) else self.command


@dataclass(frozen=True, slots=True)
class Redirect:
    """Instead of an answer the browser goes to another page of the console."""

    path: str
    """It begins with one slash."""
    cookies: Mapping[str, str] = field(default_factory=dict)
    """These are set, for this console alone."""


@dataclass(frozen=True, slots=True)
class Control:
    """A page offers a change."""

    title: str
    path: str
    refusal: str
    """The brokers would refuse it for this reason; "" when they would not."""


class NotFoundError(Exception):
    """What an address names does not exist; the text says what."""


class BadRequestError(Exception):
    """An address or a form says something that cannot be; the text says what, and what could."""


class Visit:
    """A visit is one request of one visitor."""

    def __init__(
        self,
        console: Console,
        request: Request,
        session: Session,
        look: Look,
    ) -> None:
        self.console = console
        self._rights = Rights()
        self.request = request
        self.session = session
        self.look = look
        """How the visitor wants pages to look: zone and theme."""
        self.seen: Snapshot = seen_by(console.poller.seen, session.visible)
        """What is known of the cluster, as far as the visitor may see it."""
        self.now_ms = console.clock.now_ms()

    @property
    def admin(self) -> Admin:
        """Return the visitor's admin client; whatever is asked about one object goes through it.

        :raises UnreachedError: no broker has answered since the console was started.
        """
        if not self.session.own_user:
            self.console.check_reached()
        return self.session.admin

    async def ask_rights(self) -> None:
        """Ask what the visitor may change, where changes are allowed and brokers are there."""
        if self.changes_allowed and self.console.reached:
            self._rights = await self.console.rights.of(self.session.session_id, self.admin)

    @property
    def query(self) -> QueryParams:
        """Return the parameters after the question mark of the address."""
        return self.request.query_params

    @property
    def wants_document(self) -> bool:
        """Return whether the asker wants the document of the command, and not a page."""
        return wants_json(self.request)

    @property
    def author(self) -> Author:
        """Return who changes something, for plans and for the log."""
        host = self.request.client.host if self.request.client else ""
        return Author(self.session.session_id, self.session.name, host)

    @property
    def desk(self) -> Desk:
        """Return what changes are looked at and carried out with, as this visitor."""
        session, poller = self.session, self.console.poller
        return Desk(
            self.admin,
            session.clients,
            lambda: seen_by(poller.seen, session.visible),
            self.console.clock.now_ms(),
            self.console.browsing,
        )

    def control(self, kind: str, /, **values: object) -> Control | None:
        """Return the control that leads to the form of a change; None where nothing is changed.

        Internal topics are only looked at.

        :param values: they fill its form in.
        """
        said = {key: str(value) for key, value in values.items()}
        topic = said.get("topic") or said.get("name", "")
        if not self.changes_allowed or topic.startswith(INTERNAL_PREFIX):
            return None
        path = f"/changes/{kind}" + (f"?{urlencode(said)}" if said else "")
        return Control(KINDS[kind].title, path, self._rights.refusal(kind, said))

    @property
    def changes_allowed(self) -> bool:
        """Return whether the console may change the cluster."""
        return self.console.settings.allow_changes

    def named(self, name: str) -> str:
        """Return a part of the address's path, decoded."""
        return str(self.request.path_params[name])

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return a whole number of the address's parameters.

        :raises BadRequestError: it is none, or too small or large.
        """
        text = self.query.get(name, "").replace(",", "").strip()
        if not text:
            return default
        try:
            value = int(text) if len(text) <= 20 else most + 1
        except ValueError:
            raise BadRequestError(f"{name}={text!r} is no number") from None
        if not least <= value <= most:
            raise BadRequestError(f"{name}={text!r} is not between {least} and {most}")
        return value


@dataclass(frozen=True, slots=True)
class PageRoute:
    """An address, which is starlette's with parameters, has this to answer GET."""

    path: str
    show: Callable[[Visit], Awaitable[Page | Redirect]]
    changes: bool = False
    """Whether it exists only where changes are allowed."""


@dataclass(frozen=True, slots=True)
class StreamRoute:
    """An address sends events, each the text of one, for as long as somebody listens.

    The texts are of the form ``event: name\\ndata: ...\\n\\n`` (HTML standard, server-sent events);
    :func:`server_sent` makes them.
    """

    path: str
    follow: Callable[[Visit], AsyncIterator[str]]


@dataclass(frozen=True, slots=True)
class ChangeRoute:
    """An address takes a form. It exists only where changes are allowed."""

    path: str
    change: Callable[[Visit, Form], Awaitable[Page | Redirect]]


@dataclass(frozen=True, slots=True)
class FormRoute:
    """An address takes a form which changes nothing of the cluster. It always exists."""

    path: str
    take: Callable[[Visit, Form], Awaitable[Page | Redirect]]


@dataclass(frozen=True, slots=True)
class PlainRoute:
    """An address answers with a file to keep: its name, type and parts."""

    path: str
    download: Callable[[Visit], Awaitable[tuple[str, str, AsyncIterator[bytes]]]]


def wants_json(request: Request) -> bool:
    """Return whether a request asks for JSON, and not for HTML."""
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def server_sent(event: str, data: str) -> str:
    """Return the text of one event; lines of ``data`` are sent as lines."""
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return f"event: {event}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"


def document_of(page: Page) -> tuple[Document, list[Any]]:
    """Return a page's document, and its errors as documents have them."""
    if isinstance(page.answer, Answer):
        return page.answer.document, [each.entry() for each in page.answer.failures]
    return page.answer or {}, []
