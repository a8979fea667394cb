"""A router knows who leads what, and asks brokers for metadata, with back-off and retries.

Rules
-----
* A broker that is out of favour (see ``connections.py``) is asked for metadata after the others.
* Refreshes are asked for freely (``refresh_soon``); the loop here spaces them: at once after a
  quiet time, then with a growing, jittered pause. A broker that is slow to answer is not waited
  for: the next one is asked beside it (a stopped process accepts connections and says nothing).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from oncelog.config import Address, ConnectionOptions
from oncelog.core.backoff import Backoff
from oncelog.core.cluster import ClusterMetadata, TopicView
from oncelog.core.connection import CONTROL, ask, find_broker, open_channel, reason_of
from oncelog.core.connections import Connections
from oncelog.core.denials import explained
from oncelog.core.home import Home
from oncelog.core.refusals import refusal_of
from oncelog.core.unknown_topics import UnknownTopics
from oncelog.errors import (
    ApiError,
    BrokerUnreachableError,
    ClosedError,
    DeadlineExceededError,
    HandshakeError,
    InvalidTopicError,
    NoBrokersAvailableError,
    UnknownTopicOrPartitionError,
    is_retriable,
)
from oncelog.history import UNRECORDED, History
from oncelog.observability.counters import Counters
from oncelog_protocol import limits
from oncelog_protocol.acls import CLUSTER_NAME
from oncelog_protocol.connection import recognition_in
from oncelog_protocol.errors import ProtocolError, error_for
from oncelog_protocol.identity import UNRECOGNISED
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.handshake import ApiVersionsRequest
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import AuthenticatingDialer, Dialer, PlainDialer
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.host_names import HostNames
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

T = TypeVar("T")

HEDGE_S = 0.25
"""A metadata question is put to the next broker as well after this time."""

UNKNOWN_TOPIC_WAIT_S = 0.5
"""How long a topic may be unknown before it is asked about elsewhere, and callers hear that nobody
knows it: a new one needs a moment to spread, and is made by others that start just now."""

QUIET_S = 2.0
"""Without a refresh for so long, the next one is not delayed."""

Failure = (OSError, TimeoutError, ProtocolError, ApiError)
"""The errors with which an attempt on one broker may end, and on another broker may not."""


class Router:
    """A router is the cluster as one client sees it. It is made closed; ``start`` opens it."""

    def __init__(
        self,
        options: ConnectionOptions,
        *,
        entropy: Entropy,
        auto_create: bool = False,
        history: History | None = None,
        dialer: Dialer | None = None,
    ) -> None:
        """``dialer`` opens the connections; without one they are secured as the options say."""
        self.options = options
        self.cluster = ClusterMetadata()
        self.on_metadata: list[Callable[[], None]] = []
        """Called after every merged answer, and after a refresh that failed."""
        self.topics: dict[str, None] = {}
        """The topics whose metadata is kept fresh."""
        self.all_topics = False  # ask for every topic there is, beside those that are named
        self.auto_create = auto_create
        self.closed = True
        self.failure: BaseException | None = None
        self.home = Home()
        self.recognition = UNRECOGNISED
        """How the broker that was asked first knows this client."""
        self.counters = Counters()
        self.history: History = history or UNRECORDED
        """All parts of the client that this router is of count and record here."""
        self._entropy = entropy
        if dialer is None:
            security = options.chosen_security
            names = HostNames()
            dialer = (
                PlainDialer(names)
                if security is None
                else security.dialer(entropy=entropy, names=names)
            )
        self._dialer = dialer
        self.connections = Connections(
            options, self.cluster, self.counters, self.new_backoff, self.refresh_soon, dialer
        )
        self._blamed = self.connections.blamed
        self._unknown_topics = UnknownTopics(
            self.cluster,
            self.favoured,
            self.call_broker,
            auto_create=auto_create,
            recognition=lambda: self.recognition,
        )
        self._tasks = self._new_tasks()
        self._wanted = asyncio.Event()
        self._urgent = False
        """Somebody names a topic for the first time, or wants to know who is there: nothing
        failed, so nothing is paced."""
        self._refreshed: list[asyncio.Future[None]] = []
        self._refresh_pace = self.new_backoff("refresh")

    def new_backoff(self, name: str) -> Backoff:
        """Make a back-off by this client's options."""
        return Backoff(
            self.options.retry_backoff_ms / 1000,
            self.options.retry_backoff_max_ms / 1000,
            self._entropy.fork(name),
        )

    # ------------------------------------------------------------------------------ life

    def explained(self, error: ApiError, operation: str, name: str = CLUSTER_NAME) -> ApiError:
        """Return a denial that says what would allow it to this client; any other error as it is.

        See :func:`oncelog.core.denials.explained` for ``operation`` and ``name``.
        """
        return explained(error, self.recognition.principal, operation, name)

    async def start(self) -> None:
        """Connect to a broker and learn the cluster from it.

        :raises NoBrokersAvailableError: nobody answered; names every address and its reason.
        :raises HandshakeError: TLS or authentication has failed three times, and no other address
            serves.
        """
        if not self.closed:
            raise ClosedError("the client is started already")
        self.home.settle()
        self._tasks = self._new_tasks()
        self.closed, self.failure = False, None
        self.connections.open(self._tasks)
        tried: list[tuple[str, str]] = []
        seeds = list(self.options.addresses)
        try:
            attempts = [
                partial(self._insist, seed, partial(self._bootstrap, seed, tried)) for seed in seeds
            ]
            found = await self.first(attempts)
            self.raise_if_failed()
            if found is None:
                raise self.connections.refusals.verdict or NoBrokersAvailableError(tried)
            await self._check_advertised()
        except BaseException:
            await self.close()
            raise
        self._tasks.spawn("metadata", self._refresh_loop())

    async def _insist(self, address: Address, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt at an address while TLS or authentication fails and that is not told.
        It counts its failures itself."""
        pace = self.new_backoff(f"insist {address}")
        while True:
            try:
                return await attempt()
            except Failure as error:
                if not (refusal_of(address, error) or refusal_of(address, error.__cause__)):
                    raise
                if isinstance(error, HandshakeError):
                    raise
            await asyncio.sleep(pace.next_s())

    async def _bootstrap(self, seed: Address, tried: list[tuple[str, str]]) -> bool:
        timeout_s = self.options.connect_timeout_ms / 1000
        try:
            channel, found, recognition = await find_broker(
                seed, self.options.client_id, timeout_s, self.cluster.identity(), self._dialer
            )
        except (OSError, TimeoutError, ProtocolError, ApiError) as error:
            tried.append((str(seed), reason_of(error)))
            self.connections.refusals.tell(seed, error)
            raise
        try:
            request = MetadataRequest([], False)
            response: MetadataResponse = await ask(channel, request, timeout_s)
            if response.error_code:
                raise error_for(response.error_code)
            if not response.brokers:
                raise OSError("answers, but knows of no broker in the cluster yet")
            if isinstance(self._dialer, AuthenticatingDialer):
                # Nobody was known yet when the first exchange answered.
                recognition = recognition_in(await ask(channel, ApiVersionsRequest(), timeout_s))
            self.cluster.apply(response, [])
        except BaseException as error:  # a cancellation too: another seed was faster
            tried.append((str(seed), reason_of(error)))
            channel.close("bootstrap failed")
            self.connections.refusals.tell(seed, error)
            raise
        self.connections.adopt(seed, channel, found)
        self.recognition = recognition
        return True

    async def _check_advertised(self) -> None:
        """Raise unless at least one broker can be reached where it says it is."""
        brokers = list(self.cluster.brokers)
        addresses = [self.cluster.brokers[broker_id].address for broker_id in brokers]
        attempts = [
            partial(self._insist, address, partial(self.connections.channel, broker_id))
            for address, broker_id in zip(addresses, brokers, strict=True)
        ]
        if await self.first(attempts) is not None:
            return
        raise self.connections.refusals.verdict or NoBrokersAvailableError(
            self.connections.errors_of(brokers),
            "The bootstrap address answered, no advertised address does",
        )

    async def close(self) -> None:
        """Close every connection; waits until they are gone."""
        self.home.check()
        self.closed = True
        self.connections.end()
        await self._tasks.close()
        self.cluster.leave()
        self._settle_refresh(ClosedError("the client was closed"))
        await self.connections.close()
        self.home.leave()

    def _new_tasks(self) -> Tasks:
        return Tasks(f"{self.options.client_id}/router", self._task_failed)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self.failure = error
        self._settle_refresh(error)
        self._announce()

    def raise_if_failed(self) -> None:
        """Raise the failure of a background task, in the caller."""
        self.home.check()
        if self.failure is not None:
            raise ClosedError("a background task of the client failed") from self.failure

    def deadline(self) -> float:
        """Return the loop's time ``max_block_ms`` from now: calls without another one end then."""
        return asyncio.get_running_loop().time() + self.options.max_block_ms / 1000

    # ------------------------------------------------------------------------------ metadata

    def refresh_soon(self) -> None:
        """Ask for metadata as soon as the pace allows. A call costs next to nothing."""
        self._wanted.set()

    def want_all(self, wanted: bool) -> None:
        """Ask for every topic there is, beside those that are named; or for these alone."""
        self.all_topics = wanted

    def want(self, topic: str) -> None:
        """Keep the metadata of ``topic`` from now on.

        :raises InvalidTopicError: a name that no broker would take: asking for it would break the
            connection, and with it the metadata of all others.
        """
        if type(topic) is not str or not limits.is_legal_topic(topic):
            raise InvalidTopicError(f"{topic!r:.80} is not a legal topic name")
        if topic not in self.topics:
            self.topics[topic] = None
            self._urgent = True
            self._wanted.set()

    async def refresh(self) -> None:
        """Wait for the next refresh to end, well or badly: look at the cluster afterwards."""
        self.raise_if_failed()
        if self.closed:
            raise ClosedError("the client is closed")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refreshed.append(future)
        self._wanted.set()
        await future

    async def refresh_now(self) -> None:
        """Wait for a refresh that nothing delays: somebody wants to know, and nothing failed."""
        self._urgent = True
        await self.refresh()

    async def refresh_by(self, deadline: float) -> None:
        """Wait for the next refresh, but no longer than until ``deadline`` (the loop's time)."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.refresh()
        except TimeoutError:
            pass

    async def _refresh_loop(self) -> None:
        loop, last = asyncio.get_running_loop(), asyncio.get_running_loop().time() - QUIET_S
        while True:
            try:
                async with asyncio.timeout(self.options.metadata_max_age_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            if loop.time() - last >= QUIET_S:
                self._refresh_pace.reset()
            elif not self._urgent:
                await asyncio.sleep(self._refresh_pace.next_s())
            last, self._urgent = loop.time(), False
            # Whoever asks from here on wants an answer that is newer than this question.
            waiting, self._refreshed = self._refreshed, []
            self._wanted.clear()
            try:
                await self._ask_for_metadata()
            finally:
                _settle(waiting, None)
            self._announce()

    async def _ask_for_metadata(self) -> None:
        topics = None if self.all_topics else list(self.topics)
        request = MetadataRequest(topics, self.auto_create)
        response = await self.first(
            [partial(ask_broker, request) for ask_broker in self._metadata_sources()]
        )
        if response is None:
            self.connections.silence.speak()
            if self.connections.silence.since is not None:
                self.refresh_soon()  # also for a client that nobody uses: health() is to be true
            return
        self.connections.silence.ended()
        self.cluster.apply(response, topics, self.topics)
        self.counters.metadata_refreshed()
        self.connections.drop_stale()

    def _metadata_sources(self) -> list[Callable[[Request], Awaitable[MetadataResponse]]]:
        """Return whom to ask: the not blamed, the connected of them first, then by age of blame."""

        def rank(address: Address, connected: bool) -> tuple[float, int]:
            return (self._blamed.get(address, 0.0), 0 if connected else 1)

        brokers = sorted(
            self.cluster.brokers.values(),
            key=lambda broker: (
                *rank(
                    broker.address,
                    self.connections.channel_now(broker.broker_id, CONTROL) is not None,
                ),
                self._entropy.random(),
            ),
        )
        sources = [partial(self._metadata_from, broker.broker_id) for broker in brokers]
        known = {broker.address for broker in brokers}
        seeds = [seed for seed in self.options.addresses if seed not in known]
        seeds.sort(key=lambda seed: self._blamed.get(seed, 0.0))
        return [*sources, *(partial(self._metadata_from_seed, seed) for seed in seeds)]

    async def _metadata_from(self, broker_id: int, request: Request) -> MetadataResponse:
        loop = asyncio.get_running_loop()
        address, begun = self.cluster.brokers[broker_id].address, loop.time()
        try:
            channel = await self.connections.channel(broker_id)
            response = await self._metadata_over(channel, request)
        except asyncio.CancelledError:
            if loop.time() - begun >= HEDGE_S:
                self._blamed[address] = begun  # silent: another one was faster by far
            raise
        self._blamed.pop(address, None)
        return response

    async def _metadata_from_seed(self, seed: Address, request: Request) -> MetadataResponse:
        timeout_s = self.options.connect_timeout_ms / 1000
        try:
            meant = self.cluster.identity()
            client_id = self.options.client_id
            channel = await open_channel(seed, client_id, timeout_s, meant, self._dialer)
        except (OSError, TimeoutError, ProtocolError, ApiError) as error:
            self.connections.refusals.judge(seed, error)
            self.connections.blame(seed, error)
            raise
        self.connections.refusals.ended(seed)
        try:
            return await self._metadata_over(channel, request)
        finally:
            channel.close("asked for metadata")

    async def _metadata_over(self, channel: RequestChannel, request: Request) -> MetadataResponse:
        timeout_s = self.options.request_timeout_ms / 1000
        response: MetadataResponse = await ask(channel, request, timeout_s)
        if response.error_code:
            raise error_for(response.error_code)
        self.cluster.check(response)
        return response

    def _settle_refresh(self, error: BaseException) -> None:
        waiting, self._refreshed = self._refreshed, []
        _settle(waiting, error)

    def _announce(self) -> None:
        for listener in list(self.on_metadata):
            listener()

    async def first(self, attempts: Sequence[Callable[[], Awaitable[T]]]) -> T | None:
        """Return the first result, or None; an attempt has HEDGE_S before the next one begins."""
        result: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        progress = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        running, launched = 0, False

        async def run(attempt: Callable[[], Awaitable[T]]) -> None:
            nonlocal running
            try:
                value = await attempt()
                if not result.done():
                    result.set_result(value)
            except Failure as error:
                logger.debug("%s: attempt failed: %s", self.options.client_id, error)
            except ClosedError:
                if not self._tasks.closed:  # else: closing ends what was being asked
                    raise
            finally:
                running -= 1
                progress.set()
                if launched and running == 0 and not result.done():
                    result.set_result(None)

        try:
            for attempt in attempts:
                progress.clear()
                running += 1
                tasks.append(self._tasks.spawn("ask", run(attempt)))
                try:
                    async with asyncio.timeout(HEDGE_S):
                        await progress.wait()
                except TimeoutError:
                    pass
                if result.done():
                    return result.result()
            launched = True
            return await result if running else None
        finally:
            for task in tasks:
                task.cancel()

    # ------------------------------------------------------------------------------ calls

    async def topic(self, topic: str, deadline: float) -> TopicView:
        """Return the view of a topic, asked for if need be. ``deadline`` is in the loop's time.

        :raises UnknownTopicOrPartitionError: it does not exist; with the nearest name that does.
        :raises ApiError: illegal name, not authorised.
        :raises DeadlineExceededError: no broker answered in time.
        :raises HandshakeError: no broker answers, as TLS or authentication fails.
        """
        loop = asyncio.get_running_loop()
        self.want(topic)
        patience = min(deadline, loop.time() + UNKNOWN_TOPIC_WAIT_S)
        while True:
            view = self.cluster.topics.get(topic)
            if view is not None and view.partitions:
                return view
            error = self.cluster.errors.get(topic)
            if error is not None:
                if not error.retriable:
                    raise error
                if loop.time() >= patience and isinstance(error, UnknownTopicOrPartitionError):
                    verdict = await self._unknown_topics.verdict(topic, deadline)
                    if verdict is not None:
                        self.topics.pop(topic, None)
                        raise verdict
                    if topic in self.cluster.topics:
                        continue
            self.connections.raise_if_refused()
            if loop.time() >= deadline:
                if isinstance(error, UnknownTopicOrPartitionError):
                    self.topics.pop(topic, None)
                    raise error
                raise DeadlineExceededError(
                    f"no metadata of topic {topic!r} in time"
                    + (f": {error}" if error else ": no broker answered")
                )
            await self.refresh_by(deadline)

    async def topic_with(self, topic: str, partition: int | None, deadline: float) -> TopicView:
        """Return the view of a topic that has this partition (None: any), asked for if need be.

        A broker may not know yet of partitions that were added a moment ago, so others are asked
        before the answer is no. Errors are those of ``topic``; and:

        :raises UnknownTopicOrPartitionError: the topic has no such partition.
        """
        loop = asyncio.get_running_loop()
        view = await self.topic(topic, deadline)
        if partition is None:
            return view
        if type(partition) is int and partition >= 0:
            patience = min(deadline, loop.time() + UNKNOWN_TOPIC_WAIT_S)
            while partition >= view.partition_count and loop.time() < patience:
                await self.refresh()
                view = await self.topic(topic, deadline)
            if partition >= view.partition_count:
                await self._unknown_topics.look_around(topic, deadline)
                view = await self.topic(topic, deadline)
            if partition < view.partition_count:
                return view
        raise UnknownTopicOrPartitionError(
            f"topic {topic!r} has {view.partition_count} partitions, there is no {partition!r}"
        )

    async def call_broker(
        self, broker_id: int, request: Request, deadline: float, purpose: str = CONTROL
    ) -> Any:
        """Try one broker once, and return the response message."""
        async with asyncio.timeout_at(deadline):
            channel = await self.connections.channel(broker_id, purpose)
        left_s = deadline - asyncio.get_running_loop().time()
        timeout_s = min(max(left_s, 0.001), self.options.request_timeout_ms / 1000)
        return await ask(channel, request, timeout_s)

    def favoured(self) -> list[int]:
        """Return the broker ids; those come first that have not failed lately."""
        brokers = self.cluster.brokers
        return sorted(brokers, key=lambda key: self._blamed.get(brokers[key].address, 0.0))

    async def call_any(self, request: Request, deadline: float) -> Any:
        """Ask brokers in order of favour until one answers."""

        async def attempt() -> Any:
            last: BaseException = NoBrokersAvailableError([])
            for broker_id in self.favoured():
                try:
                    return await self.call_broker(broker_id, request, deadline)
                except HandshakeError as error:
                    last = error
                except Failure as error:
                    if not is_retriable(error):
                        raise
                    last = last if isinstance(last, HandshakeError) else error
            raise last

        return await self.retry(attempt, deadline, type(request).__name__)

    async def call_controller(
        self, request: Request, deadline: float, refused: Callable[[Any], ApiError | None]
    ) -> Any:
        """Ask the controller; ``refused`` finds the error in an answer that sends us on."""

        async def attempt() -> Any:
            controller = self.cluster.controller_id
            if controller == NO_BROKER:
                raise BrokerUnreachableError(NO_BROKER, "?", "the cluster has no controller now")
            response = await self.call_broker(controller, request, deadline)
            error = refused(response)
            if error is not None:
                raise error
            return response

        return await self.retry(attempt, deadline, type(request).__name__)

    async def retry(self, attempt: Callable[[], Awaitable[T]], deadline: float, what: str) -> T:
        """Run ``attempt`` until it succeeds, refreshing metadata between attempts.

        :raises DeadlineExceededError: naming the last error; not definite when a request may have
            been carried out.
        """
        loop = asyncio.get_running_loop()
        pace = self.new_backoff("retry")
        definite = True
        while True:
            self.raise_if_failed()
            try:
                return await attempt()
            except Failure as error:
                if isinstance(error, ClosedError) or not is_retriable(error):
                    raise
                definite = definite and bool(getattr(error, "definite", False))
                pause_s = pace.next_s()
                if loop.time() + pause_s >= deadline:
                    raise DeadlineExceededError(
                        f"{what} did not succeed in time: {error}", definite=definite
                    ) from error
            await asyncio.sleep(pause_s)
            await self.refresh_by(deadline)


def _settle(waiting: list[asyncio.Future[None]], error: BaseException | None) -> None:
    for future in waiting:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
