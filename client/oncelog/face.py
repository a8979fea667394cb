"""A synchronous client is made here from an asynchronous one.

Rules
-----
* A client lives on an event loop of its own, in a thread of its own. Calls go there and wait; an
  interrupt (Ctrl+C) cancels what was asked.
* A method of a face is made from the asynchronous method, and has its parameters and their types.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from oncelog.admin.admin import Admin
from oncelog.consumer.consumer import Consumer
from oncelog.errors import ClosedError, DeadlineExceededError
from oncelog.loop_thread import LoopThread
from oncelog.producer.partition_queue import Delivery as AsyncDelivery
from oncelog.producer.producer import Producer
from oncelog.producer.record_metadata import RecordMetadata
from oncelog.shared_transactions.writer import SharedWriter

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
AsyncClient = Producer | Consumer | Admin | SharedWriter
C = TypeVar("C", bound=AsyncClient)


class BlockingClient(Generic[C]):
    """A synchronous client holds its asynchronous client and the thread of its loop."""

    def __init__(self, client: C, thread: LoopThread | None = None) -> None:
        self._client: C = client
        self._thread = thread or LoopThread(f"oncelog-{type(client).__name__.lower()}")
        self._finalizer = weakref.finalize(self, _left_open, self._thread, client)

    def __enter__(self) -> Self:
        try:
            self._thread.call(self._start())
        except BaseException:
            self._shut()
            raise
        return self

    async def _start(self) -> None:
        if not isinstance(self._client, SharedWriter):  # which has joined
            await self._client.start()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._thread.running:
            self._end(self._client.__aexit__(kind, error, traceback))

    def _end(self, closing: Coroutine[Any, Any, None]) -> None:
        """Wait until the client is closed, then stop its thread. Another thread may do the same."""
        try:
            self._thread.call(closing)
        except (ClosedError, CancelledError):
            if self._thread.running:
                raise
        finally:
            self._shut()

    def _shut(self) -> None:
        self._finalizer.detach()
        self._thread.stop()


def inside(face: BlockingClient[C]) -> tuple[C, LoopThread]:
    """Return the asynchronous client of a face, and the thread in which it lives."""
    return face._client, face._thread


def _left_open(thread: LoopThread, client: AsyncClient) -> None:
    """Warn about a face that was dropped, or outlived by the program, without close()."""
    if isinstance(client, Producer | SharedWriter) and not thread.forked:
        left = client.unacknowledged_count
        if left:
            logger.error("producer was not closed: %d records are not acknowledged", left)
    thread.stop()


def _own(self: Any, method: Callable[..., T]) -> Callable[..., T]:
    """Return the client's method of that name, which a subclass may have made its own."""
    return cast("Callable[..., T]", getattr(self._client, method.__name__))


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Make a synchronous method that calls the asynchronous ``method`` and waits for it."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return cast(T, self._thread.call(_own(self, method)(*args, **kwargs)))

    return call


def on_loop(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Make a method that runs the synchronous ``method`` on the client's loop."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return _own(self, method)(*args, **kwargs)

        return cast(T, self._thread.call(run()))

    return call


def measuring(method: Callable[[Any], T]) -> Callable[[Any], T]:
    """Make a ``metrics`` method that also works when the client is closed."""

    @wraps(method)
    def call(self: Any, /) -> T:
        return on_loop(method)(self) if self._thread.running else _own(self, method)()

    return call


def promising(
    method: Callable[Concatenate[Any, P], asyncio.Future[T]],
) -> Callable[Concatenate[Any, P], Future[T]]:
    """Make a method that turns the future of ``method`` into one for which a thread can wait."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        outcome: Future[T] = Future()

        def settle(future: asyncio.Future[T]) -> None:
            if future.cancelled():
                outcome.cancel()
            elif (error := future.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(future.result())

        async def run() -> None:
            _own(self, method)(*args, **kwargs).add_done_callback(settle)

        self._thread.call(run())
        return outcome

    return call


def closing(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Any, P], None]:
    """Make a ``close`` method that always ends the thread, also when closing fails."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self._thread.running:
            self._end(_own(self, method)(*args, **kwargs))

    return call


def making(
    method: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Make an ``__init__`` with the parameters of the asynchronous client's ``method``."""

    def decorate(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return cast("Callable[Concatenate[Any, P], None]", wraps(method)(init))

    return decorate


def like(source: Callable[..., object]) -> Callable[[F], F]:
    """Give a function the parameters, defaults and docstring of the asynchronous ``source``.

    They are seen at run time. The function declares its types itself, since ``ParamSpec`` cannot
    express them.
    """

    def decorate(function: F) -> F:
        return cast(F, wraps(source)(function))

    return decorate


class Delivery:
    """A delivery lets a thread wait for one record's acknowledgement."""

    __slots__ = ("_delivery", "_thread")

    def __init__(self, delivery: AsyncDelivery, thread: LoopThread) -> None:
        self._delivery = delivery
        self._thread = thread

    def done(self) -> bool:
        """Return whether the record was acknowledged or has failed."""
        return self._delivery.done()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement and return it, or raise the error of the record.

        :raises DeadlineExceededError: not known within ``timeout_s``; it may still come.
        """
        if self._delivery.done():
            return self._delivery.result()

        async def wait() -> RecordMetadata:
            return await self._delivery

        try:
            return self._thread.call(wait(), timeout_s)
        except TimeoutError as error:
            if self._delivery.done():
                return self._delivery.result()
            if timeout_s is None:
                raise
            raise DeadlineExceededError(
                f"not acknowledged within {timeout_s} s", definite=False
            ) from error

    def exception(self) -> BaseException | None:
        """Return the error of a finished delivery; None when the record was acknowledged."""
        return self._delivery.exception()

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call ``callback(delivery)`` when done, **in the client's own thread**."""

        async def add() -> None:
            self._delivery.add_done_callback(lambda _: callback(self))

        self._thread.call(add())


def delivering(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncDelivery]],
) -> Callable[Concatenate[Any, P], Delivery]:
    """Make a synchronous ``enqueue`` method."""
    return _with_thread(blocking(method))


def delivering_now(
    method: Callable[Concatenate[Any, P], AsyncDelivery],
) -> Callable[Concatenate[Any, P], Delivery]:
    """Make a ``send_nowait`` method that runs on the client's loop."""
    return _with_thread(on_loop(method))


def _with_thread(
    method: Callable[Concatenate[Any, P], AsyncDelivery],
) -> Callable[Concatenate[Any, P], Delivery]:
    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Delivery:
        return Delivery(method(self, *args, **kwargs), self._thread)

    return call
