"""The application puts every page on its address, behind the checks that all requests pass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncelog.errors import ConfigurationError
from oncelog_cli.command_tree import path_of
from oncelog_cli.exits import CommandError
from oncelog_cli.render import enveloped
from oncelog_console import look, sessions
from oncelog_console.console import Console
from oncelog_console.look import Look, look_of
from oncelog_console.page import (
    BadRequestError,
    Form,
    NotFoundError,
    Page,
    PlainRoute,
    Redirect,
    StreamRoute,
    Visit,
    document_of,
    wants_json,
)
from oncelog_console.pages import CHANGES, FORMS, PAGES, PARTS, PLAIN, STREAMS
from oncelog_console.rendering import Renderer, static_files
from oncelog_console.security import BODY_BYTES_MAX, FORM_FIELDS_MAX, HEADERS, refusal_of
from oncelog_console.sessions import Session
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    OncelogError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

HEARTBEAT_S = 10.0
"""A stream without events sends a comment after so long."""
STREAMS_MAX = 8
"""So many streams one session may have open; a browser has at most four."""
KEEP = "public, max-age=31536000, immutable"
COOKIE_FLAGS = "; Path=/; HttpOnly; SameSite=Strict"
SIGN_IN = "/sign-in"

Shown = Page | Redirect
REFUSED = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)


class ConsoleApp:
    """It is the ASGI application of one console.

    :param port: returns the port on which the console listens, once it does.
    """

    def __init__(self, console: Console, port: Callable[[], int], *, tls: bool = False) -> None:
        self._console = console
        self._port = port
        self._secure = "; Secure" if tls else ""
        self._scheme = "https" if tls else "http"
        self._static = static_files()
        self._renderer = Renderer(self._static)
        self._streams: dict[str, int] = {}
        self.routes = tuple(self._routes())
        """What is answered, in the order of asking."""
        self._router = Router(list(self.routes), redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every answer has the headers of :mod:`security`."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in message["headers"]}
                extra = {"cache-control": "no-store", **HEADERS}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in extra.items()
                        if name.encode() not in named
                    ),
                ]
            await send(message)

        await self._checked(scope, receive, with_headers)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        refusal = refusal_of(
            request.method,
            self._scheme,
            request.headers,
            self._port(),
            self._console.settings.allowed_hosts,
        )
        app: ASGIApp = self._router
        if refusal is not None:
            if request.method != "GET":
                logger.warning(
                    "console_refused",
                    path=request.url.path,
                    host=_peer(request),
                    why=refusal.text,
                )
            app = PlainTextResponse(refusal.text + "\n", refusal.status)
        await app(scope, receive, send)

    # ------------------------------------------------------------------------------ routes

    def _routes(self) -> Iterable[Route]:
        yield Route("/livez", self._live)
        yield Route("/static/{name}", self._static_file)
        yield Route(SIGN_IN, self._sign_in_form, methods=["GET"])
        yield Route(SIGN_IN, self._sign_in, methods=["POST"])
        yield Route("/sign-in/{code}", self._sign_in_once, methods=["GET"])
        yield Route("/sign-out", self._sign_out, methods=["POST"])
        yield Route("/refresh", self._refresh, methods=["POST"])
        for plain in PLAIN:
            yield Route(plain.path, self._downloading(plain), methods=["GET"])
        for stream in STREAMS:
            yield Route(stream.path, self._streaming(stream), methods=["GET"])
        for form in FORMS:
            yield Route(form.path, self._posting(form.take), methods=["POST"])
        allowed = self._console.settings.allow_changes
        for page in (*PAGES, *PARTS):
            if allowed or not page.changes:
                yield Route(page.path, self._visiting(page.show), methods=["GET"])
        if allowed:
            for change in CHANGES:
                yield Route(change.path, self._posting(change.change), methods=["POST"])
        yield Route("/{path:path}", self._visiting(_nothing_here), methods=["GET"])

    async def _live(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _static_file(self, request: Request) -> Response:
        file = self._static.get(request.path_params["name"])
        if file is None:
            return PlainTextResponse("there is no such file\n", HTTPStatus.NOT_FOUND)
        headers = {"cache-control": KEEP} if request.query_params.get("v") == file.tag else {}
        return Response(file.content, headers=headers, media_type=file.media_type)

    async def _refresh(self, request: Request) -> Response:
        self._console.poller.refresh()
        form = await self._form(request)
        return RedirectResponse(own_path(form.get("back", "/")), HTTPStatus.SEE_OTHER)

    # ------------------------------------------------------------------------------ sign in

    def _session(self, request: Request) -> Session | None:
        return self._console.sessions.find(request.cookies.get(sessions.COOKIE, ""))

    async def _sign_in_form(self, request: Request) -> Response:
        return self._html(request, None, self._sign_in_page(request.query_params.get("to", "/")))

    def _sign_in_page(self, to: str, error: str = "") -> Page:
        view = {"to": own_path(to), "error": error, "users": self._console.sessions.users_sign_in,
                "token": self._console.settings.token is not None}  # fmt: skip
        status = HTTPStatus.UNAUTHORIZED if error else HTTPStatus.OK
        return Page("Sign in", "sign_in.html", view, status=status)

    async def _sign_in(self, request: Request) -> Response:
        known = self._console.sessions
        try:
            form = await self._form(request)
            if form.get("username"):
                session = await known.by_password(form["username"], form.get("password", ""))
            else:
                session = await known.by_token(form.get("token", ""))
        except BadRequestError as error:
            return self._failed(request, None, error, HTTPStatus.BAD_REQUEST)
        except sessions.SignInError as error:
            logger.warning("console_sign_in_refused", host=_peer(request), why=str(error))
            return self._html(request, None, self._sign_in_page(form.get("to", "/"), str(error)))
        logger.info("console_signed_in", who=session.name, host=_peer(request))
        return self._signed_in(session, form.get("to", "/"))

    async def _sign_in_once(self, request: Request) -> Response:
        try:
            session = self._console.sessions.by_code(request.path_params["code"])
        except sessions.SignInError as error:
            return self._html(request, None, self._sign_in_page("/", str(error)))
        return self._signed_in(session, "/")

    def _signed_in(self, session: Session, to: str) -> Response:
        answer = RedirectResponse(own_path(to), HTTPStatus.SEE_OTHER)
        self._set_cookie(answer, sessions.COOKIE, session.session_id)
        return answer

    async def _sign_out(self, request: Request) -> Response:
        session = self._session(request)
        if session is not None:
            await self._console.sessions.end(session)
        return RedirectResponse("/", HTTPStatus.SEE_OTHER)

    def _set_cookie(self, answer: Response, name: str, value: str) -> None:
        answer.headers.append("set-cookie", f"{name}={value}{COOKIE_FLAGS}{self._secure}")

    # ------------------------------------------------------------------------------ pages

    def _posting(
        self, take: Callable[[Visit, Form], Awaitable[Shown]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def post(visit: Visit) -> Shown:
            return await take(visit, await self._form(visit.request))

        return self._visiting(post)

    def _visiting(
        self, show: Callable[[Visit], Awaitable[Shown]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def visit(request: Request) -> Response:
            return await self._visited(request, show)

        return visit

    async def _visited(
        self, request: Request, show: Callable[[Visit], Awaitable[Shown]]
    ) -> Response:
        session, is_new = self._session(request), False
        if session is None:
            if not self._console.sessions.open:
                return self._unknown(request)
            session, is_new = self._console.sessions.begin(), True
        await self._console.poller.catch_up()
        visit = Visit(self._console, request, session, _look(request))
        try:
            await visit.ask_rights()
            if visit.wants_document:
                self._console.check_reached()  # Nothing that is known to nobody is a document.
            answer = self._answer(visit, await show(visit))
        except (NotFoundError, UnknownTopicOrPartitionError, CommandError) as error:
            answer = self._failed(request, visit, error, HTTPStatus.NOT_FOUND)
        except (BadRequestError, ConfigurationError) as error:
            answer = self._failed(request, visit, error, HTTPStatus.BAD_REQUEST)
        except REFUSED as error:
            answer = self._failed(request, visit, error, HTTPStatus.FORBIDDEN)
        except OncelogError as error:
            answer = self._failed(request, visit, error, HTTPStatus.SERVICE_UNAVAILABLE)
        except Exception as error:
            logger.exception("console_page_failed", path=request.url.path)
            answer = self._failed(request, visit, error, HTTPStatus.INTERNAL_SERVER_ERROR)
        if is_new:
            self._set_cookie(answer, sessions.COOKIE, session.session_id)
        return answer

    def _unknown(self, request: Request) -> Response:
        if request.method != "GET" or wants_json(request):
            return _sign_in_first()
        return self._html(request, None, self._sign_in_page(_address(request)))

    def _answer(self, visit: Visit, shown: Shown) -> Response:
        if isinstance(shown, Redirect):
            answer: Response = RedirectResponse(shown.path, HTTPStatus.SEE_OTHER)
            for name, value in shown.cookies.items():
                self._set_cookie(answer, name, value)
            return answer
        if wants_json(visit.request):
            if shown.answer is None:
                return PlainTextResponse("no command prints this\n", HTTPStatus.NOT_ACCEPTABLE)
            document, errors = document_of(shown)
            return json_answer(enveloped(path_of(shown.words), document, errors))
        return self._html(visit.request, visit, shown)

    def _failed(
        self, request: Request, visit: Visit | None, error: Exception, status: HTTPStatus
    ) -> Response:
        text = str(error) or type(error).__name__
        if status is HTTPStatus.INTERNAL_SERVER_ERROR:
            text = "this page failed; the log of the console says more"
        if wants_json(request):
            entry = {"item": "", "error": type(error).__name__, "message": text}
            return json_answer({"errors": [entry]}, status)
        page = Page(status.phrase, "error.html", {"text": text}, status=status)
        return self._html(request, visit, page)

    def _html(self, request: Request, visit: Visit | None, page: Page) -> Response:
        values = {
            "page": page,
            "view": page.view,
            "visit": visit,
            "look": _look(request),
            "settings": self._console.settings,
            "address": _address(request),
        }
        return Response(self._renderer.page(page.template, values), page.status, media_type=HTML)

    async def _form(self, request: Request) -> Form:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES_MAX:
                raise BadRequestError(f"a form has at most {BODY_BYTES_MAX} bytes")
        try:
            pairs = parse_qsl(
                body.decode("ascii"), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX
            )
        except ValueError as error:
            raise BadRequestError(f"this form cannot be read: {error}") from None
        return Form(pairs)

    # ------------------------------------------------------------------------------ streams

    def _streaming(self, route: StreamRoute) -> Callable[[Request], Awaitable[Response]]:
        async def stream(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return _sign_in_first()
            if self._streams.get(session.session_id, 0) >= STREAMS_MAX:
                text = f"{STREAMS_MAX} streams are open already; close another page\n"
                return PlainTextResponse(text, HTTPStatus.TOO_MANY_REQUESTS)
            visit = Visit(self._console, request, session, _look(request))
            parts = self._counted(session.session_id, with_heartbeats(route.follow(visit)))
            return StreamingResponse(parts, media_type="text/event-stream")

        return stream

    async def _counted(self, session_id: str, parts: AsyncIterator[str]) -> AsyncIterator[str]:
        self._streams[session_id] = self._streams.get(session_id, 0) + 1
        try:
            async for part in parts:
                self._console.poller.looked()
                yield part
        finally:
            self._streams[session_id] -= 1
            if not self._streams[session_id]:
                del self._streams[session_id]

    def _downloading(self, route: PlainRoute) -> Callable[[Request], Awaitable[Response]]:
        async def download(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return _sign_in_first()
            visit = Visit(self._console, request, session, look_of(None))
            try:
                name, media_type, parts = await route.download(visit)
            except (BadRequestError, NotFoundError) as error:
                return PlainTextResponse(f"{error}\n", HTTPStatus.BAD_REQUEST)
            except OncelogError as error:
                return PlainTextResponse(f"{error}\n", HTTPStatus.SERVICE_UNAVAILABLE)
            kept = f'attachment; filename="{name}"'
            return StreamingResponse(
                parts, media_type=media_type, headers={"content-disposition": kept}
            )

        return download


HTML = "text/html; charset=utf-8"


async def _nothing_here(visit: Visit) -> Page:
    raise NotFoundError(f"there is no page {visit.request.url.path}")


async def with_heartbeats(parts: AsyncIterator[str]) -> AsyncIterator[str]:
    """Give on the parts, and a comment whenever there has been none for ``HEARTBEAT_S``."""
    waiting: asyncio.Future[str] | None = None
    try:
        while True:
            waiting = asyncio.ensure_future(anext(parts))
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        part = await asyncio.shield(waiting)
                except TimeoutError:
                    yield ": nothing new\n\n"
                    continue
                except StopAsyncIteration:
                    return
                break
            yield part
    except ClientDisconnect:
        return
    finally:
        if waiting is not None and not waiting.done():
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        close = getattr(parts, "aclose", None)
        if close is not None:
            await close()


def own_path(path: str) -> str:
    """Return a path of this console; whatever leads elsewhere is its first page."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if inside and path.isprintable() else "/"


def json_answer(document: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return a document as an answer, written as the command writes it."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=str)
    return Response(text, status, media_type="application/json")


def _sign_in_first() -> Response:
    return PlainTextResponse("sign in first\n", HTTPStatus.UNAUTHORIZED)


def _address(request: Request) -> str:
    """Return path and query of a request, as its address has them."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _look(request: Request) -> Look:
    return look_of(request.cookies.get(look.COOKIE))


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""
